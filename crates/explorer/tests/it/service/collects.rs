//! The way of an object: from the cluster into an answer, for those who may see it, and out again.

use access::Source;
use access::rbac::Policy;
use explorer::query::Request;
use explorer::service::{KindState, Metrics};
use explorer::{Explorer, Index};
use serde_json::json;
use testbed::{Cluster, Scope, eventually, rule, subject};

use super::maps::Maps;
use super::widgets::Widgets;
use super::world::{HOME, LIMIT, Place, finds, jane, local, master, place, reader, report, somebody, synced};

#[tokio::test(flavor = "multi_thread")]
async fn an_object_is_found_by_those_who_may_see_it_until_it_or_the_grant_is_gone() {
    let cluster = Cluster::shared().await;
    let maps = Maps::new(cluster, HOME, "slice").await;
    maps.create("one").await;
    let explorer = Place::new().open(cluster, &["v1/ConfigMap"]).await;
    synced(&explorer, HOME, 1).await;
    let text = format!("ns:{} kind:ConfigMap one", maps.namespace);
    let one = [format!("{HOME}/{}/one", maps.namespace)];
    finds(&explorer, &master(), &text, &one).await;
    finds(&explorer, &jane(), &text, &[]).await;

    let key = explorer::Key {
        cluster: HOME.to_owned(),
        namespace: maps.namespace.clone(),
        group: String::new(),
        kind: "ConfigMap".to_owned(),
        name: "one".to_owned(),
    };
    let scope = Scope::Namespace(&maps.namespace);
    let list = cluster.grant(scope, &[subject::user("jane")], &[rule(&["list"], &[""], &["configmaps"])]).await;
    finds(&explorer, &jane(), &text, &one).await;
    let body = explorer.body(&key, &explorer.visibility(&jane()).await).await.unwrap();
    assert_eq!(body, None, "who may only list sees no body");
    let get = cluster.grant(scope, &[subject::user("jane")], &[rule(&["get"], &[""], &["configmaps"])]).await;
    eventually(LIMIT, || async {
        let visibility = explorer.visibility(&jane()).await;
        explorer.body(&key, &visibility).await.unwrap().is_some_and(|body| body.contains(r#""name":"one""#))
    })
    .await;

    cluster.remove_binding(&get).await;
    cluster.remove_binding(&list).await;
    finds(&explorer, &jane(), &text, &[]).await;
    finds(&explorer, &master(), &text, &one).await;
    maps.delete("one").await;
    finds(&explorer, &master(), &text, &[]).await;

    let report = report(&explorer, HOME).unwrap();
    assert_eq!(report.kinds[0].state, KindState::Synced);
    assert!(report.uid.is_some() && report.objects > 0, "{report:?}");
    let explain = explorer.policy(HOME, Policy::epoch).unwrap();
    assert!(explain > 0);
    assert!(explorer.address(HOME).unwrap().auth_info.client_key_data.is_none(), "an address without credentials");
    let token = somebody(Source::StaticToken, "root", &["system:masters"]);
    assert!(
        explorer.visibility(&token).await.of(HOME).is_none(),
        "a static token is nobody unless it was said who it is"
    );
    explorer.read(Index::audit).unwrap();
    explorer.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn long_messages_are_paged_by_and_the_body_has_them_whole() {
    let cluster = Cluster::shared().await;
    let widgets = Widgets::new(cluster).await;
    widgets.define("v1").await;
    let explorer = Place::new().open(cluster, &[&widgets.kind()]).await;
    let message = |number: usize| format!("{number} {} end{number}", "wörter ".repeat(6_000));
    for number in 0..3 {
        let condition = json!({"type": "Ready", "status": "False", "message": message(number)});
        widgets.make("v1", &format!("w{number}"), json!({"status": {"conditions": [condition]}})).await;
    }
    let text = format!("kind:Widget ns:{}", widgets.namespace);
    let at = |number: usize| format!("{HOME}/{}/w{number}", widgets.namespace);
    finds(&explorer, &master(), &text, &[at(0), at(1), at(2)]).await;
    let visibility = explorer.visibility(&master()).await;
    let mut cursor = String::new();
    for number in 0..3 {
        let request =
            Request { query: text.clone(), order_by: "message".to_owned(), limit: 1, cursor, ..Request::default() };
        let page = explorer.read(|index| index.query(&request.query().unwrap(), &visibility));
        let row = &page.rows[0].row;
        assert_eq!(place(&row.key), at(number));
        assert!(row.message.len() > 4_000 && message(number).starts_with(&row.message), "{}", row.message.len());
        let body = explorer.body(&row.key, &visibility).await.unwrap().unwrap();
        assert!(body.contains(&message(number)));
        cursor = page.cursor.unwrap_or_default();
        assert_eq!(cursor.is_empty(), number == 2);
    }
    // What is cut off is found as the rest of the body is.
    finds(&explorer, &master(), &format!("{text} end1"), &[at(1)]).await;
    explorer.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_that_may_not_read_namespaces_says_so() {
    let cluster = Cluster::shared().await;
    let namespace = cluster.namespace("nameless").await;
    let name = format!("collector-{namespace}");
    let (verbs, group) = (["get", "list", "watch"], "rbac.authorization.k8s.io");
    let rules = [
        rule(&verbs, &[""], &["configmaps"]),
        rule(&verbs, &[group], &["roles", "rolebindings", "clusterroles", "clusterrolebindings"]),
        // Which cluster it is can still be asked.
        rule(&["get"], &[""], &["namespaces"]),
    ];
    cluster.grant(Scope::Cluster, &[subject::user(&name)], &rules).await;
    let mut options = Place::new().options(&["v1/ConfigMap"]).await;
    options.local = Some(local(cluster.user(&name, &[]).kubeconfig()));
    let explorer = Explorer::open(options).await.unwrap();
    synced(&explorer, HOME, 1).await;
    let fault = || async { report(&explorer, HOME).unwrap().fault };
    let told = eventually(LIMIT, fault).await;
    assert!(told.contains("namespaces") && told.contains("grant get, list and watch"), "{told}");
    cluster.grant(Scope::Cluster, &[subject::user(&name)], &[rule(&verbs, &[""], &["namespaces"])]).await;
    eventually(LIMIT, || async { fault().await.is_none() }).await;
    explorer.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_counted_names_nobody_and_nothing() {
    let cluster = Cluster::shared().await;
    let maps = Maps::new(cluster, HOME, "counted").await;
    maps.create("one").await;
    let mut registry = prometheus_client::registry::Registry::default();
    let mut options = Place::new().options(&["v1/ConfigMap"]).await;
    options.local = Some(local(&reader(cluster)));
    options.metrics = Metrics::register(&mut registry);
    let explorer = Explorer::open(options).await.unwrap();
    synced(&explorer, HOME, 1).await;
    maps.mirrored(&explorer).await;
    explorer.clean().await.unwrap();
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
    for line in [
        r#"explorer_streams{state="synced"} 1"#,
        r#"explorer_clusters{state="shown"} 1"#,
        r#"explorer_clusters{state="withheld"} 0"#,
        "explorer_cleaner_runs_total 1",
        "explorer_cleaned_rows_total 0",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}: {text}");
    }
    let value = |name: &str| -> f64 {
        let line = text.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("{name}: {text}"));
        line.rsplit_once(' ').unwrap().1.parse().unwrap()
    };
    assert!(value(r#"explorer_events_total{event="applied"}"#) >= 2.0);
    assert!(value("explorer_rows ") >= 2.0);
    assert!(value("explorer_lag_seconds ") >= 0.0);
    assert!(!text.contains(&maps.namespace) && !text.contains(HOME), "{text}");
    explorer.close().await;
}
