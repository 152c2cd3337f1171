//! The hub beside a real cluster: RBAC decides what each account sees and does.

use serde_json::{Value, json};
use testbed::{AUDIENCE, Cluster, Scope, rule, subject};

use super::{CREATE, code, create, data};
use crate::compat::beside_cluster;
use crate::server::Server;

const GROUP: &str = "hub.stateward.dev";

/// What a rule of an account is about: verbs, resources, and maybe one name.
type Granted<'a> = (&'a [&'a str], &'a [&'a str], Option<&'a str>);

/// An account with these rules in a namespace, or everywhere.
async fn account(scope: Scope<'_>, home: &str, name: &str, rules: &[Granted<'_>]) -> String {
    let cluster = Cluster::shared().await;
    cluster.service_account(home, name).await;
    let rules = rules.iter().map(|(verbs, resources, only)| {
        let mut rule = rule(verbs, &[GROUP], resources);
        rule.resource_names = only.map(|name| vec![name.to_owned()]);
        rule
    });
    let rules: Vec<_> = rules.collect();
    cluster.grant(scope, &[subject::service_account(home, name)], &rules).await;
    cluster.token_request(home, name, &[AUDIENCE], 3600).await
}

async fn names(server: &Server, token: &str) -> Vec<String> {
    let listed = data(server, token, "{ typeInstances(filter: { typeRef: { path: \"cap.type.test\" } }) { name } }", json!({})).await;
    listed["typeInstances"].as_array().unwrap().iter().map(|item| item["name"].as_str().unwrap_or_default().to_owned()).collect()
}

#[tokio::test]
async fn accounts_see_and_do_what_rbac_grants() {
    let (server, _, namespace) = beside_cluster("hub", |start| start).await;
    let cluster = Cluster::shared().await;
    let other = cluster.namespace("hub-other").await;
    let all: &[&str] = &["get", "list", "watch", "create", "update", "delete", "force-unlock", "orphan"];
    let resources: &[&str] = &["typeinstances", "typeinstances/value", "typeinstances/lock", "storagebackends", "types", "journal"];
    let admin = account(Scope::Cluster, &namespace, "admin", &[(all, resources, None)]).await;
    let inside = create(&server, &admin, json!({ "name": format!("in-{namespace}"), "namespace": namespace, "value": 1 })).await;
    let outside = create(&server, &admin, json!({ "name": format!("in-{other}"), "namespace": other, "value": 2 })).await;
    let (in_name, out_name) = (format!("in-{namespace}"), format!("in-{other}"));

    let here = Scope::Namespace(&namespace);
    let metadata = account(Scope::Namespace(&namespace), &namespace, "metadata", &[(&["get", "list"], &["typeinstances"], None)]).await;
    let reader = account(here, &namespace, "reader", &[(&["get", "list"], &["typeinstances", "typeinstances/value"], None)]).await;
    let single = account(Scope::Namespace(&other), &namespace, "single", &[(&["get"], &["typeinstances", "typeinstances/value"], Some(&out_name))]).await;
    let nobody = account(Scope::Namespace(&namespace), &namespace, "nobody", &[]).await;
    let read = "query($id: ID!) { typeInstance(id: $id) { name latestResourceVersion { spec { value valueError } } } }";
    let count = "{ typeInstanceCount(filter: { typeRef: { path: \"cap.type.test\" } }) }";
    // Who, what they list, whether they get each of the records, and the value of the first that they get.
    for (who, token, listed, gets, value) in [
        ("admin", &admin, vec![in_name.as_str(), &out_name], [true, true], json!(1)),
        ("metadata", &metadata, vec![in_name.as_str()], [true, false], Value::Null),
        ("reader", &reader, vec![in_name.as_str()], [true, false], json!(1)),
        ("single", &single, vec![], [false, true], json!(2)),
        ("nobody", &nobody, vec![], [false, false], Value::Null),
    ] {
        let mut found = names(&server, token).await;
        found.retain(|name| *name == in_name || *name == out_name);
        found.sort_unstable();
        let mut expected = listed.clone();
        expected.sort_unstable();
        assert_eq!(found, expected, "{who}");
        assert_eq!(data(&server, token, count, json!({})).await["typeInstanceCount"], expected.len(), "{who}");
        let mut first = Value::Null;
        for (id, gets) in [&inside, &outside].into_iter().zip(gets) {
            let answer = data(&server, token, read, json!({ "id": id })).await["typeInstance"].clone();
            assert_eq!(!answer.is_null(), gets, "{who}: {answer}");
            if gets && first.is_null() {
                first = answer["latestResourceVersion"]["spec"]["value"].clone();
            }
        }
        assert_eq!(first, value, "{who}");
    }
    // By its name, who may get it finds it in a list, too.
    let by_name = "query($filter: TypeInstanceFilter) { typeInstances(filter: $filter) { id } }";
    let found = data(&server, &single, by_name, json!({ "filter": { "name": out_name } })).await;
    assert_eq!(found["typeInstances"], json!([{ "id": outside }]));

    let creator = account(Scope::Namespace(&namespace), &namespace, "creator", &[(&["get", "create", "update", "delete"], &["typeinstances"], None)]).await;
    let made = create(&server, &creator, json!({ "namespace": namespace })).await;
    let record = |namespace: &str, path: &str, attribute: Option<&str>| {
        let attributes: Vec<Value> = attribute.iter().map(|path| json!({ "path": path, "revision": "0.1.0" })).collect();
        json!({ "in": { "namespace": namespace, "typeRef": { "path": path, "revision": "0.1.0" }, "attributes": attributes, "value": { "url": "127.0.0.1:1", "acceptValue": true } } })
    };
    assert_eq!(code(&server, &creator, CREATE, record(&other, "cap.type.test", None)).await, "FORBIDDEN");
    assert_eq!(code(&server, &creator, CREATE, record(&namespace, "cap.core.type.hub.storage.x", None)).await, "FORBIDDEN");
    assert_eq!(code(&server, &creator, CREATE, record(&namespace, "cap.type.test", Some("cap.core.attribute.default"))).await, "FORBIDDEN");
    assert_eq!(code(&server, &admin, CREATE, record(&namespace, "cap.core.type.hub.storage.x", None)).await, "");
    let lock = "mutation($id: ID!) { lockTypeInstances(in: { ids: [$id], ownerID: \"me\" }) }";
    let delete = "mutation($id: ID!) { deleteTypeInstance(id: $id) }";
    assert_eq!(code(&server, &creator, lock, json!({ "id": made })).await, "FORBIDDEN");
    assert_eq!(code(&server, &creator, delete, json!({ "id": outside })).await, "NOT_FOUND");
    assert_eq!(code(&server, &metadata, delete, json!({ "id": made })).await, "FORBIDDEN");
    assert_eq!(code(&server, &creator, delete, json!({ "id": made })).await, "");
}
