//! A cluster that cannot be reached, or may no longer be read, as callers meet it: rows say how old they are, until nobody can
//! tell who may see them; nothing is deleted, nobody sees by what was revoked meanwhile, and all is well again by itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use testbed::{Cluster, Delegator, Direction, Grant, Kubeconfig, Proxy, Scope, Toxiproxy, eventually, rule, subject};

use super::crossing::{User, other};
use super::{KINDS, Person, World, collector, delete_map, facet, make_map, own, world};
use crate::server::{PATIENCE, Server, Start, answer};

/// How a cluster becomes unreadable.
#[derive(Clone, Copy, Debug)]
enum Break {
    Cut,
    /// Nothing passes, and nobody closes anything.
    HalfOpen,
    /// The collector's permissions are taken away.
    Forbidden,
}

/// The way to the other cluster.
struct Way {
    other: &'static Cluster,
    proxy: Proxy,
    kubeconfig: Kubeconfig,
    account: k8s_openapi::api::rbac::v1::Subject,
    grant: Grant,
}

impl Way {
    async fn new(other: &'static Cluster, toxiproxy: &Toxiproxy) -> Way {
        let proxy = toxiproxy.proxy(other.url().trim_start_matches("https://")).await.unwrap();
        let Delegator { username, namespace, kubeconfig } = other.service_account_with_auth_delegator().await;
        let account = subject::service_account(&namespace, username.rsplit(':').next().unwrap());
        let kubeconfig = kubeconfig.with_server(&format!("https://{}", proxy.address));
        let grant = Way::grant(other, &account).await;
        Way { other, proxy, kubeconfig, account, grant }
    }

    async fn grant(other: &Cluster, account: &k8s_openapi::api::rbac::v1::Subject) -> Grant {
        let everything = rule(&["get", "list", "watch"], &["*"], &["*"]);
        other.grant(Scope::Cluster, std::slice::from_ref(account), &[everything]).await
    }

    async fn cut_off(&self, how: Break) {
        match how {
            Break::Cut => self.proxy.cut().await.unwrap(),
            Break::HalfOpen => {
                self.proxy.timeout(Direction::Upstream).await.unwrap();
                self.proxy.timeout(Direction::Downstream).await.unwrap();
            }
            Break::Forbidden => self.other.remove_binding(&self.grant).await,
        }
    }

    async fn heal(&mut self, how: Break) {
        match how {
            Break::Cut | Break::HalfOpen => self.proxy.heal().await.unwrap(),
            Break::Forbidden => self.grant = Way::grant(self.other, &self.account).await,
        }
    }
}

/// A server beside the shared cluster, on a data directory that outlives it.
fn start(start: Start, kubeconfig: &Kubeconfig) -> &'static Server {
    // Longer than it takes all streams to notice: those of rows may be the last, after the time of a watch.
    let start = start.collecting(kubeconfig, KINDS).tls();
    Box::leak(Box::new(start.flag("--explorer-rbac-max-age", "40s").serve()))
}

fn of_cluster<'a>(list: &'a Value, cluster: &str) -> Option<&'a Value> {
    list.as_array()?.iter().find(|entry| entry["cluster"] == cluster || entry["name"] == cluster)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_that_is_cut_off_is_stale_then_withheld_and_back() {
    outage(Break::Cut).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_half_open_connection_is_noticed_and_makes_the_same() {
    outage(Break::HalfOpen).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn permissions_that_the_collector_lost_make_the_same() {
    outage(Break::Forbidden).await;
}

async fn outage(how: Break) {
    let home = world().await.cluster;
    let kubeconfig = collector(home).await;
    let server = start(Start::new(), &kubeconfig);
    let world = World { server, cluster: home };
    let admin = world.admin().await;
    let there = other().await;
    let toxiproxy = Toxiproxy::start().unwrap();
    let mut way = Way::new(there, &toxiproxy).await;
    let namespace = there.namespace("outage").await;
    for name in ["goes", "stays"] {
        make_map(there, &namespace, name, &[]).await;
    }
    let may_list = [rule(&["list"], &[""], &["configmaps"])];
    let (keeps, loses) = (format!("erin-{namespace}"), format!("frank-{namespace}"));
    there.grant(Scope::Namespace(&namespace), &[subject::user(&keeps)], &may_list).await;
    let revoked = there.grant(Scope::Namespace(&namespace), &[subject::user(&loses)], &may_list).await;
    let (erin, frank) = (User::new(world, &keeps, &[]), User::new(world, &loses, &[]));
    let new = json!({ "name": "east", "kubeconfig": way.kubeconfig.yaml(), "identity": "shared" });
    let (status, added) = admin.post("/v1/clusters", &new).await;
    assert_eq!(status, 200, "{added}");
    let query = format!("cluster:east {}", own(&namespace));
    erin.sees(&query, &["goes", "stays"]).await;
    frank.sees(&query, &["goes", "stays"]).await;
    eventually(PATIENCE, || async {
        let found = erin.find(&query).await;
        if found["objects"][0]["staleSince"].is_null() && found["stale"] == json!([]) { Ok(()) } else { Err(found) }
    })
    .await;

    way.cut_off(how).await;
    // A watch that has begun is not ended by a permission that is taken away: nothing is deleted before it is noticed.
    let stale = eventually(PATIENCE, || async {
        let found = erin.find(&query).await;
        let marked = found["objects"].as_array().unwrap().iter().all(|row| row["staleSince"].is_string());
        if marked && found["total"] == 2 && of_cluster(&found["stale"], "east").is_some() {
            Ok(found)
        } else {
            Err(found)
        }
    })
    .await;
    assert_eq!((super::names(&stale), &stale["withheld"]), (vec!["goes".to_owned(), "stays".to_owned()], &json!([])));
    let since: jiff::Timestamp = stale["objects"][0]["staleSince"].as_str().unwrap().parse().unwrap();
    assert!(jiff::Timestamp::now().duration_since(since).as_secs() < 60, "{stale}");
    let page = erin.text(&format!("/explore?q=ns:{namespace}%20kind:ConfigMap")).await;
    assert!(page.contains("stale for"), "{page}");
    delete_map(there, &namespace, "goes").await;
    there.remove_binding(&revoked).await;
    assert_eq!(erin.names(&query).await, ["goes", "stays"], "what goes now is not known to be gone");

    withheld(&erin, &query).await;
    let page = erin.text(&format!("/explore?q=ns:{namespace}%20kind:ConfigMap")).await;
    assert!(!page.contains(">stays</a>") && page.contains("east"), "{page}");
    let found = erin.find("").await;
    assert!(!facet(&found, "cluster").contains_key("east"), "{found}");
    let facets: Value = serde_json::from_str(&erin.text("/v1/facets").await).unwrap();
    assert!(!facet(&facets, "cluster").contains_key("east") && of_cluster(&facets["withheld"], "east").is_some());
    nothing_is_deleted(&admin).await;

    // He was revoked while nobody could know: not for a moment does he see anything again.
    let (done, looking) = (Arc::new(AtomicBool::new(false)), query.clone());
    let watching = tokio::spawn({
        let done = Arc::clone(&done);
        async move {
            while !done.load(Ordering::SeqCst) {
                let seen = frank.names(&looking).await;
                assert!(seen.is_empty(), "{seen:?} by a binding that is gone");
            }
            frank
        }
    });
    way.heal(how).await;
    erin.sees(&query, &["stays"]).await;
    eventually(PATIENCE, || async { erin.find(&query).await["objects"][0]["staleSince"].is_null() }).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    done.store(true, Ordering::SeqCst);
    watching.await.expect("he sees nothing");

    // A restart while nothing can be asked: the server is ready, has what it had, and shows nothing of it.
    way.cut_off(how).await;
    kill(server.process.pid()).await;
    let data = server.data.clone();
    let server = start(Start::on(data), &kubeconfig);
    assert_eq!(answer(server.request("GET", "/readyz")).await.0, 200, "one cluster that is away stops nobody");
    let (erin, admin) =
        (User::new(World { server, cluster: home }, &keeps, &[]), Person { server, token: admin.token });
    let found = withheld(&erin, &query).await;
    assert_eq!(found["collected"]["of"], 2, "{found}");
    nothing_is_deleted(&admin).await;
    way.heal(how).await;
    erin.sees(&query, &["stays"]).await;
}

/// Waits until nothing is shown of the cluster, and that is told.
async fn withheld(erin: &User, query: &str) -> Value {
    let found = eventually(PATIENCE, || async {
        let found = erin.find(query).await;
        if of_cluster(&found["withheld"], "east").is_some() { Ok(found) } else { Err(found) }
    })
    .await;
    assert_eq!((&found["total"], &found["objects"]), (&json!(0), &json!([])));
    let reason = of_cluster(&found["withheld"], "east").unwrap()["reason"].as_str().unwrap().to_owned();
    assert!(!reason.is_empty() && !reason.contains("Bearer"), "{reason}");
    found
}

async fn nothing_is_deleted(admin: &Person) {
    let (_, list) = admin.get("/v1/clusters").await;
    let east = of_cluster(&list["clusters"], "east").unwrap_or_else(|| panic!("{list}"));
    assert!(east["objects"].as_u64().unwrap() > 1 && east["withheld"].is_string(), "{east}");
}

/// Ends a process that nobody drops, at once.
async fn kill(pid: u32) {
    let ended = std::process::Command::new("kill").args(["-9", &pid.to_string()]).status();
    assert!(ended.is_ok_and(|status| status.success()));
    // It is gone, or nothing is left of it but its name, when it has let go of its data.
    eventually(PATIENCE, || async {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        // Its first thread may be dead before the others are, which hold its files open.
        let threads = std::fs::read_dir(format!("/proc/{pid}/task")).map_or(0, Iterator::count);
        status.is_empty() || (status.contains("State:\tZ") && threads <= 1)
    })
    .await;
}
