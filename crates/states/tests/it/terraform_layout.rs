//! The store in the layout of Terraform's `kubernetes` backend, seen from both sides: what that backend writes is read,
//! and what it reads is written. The rules by which it writes are played here by hand; the client itself is in the
//! tests of the binary.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use futures::future::join_all;
use k8s_openapi::ByteString;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::{ObjectMeta, Patch, PatchParams, PostParams};
use serde_json::json;
use states::store::{SecretStore, Store, StoreError, TerraformStore};
use states::{Error, Force, Settings, StoredBytes, Unlocked, Written};
use testbed::{Cluster, Scope, eventually, rule, subject};

use crate::places::{
    Place, big_state, client, collect, fresh, info, no_time, read, reader, secret_store, settings, small_state, unlock,
    write,
};

struct Rig {
    place: Place,
    secrets: Api<Secret>,
    leases: Api<Lease>,
}

impl Rig {
    async fn new() -> Rig {
        let description = fresh("kubernetes").await;
        let client = client(description.split(' ').nth(1).unwrap()).await;
        let place = Place::open(&description).await;
        let namespace = &place.namespace;
        Rig { secrets: Api::namespaced(client.clone(), namespace), leases: Api::namespaced(client, namespace), place }
    }

    /// What the stock client does to write: a get, and an update of what it got.
    async fn stock_write(&self, name: &str, labels: [(&str, &str); 2], file: &[u8]) {
        let labels = labels.into_iter().chain([("tfstate", "true"), ("app.kubernetes.io/managed-by", "terraform")]);
        let labels = labels.map(|(name, text)| (name.to_owned(), text.to_owned())).collect();
        let mut secret = if let Some(secret) = self.secrets.get_opt(name).await.unwrap() {
            secret
        } else {
            let metadata = ObjectMeta {
                name: Some(name.to_owned()),
                labels: Some(labels),
                annotations: Some([("encoding".to_owned(), "gzip".to_owned())].into()),
                ..ObjectMeta::default()
            };
            let secret = Secret { metadata, ..Secret::default() };
            self.secrets.create(&PostParams::default(), &secret).await.unwrap()
        };
        secret.data.get_or_insert_default().insert("tfstate".to_owned(), ByteString(file.to_vec()));
        self.secrets.replace(name, &PostParams::default(), &secret).await.unwrap();
    }

    /// What it reads.
    async fn stock_read(&self, name: &str) -> Option<Vec<u8>> {
        let ByteString(file) = self.secrets.get_opt(name).await.unwrap()?.data?.remove("tfstate")?;
        let mut state = Vec::new();
        GzDecoder::new(&*file).read_to_end(&mut state).expect("gzip");
        Some(state)
    }

    async fn holder(&self, name: &str) -> Option<String> {
        self.leases.get_opt(name).await.unwrap()?.spec?.holder_identity
    }

    async fn set_holder(&self, name: &str, id: Option<&str>) {
        let info = id.map(|id| json!({ "ID": id, "Who": "stock@host" }).to_string());
        let patch = json!({
            "metadata": { "annotations": { "app.terraform.io/lock-info": info } },
            "spec": { "holderIdentity": id },
        });
        self.leases.patch(name, &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
    }
}

fn gzip(state: &[u8]) -> Vec<u8> {
    packed(state, Compression::default())
}

fn packed(state: &[u8], compression: Compression) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), compression);
    encoder.write_all(state).unwrap();
    encoder.finish().unwrap()
}

const APP: [(&str, &str); 2] = [("tfstateWorkspace", "default"), ("tfstateSecretSuffix", "app")];

#[tokio::test]
async fn a_state_is_a_gzip_secret_with_the_labels_by_which_the_stock_client_finds_it() {
    let rig = Rig::new().await;
    for (name, workspace, suffix) in [("app", "default", "app"), ("prod.my.app", "prod", "my.app")] {
        let state = rig.place.state(name);
        assert_eq!(write(&state, &small_state(1), None, "ann").await.unwrap(), Written::Version(1));
        let secret = format!("tfstate-{workspace}-{suffix}");
        assert_eq!(rig.stock_read(&secret).await.unwrap(), small_state(1));
        let metadata = rig.secrets.get(&secret).await.unwrap().metadata;
        let (labels, annotations) = (metadata.labels.unwrap(), metadata.annotations.unwrap());
        let expected = [
            ("tfstate", "true"),
            ("tfstateSecretSuffix", suffix),
            ("tfstateWorkspace", workspace),
            ("app.kubernetes.io/managed-by", "terraform"),
        ];
        for (label, text) in expected {
            assert_eq!(labels.get(label).map(String::as_str), Some(text), "{label}");
        }
        assert_eq!(annotations["encoding"], "gzip");
    }
    let mut listed = rig.place.store.list(None).await.unwrap();
    listed.sort();
    assert_eq!(listed, [rig.place.key("app"), rig.place.key("prod.my.app")]);
    // Neither is taken for one of the store of Secrets.
    let other = secret_store().await;
    assert_eq!(other.list(Some(&rig.place.namespace)).await.unwrap(), []);
}

#[tokio::test]
async fn either_side_reads_and_writes_what_the_other_wrote() {
    let rig = Rig::new().await;
    let state = rig.place.state("app");
    rig.stock_write("tfstate-default-app", APP, &gzip(&small_state(1))).await;
    assert_eq!(read(&state).await.unwrap(), small_state(1));
    assert_eq!(state.head().await.unwrap().unwrap().current.unwrap().facts.serial.as_deref(), Some("1"));
    for number in [2, 4, 6] {
        assert_eq!(write(&state, &small_state(number), None, "ann").await.unwrap(), Written::Version(number));
        assert_eq!(rig.stock_read("tfstate-default-app").await.unwrap(), small_state(number));
        rig.stock_write("tfstate-default-app", APP, &gzip(&small_state(number + 1))).await;
        assert_eq!(read(&state).await.unwrap(), small_state(number + 1));
        assert_eq!(state.head().await.unwrap().unwrap().last_version, number + 1);
    }
    state.delete(None, "ann").await.unwrap();
    assert_eq!(rig.stock_read("tfstate-default-app").await, None, "a deleted state is none for others, too");
    rig.stock_write("tfstate-default-app", APP, &gzip(&small_state(9))).await;
    assert_eq!(read(&state).await.unwrap(), small_state(9));
}

#[tokio::test]
async fn either_side_minds_the_lock_of_the_other() {
    let rig = Rig::new().await;
    let (state, lease) = (rig.place.state("app"), "lock-tfstate-default-app");
    // Ours, on a state that is not there yet: a stock client sees who holds it.
    state.lock(&info("ours"), "ann").await.unwrap();
    state.lock(&info("ours"), "ann").await.expect("a replay");
    assert_eq!(rig.holder(lease).await.as_deref(), Some("ours"));
    let shown = rig.leases.get(lease).await.unwrap().metadata;
    assert_eq!(shown.annotations.unwrap()["app.terraform.io/lock-info"], info("ours").text);
    assert_eq!(shown.labels.unwrap()["tfstateWorkspace"], "default");
    assert_eq!(rig.stock_read("tfstate-default-app").await, None);
    assert!(matches!(state.lock(&info("other"), "bob").await, Err(Error::Locked { .. })));
    assert!(matches!(unlock(&state, "ours", "bob").await, Err(Error::ForceNeeded)), "the lock is ann's");
    write(&state, &small_state(1), Some("ours"), "ann").await.unwrap();
    assert_eq!(unlock(&state, "ours", "ann").await.unwrap(), Unlocked::Now);
    assert_eq!(unlock(&state, "ours", "ann").await.unwrap(), Unlocked::Before);
    assert_eq!(rig.holder(lease).await, None);

    // Theirs.
    rig.set_holder(lease, Some("stock")).await;
    for refused in [state.lock(&info("ours"), "ann").await, state.delete(None, "ann").await] {
        assert!(matches!(&refused, Err(Error::Locked { info }) if info.contains("stock@host")), "{refused:?}");
    }
    let refused = write(&state, &small_state(2), None, "ann").await;
    assert!(matches!(refused, Err(Error::Locked { .. })), "{refused:?}");
    assert_eq!(read(&state).await.unwrap(), small_state(1), "reading needs no lock");
    // Broken through us: free for them.
    assert_eq!(state.unlock(None, "root", Force::Granted).await.unwrap(), Unlocked::Now);
    assert_eq!(rig.holder(lease).await, None);

    // Ours, broken by them: we do not write any more, also when another holds it now.
    state.lock(&info("mine"), "ann").await.unwrap();
    rig.set_holder(lease, None).await;
    let displaced = write(&state, &small_state(2), Some("mine"), "ann").await;
    assert!(matches!(displaced, Err(Error::Locked { .. })), "{displaced:?}");
    rig.set_holder(lease, Some("stock")).await;
    let displaced = write(&state, &small_state(2), Some("mine"), "ann").await;
    assert!(matches!(displaced, Err(Error::Locked { .. })), "{displaced:?}");
    assert_eq!(rig.stock_read("tfstate-default-app").await.unwrap(), small_state(1));
}

#[tokio::test]
async fn a_write_decided_under_a_lock_that_was_broken_since_does_not_take_place() {
    let rig = Rig::new().await;
    let state = rig.place.state("app");
    state.lock(&info("old"), "ann").await.unwrap();
    write(&state, &small_state(1), Some("old"), "ann").await.unwrap();
    let (store, key) = (&rig.place.store, rig.place.key("app"));
    let decided = store.read_head(&key).await.unwrap().unwrap();
    state.unlock(None, "root", Force::Granted).await.unwrap();
    state.lock(&info("new"), "bob").await.unwrap();
    let mut late = decided.head;
    late.operations.push(uuid::Uuid::new_v4());
    let expected = states::store::Expect::Revision(decided.revision);
    let swapped = store.write_head(&key, &late, &expected).await;
    assert!(matches!(swapped, Err(StoreError::Conflict)), "{swapped:?}");
    let head = store.read_head(&key).await.unwrap().unwrap().head;
    assert_eq!((head.lock.unwrap().id.as_str(), head.released.unwrap().id.as_str()), ("new", "old"));
}

#[tokio::test]
async fn a_write_under_a_lock_that_the_stock_client_broke_is_not_acknowledged() {
    let rig = Rig::new().await;
    let state = rig.place.state("app");
    let (store, key) = (&rig.place.store, rig.place.key("app"));
    state.lock(&info("old"), "ann").await.unwrap();
    write(&state, &small_state(1), Some("old"), "ann").await.unwrap();
    for holder in [None, Some("new")] {
        rig.set_holder("lock-tfstate-default-app", Some("old")).await;
        let decided = store.read_head(&key).await.unwrap().unwrap();
        rig.set_holder("lock-tfstate-default-app", holder).await;
        let mut late = decided.head;
        late.operations.push(uuid::Uuid::new_v4());
        let expected = states::store::Expect::Revision(decided.revision);
        let swapped = store.write_head(&key, &late, &expected).await;
        assert!(matches!(swapped, Err(StoreError::Conflict)), "{holder:?}: {swapped:?}");
        let refused = write(&state, &small_state(2), Some("old"), "ann").await;
        assert!(matches!(refused, Err(Error::Locked { .. })), "{holder:?}: {refused:?}");
        assert_eq!(rig.stock_read("tfstate-default-app").await.unwrap(), small_state(1), "{holder:?}");
    }
}

#[tokio::test]
async fn a_lock_and_writes_at_the_same_time_lose_neither() {
    let rig = Rig::new().await;
    let state = rig.place.state("app");
    for round in 0..testbed::scale().of(3, 50) {
        let id = format!("id-{round}");
        let (lock, bytes) = (info(&id), small_state(round + 1));
        let (locked, written) = tokio::join!(state.lock(&lock, "ann"), write(&state, &bytes, None, "bob"));
        locked.expect("nobody else locks");
        match written {
            Ok(_) => assert_eq!(read(&state).await.unwrap(), bytes),
            Err(error) => assert!(matches!(error, Error::Locked { .. }), "{error:?}"),
        }
        let head = state.head().await.unwrap().unwrap();
        assert_eq!(head.lock.unwrap().user.as_deref(), Some("ann"));
        let unlocks = join_all((0..2).map(|_| unlock(&state, &id, "ann"))).await;
        assert!(unlocks.iter().all(Result::is_ok), "{unlocks:?}");
        assert_eq!(state.head().await.unwrap().unwrap().released.unwrap().id, id);
    }
}

#[tokio::test]
async fn what_does_not_fit_one_secret_is_refused_and_leaves_nothing() {
    let rig = Rig::new().await;
    let states = rig.place.states(Settings { times: no_time(), ..settings() });
    let state = states.at(rig.place.key("app"));
    write(&state, &small_state(1), None, "ann").await.unwrap();
    for size in [3_000_000, 12_000_000] {
        let refused = write(&state, &big_state(2, size), None, "ann").await;
        assert!(matches!(refused, Err(Error::Store(StoreError::TooLarge(_)))), "{refused:?}");
        assert_eq!(read(&state).await.unwrap(), small_state(1));
        states.sweep().await;
        assert_eq!(rig.place.uploads_before(jiff::Timestamp::MAX).await, []);
    }
    assert_eq!(write(&state, &big_state(2, 1_000_000), None, "ann").await.unwrap(), Written::Version(2));
    assert!(rig.stock_read("tfstate-default-app").await.unwrap() == big_state(2, 1_000_000));
}

#[tokio::test]
async fn a_state_that_terraform_cut_into_parts_is_read_and_locked_and_never_written() {
    let rig = Rig::new().await;
    let bytes = big_state(1, testbed::scale().of(2_500_000, 12_000_000));
    let file = packed(&bytes, Compression::none());
    let pieces: Vec<&[u8]> = file.chunks(1 << 20).collect();
    assert!(pieces.len() > 2, "{}", pieces.len());
    for (number, piece) in pieces.iter().enumerate() {
        let name = if number == 0 { String::new() } else { format!("-part-{number}") };
        rig.stock_write(&format!("tfstate-default-app{name}"), APP, piece).await;
    }
    let state = rig.place.state("app");
    assert!(read(&state).await.unwrap() == bytes);
    assert_eq!(rig.place.store.list(None).await.unwrap(), [rig.place.key("app")]);
    state.lock(&info("migrate"), "ann").await.unwrap();
    assert_eq!(rig.holder("lock-tfstate-default-app").await.as_deref(), Some("migrate"));
    let refused = write(&state, &small_state(2), Some("migrate"), "ann").await;
    let told = refused.expect_err("several Secrets").to_string();
    assert!(told.contains("migrate"), "{told}");
    assert_eq!(unlock(&state, "migrate", "ann").await.unwrap(), Unlocked::Now);
    let version = state.head().await.unwrap().unwrap().current.unwrap();
    assert!(collect(state.open(version).await.unwrap()).await == bytes, "nothing was changed");
}

#[tokio::test]
async fn names_that_would_mean_two_things_are_refused() {
    let rig = Rig::new().await;
    write(&rig.place.state("a-b.c"), &small_state(1), None, "ann").await.unwrap();
    for name in ["a.b-c", "default.app", "app-part-1"] {
        let refused = rig.place.state(name).head().await;
        assert!(matches!(refused, Err(Error::Store(StoreError::Refused(_)))), "{name}: {refused:?}");
    }
    let names: BTreeMap<&str, &str> = [("app", "tfstate-default-app"), ("x.app", "tfstate-x-app")].into();
    for (name, secret) in names {
        assert_eq!(rig.place.store.object(&rig.place.key(name)), secret, "permissions are asked on the Secret");
    }
}

#[tokio::test]
async fn history_takes_what_the_setting_for_stores_in_etcd_says() {
    let rig = Rig::new().await;
    let within = |in_cluster| Settings { stored_bytes: StoredBytes { in_cluster, elsewhere: None }, ..settings() };
    let less = rig.place.state_with("less", within(Some(100_000)));
    let told = write(&less, &big_state(1, 500_000), None, "ann").await.unwrap_err().to_string();
    assert!(told.contains("100000 bytes: see states.cluster_bytes"), "{told}");
    // Of random hexadecimal digits about a half is left; nothing of one version is in another.
    let usual = rig.place.state_with("app", within(None));
    for number in 1..=8 {
        write(&usual, &big_state(number, 1_500_000), None, "ann").await.unwrap();
        usual.upkeep().await.unwrap();
    }
}

#[tokio::test]
async fn a_secret_that_is_swapped_by_put_stays_one_of_this_store() {
    let rig = Rig::new().await;
    let cluster = Cluster::shared().await;
    let delegator = cluster.service_account_with_auth_delegator().await;
    let account = delegator.username.rsplit(':').next().unwrap();
    let rules = [
        rule(&["get", "list", "create", "update", "delete"], &[""], &["secrets"]),
        rule(&["*"], &["coordination.k8s.io"], &["leases"]),
    ];
    let server = [subject::service_account(&delegator.namespace, account)];
    cluster.grant(Scope::Namespace(&rig.place.namespace), &server, &rules).await;
    let kubeconfig = delegator.kubeconfig.write();
    let client = client(kubeconfig.to_str().unwrap()).await;
    let states = states::States::new(
        states::Stores {
            routes: Vec::new(),
            default: std::sync::Arc::new(TerraformStore::new(client, reader())),
            others: Vec::new(),
        },
        settings(),
    );
    let state = states.at(rig.place.key("app"));
    for number in 1..=2 {
        let bytes = small_state(number);
        eventually(std::time::Duration::from_mins(1), || async { write(&state, &bytes, None, "ann").await.is_ok() })
            .await;
    }
    let secret = rig.secrets.get("tfstate-default-app").await.unwrap();
    assert_eq!(secret.metadata.labels.unwrap()["stateward.dev/state-role"], "terraform-head");
    let secrets: SecretStore = secret_store().await;
    assert_eq!(secrets.list(Some(&rig.place.namespace)).await.unwrap(), [], "it is none of the store of Secrets");
}
