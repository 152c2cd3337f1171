//! Why a row is seen, and who else sees it: held against what the API server itself answers.

use k8s_openapi::api::authorization::v1::{ResourceAttributes, SubjectAccessReviewSpec};
use k8s_openapi::api::rbac::v1::PolicyRule;
use serde_json::{Value, json};
use testbed::{Scope, rule, subject};

use super::crossing::User;
use super::{World, in_path, own, world};
use crate::server::{PATIENCE, answer};

/// What the API server says about one subject and one object.
async fn allowed(world: World, subject: &Value, verb: &str, namespace: &str, name: &str) -> bool {
    let text = |field: &str| subject[field].as_str().unwrap().to_owned();
    let (user, groups) = match subject["kind"].as_str().unwrap() {
        "Group" => ("somebody-in-it".to_owned(), vec![text("name")]),
        "ServiceAccount" => (format!("system:serviceaccount:{}:{}", text("namespace"), text("name")), vec![]),
        _ => (text("name"), vec![]),
    };
    let attributes = ResourceAttributes {
        verb: Some(verb.to_owned()),
        resource: Some("configmaps".to_owned()),
        namespace: Some(namespace.to_owned()),
        name: Some(name.to_owned()),
        ..ResourceAttributes::default()
    };
    let spec = SubjectAccessReviewSpec {
        user: Some(user),
        groups: Some(groups),
        resource_attributes: Some(attributes),
        ..SubjectAccessReviewSpec::default()
    };
    world.cluster.allows(spec).await
}

#[tokio::test]
async fn an_explanation_names_the_binding_and_the_rule_that_the_api_server_goes_by() {
    let world = world().await;
    let namespace = world.cluster.namespace("explain").await;
    world.maps(&namespace, &["one", "two"]).await;
    let person = world.nobody(&namespace, "jane").await;
    let account = [subject::service_account(&namespace, "jane")];
    let scope = Scope::Namespace(&namespace);
    let named = PolicyRule { resource_names: Some(vec!["two".to_owned()]), ..rule(&["get"], &[""], &["configmaps"]) };
    let rules = [rule(&["list"], &[""], &["secrets"]), rule(&["list"], &[""], &["configmaps"]), named];
    let grant = world.cluster.grant(scope, &account, &rules).await;
    person.sees(&own(&namespace), &["one", "two"]).await;
    let explain = |name: &'static str| {
        let (person, namespace) = (person.clone(), namespace.clone());
        async move {
            let id = in_path(&format!("local/{namespace}//v1/ConfigMap/{name}"));
            person.get(&format!("/v1/explain/{id}")).await
        }
    };
    let expected = |verb: &str, rule: u64| {
        json!({
            "verb": verb, "rule": rule,
            "subject": { "kind": "ServiceAccount", "namespace": namespace, "name": "jane" },
            "binding": { "kind": "RoleBinding", "namespace": namespace, "name": grant.binding },
            "role": { "kind": "Role", "namespace": namespace, "name": grant.role },
        })
    };
    let (status, one) = explain("one").await;
    assert_eq!((status, &one["reasons"]), (200, &json!([expected("list", 1)])), "{one}");
    assert_eq!(one["user"], format!("system:serviceaccount:{namespace}:jane"));
    assert!(one["groups"].as_array().unwrap().contains(&json!("system:authenticated")), "{one}");
    let (_, two) = explain("two").await;
    assert_eq!(two["reasons"], json!([expected("list", 1), expected("get", 2)]), "{two}");
    for (name, reasons) in [("one", &one["reasons"]), ("two", &two["reasons"])] {
        for verb in ["list", "get"] {
            let told = reasons.as_array().unwrap().iter().any(|reason| reason["verb"] == verb);
            let jane = json!({ "kind": "ServiceAccount", "namespace": namespace, "name": "jane" });
            assert_eq!(told, allowed(world, &jane, verb, &namespace, name).await, "{verb} {name}");
        }
    }
    // Without the binding neither is there anything to explain.
    world.cluster.remove_binding(&grant).await;
    person.sees(&own(&namespace), &[]).await;
    assert_eq!(explain("one").await.0, 404);
}

#[tokio::test]
async fn those_who_can_see_an_object_are_those_whom_the_api_server_allows() {
    let world = world().await;
    let namespace = world.cluster.namespace("who").await;
    world.maps(&namespace, &["one"]).await;
    let scope = Scope::Namespace(&namespace);
    let read = [rule(&["get"], &[""], &["configmaps"])];
    let subjects =
        [subject::user("who-user"), subject::group("who-group"), subject::service_account(&namespace, "who-account")];
    world.cluster.grant(scope, &subjects, &read).await;
    let elsewhere = world.cluster.namespace("who-else").await;
    world.cluster.grant(Scope::Namespace(&elsewhere), &[subject::user("not-here")], &read).await;
    world.cluster.grant(scope, &[subject::user("other-kind")], &[rule(&["get"], &[""], &["secrets"])]).await;
    let named = |name: &str| PolicyRule { resource_names: Some(vec![name.to_owned()]), ..read[0].clone() };
    world.cluster.grant(scope, &[subject::user("by-name")], &[named("one")]).await;
    world.cluster.grant(scope, &[subject::user("other-name")], &[named("two")]).await;
    let admin = world.admin().await;
    admin.sees(&own(&namespace), &["one"]).await;
    let people = [
        ("who-user", "User", true),
        ("who-group", "Group", true),
        ("who-account", "ServiceAccount", true),
        ("by-name", "User", true),
        ("not-here", "User", false),
        ("other-kind", "User", false),
        ("other-name", "User", false),
        ("system:masters", "Group", true),
    ];
    for (name, kind, expected) in people {
        let subject = json!({ "kind": kind, "namespace": namespace, "name": name });
        assert_eq!(allowed(world, &subject, "get", &namespace, "one").await, expected, "the API server: {name}");
    }
    let path = format!("/v1/who-can-see?object=ConfigMap/{namespace}/one");
    // Other tests grant and revoke for the whole cluster meanwhile: an answer counts when nothing changed since.
    testbed::eventually(PATIENCE, || async {
        let (status, told) = admin.get(&path).await;
        assert_eq!(status, 200, "{told}");
        let what = (&told["cluster"], &told["kind"], &told["name"]);
        assert_eq!(what, (&json!("local"), &json!("ConfigMap"), &json!("one")));
        let reasons = told["reasons"].as_array().unwrap();
        for reason in reasons {
            let verb = reason["verb"].as_str().unwrap();
            if !allowed(world, &reason["subject"], verb, &namespace, "one").await {
                return Err(format!("the API server does not let them: {reason}"));
            }
        }
        let is_told =
            |name: &str| reasons.iter().any(|reason| reason["verb"] == "get" && reason["subject"]["name"] == name);
        match people.iter().find(|(name, _, expected)| is_told(name) != *expected) {
            Some((name, ..)) => Err(format!("{name}: {reasons:?}")),
            None => Ok(()),
        }
    })
    .await;
    // An object that does not exist has those who could see it.
    let (status, _) = admin.get(&format!("/v1/who-can-see?object=cm/{namespace}/nothing&cluster=local")).await;
    assert_eq!(status, 200);
    assert_eq!(admin.get("/v1/who-can-see?object=ConfigMap/a/b&cluster=nowhere").await.0, 404);
    // Of an object that cannot exist nothing is told, but how one is named.
    assert_eq!(admin.get(&format!("/v1/who-can-see?object=Namespace/{namespace}")).await.0, 200);
    let table = [("cm/one".to_owned(), "KIND/NAMESPACE/NAME"), (format!("ns/{namespace}/{namespace}"), "KIND/NAME")];
    for (object, cure) in table {
        let (status, refused) = admin.get(&format!("/v1/who-can-see?object={object}")).await;
        assert_eq!(status, 400, "{object}: {refused}");
        assert!(refused["error"]["hint"].as_str().unwrap().contains(cure), "{object}: {refused}");
    }
}

#[tokio::test]
async fn only_those_who_may_read_rbac_are_told_who_can_see() {
    let world = world().await;
    let namespace = world.cluster.namespace("may-ask").await;
    let path = format!("/v1/who-can-see?object=ConfigMap/{namespace}/one");
    let person = world.reader(&namespace, "jane", &[""], &["configmaps"]).await;
    let (status, refused) = person.get(&path).await;
    assert_eq!(status, 403, "{refused}");
    assert!(refused["error"]["hint"].as_str().unwrap().contains("rolebindings"), "{refused}");
    let account = [subject::service_account(&namespace, "jane")];
    let group = ["rbac.authorization.k8s.io"];
    world
        .cluster
        .grant(Scope::Namespace(&namespace), &account, &[rule(&["list"], &group, &["roles", "rolebindings"])])
        .await;
    assert_eq!(person.get(&path).await.0, 403, "those of the cluster are missing");
    let wide = world
        .cluster
        .grant(Scope::Cluster, &account, &[rule(&["list"], &group, &["clusterroles", "clusterrolebindings"])])
        .await;
    testbed::eventually(PATIENCE, || async { person.get(&path).await.0 == 200 }).await;
    world.cluster.remove_binding(&wide).await;
    testbed::eventually(PATIENCE, || async { person.get(&path).await.0 == 403 }).await;
    assert_eq!(answer(world.server.request("GET", &path)).await.0, 401);
}

#[tokio::test]
async fn the_rules_of_the_group_that_needs_no_binding_begin_with_everything() {
    let world = world().await;
    let root = User::new(world, "root", &["system:masters"]);
    root.sees("kind:Namespace name:default", &["default"]).await;
    let told: Value = serde_json::from_str(&root.text("/v1/debug/access-rules").await).unwrap();
    let first = &told["rules"][0];
    let expected = json!({
        "cluster": "local", "namespace": "", "accessibleKinds": ["*/*"], "accessibleResourceNames": [], "verbs": ["*"],
        "subjects": [{ "kind": "Group", "namespace": "", "name": "system:masters" }],
        "providedByRole": null, "providedByBinding": null,
    });
    assert_eq!(first, &expected, "{told}");
    assert!(root.text("/explore/rules").await.contains("system:masters"));
}
