//! Kinds that a cluster does not have: waited for at little cost, noticed soon, and not taken for gone when it cannot be asked.

use std::time::Duration;

use explorer::{Explorer, Index};
use http::{HeaderName, Method, StatusCode};
use testbed::certificates::Pair;
use testbed::faults::{Fault, Proxy, Rule};
use testbed::{Cluster, eventually};

use super::widgets::Widgets;
use super::world::{HOME, LIMIT, Place, found, local, master, reader, synced};

/// A proxy in front of a cluster, which asks as the collector that may read everything.
fn proxied(cluster: &Cluster) -> Proxy {
    let user = cluster.user("explorer-collector", &["system:masters"]);
    let pair = Pair { certificate_pem: user.certificate_pem.clone(), key_pem: user.key_pem.clone() };
    Proxy::to(cluster.url()).trusting(cluster.client_ca().certificate_pem()).presenting(&pair).start()
}

async fn open(place: &Place, cluster: &Cluster, proxy: &Proxy, kinds: &[&str]) -> Explorer {
    let mut options = place.options(kinds).await;
    options.local = Some(local(&reader(cluster).with_server(proxy.url())));
    Explorer::open(options).await.unwrap()
}

/// The requests for what the cluster serves, since so many of all.
fn looks(proxy: &Proxy, since: usize) -> Vec<(String, Option<StatusCode>)> {
    let exchanges = proxy.exchanges().into_iter().skip(since);
    let looks = exchanges.filter(|exchange| exchange.path.starts_with("/api") && !exchange.path.contains("/api/v1/"));
    let looks = looks.filter(|exchange| !exchange.path.contains("/rbac.authorization.k8s.io/"));
    looks.map(|exchange| (exchange.path, exchange.answer)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn kinds_that_are_missing_cost_one_short_answer_per_look_and_are_noticed_when_they_come() {
    let cluster = Cluster::shared().await;
    let widgets = Widgets::new(cluster).await;
    let proxy = proxied(cluster);
    let missing: Vec<String> = (0..20).map(|number| format!("Never{number}.group{number}.example")).collect();
    let widget = widgets.kind();
    let kinds: Vec<&str> = ["v1/ConfigMap", &widget].into_iter().chain(missing.iter().map(String::as_str)).collect();
    let explorer = open(&Place::new(), cluster, &proxy, &kinds).await;
    synced(&explorer, HOME, 1).await;
    // Other tests define kinds meanwhile, so that the table is sent anew now and then.
    eventually(LIMIT, || async {
        let since = proxy.exchanges().len();
        tokio::time::sleep(Duration::from_secs(5)).await;
        let looks = looks(&proxy, since);
        let short = looks.iter().filter(|(_, answer)| *answer == Some(StatusCode::NOT_MODIFIED)).count();
        let are_few = looks.len() <= 10 && looks.iter().all(|(path, _)| path == "/apis");
        if short > 0 && are_few { Ok(()) } else { Err(looks) }
    })
    .await;
    widgets.define("v1").await;
    widgets.create("v1", 1).await;
    eventually(LIMIT, || async { found(&explorer, &master(), "kind:Widget").await.len() == 1 }).await;
    // One that goes and comes back is noticed as soon, although its stream asks less and less often.
    widgets.remove_definition().await;
    eventually(LIMIT, || async { found(&explorer, &master(), "kind:Widget").await.is_empty() }).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    widgets.define("v1").await;
    widgets.create("v1", 1).await;
    eventually(LIMIT, || async { found(&explorer, &master(), "kind:Widget").await.len() == 1 }).await;
    explorer.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_older_server_is_asked_group_by_group_and_less_and_less_often() {
    let cluster = Cluster::shared().await;
    let widgets = Widgets::new(cluster).await;
    let proxy = proxied(cluster);
    // Without the header it answers as servers did before there was a table.
    let plain = Fault::RemoveHeaders(vec![HeaderName::from_static("accept")]);
    proxy.add(Rule::new(plain).method(Method::GET));
    let explorer =
        open(&Place::new(), cluster, &proxy, &["v1/ConfigMap", &widgets.kind(), "Never.never.example"]).await;
    synced(&explorer, HOME, 1).await;
    let asked = || looks(&proxy, 0).iter().filter(|(path, _)| path == "/apis/never.example").count();
    tokio::time::sleep(Duration::from_secs(8)).await;
    assert!((1..=5).contains(&asked()), "{} times", asked());
    widgets.define("v1").await;
    widgets.create("v1", 1).await;
    eventually(LIMIT, || async { found(&explorer, &master(), "kind:Widget").await.len() == 1 }).await;
    explorer.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_that_does_not_say_what_it_serves_loses_no_row() {
    let cluster = Cluster::shared().await;
    let widgets = Widgets::new(cluster).await;
    widgets.define("v1").await;
    widgets.create("v1", 1).await;
    let (place, proxy) = (Place::new(), proxied(cluster));
    let widget = widgets.kind();
    let kinds = ["v1/ConfigMap", widget.as_str()];
    let explorer = open(&place, cluster, &proxy, &kinds).await;
    synced(&explorer, HOME, 2).await;
    explorer.close().await;
    let faults = [
        ("forbidden", vec![Rule::new(Fault::status(StatusCode::FORBIDDEN)).path("/apis")]),
        ("failing", vec![Rule::new(Fault::status(StatusCode::SERVICE_UNAVAILABLE)).path("/apis")]),
        ("lost", vec![Rule::new(Fault::LoseRequest).path("/apis")]),
        (
            "an older server whose group fails",
            vec![
                Rule::new(Fault::status(StatusCode::SERVICE_UNAVAILABLE)).path(&format!("/apis/{}", widgets.group)),
                Rule::new(Fault::RemoveHeaders(vec![HeaderName::from_static("accept")])).method(Method::GET),
            ],
        ),
    ];
    for (what, rules) in faults {
        for rule in rules {
            proxy.add(rule);
        }
        // A warm start: rows are there, and nobody follows their kind.
        let explorer = open(&place, cluster, &proxy, &kinds).await;
        let since = proxy.exchanges().len();
        eventually(LIMIT, || async { looks(&proxy, since).len() > 5 }).await;
        tokio::time::sleep(Duration::from_secs(3)).await;
        let kept = explorer.read(Index::inventory);
        let rows: u64 = kept.iter().filter(|(kept, _)| kept.kind == "Widget").map(|(_, rows)| rows).sum();
        assert_eq!(rows, 1, "{what}");
        explorer.close().await;
        proxy.clear();
    }
    let explorer = open(&place, cluster, &proxy, &kinds).await;
    synced(&explorer, HOME, 2).await;
    assert_eq!(found(&explorer, &master(), "kind:Widget").await.len(), 1);
    explorer.close().await;
}
