//! A server with one store under test, and what the store runs on.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};
use testbed::{AUDIENCE, Cluster, Delegator, Postgres, Scope, Weed, rule, subject};

use super::stored::Kept;
use super::{Http, Payload};
use crate::floors::Floor;
use crate::measure::Bench;
use crate::server::{Server, Transport};
use crate::sqlite;

/// The stores, by the names of `states.routes`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Store {
    Sqlite,
    Postgres,
    ConfigMap,
    Secret,
    S3,
}

impl Store {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Store::Sqlite => "sqlite",
            Store::Postgres => "postgres",
            Store::ConfigMap => "configmap",
            Store::Secret => "secret",
            Store::S3 => "s3",
        }
    }
}

/// The programs that stores run on, each started when it is first needed and kept for the whole run.
#[derive(Default)]
pub(crate) struct Programs {
    cluster: tokio::sync::OnceCell<Cluster>,
    postgres: tokio::sync::OnceCell<Postgres>,
    weed: tokio::sync::OnceCell<Weed>,
}

impl Programs {
    /// A cluster whose etcd waits for the disk.
    pub(crate) async fn cluster(&self) -> &Cluster {
        self.cluster.get_or_init(Cluster::synced).await
    }

    pub(crate) async fn postgres(&self) -> Result<&Postgres> {
        self.postgres.get_or_try_init(|| async { blocking(Postgres::start).await }).await
    }

    pub(crate) async fn weed(&self) -> Result<&Weed> {
        self.weed.get_or_try_init(|| async { blocking(Weed::start).await }).await
    }
}

async fn blocking<T: Send + 'static>(work: fn() -> Result<T>) -> Result<T> {
    tokio::task::spawn_blocking(work).await.context("failed to wait for a start")?
}

/// A server and the namespace whose states its store keeps.
pub(crate) struct Place {
    pub(crate) store: Store,
    pub(crate) server: Server,
    pub(crate) token: String,
    pub(crate) namespace: String,
    pub(super) kept: Kept,
    data: PathBuf,
}

const NAMESPACE: &str = "bench";
/// In the data directory.
const DATABASE: &str = "stateward.db";
const EVERYTHING: &[&str] = &["get", "list", "create", "update", "patch", "delete"];

impl Place {
    /// Starts `program` with this store. Over TLS, as everything that has a state in it.
    pub(crate) async fn start(bench: &Bench, program: &Path, store: Store) -> Result<Place> {
        let data = bench.path(&format!("states-{}-{}", store.name(), bench.count()));
        let (mut flags, mut variables) = (Vec::new(), Vec::new());
        let mut given = None;
        let kept = match store {
            Store::Sqlite => Kept::File(data.join(DATABASE)),
            Store::Postgres => {
                let postgres = bench.programs.postgres().await?;
                let database = postgres.create_database()?;
                variables.push(("STATEWARD_DATABASE_URL", postgres.url(&database)));
                Kept::Database(database)
            }
            Store::ConfigMap | Store::Secret => {
                let cluster = bench.programs.cluster().await;
                let (kubeconfig, namespace, token) = beside(cluster).await;
                flags.push(("--kubeconfig", kubeconfig));
                flags.push(("--access-audiences", AUDIENCE.to_owned()));
                flags.push(("--states-routes", format!("*={}", store.name())));
                given = Some((namespace, token));
                Kept::Objects
            }
            Store::S3 => {
                let weed = bench.programs.weed().await?;
                let bucket = weed.create_bucket()?;
                flags.push(("--states-routes", "*=s3".to_owned()));
                flags.push(("--s3-bucket", bucket.clone()));
                flags.push(("--s3-endpoint", weed.url()));
                flags.push(("--s3-access-key-id", Weed::ACCESS_KEY_ID.to_owned()));
                variables.push(("STATEWARD_S3_ALLOW_HTTP", "true".to_owned()));
                variables.push(("STATEWARD_S3_SECRET_ACCESS_KEY", Weed::SECRET_ACCESS_KEY.to_owned()));
                Kept::Bucket(bucket)
            }
        };
        let server = Server::start_with(program, &data, Transport::Tls, &flags, &variables)?;
        let (namespace, token) = match given {
            Some(given) => given,
            None => (NAMESPACE.to_owned(), server.token.clone().context("the server made no first token")?),
        };
        if store != Store::Postgres {
            // Its database keeps the heads of the audit log at least; see `sqlite::settle`.
            let database = sqlite::open(&data.join(DATABASE))?;
            sqlite::settle(&database)?;
        }
        Ok(Place { store, server, token, namespace, kept, data })
    }

    /// Where the states of this place are.
    pub(crate) fn url(&self) -> String {
        format!("{}/state/{}", self.server.url, self.namespace)
    }

    pub(crate) fn authority(&self) -> PathBuf {
        self.data.join("tls/self-signed.crt")
    }

    pub(crate) fn clients(&self, count: usize) -> Result<Http> {
        Http::ours(&self.url(), &self.token, &std::fs::read(self.authority())?, count)
    }

    /// The floor under this place's store: the same programs, other records.
    pub(crate) async fn floor(&self, bench: &Bench, clients: usize, payload: &Arc<Payload>) -> Result<Floor> {
        let first = payload.next();
        match self.store {
            Store::Sqlite => Floor::sqlite(&bench.path(&format!("floor-{}.db", bench.count())), clients, &first),
            Store::Postgres => Floor::postgres(bench.programs.postgres().await?, clients, &first).await,
            Store::ConfigMap => {
                let cluster = bench.programs.cluster().await;
                let namespace = cluster.namespace("floor").await;
                Floor::config_maps(cluster.client(), &namespace, clients, &first).await
            }
            Store::Secret => {
                let cluster = bench.programs.cluster().await;
                let namespace = cluster.namespace("floor").await;
                Floor::secrets(cluster.client(), &namespace, clients, &first).await
            }
            Store::S3 => Floor::bucket(bench.programs.weed().await?, clients, &first).await,
        }
    }
}

/// What a server beside a cluster needs: a kubeconfig, and a namespace with somebody who may do everything there.
async fn beside(cluster: &Cluster) -> (String, String, String) {
    let Delegator { username, namespace: own, kubeconfig } = cluster.service_account_with_auth_delegator().await;
    let name = username.rsplit(':').next().unwrap_or_default();
    let objects = rule(EVERYTHING, &[""], &["configmaps", "secrets"]);
    let leases = rule(EVERYTHING, &["coordination.k8s.io"], &["leases"]);
    cluster.grant(Scope::Cluster, &[subject::service_account(&own, name)], &[objects, leases]).await;
    let namespace = cluster.namespace("states").await;
    cluster.service_account(&namespace, "client").await;
    let account = [subject::service_account(&namespace, "client")];
    let objects = rule(EVERYTHING, &[""], &["configmaps", "secrets"]);
    cluster.grant(Scope::Namespace(&namespace), &account, &[objects]).await;
    let token = cluster.token_request(&namespace, "client", &[AUDIENCE], 7200).await;
    (kubeconfig.write().display().to_string(), namespace, token)
}
