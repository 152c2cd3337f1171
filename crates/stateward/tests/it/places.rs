//! Every store behind a real server with TLS, and a namespace there in which somebody may do everything.
//!
//! The doors are [`on`], which tells a story on several stores at the same time, and [`Place`]. A new store is a member
//! of [`Kept`] and what the compiler then asks for.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Once};
use std::time::Duration;

use db::{Config, Db};
use serde_json::Value;
use states::Key;
use states::codec;
use states::head::Head;
use states::store::{
    Addressing, ConfigMapStore, Identity, Reader, S3Settings, S3Store, SecretStore, SqlStore, Store, TerraformStore,
    Transport,
};
use testbed::process::{free_port, scratch};
use testbed::{AUDIENCE, Cluster, Postgres, Scope, Weed, rule, subject};

use crate::backend::EVERYTHING;
use crate::compat::{server_account, somebody};
use crate::server::{Server, Start, answer};
use crate::states::{User, user};

/// Where states are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kept {
    Sqlite,
    Postgres,
    ConfigMap,
    Secret,
    S3,
    /// As Terraform's own backend of that name does.
    Kubernetes,
}

pub(crate) const STORES: [Kept; 6] =
    [Kept::Sqlite, Kept::Postgres, Kept::ConfigMap, Kept::Secret, Kept::S3, Kept::Kubernetes];
/// The stores that are ours alone: they take states of any size, and seal them.
pub(crate) const LARGE_STORES: [Kept; 5] = [Kept::Sqlite, Kept::Postgres, Kept::ConfigMap, Kept::Secret, Kept::S3];

impl Kept {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Kept::Sqlite => "sqlite",
            Kept::Postgres => "postgres",
            Kept::ConfigMap => "configmap",
            Kept::Secret => "secret",
            Kept::S3 => "s3",
            Kept::Kubernetes => "kubernetes",
        }
    }

    fn needs_cluster(self) -> bool {
        matches!(self, Kept::ConfigMap | Kept::Secret | Kept::Kubernetes)
    }
}

/// Whether a server has a cluster that its store does not need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Beside {
    Nothing,
    Cluster,
}

/// A store with a server of its own.
pub(crate) struct Place {
    pub(crate) kept: Kept,
    pub(crate) server: Server,
    pub(crate) token: String,
    pub(crate) namespace: String,
    /// The database or the bucket, where it has one of its own.
    pub(crate) container: String,
    in_cluster: bool,
    start: Box<dyn Fn() -> Start>,
}

/// Tells a story on these stores at the same time, each in a thread with a runtime of its own.
pub(crate) fn on(stores: &[Kept], story: impl AsyncFn(Kept) + Sync) {
    let story = &story;
    std::thread::scope(|scope| {
        for &kept in stores {
            let told = move || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
                runtime.block_on(story(kept));
            };
            // A panic shows the name of its thread.
            std::thread::Builder::new().name(kept.name().to_owned()).spawn_scoped(scope, told).expect("a thread");
        }
    });
}

impl Place {
    pub(crate) async fn new(kept: Kept) -> Place {
        Place::with(kept, Beside::Nothing, |start| start).await
    }

    /// With more settings, which are asked for at every start.
    pub(crate) async fn with(kept: Kept, beside: Beside, set: impl Fn(Start) -> Start + 'static) -> Place {
        let in_cluster = kept.needs_cluster() || beside == Beside::Cluster;
        let account = if in_cluster { Some(server_account().await) } else { None };
        let container = match kept {
            Kept::Postgres => Postgres::shared().expect("PostgreSQL").create_database().expect("a database"),
            Kept::S3 => Weed::shared().expect("weed").create_bucket().expect("a bucket"),
            _ => String::new(),
        };
        let data = scratch("place").expect("a scratch directory").join("data");
        // The same after every start.
        let listen = format!("127.0.0.1:{}", free_port().expect("a port"));
        let start = {
            let container = container.clone();
            move || {
                let start = Start::on(data.clone()).tls().listen(listen.as_str());
                let start = match &account {
                    Some(account) => start.cluster(account).flag("--access-audiences", AUDIENCE),
                    None => start,
                };
                set(route(start, kept, &container))
            }
        };
        let server = start().serve();
        let (namespace, token) = if in_cluster {
            let cluster = Cluster::shared().await;
            let namespace = cluster.namespace(kept.name()).await;
            let token = somebody(cluster, &namespace, "full", EVERYTHING).await;
            (namespace, token)
        } else {
            ("team-a".to_owned(), server.first_token())
        };
        Place { kept, server, token, namespace, container, in_cluster, start: Box::new(start) }
    }

    pub(crate) fn path(&self, name: &str) -> String {
        format!("/state/{}/{name}", self.namespace)
    }

    pub(crate) fn key(&self, name: &str) -> Key {
        Key::new(&self.namespace, name).expect("a name")
    }

    pub(crate) fn user(&self) -> User<'_> {
        User { server: &self.server, token: self.token.clone() }
    }

    /// Somebody who may see outputs and nothing else.
    pub(crate) async fn outputs_token(&self, name: &str) -> String {
        if !self.in_cluster {
            return user(&self.server, name, &["outputs@*"]).await.token;
        }
        let cluster = Cluster::shared().await;
        cluster.service_account(&self.namespace, name).await;
        let rules = [rule(&["get"], &["stateward.dev"], &["states/outputs"])];
        let account = [subject::service_account(&self.namespace, name)];
        cluster.grant(Scope::Namespace(&self.namespace), &account, &rules).await;
        cluster.token_request(&self.namespace, name, &[AUDIENCE], 3600).await
    }

    /// `kill -9` of the server.
    pub(crate) fn kill(&mut self) {
        self.server.process.kill();
    }

    /// Starts the server on the same data and address after a kill.
    pub(crate) fn start_again(&mut self) {
        self.server = (self.start)().serve();
    }

    /// What a client reads.
    pub(crate) async fn state(&self, name: &str) -> Value {
        let (status, text) = answer(self.server.request("GET", &self.path(name)).bearer_auth(&self.token)).await;
        assert_eq!(status, 200, "{text}");
        serde_json::from_str(&text).expect("a state")
    }

    /// The head of a state as it stands in the store, past the server.
    pub(crate) async fn head(&self, name: &str) -> Head {
        self.store().await.read_head(&self.key(name)).await.expect("an answer").expect("a head").head
    }

    /// The store itself, past the server.
    pub(crate) async fn store(&self) -> Arc<dyn Store> {
        let limits = codec::Limits { body_bytes: 1 << 30, depth: 512, memory: 8 << 20, segment: (1 << 20)..(4 << 20) };
        let reader = Reader { limits, spool: scratch("spool").expect("a directory") };
        let client = async || Cluster::shared().await.client();
        match self.kept {
            Kept::Sqlite => sql(Config::sqlite(self.database())).await,
            Kept::Postgres => {
                let url = Postgres::shared().expect("PostgreSQL").url(&self.container);
                sql(Config::postgres(url)).await
            }
            Kept::ConfigMap => Arc::new(ConfigMapStore::new(client().await, reader)),
            Kept::Secret => Arc::new(SecretStore::new(client().await, reader)),
            Kept::Kubernetes => Arc::new(TerraformStore::new(client().await, reader)),
            Kept::S3 => Arc::new(S3Store::open(&bucket(&self.container)).await.expect("a bucket")),
        }
    }

    /// The file of the server's own database.
    pub(crate) fn database(&self) -> PathBuf {
        self.server.data.join("stateward.db")
    }
}

async fn sql(config: Config) -> Arc<dyn Store> {
    Arc::new(SqlStore::new(Db::open(config).await.expect("a database")))
}

fn bucket(name: &str) -> S3Settings {
    S3Settings {
        bucket: name.to_owned(),
        prefix: String::new(),
        endpoint: Some(Weed::shared().expect("weed").url()),
        region: Weed::REGION.to_owned(),
        addressing: Addressing::Path,
        identity: Identity::keys(Weed::ACCESS_KEY_ID, Weed::SECRET_ACCESS_KEY),
        authorities: None,
        transport: Transport::PlainToo,
        deadline: Duration::from_secs(30),
    }
}

/// Sends all states of a server to a store.
fn route(start: Start, kept: Kept, container: &str) -> Start {
    match kept {
        Kept::Sqlite => start,
        Kept::Postgres => {
            let url = Postgres::shared().expect("PostgreSQL").url(container);
            start.variable("STATEWARD_DATABASE_URL", &url)
        }
        Kept::ConfigMap | Kept::Secret | Kept::Kubernetes => {
            start.flag("--states-routes", format!("*={}", kept.name()))
        }
        Kept::S3 => start
            .flag("--states-routes", "*=s3")
            .flag("--s3-bucket", container)
            .flag("--s3-endpoint", Weed::shared().expect("weed").url())
            .flag("--s3-access-key-id", Weed::ACCESS_KEY_ID)
            .variable("STATEWARD_S3_ALLOW_HTTP", "true")
            .variable("STATEWARD_S3_SECRET_ACCESS_KEY", Weed::SECRET_ACCESS_KEY),
    }
}

/// The clients for a store. `make test` has tofu on every store and terraform on two.
pub(crate) fn clients(kept: Kept) -> Vec<PathBuf> {
    let tofu = testbed::peer("tofu").expect("tofu");
    let everywhere = testbed::scale().is_full() || matches!(kept, Kept::Sqlite | Kept::ConfigMap);
    if everywhere { every_client() } else { vec![tofu] }
}

/// tofu, and terraform where somebody has installed it: no registry has it.
pub(crate) fn every_client() -> Vec<PathBuf> {
    static TOLD: Once = Once::new();
    let (tofu, terraform) = (testbed::peer("tofu").expect("tofu"), Path::new("/usr/local/bin/terraform"));
    if terraform.exists() {
        return vec![tofu, terraform.to_owned()];
    }
    // Past what cargo holds back of a test that passes: half of a matrix is missing.
    TOLD.call_once(|| {
        let text =
            format!("WARNING: {} is not there: tests of real clients run with tofu alone\n", terraform.display());
        let _ = std::io::stderr().write_all(text.as_bytes());
    });
    vec![tofu]
}
