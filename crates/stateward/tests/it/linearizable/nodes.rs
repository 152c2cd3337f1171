//! The servers of one run with what stands between them, their clients and their store, and the ways to disturb it.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use fastrand::Rng;
use testbed::process::{free_port, scratch};
use testbed::{AUDIENCE, Cluster, Kubeconfig, Postgres, Proxy, Scope, Toxiproxy, Weed, rule, subject};

use crate::backend::EVERYTHING;
use crate::compat::somebody;
use crate::server::{PATIENCE, Server, Start};

/// A store that the servers of a run share.
pub(super) struct Store {
    pub name: &'static str,
    kind: Kind,
}

#[derive(Clone)]
enum Kind {
    /// In the data directory, so that there is one server only.
    Sqlite,
    Postgres(Arc<Postgres>),
    /// With a database beside it, in which both servers find the tokens.
    S3 {
        weed: Arc<Weed>,
        bucket: String,
        records: Arc<Postgres>,
    },
    Objects {
        cluster: Arc<Cluster>,
        kubeconfig: Kubeconfig,
        namespace: String,
        token: String,
    },
}

impl Store {
    pub(super) fn sqlite() -> Store {
        Store { name: "sqlite", kind: Kind::Sqlite }
    }

    pub(super) fn postgres() -> Store {
        Store { name: "postgres", kind: Kind::Postgres(Arc::new(Postgres::start().expect("PostgreSQL"))) }
    }

    pub(super) fn s3() -> Store {
        let weed = Arc::new(Weed::start().expect("weed"));
        let bucket = weed.create_bucket().expect("a bucket");
        let records = Arc::new(Postgres::start().expect("PostgreSQL"));
        Store { name: "s3", kind: Kind::S3 { weed, bucket, records } }
    }

    pub(super) async fn objects(cluster: Arc<Cluster>, name: &'static str) -> Store {
        let delegator = cluster.service_account_with_auth_delegator().await;
        let account = delegator.username.rsplit(':').next().expect("a name");
        let objects = rule(EVERYTHING, &[""], &["configmaps", "secrets"]);
        let server = subject::service_account(&delegator.namespace, account);
        cluster.grant(Scope::Cluster, &[server], &[objects]).await;
        let namespace = cluster.namespace(name).await;
        let token = somebody(&cluster, &namespace, "client", EVERYTHING).await;
        let kubeconfig = delegator.kubeconfig;
        Store { name, kind: Kind::Objects { cluster, kubeconfig, namespace, token } }
    }

    /// Ends the store as a crash would, and starts it again.
    async fn restart(&self) {
        match self.kind.clone() {
            Kind::Sqlite => {}
            Kind::Postgres(server) => {
                let restarted = tokio::task::spawn_blocking(move || {
                    server.kill();
                    server.start_again()
                });
                restarted.await.expect("a thread").expect("PostgreSQL again");
            }
            Kind::S3 { weed, .. } => {
                let restarted = tokio::task::spawn_blocking(move || {
                    weed.kill();
                    weed.start_again()
                });
                restarted.await.expect("a thread").expect("weed again");
            }
            Kind::Objects { cluster, .. } => cluster.restart_api_server().await,
        }
    }
}

/// What can go wrong, with the server that it is about.
#[derive(Clone, Copy, Debug)]
pub(super) enum Disturbance {
    /// `kill -9`, and a new process on the same port.
    Kill(usize),
    /// The connections between server and store are cut, and new ones refused.
    CutStore(usize),
    /// What the store answers is cut: the request has arrived.
    LoseStoreAnswers(usize),
    /// The store says nothing for a while.
    SilentStore(usize),
    /// Connections between clients and server are cut.
    CutClients(usize),
    /// What the server answers is cut: the request has arrived.
    LoseAnswers(usize),
    RestartStore,
}

/// The servers of one run.
pub(super) struct Nodes {
    all: Vec<Node>,
    pub token: String,
    pub namespace: String,
    /// About how many bytes make a state that does not fit a head, and how many of a thousand writes are such.
    pub large: (usize, u32),
    _toxiproxy: Toxiproxy,
}

struct Node {
    start: Box<dyn Fn() -> Start + Send + Sync>,
    server: Mutex<Option<Server>>,
    direct: String,
    front: Proxy,
    /// On the way to the store.
    behind: Option<Proxy>,
}

impl Nodes {
    pub(super) async fn start(store: &Store, expiry: Option<Duration>) -> Nodes {
        let toxiproxy = Toxiproxy::start().expect("toxiproxy");
        let count = if matches!(store.kind, Kind::Sqlite) { 1 } else { 2 };
        let database = match &store.kind {
            Kind::Postgres(server) | Kind::S3 { records: server, .. } => server.create_database().expect("a database"),
            _ => String::new(),
        };
        let mut nodes = Vec::new();
        for _ in 0..count {
            let behind = match &store.kind {
                Kind::Sqlite => None,
                Kind::Postgres(server) => Some(server.address()),
                Kind::S3 { weed, .. } => Some(weed.address()),
                Kind::Objects { cluster, .. } => Some(cluster.url().trim_start_matches("https://").to_owned()),
            };
            let behind = match behind {
                Some(address) => Some(toxiproxy.proxy(&address).await.expect("a proxy")),
                None => None,
            };
            let listen = format!("127.0.0.1:{}", free_port().expect("a port"));
            let front = toxiproxy.proxy(&listen).await.expect("a proxy");
            let data = scratch("serve").expect("a scratch directory").join("data");
            let start = starter(store, &database, behind.as_ref(), data, listen.clone(), expiry);
            let node = Node { start, server: Mutex::default(), direct: format!("http://{listen}"), front, behind };
            node.serve();
            nodes.push(node);
        }
        let (token, namespace) = match &store.kind {
            Kind::Objects { token, namespace, .. } => (token.clone(), namespace.clone()),
            _ => (first_token(&nodes[0]), "team-a".to_owned()),
        };
        let large = match &store.kind {
            Kind::Objects { .. } => (2_300_000, 10),
            Kind::S3 { .. } => (400_000, 50),
            _ => (100_000, 100),
        };
        Nodes { all: nodes, token, namespace, large, _toxiproxy: toxiproxy }
    }

    /// Every disturbance once.
    pub(super) fn disturbances(&self) -> Vec<Disturbance> {
        let mut all = Vec::new();
        for (number, node) in self.all.iter().enumerate() {
            all.extend([Disturbance::LoseAnswers(number), Disturbance::Kill(number), Disturbance::CutClients(number)]);
            if node.behind.is_some() {
                all.extend([
                    Disturbance::LoseStoreAnswers(number),
                    Disturbance::CutStore(number),
                    Disturbance::SilentStore(number),
                ]);
            }
        }
        if self.all.len() > 1 {
            all.push(Disturbance::RestartStore);
        }
        all
    }

    pub(super) async fn disturb(&self, disturbance: Disturbance, store: &Store, random: &mut Rng) {
        let a_while = Duration::from_millis(random.u64(20..testbed::scale().of(120, 400)));
        match disturbance {
            Disturbance::Kill(number) => {
                let node = &self.all[number];
                tokio::task::block_in_place(|| {
                    node.kill();
                    node.serve();
                });
            }
            Disturbance::RestartStore => store.restart().await,
            Disturbance::CutClients(number) => {
                let front = &self.all[number].front;
                front.cut().await.expect("toxiproxy");
                heal(front, a_while).await;
            }
            Disturbance::LoseAnswers(number) => {
                let front = &self.all[number].front;
                front.limit_data_downstream(random.u64(1..60)).await.expect("toxiproxy");
                heal(front, a_while).await;
            }
            Disturbance::CutStore(number) => {
                let Some(behind) = &self.all[number].behind else { return };
                behind.cut().await.expect("toxiproxy");
                heal(behind, a_while).await;
            }
            Disturbance::LoseStoreAnswers(number) => {
                let Some(behind) = &self.all[number].behind else { return };
                behind.limit_data_downstream(random.u64(1..200)).await.expect("toxiproxy");
                heal(behind, a_while).await;
            }
            Disturbance::SilentStore(number) => {
                let Some(behind) = &self.all[number].behind else { return };
                behind.timeout(testbed::Direction::Downstream).await.expect("toxiproxy");
                heal(behind, a_while * 2).await;
            }
        }
    }

    /// One of the servers.
    pub(super) fn some_server(&self, random: &mut Rng) -> usize {
        random.usize(..self.all.len())
    }

    /// The address of a server whose answers can be taken away.
    pub(super) fn behind_proxy(&self, server: usize) -> String {
        format!("http://{}", self.all[server].front.address)
    }

    /// From now on nothing but a first byte of an answer comes through the proxy of this server.
    pub(super) async fn lose_answers_of(&self, server: usize) {
        self.all[server].front.limit_data_downstream(1).await.expect("toxiproxy");
    }

    pub(super) async fn answer_again(&self, server: usize) {
        self.all[server].front.heal().await.expect("toxiproxy");
    }

    /// Where a client may send its next request: any server, directly or through the proxy.
    pub(super) fn address(&self, random: &mut Rng) -> String {
        let server = self.some_server(random);
        if random.bool() { self.all[server].direct.clone() } else { self.behind_proxy(server) }
    }
}

async fn heal(proxy: &Proxy, after: Duration) {
    tokio::time::sleep(after).await;
    proxy.heal().await.expect("toxiproxy");
}

fn starter(
    store: &Store,
    database: &str,
    behind: Option<&Proxy>,
    data: PathBuf,
    listen: String,
    expiry: Option<Duration>,
) -> Box<dyn Fn() -> Start + Send + Sync> {
    let (kind, name, database) = (store.kind.clone(), store.name, database.to_owned());
    let behind = behind.map(|proxy| proxy.address.clone()).unwrap_or_default();
    let expiry = format!("{}ms", expiry.unwrap_or_default().as_millis());
    Box::new(move || {
        let start = Start::on(data.clone()).listen(listen.clone());
        let start = start.flag("--log-level", "warn").flag("--states-lock-expiry", &expiry);
        match &kind {
            Kind::Sqlite => start,
            Kind::Postgres(_) => start.variable("STATEWARD_DATABASE_URL", &Postgres::url_through(&behind, &database)),
            Kind::S3 { bucket, records, .. } => start
                .variable("STATEWARD_DATABASE_URL", &records.url(&database))
                .variable("STATEWARD_S3_SECRET_ACCESS_KEY", Weed::SECRET_ACCESS_KEY)
                .flag("--s3-access-key-id", Weed::ACCESS_KEY_ID)
                .flag("--s3-bucket", bucket)
                .flag("--s3-endpoint", format!("http://{behind}"))
                .switch("--s3-allow-http")
                .flag("--states-routes", format!("*={name}")),
            Kind::Objects { kubeconfig, .. } => start
                .cluster(&kubeconfig.clone().with_server(&format!("https://{behind}")))
                .flag("--access-audiences", AUDIENCE)
                .flag("--states-routes", format!("*={name}")),
        }
    })
}

fn first_token(node: &Node) -> String {
    let server = node.server.lock().unwrap_or_else(PoisonError::into_inner);
    server.as_ref().expect("a server").first_token()
}

impl Node {
    fn kill(&self) {
        *self.server.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Starts it again and again, as a supervisor does: what it needs may be away just now.
    fn serve(&self) {
        let began = Instant::now();
        let server = loop {
            match (self.start)().try_serve() {
                Ok(server) => break server,
                Err(error) => assert!(began.elapsed() < PATIENCE, "a server that is ready: {error:#}"),
            }
        };
        *self.server.lock().unwrap_or_else(PoisonError::into_inner) = Some(server);
    }
}
