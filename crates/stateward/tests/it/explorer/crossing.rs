//! Clusters that are added and removed at run time, and who callers are there.

use std::time::Duration;

use serde_json::{Value, json};
use testbed::certificates::Pair;
use testbed::{Cluster, Scope, eventually, rule, subject};
use tokio::sync::OnceCell;

use super::{Person, World, collector, definitions, delete_map, facet, make_map, own, world};
use crate::server::{PATIENCE, answer};

/// The other cluster of this test process.
pub(super) async fn other() -> &'static Cluster {
    static OTHER: OnceCell<Cluster> = OnceCell::const_new();
    OTHER
        .get_or_init(|| async {
            let cluster = Cluster::own().await;
            definitions(&cluster).await;
            cluster
        })
        .await
}

/// A server of its own beside the shared cluster: what is added to it is its own too.
async fn start() -> (World, Person) {
    let cluster = world().await.cluster;
    let server: &'static crate::server::Server = Box::leak(Box::new(super::beside(cluster).await.serve()));
    let world = World { server, cluster };
    let admin = world.admin().await;
    (world, admin)
}

/// Makes a kubeconfig one that must be refused.
type Spoil = fn(&mut Value);

async fn add(admin: &Person, name: &str, kubeconfig: &str, more: Value) -> (u16, Value) {
    let mut body = json!({ "name": name, "kubeconfig": kubeconfig });
    for (field, value) in more.as_object().unwrap() {
        body[field] = value.clone();
    }
    admin.post("/v1/clusters", &body).await
}

/// A user by certificate of the first cluster, as this server knows her.
pub(super) struct User {
    world: World,
    client: reqwest::Client,
}

impl User {
    pub(super) fn new(world: World, name: &str, groups: &[&str]) -> User {
        let user = world.cluster.user(name, groups);
        let pair = Pair { certificate_pem: user.certificate_pem, key_pem: user.key_pem };
        User { world, client: world.server.client_with(&pair) }
    }

    pub(super) async fn find(&self, query: &str) -> Value {
        let body = json!({ "query": query, "facets": true, "unstructured": false });
        let request = self.world.server.request_by(&self.client, "POST", "/v1/query").json(&body);
        let (status, text) = answer(request).await;
        assert_eq!(status, 200, "{text}");
        serde_json::from_str(&text).unwrap()
    }

    pub(super) async fn names(&self, query: &str) -> Vec<String> {
        super::names(&self.find(query).await)
    }

    /// A page as the browser of hers gets it.
    pub(super) async fn text(&self, path: &str) -> String {
        answer(self.world.server.request_by(&self.client, "GET", path)).await.1
    }

    pub(super) async fn sees(&self, query: &str, expected: &[&str]) {
        eventually(PATIENCE, || async {
            let names = self.names(query).await;
            if names == expected { Ok(()) } else { Err(format!("{names:?}")) }
        })
        .await;
    }
}

#[tokio::test]
async fn an_identity_crosses_as_its_cluster_says_and_never_with_a_system_name() {
    let (world, admin) = start().await;
    let other = other().await;
    let namespace = other.namespace("crossing").await;
    make_map(other, &namespace, "there", &[]).await;
    let kubeconfig = collector(other).await.yaml();
    let query = format!("cluster:west {}", own(&namespace));

    // There, everybody whose name could be mistaken for one of ours may read: what counts is who somebody is.
    let account_namespace = world.cluster.namespace("crossing").await;
    let account = world.nobody(&account_namespace, "jane").await;
    let subjects = [
        subject::user("jane"),
        subject::group("developers"),
        subject::service_account(&account_namespace, "jane"),
        subject::group("system:serviceaccounts"),
        subject::group("system:masters"),
    ];
    let readers = &subjects[..4];
    other.grant(Scope::Namespace(&namespace), readers, &[rule(&["list"], &[""], &["configmaps"])]).await;
    let jane = User::new(world, "jane", &[]);
    let developer = User::new(world, "dora", &["developers"]);
    let master = User::new(world, "mary", &["system:masters"]);

    let table: [(&str, Value, [bool; 3]); 4] = [
        ("nobody", json!("none"), [false, false, false]),
        ("the same", json!("shared"), [true, true, false]),
        ("mapped", json!({ "map": [{ "from": { "user": "mary" }, "as": { "user": "jane" } }] }), [false, false, true]),
        (
            "mapped by group",
            json!({ "map": [{ "from": { "group": "developers" }, "as": { "groups": ["developers"] } }] }),
            [false, true, false],
        ),
    ];
    for (what, identity, [jane_sees, developer_sees, master_sees]) in table {
        let (status, added) = add(&admin, "west", &kubeconfig, json!({ "identity": identity })).await;
        assert_eq!(status, 200, "{what}: {added}");
        let expected = |sees: bool| if sees { vec!["there"] } else { vec![] };
        jane.sees(&query, &expected(jane_sees)).await;
        developer.sees(&query, &expected(developer_sees)).await;
        master.sees(&query, &expected(master_sees)).await;
        // A ServiceAccount of one cluster is nobody in another, and so is whoever administers one of them.
        for person in [&account, &admin] {
            assert_eq!(person.names(&query).await, [""; 0], "{what}");
            let (_, facets) = person.get("/v1/facets").await;
            assert!(!facet(&facets, "cluster").contains_key("west"), "{what}");
        }
    }
    for (what, identity) in [
        ("a system group", json!({ "map": [{ "from": { "user": "mary" }, "as": { "groups": ["system:masters"] } }] })),
        ("from a system user", json!({ "map": [{ "from": { "user": "system:admin" }, "as": { "user": "x" } }] })),
        ("nobody", json!({ "map": [{ "from": { "user": "mary" }, "as": {} }] })),
    ] {
        let (status, refused) = add(&admin, "east", &kubeconfig, json!({ "identity": identity })).await;
        assert_eq!(status, 400, "{what}: {refused}");
        assert!(refused["error"]["message"].as_str().unwrap().contains("identity.map[0]"), "{refused}");
    }
}

#[tokio::test]
async fn a_removed_cluster_is_gone_from_rows_facets_and_lists_while_updates_pour_in() {
    let (world, admin) = start().await;
    let other = Cluster::own().await;
    let namespace = other.namespace("removed").await;
    let kubeconfig = collector(&other).await.yaml();
    let (status, added) = add(&admin, "east", &kubeconfig, json!({ "identity": "shared" })).await;
    assert_eq!(status, 200, "{added}");
    assert_eq!((&added["name"], &added["source"]), (&json!("east"), &json!("added")));
    let user = User::new(world, "erin", &[]);
    other.grant(Scope::Cluster, &[subject::user("erin")], &[rule(&["list"], &[""], &["configmaps"])]).await;
    let query = format!("cluster:east {}", own(&namespace));
    make_map(&other, &namespace, "map", &[]).await;
    user.sees(&query, &["map"]).await;
    for round in 0..3 {
        let pouring = async {
            for number in 0..40 {
                make_map(&other, &namespace, &format!("pours-{round}-{number}"), &[]).await;
            }
        };
        let removing = async {
            tokio::time::sleep(Duration::from_millis(50 * round)).await;
            let (status, text) = answer(admin.request("DELETE", "/v1/clusters/east")).await;
            assert_eq!(status, 200, "{text}");
            // At once, and not after the pouring has ended.
            assert_eq!(user.names("cluster:east").await, [""; 0]);
        };
        tokio::join!(pouring, removing);
        assert_eq!(user.names("cluster:east").await, [""; 0], "late events bring nothing back");
        let (_, list) = admin.get("/v1/clusters").await;
        assert!(!list.to_string().contains("east"), "{list}");
        let (status, _) = add(&admin, "east", &kubeconfig, json!({ "identity": "shared" })).await;
        assert_eq!(status, 200);
        eventually(PATIENCE, || async { user.names(&query).await.len() > 40 * usize::try_from(round).unwrap() }).await;
    }
    delete_map(&other, &namespace, "map").await;
}

#[tokio::test]
async fn kubeconfigs_that_would_run_or_read_something_here_are_refused_by_name() {
    let (world, admin) = start().await;
    let good: Value = serde_json::from_str(&collector(other().await).await.yaml()).unwrap();
    let table: [(&str, Spoil); 9] = [
        ("exec", |config| {
            config["users"][0]["user"]["exec"] =
                json!({ "command": "/bin/canary", "apiVersion": "client.authentication.k8s.io/v1" });
        }),
        ("auth-provider", |config| config["users"][0]["user"]["auth-provider"] = json!({ "name": "oidc" })),
        ("tokenFile", |config| config["users"][0]["user"]["tokenFile"] = json!("/etc/canary")),
        ("client-certificate", |config| config["users"][0]["user"]["client-certificate"] = json!("/etc/canary")),
        ("client-key", |config| config["users"][0]["user"]["client-key"] = json!("/etc/canary")),
        ("certificate-authority", |config| {
            config["clusters"][0]["cluster"]["certificate-authority"] = json!("/etc/canary");
        }),
        ("insecure-skip-tls-verify", |config| {
            config["clusters"][0]["cluster"]["insecure-skip-tls-verify"] = json!(true);
        }),
        ("proxy-url", |config| config["clusters"][0]["cluster"]["proxy-url"] = json!("http://canary")),
        ("as", |config| config["users"][0]["user"]["as"] = json!("canary")),
    ];
    for (field, spoil) in table {
        let mut config = good.clone();
        spoil(&mut config);
        let (status, refused) = add(&admin, "north", &config.to_string(), json!({})).await;
        let message = refused["error"]["message"].as_str().unwrap_or_default();
        assert!(status == 400 && message.contains(field), "{field}: {status} {refused}");
        assert!(!refused.to_string().contains("canary"), "{refused}");
    }
    for (what, body, code) in [
        ("no cluster", json!({ "name": "north", "kubeconfig": "nonsense" }), 400),
        ("a name that is none", json!({ "name": "No Name", "kubeconfig": good.to_string() }), 400),
        ("a field that is not known", json!({ "name": "north", "kubeconfig": good.to_string(), "canary": 1 }), 400),
        (
            "the cluster that is here already",
            json!({ "name": "again", "kubeconfig": collector(world.cluster).await.yaml() }),
            409,
        ),
    ] {
        let (status, refused) = admin.post("/v1/clusters", &body).await;
        assert_eq!(status, code, "{what}: {refused}");
    }
    assert_eq!(answer(admin.request("DELETE", "/v1/clusters/nowhere")).await.0, 404);
    assert_eq!(answer(admin.request("DELETE", "/v1/clusters/local")).await.0, 409);
    let log = world.server.process.log();
    let token = good["users"][0]["user"]["token"].as_str().unwrap();
    assert!(!log.contains(token), "a credential is in the log");
}

#[tokio::test]
async fn clusters_are_managed_by_those_who_may_and_others_see_those_that_they_are_in() {
    let world = world().await;
    let namespace = world.cluster.namespace("manage").await;
    let person = world.reader(&namespace, "jane", &[""], &["configmaps"]).await;
    let (status, refused) = person.post("/v1/clusters", &json!({ "name": "x", "kubeconfig": "y" })).await;
    assert!(
        status == 403 && refused["error"]["message"].as_str().unwrap().contains("create clusters.stateward.dev 'x'"),
        "{refused}"
    );
    assert_eq!(answer(person.request("DELETE", "/v1/clusters/local")).await.0, 403);
    let (status, list) = person.get("/v1/clusters").await;
    assert_eq!(status, 200);
    let clusters = list["clusters"].as_array().unwrap();
    assert_eq!(
        (clusters.len(), &clusters[0]["name"], &clusters[0]["withheld"]),
        (1, &json!("local"), &Value::Null),
        "{list}"
    );
    assert!(
        clusters[0].get("objects").is_none() && clusters[0].get("kinds").is_none(),
        "counts are for others: {list}"
    );
    let admin = world.admin().await;
    let (_, list) = admin.get("/v1/clusters").await;
    let local = &list["clusters"][0];
    assert!(local["objects"].as_u64().unwrap() > 0, "{list}");
    eventually(PATIENCE, || async {
        let (_, list) = admin.get("/v1/clusters").await;
        let kinds = list["clusters"][0]["kinds"].as_array().unwrap().clone();
        let synced = kinds.iter().filter(|kind| kind["state"] == "synced").count();
        if synced == 7 { Ok(()) } else { Err(list) }
    })
    .await;
}
