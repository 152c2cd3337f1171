//! Objects that are being deleted, and those that are gone and kept for a while.

use std::time::Duration;

use explorer::Status;
use explorer::kinds::KindSpec;
use explorer::query::Query;
use explorer::{Explorer, Index};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::json;
use testbed::{Cluster, Scope, eventually, rule, scale, subject};

use super::maps::Maps;
use super::widgets::Widgets;
use super::world::{HOME, LIMIT, Place, found, local, master, reader, somebody, synced};
use access::Source;

const MAPS: &str = "v1/ConfigMap";

async fn open(place: &Place, cluster: &Cluster, kind: &str, retention: Option<Duration>) -> Explorer {
    let mut options = place.options(&[]).await;
    options.local = Some(local(&reader(cluster)));
    options.kinds = vec![KindSpec { retention, ..KindSpec::parse(kind).unwrap() }];
    // The test cleans by itself.
    options.settings.cleaner_every = None;
    Explorer::open(options).await.unwrap()
}

async fn row(explorer: &Explorer, namespace: &str, name: &str) -> Option<explorer::Row> {
    let visibility = explorer.visibility(&master()).await;
    let query = Query::parse(&format!("ns:{namespace} name:{name}")).unwrap();
    explorer.read(|index| index.query(&query, &visibility)).rows.pop().map(|found| found.row)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_that_is_being_deleted_is_shown_as_such_until_it_is_gone() {
    let cluster = Cluster::shared().await;
    let maps = Maps::new(cluster, HOME, "terminating").await;
    let explorer = open(&Place::new(), cluster, MAPS, None).await;
    let held = json!({"metadata": {"name": "held", "finalizers": ["example.com/hold"]}});
    let held: ConfigMap = serde_json::from_value(held).unwrap();
    maps.api.create(&PostParams::default(), &held).await.unwrap();
    let status = || async { row(&explorer, &maps.namespace, "held").await.map(|row| (row.status, row.terminating)) };
    eventually(LIMIT, || async { status().await == Some((Status::Unknown, false)) }).await;
    maps.delete("held").await;
    eventually(LIMIT, || async { status().await == Some((Status::Terminating, true)) }).await;
    let release = json!({"metadata": {"finalizers": null}});
    maps.api.patch("held", &PatchParams::default(), &Patch::Merge(release)).await.unwrap();
    eventually(LIMIT, || async { status().await.is_none() }).await;
    explorer.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_object_is_kept_for_as_long_as_its_kind_says_and_the_cleaners_second_run_does_nothing() {
    let cluster = Cluster::shared().await;
    // A kind of its own: of any other, what tests beside this one delete would be kept and cleaned too.
    let widgets = Widgets::new(cluster).await;
    widgets.define("v1").await;
    widgets.make("v1", "kept", json!({})).await;
    // Longer where other suites run beside this one: a restart must fit in.
    let seconds = scale().of(40, 10);
    let (place, kind, kept) = (Place::new(), widgets.kind(), Some(Duration::from_secs(seconds)));
    let explorer = open(&place, cluster, &kind, kept).await;
    let namespace = widgets.namespace.as_str();
    eventually(LIMIT, || async { row(&explorer, namespace, "kept").await.is_some() }).await;
    widgets.delete("v1", "kept").await;
    let gone =
        eventually(LIMIT, || async { row(&explorer, namespace, "kept").await.and_then(|row| row.deleted_at) }).await;
    assert_eq!(explorer.clean().await.unwrap(), 0, "it is not time yet");
    // A restart changes nothing about it.
    explorer.close().await;
    let explorer = open(&place, cluster, &kind, kept).await;
    synced(&explorer, HOME, 1).await;
    assert_eq!(row(&explorer, namespace, "kept").await.and_then(|row| row.deleted_at), Some(gone));
    let cleaned = eventually(LIMIT, || async {
        let cleaned = explorer.clean().await.unwrap();
        row(&explorer, namespace, "kept").await.is_none().then_some(cleaned)
    })
    .await;
    assert!(jiff::Timestamp::now().as_millisecond() >= gone + 1000 * seconds.cast_signed(), "not before its time");
    assert_eq!(cleaned, 1);
    assert_eq!(explorer.clean().await.unwrap(), 0, "a second run finds nothing to do");
    explorer.read(Index::audit).unwrap();
    explorer.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_left_of_a_namespace_is_not_for_those_who_own_one_of_the_same_name_later() {
    let cluster = Cluster::shared().await;
    let maps = Maps::new(cluster, HOME, "heirs").await;
    maps.create("secretive").await;
    let (place, hour) = (Place::new(), Some(Duration::from_secs(3600)));
    let mut explorer = open(&place, cluster, MAPS, hour).await;
    let heir = format!("heir-{}", maps.namespace);
    let rules = [rule(&["list"], &[""], &["configmaps"])];
    cluster.grant(Scope::Namespace(&maps.namespace), &[subject::user(&heir)], &rules).await;
    let heir_name = heir.clone();
    let heir = somebody(Source::TokenReview, &heir, &[]);
    let text = format!("ns:{} name:secretive", maps.namespace);
    eventually(LIMIT, || async { found(&explorer, &heir, &text).await.len() == 1 }).await;
    let namespaces: Api<Namespace> = Api::all(cluster.client());
    // While it looks on; while it is down in between; and while it is down all the time, with rows that live.
    for round in 0..3 {
        let secret = format!("secret-{round}");
        maps.create(&secret).await;
        eventually(LIMIT, || async { row(&explorer, &maps.namespace, &secret).await.is_some() }).await;
        if round == 2 {
            explorer.close().await;
        }
        namespaces.delete(&maps.namespace, &DeleteParams::default()).await.unwrap();
        testbed::wait_until_gone(&namespaces, &maps.namespace, LIMIT).await;
        if round == 1 {
            explorer.close().await;
        }
        let again = json!({"metadata": {"name": maps.namespace}});
        let again: Namespace = serde_json::from_value(again).unwrap();
        namespaces.create(&PostParams::default(), &again).await.unwrap();
        cluster.grant(Scope::Namespace(&maps.namespace), &[subject::user(&heir_name)], &rules).await;
        if round > 0 {
            explorer = open(&place, cluster, MAPS, hour).await;
            synced(&explorer, HOME, 1).await;
        }
        let own = format!("own-{round}");
        maps.create(&own).await;
        let own = format!("ns:{} name:{own}", maps.namespace);
        eventually(LIMIT, || async { found(&explorer, &heir, &own).await.len() == 1 }).await;
        // Whoever may read everywhere still sees what is left; the heir of the name does not.
        for name in ["secretive", &secret] {
            eventually(LIMIT, || async {
                row(&explorer, &maps.namespace, name).await.is_some_and(|row| row.orphaned && row.deleted_at.is_some())
            })
            .await;
        }
        assert_eq!(found(&explorer, &heir, &text).await.len(), 0, "round {round}");
        let secrets = format!("ns:{} name:secret-*", maps.namespace);
        assert_eq!(found(&explorer, &heir, &secrets).await.len(), 0, "round {round}");
    }
    explorer.close().await;
}
