//! Parts of a private cluster stop, come back and forget, and what was stored stays.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::{StreamExt, pin_mut};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, ListParams, ObjectMeta, PostParams, VersionMatch, WatchEvent, WatchParams};
use kube::{Api, ResourceExt};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use testbed::{Cluster, eventually, wait_until_gone};

const LIMIT: Duration = Duration::from_mins(2);

#[tokio::test]
async fn a_client_survives_the_restart_of_the_api_server_and_of_etcd() {
    let cluster = Cluster::own().await;
    let namespace = cluster.namespace("restart").await;
    let maps: Api<ConfigMap> = Api::namespaced(cluster.client(), &namespace);
    maps.create(&PostParams::default(), &map("before")).await.expect("create");

    cluster.stop_api_server().await;
    let down = maps.get("before").await.expect_err("nobody answers");
    assert!(!matches!(down, kube::Error::Api(_)), "{down}");
    cluster.start_api_server().await;
    let found = maps.get("before").await.expect("the same client works again");
    assert_eq!(found.data.expect("data")["a"], "1");

    cluster.restart_etcd().await;
    eventually(LIMIT, || async { maps.create(&PostParams::default(), &map("after")).await }).await;
    assert!(maps.get_opt("before").await.expect("read").is_some());

    // The controllers have found the API server again, too.
    orphan(&maps, "collected").await;
    wait_until_gone(&maps, "collected", LIMIT).await;
}

#[tokio::test]
async fn garbage_stays_while_the_controller_manager_is_stopped_and_goes_when_it_is_back() {
    let cluster = Cluster::own().await;
    let namespace = cluster.namespace("manager").await;
    let maps: Api<ConfigMap> = Api::namespaced(cluster.client(), &namespace);
    // Its collector is seen at work first, so that what follows tells of the stop and not of a slow start.
    orphan(&maps, "collected").await;
    wait_until_gone(&maps, "collected", LIMIT).await;

    cluster.stop_controller_manager().await;
    orphan(&maps, "kept").await;
    // A collector at work takes less than a second.
    for _ in 0..30 {
        assert!(maps.get_opt("kept").await.expect("read").is_some());
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    cluster.start_controller_manager().await;
    wait_until_gone(&maps, "kept", LIMIT).await;
}

#[tokio::test]
async fn a_controller_manager_that_dies_by_itself_is_started_again() {
    let cluster = Cluster::own().await;
    let [first, ..] = cluster.pids()[..] else { panic!("nothing runs") };
    let pid = Pid::from_raw(first.try_into().expect("a pid")).expect("a pid");
    kill_process(pid, Signal::KILL).expect("kill the controller-manager");
    eventually(LIMIT, || async { cluster.pids().len() == 3 && cluster.pids()[0] != first }).await;
}

#[tokio::test]
async fn a_watch_from_before_a_compaction_is_told_that_it_is_too_old() {
    let cluster = Cluster::own().await;
    let namespace = cluster.namespace("expire").await;
    let maps: Api<ConfigMap> = Api::namespaced(cluster.client(), &namespace);
    let old = maps.create(&PostParams::default(), &map("old")).await.expect("create");
    let old = old.resource_version().expect("a version");
    let as_it_was = ListParams::default().at(&old).matching(VersionMatch::Exact);
    assert_eq!(first_event(&maps, &old, "live").await, Ok("live".to_owned()), "the version is good before");
    assert!(maps.list(&as_it_was).await.is_ok(), "and so is a list of that version");

    cluster.expire_watches().await;
    assert_eq!(first_event(&maps, &old, "later").await, Err(410));
    let compacted = maps.list(&as_it_was).await.expect_err("etcd has forgotten that version too");
    assert!(matches!(&compacted, kube::Error::Api(status) if status.code == 410), "{compacted}");
    let new = maps.get("old").await.expect("what was stored is still there");
    assert_eq!(new.resource_version().as_deref(), Some(old.as_str()));
}

/// What a watch from that version says first, once an object with that name was made: its name, or the error code.
async fn first_event(maps: &Api<ConfigMap>, version: &str, name: &str) -> Result<String, u16> {
    maps.create(&PostParams::default(), &map(name)).await.expect("create");
    let parameters = WatchParams::default().fields(&format!("metadata.name={name}")).disable_bookmarks();
    let events = match maps.watch(&parameters, version).await {
        Ok(events) => events,
        Err(kube::Error::Api(status)) => return Err(status.code),
        Err(error) => panic!("the watch failed: {error}"),
    };
    pin_mut!(events);
    match tokio::time::timeout(LIMIT, events.next()).await.expect("an event in time") {
        Some(Ok(WatchEvent::Added(map))) => Ok(map.name_any()),
        Some(Ok(WatchEvent::Error(status))) => Err(status.code),
        other => panic!("an unexpected event: {other:?}"),
    }
}

/// Makes an object whose owner is gone.
async fn orphan(maps: &Api<ConfigMap>, name: &str) {
    let owner = maps.create(&PostParams::default(), &map(&format!("owner-of-{name}"))).await.expect("create an owner");
    let reference = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": owner.name_any(), "uid": owner.uid()});
    let mut owned = map(name);
    owned.metadata.owner_references = Some(vec![serde_json::from_value(reference).expect("a reference")]);
    maps.create(&PostParams::default(), &owned).await.expect("create the owned");
    maps.delete(&owner.name_any(), &DeleteParams::background()).await.expect("delete the owner");
}

fn map(name: &str) -> ConfigMap {
    ConfigMap {
        metadata: ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() },
        data: Some(BTreeMap::from([("a".to_owned(), "1".to_owned())])),
        ..ConfigMap::default()
    }
}
