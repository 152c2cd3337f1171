//! Every store that the suite runs on, and a client of the engine for one test.

use std::future::Future;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use db::{Config, Db};
use jiff::Timestamp;
use states::codec::{self, Receiver, SpoolPlace};
use states::lock_info::LockInfo;
use states::store::{
    Addressing, ConfigMapStore, Identity, Reader, S3Settings, S3Store, SecretStore, SqlStore, Store, Stray,
    TerraformStore, Transport,
};
use states::{Force, ForcedUnlock, Key, Sealing, Settings, State, States, Stores, Times, Written};
use testbed::process::scratch;
use uuid::Uuid;

use crate::in_namespace::InNamespace;

/// A place with a store of its own; a namespace that exists there.
pub(crate) struct Place {
    pub namespace: String,
    pub store: Arc<dyn Store>,
}

/// Runs a check on every store.
pub(crate) async fn on_every_store<F: Future<Output = ()>>(check: impl Fn(Place) -> F) {
    on(&KINDS, check).await;
}

/// Runs a check on every store that takes states of any size.
pub(crate) async fn on_every_large_store<F: Future<Output = ()>>(check: impl Fn(Place) -> F) {
    on(KINDS.split_last().expect("stores").1, check).await;
}

async fn on<F: Future<Output = ()>>(kinds: &[&str], check: impl Fn(Place) -> F) {
    for kind in kinds {
        eprintln_store(kind);
        check(Place::open(&fresh(kind).await).await).await;
    }
}

/// Tells which store a failure belongs to.
fn eprintln_store(name: &str) {
    #[expect(clippy::print_stderr, reason = "cargo shows it when the test fails")]
    {
        eprintln!("on the store {name}");
    }
}

/// A new store is a word here, a line in [`fresh`] and one in [`Place::open`]. The last takes small states only.
pub(crate) const KINDS: [&str; 6] = ["sqlite", "postgres", "configmap", "secret", "s3", "kubernetes"];

/// A fresh, empty place of this kind, described in words by which another process finds it, too.
pub(crate) async fn fresh(kind: &str) -> String {
    match kind {
        "sqlite" => format!("sqlite {}", scratch("states").unwrap().join("states.db").display()),
        "postgres" => {
            let server = testbed::Postgres::shared().expect("PostgreSQL");
            format!("postgres {}", server.url(&server.create_database().expect("a database")))
        }
        "configmap" | "secret" | "kubernetes" => {
            let cluster = testbed::Cluster::shared().await;
            let namespace = cluster.namespace("states").await;
            format!("{kind} {} {namespace}", cluster.admin_kubeconfig().display())
        }
        "s3" => {
            static BUCKET: LazyLock<String> = LazyLock::new(|| weed().create_bucket().expect("a bucket"));
            format!("s3 {} {} {}", weed().url(), *BUCKET, Uuid::new_v4())
        }
        other => panic!("no store {other}"),
    }
}

/// The store of Secrets, which sees the namespaces of all places.
pub(crate) async fn secret_store() -> SecretStore {
    let kubeconfig = testbed::Cluster::shared().await.admin_kubeconfig();
    SecretStore::new(client(kubeconfig.to_str().expect("a path")).await, reader())
}

pub(crate) fn weed() -> &'static testbed::Weed {
    testbed::Weed::shared().expect("weed")
}

/// The settings of a bucket of the testbed.
pub(crate) fn bucket(endpoint: &str, bucket: &str, prefix: &str) -> S3Settings {
    S3Settings {
        bucket: bucket.to_owned(),
        prefix: prefix.to_owned(),
        endpoint: Some(endpoint.to_owned()),
        region: testbed::Weed::REGION.to_owned(),
        addressing: Addressing::Path,
        identity: Identity::keys(testbed::Weed::ACCESS_KEY_ID, testbed::Weed::SECRET_ACCESS_KEY),
        authorities: None,
        transport: Transport::PlainToo,
        deadline: Duration::from_secs(30),
    }
}

/// The administrator's client, without the retries that the product does not have either.
pub(crate) async fn client(kubeconfig: &str) -> kube::Client {
    let file = kube::config::Kubeconfig::read_from(kubeconfig).expect("a kubeconfig");
    let config = kube::Config::from_custom_kubeconfig(file, &kube::config::KubeConfigOptions::default()).await;
    let mut config = config.expect("a configuration");
    config.default_retry = false;
    kube::Client::try_from(config).expect("a client")
}

pub(crate) fn reader() -> Reader {
    let Settings { codec: limits, spool, .. } = settings();
    Reader { limits, spool }
}

async fn sql(config: Config) -> SqlStore {
    let db = Db::open(config).await.expect("a database");
    db.migrate(&[states::MIGRATIONS]).await.expect("migrated");
    SqlStore::new(db)
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
        uploads: 8,
        upload_rate: 0,
        lock_info_bytes: 64 << 10,
        stored_bytes: states::StoredBytes::default(),
        times: Times::default(),
        sealing: Sealing::default(),
    }
}

impl Place {
    /// The place of a description, as [`fresh`] makes it.
    pub(crate) async fn open(description: &str) -> Place {
        let words: Vec<&str> = description.split(' ').collect();
        let team = "team-a".to_owned();
        let (namespace, store): (_, Arc<dyn Store>) = match words.as_slice() {
            ["sqlite", path] => (team, Arc::new(sql(Config::sqlite(path)).await)),
            ["postgres", url] => (team, Arc::new(sql(Config::postgres(*url)).await)),
            ["configmap", kubeconfig, namespace] => {
                let store = ConfigMapStore::new(client(kubeconfig).await, reader());
                ((*namespace).to_owned(), InNamespace::of(namespace, store))
            }
            ["secret", kubeconfig, namespace] => {
                let store = SecretStore::new(client(kubeconfig).await, reader());
                ((*namespace).to_owned(), InNamespace::of(namespace, store))
            }
            ["kubernetes", kubeconfig, namespace] => {
                let store = TerraformStore::new(client(kubeconfig).await, reader());
                ((*namespace).to_owned(), InNamespace::of(namespace, store))
            }
            ["s3", endpoint, name, prefix] => {
                let store = S3Store::connect(&bucket(endpoint, name, prefix)).expect("a bucket");
                (team, Arc::new(store))
            }
            other => panic!("no place {other:?}"),
        };
        Place { namespace, store }
    }

    pub(crate) fn states(&self, settings: Settings) -> States {
        States::new(Stores { routes: Vec::new(), default: self.store.clone(), others: Vec::new() }, settings)
    }

    pub(crate) fn state(&self, name: &str) -> State {
        self.state_with(name, settings())
    }

    pub(crate) fn state_with(&self, name: &str, settings: Settings) -> State {
        self.states(settings).at(self.key(name))
    }

    pub(crate) async fn uploads_before(&self, time: Timestamp) -> Vec<Stray> {
        self.store.uploads_before(time).await.expect("the uploads")
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
