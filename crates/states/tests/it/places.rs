//! Every store that the suite runs on, and a client of the engine for one test.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use db::{Config, Db};
use jiff::Timestamp;
use states::codec::{self, Receiver, SpoolPlace};
use states::lock_info::LockInfo;
use states::store::{ConfigMapStore, Reader, SecretStore, SqlStore, Store, Stray};
use states::{Force, ForcedUnlock, Key, Sealing, Settings, State, States, Stores, Times, Written};
use testbed::process::scratch;

/// A place with a fresh, empty store; a namespace that exists there.
pub(crate) struct Place {
    pub name: &'static str,
    pub namespace: String,
    pub store: Arc<dyn Store>,
}

/// Runs a check on every store. A new store is a line here.
pub(crate) async fn on_every_store<F: Future<Output = ()>>(check: impl Fn(Place) -> F) {
    for place in [sqlite().await, postgres().await, configmap().await, secret().await] {
        let name = place.name;
        eprintln_store(name);
        check(place).await;
    }
}

/// Tells which store a failure belongs to.
fn eprintln_store(name: &str) {
    #[expect(clippy::print_stderr, reason = "cargo shows it when the test fails")]
    {
        eprintln!("on the store {name}");
    }
}

pub(crate) async fn sqlite() -> Place {
    let file = scratch("states").unwrap().join("states.db");
    sql("sqlite", Config::sqlite(file)).await
}

pub(crate) async fn postgres() -> Place {
    let server = testbed::Postgres::shared().expect("PostgreSQL");
    let database = server.create_database().expect("a database");
    sql("postgres", Config::postgres(server.url(&database))).await
}

pub(crate) async fn configmap() -> Place {
    let (client, namespace) = namespace().await;
    Place { name: "configmap", namespace, store: Arc::new(ConfigMapStore::new(client, reader())) }
}

pub(crate) async fn secret() -> Place {
    let (client, namespace) = namespace().await;
    Place { name: "secret", namespace, store: Arc::new(SecretStore::new(client, reader())) }
}

async fn namespace() -> (kube::Client, String) {
    let cluster = testbed::Cluster::shared().await;
    (client(cluster), cluster.namespace("states").await)
}

/// The administrator's client, without the retries that the product does not have either.
pub(crate) fn client(cluster: &testbed::Cluster) -> kube::Client {
    let user = cluster.user("states-test", &["system:masters"]);
    let mut config = user.kubeconfig().config();
    config.default_retry = false;
    kube::Client::try_from(config).expect("a client")
}

fn reader() -> Reader {
    let Settings { codec: limits, spool, .. } = settings();
    Reader { limits, spool }
}

async fn sql(name: &'static str, config: Config) -> Place {
    let db = Db::open(config).await.expect("a database");
    db.migrate(&[states::MIGRATIONS]).await.expect("migrated");
    Place { name, namespace: "team-a".to_owned(), store: Arc::new(SqlStore::new(db)) }
}

/// Settings under which nothing expires during a test.
pub(crate) fn settings() -> Settings {
    Settings {
        lock_expiry: None,
        forced_unlock: ForcedUnlock::WithPermission,
        versions: 100,
        version_age: None,
        codec: codec::Limits { body_bytes: 1 << 30, depth: 512, memory: 8 << 20, segment: (1 << 20)..(4 << 20) },
        spool: scratch("spool").unwrap(),
        times: Times::default(),
        sealing: Sealing::default(),
    }
}

impl Place {
    pub(crate) fn states(&self, settings: Settings) -> States {
        States::new(Stores { routes: Vec::new(), default: self.store.clone(), others: Vec::new() }, settings)
    }

    pub(crate) fn state(&self, name: &str) -> State {
        self.state_with(name, settings())
    }

    pub(crate) fn state_with(&self, name: &str, settings: Settings) -> State {
        self.states(settings).at(self.key(name))
    }

    /// Those of this place's namespace: others share the cluster.
    pub(crate) async fn uploads_before(&self, time: Timestamp) -> Vec<Stray> {
        let all = self.store.uploads_before(time).await.expect("the uploads");
        all.into_iter().filter(|stray| stray.key.namespace() == self.namespace).collect()
    }

    pub(crate) fn key(&self, name: &str) -> Key {
        Key::new(self.namespace.clone(), name).expect("a key")
    }
}

/// Times in which everything is over at once.
pub(crate) fn no_time() -> Times {
    Times { linger: Duration::ZERO, grace: Duration::ZERO, skew: Duration::ZERO, ..Times::default() }
}

pub(crate) fn received(bytes: &[u8]) -> codec::Received {
    let Settings { codec, spool, .. } = settings();
    let mut receiver = Receiver::new(codec, SpoolPlace::new(spool));
    receiver.push(bytes).expect("a state");
    receiver.finish(None).expect("a state")
}

pub(crate) async fn write(state: &State, bytes: &[u8], id: Option<&str>, user: &str) -> Result<Written, states::Error> {
    state.write(received(bytes), id, user).await
}

/// The current version, whole.
pub(crate) async fn read(state: &State) -> Option<Vec<u8>> {
    let reading = state.read().await.expect("a state that can be read")?;
    Some(collect(reading).await)
}

pub(crate) async fn collect(mut reading: states::Reading) -> Vec<u8> {
    let mut bytes = Vec::new();
    while let Some(piece) = reading.next().await.expect("a piece") {
        bytes.extend_from_slice(&piece);
    }
    bytes
}

pub(crate) fn info(id: &str) -> LockInfo {
    LockInfo::made(id, "apply", "", "me@host")
}

pub(crate) async fn unlock(state: &State, id: &str, user: &str) -> Result<states::Unlocked, states::Error> {
    state.unlock(Some(id), user, Force::NotAsked).await
}

/// A state that looks like one and does not compress to nothing: about `size` bytes of unique ids.
pub(crate) fn big_state(serial: u64, size: usize) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(serial);
    let mut text = format!("{{\n  \"version\": 4,\n  \"serial\": {serial},\n  \"resources\": [\n    \"begin\"");
    while text.len() < size {
        text.push_str(&format!(",\n    \"{:032x}{:032x}\"", random.u128(..), random.u128(..)));
    }
    text.push_str("\n  ]\n}\n");
    text.into_bytes()
}

pub(crate) fn small_state(serial: u64) -> Vec<u8> {
    format!("{{\n  \"version\": 4,\n  \"serial\": {serial},\n  \"lineage\": \"one\",\n  \"n\": 1.50\n}}\n").into_bytes()
}
