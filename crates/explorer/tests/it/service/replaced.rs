//! Another cluster at the same address: nothing of one is ever shown by the permissions of the other.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use explorer::Explorer;
use explorer::service::{Authorizer, Local};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::Api;
use kube::api::PostParams;
use serde_json::json;
use testbed::{Cluster, Scope, eventually, rule, subject};

use super::world::{HOME, LIMIT, Place, finds, found, jane, local, master, reader, report, synced};

const SHARED: &str = "team";

/// A namespace with the same name in both, and a ConfigMap that says in which it is.
async fn furnish(cluster: &Cluster, map: &str) {
    let namespace: Namespace = serde_json::from_value(json!({"metadata": {"name": SHARED}})).unwrap();
    Api::all(cluster.client()).create(&PostParams::default(), &namespace).await.unwrap();
    let map: ConfigMap = serde_json::from_value(json!({"metadata": {"name": map}})).unwrap();
    let maps: Api<ConfigMap> = Api::namespaced(cluster.client(), SHARED);
    maps.create(&PostParams::default(), &map).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_replaced_at_its_address_is_another_one_and_nothing_is_mixed() {
    replace(Authorizer::Rbac).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nor_does_the_authorizer_of_another_cluster_decide_about_its_rows() {
    replace(Authorizer::Review).await;
}

async fn replace(authorizer: Authorizer) {
    let cluster = Cluster::own().await;
    furnish(&cluster, "of-the-first").await;
    let mut options = Place::new().options(&["v1/ConfigMap", "v1/Namespace"]).await;
    options.local = Some(Local { authorizer, ..local(&reader(&cluster)) });
    options.settings.review_ttl = Duration::from_millis(1);
    // Streams must find out by themselves: nobody looks which cluster it is for a while.
    options.settings.look_every = Duration::from_secs(30);
    let explorer = Explorer::open(options).await.unwrap();
    synced(&explorer, HOME, 2).await;
    let uid = report(&explorer, HOME).unwrap().uid.unwrap();
    let text = "kind:ConfigMap name:of-the-*";
    let at = |name: &str| format!("{HOME}/{SHARED}/{name}");
    finds(&explorer, &master(), text, &[at("of-the-first")]).await;
    assert!(found(&explorer, &jane(), text).await.is_empty());

    // Jane may see nothing in the first one, and this namespace in the second. Whoever looks all the time must not see what
    // was in the first by that.
    let (done, seen) = (Arc::new(AtomicBool::new(false)), explorer.clone());
    let watching = tokio::spawn({
        let (done, first) = (Arc::clone(&done), uid.clone());
        async move {
            let mut hers: BTreeSet<String> = BTreeSet::new();
            let mut mixed = Vec::new();
            while !done.load(Ordering::SeqCst) {
                hers.extend(found(&seen, &jane(), text).await);
                let all = found(&seen, &master(), text).await;
                // Rows of the second are under its own uid, and never beside those of the first.
                let under_the_first = report(&seen, HOME).is_some_and(|report| report.uid.as_ref() == Some(&first));
                if all.len() > 1 || (under_the_first && all.iter().any(|row| row.ends_with("of-the-second"))) {
                    mixed.push(all);
                }
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
            // The last look may have been before there was anything to see.
            hers.extend(found(&seen, &jane(), text).await);
            (hers, mixed)
        }
    });
    cluster.replace().await;
    furnish(&cluster, "of-the-second").await;
    let rules = [rule(&["list"], &[""], &["configmaps"])];
    cluster.grant(Scope::Namespace(SHARED), &[subject::user(&jane().user)], &rules).await;
    finds(&explorer, &jane(), text, &[at("of-the-second")]).await;
    eventually(LIMIT, || async {
        let now = report(&explorer, HOME).unwrap();
        if now.uid.as_ref().is_some_and(|now| *now != uid) && now.withheld.is_none() { Ok(()) } else { Err(now) }
    })
    .await;
    done.store(true, Ordering::SeqCst);
    let (hers, mixed) = watching.await.unwrap();
    assert_eq!(hers, BTreeSet::from([at("of-the-second")]), "rows of one cluster by grants of another");
    assert!(mixed.is_empty(), "{mixed:?}");
    finds(&explorer, &master(), text, &[at("of-the-second")]).await;
    let everything = explorer::Visibility::default().with(HOME, explorer::index::View::Everything);
    let query = explorer::query::Query::parse("name:of-the-first").unwrap();
    assert_eq!(explorer.read(|index| index.query(&query, &everything)).total, 0, "kept out of sight");
    explorer.close().await;
}
