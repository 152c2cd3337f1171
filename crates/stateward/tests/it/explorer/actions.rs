//! Reconcile, suspend and resume, with the caller's own token: the cluster decides, and sees who it was.

use kube::api::{Api, ApiResource, DynamicObject};
use serde_json::{Value, json};
use testbed::{Scope, eventually, rule, subject};

use super::{Person, World, world};
use crate::server::PATIENCE;

const GROUP: &str = "kustomize.toolkit.fluxcd.io";

fn api(world: World, namespace: &str) -> Api<DynamicObject> {
    let resource = ApiResource {
        group: GROUP.to_owned(),
        version: "v1".to_owned(),
        api_version: format!("{GROUP}/v1"),
        kind: "Kustomization".to_owned(),
        plural: "kustomizations".to_owned(),
    };
    Api::namespaced_with(world.cluster.client(), namespace, &resource)
}

async fn start(what: &str) -> (World, String, Vec<String>) {
    let world = world().await;
    let namespace = world.cluster.namespace(what).await;
    for name in ["apps", "infra"] {
        let object = json!({
            "apiVersion": format!("{GROUP}/v1"), "kind": "Kustomization",
            "metadata": { "name": name, "namespace": namespace }, "spec": { "interval": "5m" },
        });
        world.cluster.apply(&object.to_string()).await;
    }
    let ids = ["apps", "infra"].map(|name| format!("local/{namespace}/{GROUP}/v1/Kustomization/{name}")).to_vec();
    (world, namespace, ids)
}

async fn somebody(world: World, namespace: &str, name: &str, verbs: &[&str]) -> Person {
    let person = world.nobody(namespace, name).await;
    let account = [subject::service_account(namespace, name)];
    world.cluster.grant(Scope::Namespace(namespace), &account, &[rule(verbs, &[GROUP], &["kustomizations"])]).await;
    person.sees(&format!("ns:{namespace} kind:ks"), &["apps", "infra"]).await;
    person
}

fn results(answer: &Value) -> Vec<(bool, String)> {
    let result =
        |result: &Value| (result["done"].as_bool().unwrap(), result["fault"].as_str().unwrap_or_default().to_owned());
    answer["results"].as_array().unwrap().iter().map(result).collect()
}

#[tokio::test]
async fn whoever_may_patch_can_act_and_the_cluster_knows_them_by_their_own_name() {
    let (world, namespace, ids) = start("act").await;
    let person = somebody(world, &namespace, "jane", &["list", "patch"]).await;
    for (action, suspended) in [("suspend", true), ("resume", false)] {
        let (status, answer) = person.post("/v1/actions", &json!({ "action": action, "ids": ids })).await;
        assert_eq!((status, results(&answer)), (200, vec![(true, String::new()); 2]), "{answer}");
        let object = api(world, &namespace).get("apps").await.unwrap();
        assert_eq!(object.data["spec"]["suspend"], suspended);
        let shown = format!("ns:{namespace} kind:ks status:Suspended");
        person.sees(&shown, if suspended { &["apps", "infra"] } else { &[] }).await;
    }
    let (_, answer) = person.post("/v1/actions", &json!({ "action": "reconcile", "ids": [ids[0]] })).await;
    assert_eq!(results(&answer), [(true, String::new())]);
    let object = api(world, &namespace).get("apps").await.unwrap();
    assert!(object.metadata.annotations.unwrap().contains_key("reconcile.fluxcd.io/requestedAt"));

    // By the audit log of the API server: every patch was hers.
    let user = format!("system:serviceaccount:{namespace}:jane");
    let verbs = world.cluster.verbs_used_by(&user).await;
    assert_eq!(verbs, ["patch kustomizations"]);
    // And by ours.
    let log = std::fs::read_dir(world.server.data.join("audit")).unwrap().filter_map(Result::ok);
    let lines: String = log.filter_map(|file| std::fs::read_to_string(file.path()).ok()).collect();
    let acts = lines.lines().filter(|line| line.contains(&ids[0]) && line.contains("\"act\"") && line.contains("done"));
    assert_eq!(acts.count(), 3, "{lines}");
    assert!(!lines.contains(&person.token), "a token is in the audit log");
}

#[tokio::test]
async fn whoever_may_not_patch_is_told_so_row_by_row_and_nothing_is_changed() {
    let (world, namespace, ids) = start("may-not").await;
    let person = somebody(world, &namespace, "jim", &["list", "get"]).await;
    let hidden = world.cluster.namespace("may-not-see").await;
    let ids = [ids, vec![format!("local/{hidden}/{GROUP}/v1/Kustomization/x"), "nonsense".to_owned()]].concat();
    let (status, answer) = person.post("/v1/actions", &json!({ "action": "suspend", "ids": ids })).await;
    assert_eq!(status, 200);
    let faults: Vec<String> = results(&answer).into_iter().map(|(done, fault)| format!("{done} {fault}")).collect();
    assert!(faults[0].contains("does not let you patch") && faults[1].contains("does not let you patch"), "{faults:?}");
    assert!(faults[2].contains("no such object") && faults[3].contains("no such object"), "{faults:?}");
    let object = api(world, &namespace).get("apps").await.unwrap();
    assert_eq!(object.data["spec"].get("suspend"), None);
    // Somebody may patch one of them by its name.
    let one = k8s_openapi::api::rbac::v1::PolicyRule {
        resource_names: Some(vec!["infra".to_owned()]),
        ..rule(&["patch"], &[GROUP], &["kustomizations"])
    };
    world.cluster.grant(Scope::Namespace(&namespace), &[subject::service_account(&namespace, "jim")], &[one]).await;
    let done = eventually(PATIENCE, || async {
        let (_, answer) = person.post("/v1/actions", &json!({ "action": "suspend", "ids": ids[..2] })).await;
        let done: Vec<bool> = results(&answer).into_iter().map(|(done, _)| done).collect();
        (done[1]).then_some(done)
    })
    .await;
    assert_eq!(done, [false, true]);
}

#[tokio::test]
async fn what_cannot_be_done_is_refused_before_anything_is_sent() {
    let (world, namespace, ids) = start("refused").await;
    let person = somebody(world, &namespace, "jane", &["list", "get", "patch"]).await;
    super::make_map(world.cluster, &namespace, "map", &[]).await;
    let account = [subject::service_account(&namespace, "jane")];
    let maps = [rule(&["list", "patch"], &[""], &["configmaps"])];
    world.cluster.grant(Scope::Namespace(&namespace), &account, &maps).await;
    person.sees(&super::own(&namespace), &["map"]).await;
    let map = format!("local/{namespace}//v1/ConfigMap/map");
    let (_, answer) = person.post("/v1/actions", &json!({ "action": "suspend", "ids": [map] })).await;
    assert_eq!(results(&answer), [(false, "objects of this kind cannot be told that".to_owned())]);
    for wrong in [
        json!({ "action": "delete", "ids": ids }),
        json!({ "action": "suspend", "ids": [] }),
        json!({ "action": "suspend" }),
        json!({ "ids": ids }),
        json!({ "action": "suspend", "ids": vec![ids[0].clone(); 101] }),
    ] {
        let (status, answer) = person.post("/v1/actions", &wrong).await;
        assert_eq!(status, 400, "{answer}");
    }
    // A certificate lets her see and leaves nothing to act with.
    let user = world.cluster.user("act-by-certificate", &[]);
    world
        .cluster
        .grant(Scope::Namespace(&namespace), &[subject::user("act-by-certificate")], &[rule(&["*"], &[GROUP], &["*"])])
        .await;
    let pair = testbed::certificates::Pair { certificate_pem: user.certificate_pem, key_pem: user.key_pem };
    let client = world.server.client_with(&pair);
    let request =
        world.server.request_by(&client, "POST", "/v1/actions").json(&json!({ "action": "suspend", "ids": ids }));
    let (status, text) = crate::server::answer(request).await;
    assert!(status == 409 && text.contains("nothing to act with"), "{status} {text}");
}
