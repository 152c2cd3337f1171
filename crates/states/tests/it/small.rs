//! Versions of small states: a head stays small whatever its history, and each of them comes back.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use states::head::Packing;
use states::store::ConfigMapStore;
use states::{Settings, State, States, Stores, Written};
use testbed::states::{Options, generate};
use testbed::{Cluster, scale};

use crate::places::{
    Place, client, collect, fresh, no_time, on_every_large_store, on_every_store, read, reader, settings, write,
};

/// About 10 kB, of which each version changes a little.
fn body(serial: u64) -> Vec<u8> {
    let edits = [(usize::try_from(serial % 4).unwrap_or(0), serial)].into();
    generate(4, 1, &Options { serial, edits })
}

async fn write_many(state: &State, count: u64) {
    for serial in 1..=count {
        assert_eq!(write(state, &body(serial), None, "ann").await.unwrap(), Written::Version(serial));
        if serial % 7 == 0 {
            state.upkeep().await.unwrap();
        }
    }
}

/// Reads every version that is listed, and tells their numbers.
async fn all_come_back(state: &State) -> Vec<u64> {
    let versions = state.versions().await.unwrap();
    for version in &versions {
        let found = collect(state.open(version.clone()).await.unwrap()).await;
        assert!(found == body(version.number), "version {}", version.number);
    }
    versions.iter().map(|version| version.number).collect()
}

fn lasting() -> Settings {
    Settings { times: no_time(), ..settings() }
}

#[tokio::test]
async fn the_head_of_a_small_state_stays_small_and_every_version_comes_back() {
    let count = scale().of(45, 140);
    on_every_store(|place| async move {
        let state = place.state_with("small", lasting());
        write_many(&state, count).await;
        let head = state.head().await.unwrap().unwrap();
        let size = serde_json::to_vec(&head).unwrap().len();
        assert!(size < 40_000, "{}: {size} bytes", place.store.name());
        let expected: Vec<u64> = (1..=count).rev().take(100).collect();
        assert_eq!(all_come_back(&state).await, expected, "{}", place.store.name());
        place.states(lasting()).sweep().await;
        assert_eq!(all_come_back(&state).await, expected, "{}", place.store.name());
        let back = state.rollback(count - 30, None, "ann").await.unwrap();
        assert_eq!(back.version, count + 1);
        let text = String::from_utf8(read(&state).await.unwrap()).unwrap();
        let old = String::from_utf8(body(count - 30)).unwrap();
        let serial = |number: u64| format!("\"serial\": {number},");
        assert_eq!(text.replacen(&serial(count + 1), &serial(count - 30), 1), old);
    })
    .await;
}

#[tokio::test]
async fn pages_can_be_read_when_their_head_is_lost() {
    on_every_large_store(|place| async move {
        let state = place.state_with("lost", lasting());
        write_many(&state, 45).await;
        let found = place.store.read_head(state.key()).await.unwrap().expect("a head");
        assert!(!found.head.pages.is_empty());
        place.store.delete_head(state.key(), &found.revision).await.unwrap();
        let paged = found.head.pages.iter().map(|page| page.newest).max().unwrap();
        assert_eq!(state.rebuild(None, "ann").await.unwrap(), paged);
        let numbers = all_come_back(&state).await;
        assert_eq!(numbers, (1..=paged).rev().collect::<Vec<_>>(), "{}", place.store.name());
    })
    .await;
}

#[tokio::test]
async fn when_another_program_overwrites_the_state_the_older_versions_stay() {
    let place = Place::open(&fresh("configmap").await).await;
    let state = place.state("overwritten");
    write_many(&state, 15).await;
    let maps: Api<ConfigMap> = Api::namespaced(Cluster::shared().await.client(), &place.namespace);
    let other = "{\n  \"version\": 4,\n  \"serial\": 99\n}\n";
    let patch = json!({ "binaryData": { "tfstate": k8s_openapi::ByteString(other.as_bytes().to_vec()) } });
    maps.patch("overwritten", &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
    assert_eq!(read(&state).await.unwrap(), other.as_bytes());
    let mut numbers = Vec::new();
    for version in state.versions().await.unwrap().into_iter().skip(1) {
        numbers.push(version.number);
        let number = version.number;
        assert!(collect(state.open(version).await.unwrap()).await == body(number), "version {number}");
    }
    assert_eq!(numbers, (1..=14).rev().collect::<Vec<_>>());
}

#[tokio::test]
async fn a_replay_makes_no_version_where_odd_white_space_was_not_kept() {
    let place = Place::open(&fresh("configmap").await).await;
    let kubeconfig = Cluster::shared().await.admin_kubeconfig();
    let store = ConfigMapStore::new(client(kubeconfig.to_str().unwrap()).await, reader());
    let default = std::sync::Arc::new(store.packing(Packing::GzipMinified));
    let states = States::new(Stores { routes: Vec::new(), default, others: Vec::new() }, settings());
    let state = states.at(place.key("odd"));
    let (odd, other) = (b"{ \"version\":4,\t\"serial\": 1}\n\n", b"{\"version\":  4, \"serial\": 2}");
    assert_eq!(write(&state, odd, None, "ann").await.unwrap(), Written::Version(1));
    assert_eq!(write(&state, odd, None, "ann").await.unwrap(), Written::Same);
    assert_eq!(read(&state).await.unwrap(), br#"{"version":4,"serial":1}"#);
    assert_eq!(write(&state, br#"{"version":4,"serial":1}"#, None, "ann").await.unwrap(), Written::Same);
    assert_eq!(write(&state, other, None, "ann").await.unwrap(), Written::Version(2));
    assert_eq!(write(&state, odd, None, "ann").await.unwrap(), Written::Version(3));
}
