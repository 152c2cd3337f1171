//! RBAC in a real cluster: each verb of the access list, alone, on each kind of store, for every route.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::PostParams;
use serde_json::{Value, json};
use testbed::{AUDIENCE, Cluster, Scope, rule, subject};

use super::roles::Situation::{Deleted, Free, Locked, Missing};
use super::roles::{Request, prepare, request};
use crate::backend::EVERYTHING;
use crate::compat::beside_cluster;
use crate::server::Server;
use crate::states::User;

/// The group and resource that a store's states are kept in.
type Kept = (&'static str, &'static str);

const VIRTUAL: Kept = ("stateward.dev", "states");

/// What one account is granted, alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Grant {
    Get,
    List,
    Create,
    Update,
    Delete,
    Unlock,
    Outputs,
    SensitiveOutputs,
    /// Every verb, on the resource of another store.
    Elsewhere,
}

impl Grant {
    const ALL: [Grant; 9] = [
        Grant::Get,
        Grant::List,
        Grant::Create,
        Grant::Update,
        Grant::Delete,
        Grant::Unlock,
        Grant::Outputs,
        Grant::SensitiveOutputs,
        Grant::Elsewhere,
    ];

    /// The verb, group and resource of its rule.
    fn rule(self, (group, resource): Kept) -> (&'static [&'static str], &'static str, &'static str) {
        match self {
            Grant::Get => (&["get"], group, resource),
            Grant::List => (&["list"], group, resource),
            Grant::Create => (&["create"], group, resource),
            Grant::Update => (&["update"], group, resource),
            Grant::Delete => (&["delete"], group, resource),
            Grant::Unlock => (&["unlock"], "stateward.dev", "states"),
            Grant::Outputs => (&["get"], "stateward.dev", "states/outputs"),
            Grant::SensitiveOutputs => (&["get"], "stateward.dev", "states/sensitive-outputs"),
            Grant::Elsewhere if (group, resource) == VIRTUAL => (EVERYTHING, "", "configmaps"),
            Grant::Elsewhere => (EVERYTHING, "stateward.dev", "states"),
        }
    }
}

const INFO: &str = r#"{"ID":"held"}"#;
const A_STATE: &str = "{\"version\": 4, \"serial\": 3}";

/// Every route with the one grant that it needs; the first part is the prefix of the path.
fn table() -> Vec<(&'static str, Request, Grant)> {
    use Grant::{Create, Delete, Get, Outputs, Unlock, Update};
    let (client, manage) = ("/state", "/api/states");
    vec![
        (client, request("GET", "", "", Free), Get),
        (client, request("POST", "", A_STATE, Free), Update),
        (client, request("POST", "", A_STATE, Missing), Create),
        (client, request("LOCK", "", INFO, Free), Update),
        (client, request("LOCK", "", INFO, Missing), Create),
        (client, request("UNLOCK", "", INFO, Free), Update),
        (client, request("UNLOCK", "", INFO, Locked), Unlock),
        (client, request("UNLOCK", "", "", Locked), Unlock),
        (client, request("DELETE", "", "", Free), Delete),
        (client, request("GET", "/outputs", "", Free), Outputs),
        (manage, request("GET", "", "", Free), Get),
        (manage, request("DELETE", "", "", Free), Delete),
        (manage, request("POST", "/restore", "", Deleted), Update),
        (manage, request("GET", "/versions", "", Free), Get),
        (manage, request("GET", "/versions/1/raw", "", Free), Get),
        (manage, request("GET", "/raw", "", Free), Get),
        (manage, request("PUT", "/raw", A_STATE, Free), Update),
        (manage, request("PUT", "/raw", A_STATE, Missing), Create),
        (manage, request("GET", "/diff", "", Free), Get),
        (manage, request("POST", "/rollback", "{\"version\": 1}", Free), Update),
        (manage, request("GET", "/outputs", "", Free), Outputs),
        (manage, request("GET", "/resources", "", Free), Get),
        (manage, request("PUT", "/lock", "{\"reason\": \"r\"}", Free), Update),
        (manage, request("PUT", "/lock", "{\"reason\": \"r\"}", Missing), Create),
        (manage, request("DELETE", "/lock?ID=held", "", Free), Update),
        (manage, request("DELETE", "/lock?ID=held", "", Locked), Unlock),
        (manage, request("DELETE", "/lock?force=true", "", Locked), Unlock),
        (manage, request("POST", "/moved", "{\"to\": \"x\", \"lock_id\": \"held\"}", Locked), Update),
    ]
}

/// An account with these rules in a namespace.
async fn account<'a>(server: &'a Server, namespace: &str, name: &str, rules: &[(&[&str], &str, &str)]) -> User<'a> {
    let cluster = Cluster::shared().await;
    cluster.service_account(namespace, name).await;
    let rules: Vec<_> = rules.iter().map(|(verbs, group, resource)| rule(verbs, &[group], &[resource])).collect();
    cluster.grant(Scope::Namespace(namespace), &[subject::service_account(namespace, name)], &rules).await;
    User { server, token: cluster.token_request(namespace, name, &[AUDIENCE], 3600).await }
}

#[tokio::test]
async fn each_verb_alone_opens_its_own_routes_and_no_other_on_every_store() {
    let cluster = Cluster::shared().await;
    let routes = "acm-*=configmap,asec-*=secret";
    let (server, _, _) = beside_cluster("rbac", |start| start.flag("--states-routes", routes)).await;
    for (prefix, kept) in [("acm", ("", "configmaps")), ("asec", ("", "secrets")), ("avirtual", VIRTUAL)] {
        let namespace = cluster.namespace(prefix).await;
        let all = [(EVERYTHING, kept.0, kept.1), (&["unlock"] as &[&str], "stateward.dev", "states")];
        let full = account(&server, &namespace, "full", &all).await;
        let mut accounts = Vec::new();
        for (number, grant) in Grant::ALL.into_iter().enumerate() {
            let user = account(&server, &namespace, &format!("only-{number}"), &[grant.rule(kept)]).await;
            accounts.push((grant, user));
        }
        for (row, (start, Request { method, rest, body, situation }, needed)) in table().into_iter().enumerate() {
            let name = format!("s-{row}");
            prepare(&full, &namespace, &name, situation).await;
            let path = format!("{start}/{namespace}/{name}{rest}");
            // An UNLOCK that ends nothing may be one that is sent again, by whoever broke the lock, too.
            let repeats = situation == Free && (method == "UNLOCK" || rest == "/lock?ID=held");
            let enough = |grant: Grant| grant == needed || (repeats && grant == Grant::Unlock);
            // Those who may not come first: they leave the state as it is.
            accounts.sort_by_key(|(grant, _)| enough(*grant));
            for (grant, user) in &accounts {
                let (status, text) = user.send(method, &path, body).await;
                let expected = if enough(*grant) { 200 } else { 403 };
                assert_eq!(status, expected, "{kept:?} {grant:?}: {method} {start}{rest} {situation:?}: {text}");
                assert!(expected == 200 || text.contains("may not"), "{text}");
            }
        }
        lists(&server, &namespace, &accounts).await;
        sensitive(&server, &namespace, &full).await;
    }
}

/// Lists and counts, with and without a namespace.
async fn lists(server: &Server, namespace: &str, accounts: &[(Grant, User<'_>)]) {
    for (grant, user) in accounts {
        for path in ["/api/states", "/api/states/locks"] {
            let named = format!("{path}?namespace={namespace}");
            if *grant == Grant::List {
                for path in [path, &named] {
                    let list = user.json(200, "GET", path, "").await;
                    let items = list["items"].as_array().unwrap();
                    assert!(
                        !items.is_empty() && items.iter().all(|item| item["namespace"] == namespace),
                        "{path}: {list}"
                    );
                    assert!(list["total"].is_null() || list["total"] == items.len(), "{path}: {list}");
                }
            } else {
                let list = user.json(200, "GET", path, "").await;
                assert_eq!((&list["items"], list["total"].as_u64().unwrap_or(0)), (&json!([]), 0), "{grant:?} {path}");
                // Whoever may list another kind of thing there is told nothing, or nothing of these.
                let (status, text) = user.send("GET", &named, "").await;
                assert_eq!(status, 403, "{grant:?} {named}: {text}");
            }
        }
    }
    let (status, _) = crate::server::answer(server.request("GET", "/api/states")).await;
    assert_eq!(status, 401);
}

/// The values of sensitive outputs need both permissions; the first alone shows the others.
async fn sensitive(server: &Server, namespace: &str, full: &User<'_>) {
    prepare(full, namespace, "secrets", Free).await;
    let (get, group): (&[&str], _) = (&["get"], "stateward.dev");
    let one = [(get, group, "states/outputs")];
    let both = [(get, group, "states/outputs"), (get, group, "states/sensitive-outputs")];
    for (name, rules, shown) in [("some", &one[..], false), ("both", &both[..], true)] {
        let user = account(server, namespace, name, rules).await;
        let list = user.json(200, "GET", &format!("/api/states/{namespace}/secrets/outputs"), "").await;
        let value = if shown { json!("secret-x") } else { Value::Null };
        assert_eq!((&list["items"][0]["value"], &list["items"][1]["value"]), (&json!("open-x"), &value), "{name}");
        let document = user.json(200, "GET", &format!("/state/{namespace}/secrets/outputs"), "").await;
        assert_eq!(document["outputs"]["secret"].is_object(), shown, "{document}");
        assert_eq!(user.does("GET", &format!("/state/{namespace}/secrets"), "").await, 403, "not the state itself");
    }
}

#[tokio::test]
async fn a_head_that_is_not_understood_does_not_hide_the_others() {
    let (server, token, namespace) =
        beside_cluster("damaged", |start| start.flag("--states-routes", "*=configmap")).await;
    let full = User { server: &server, token };
    prepare(&full, &namespace, "good", Locked).await;
    let newer = json!({"file": null, "lock": null, "head": "{\"format\": 99}"}).to_string();
    let map: ConfigMap = serde_json::from_value(json!({
        "metadata": {
            "name": "bad",
            "labels": {"stateward.dev/state-role": "head"},
            "annotations": {"stateward.dev/state-head": newer},
        },
    }))
    .unwrap();
    let maps: Api<ConfigMap> = Api::namespaced(Cluster::shared().await.client(), &namespace);
    maps.create(&PostParams::default(), &map).await.unwrap();
    let list = full.json(200, "GET", &format!("/api/states?namespace={namespace}"), "").await;
    let row = |number: usize| (&list["items"][number]["name"], &list["items"][number]["damaged"]);
    assert_eq!((row(0), row(1)), ((&json!("bad"), &json!(true)), (&json!("good"), &Value::Null)), "{list}");
    let locks = full.json(200, "GET", &format!("/api/states/locks?namespace={namespace}"), "").await;
    assert_eq!(locks["items"].as_array().unwrap().len(), 1, "{locks}");
    assert_eq!(full.does("GET", &format!("/api/states/{namespace}/bad"), "").await, 500);
}
