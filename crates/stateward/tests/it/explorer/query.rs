//! The query API answers as the original's does, with what was added to it, and says where a question is wrong.

use serde_json::{Value, json};
use testbed::eventually;

use super::{Person, facet, in_path, make_map, names, own, world};
use crate::server::PATIENCE;

/// A namespace with some objects, and somebody who sees them.
async fn start(what: &str) -> (Person, String) {
    let world = world().await;
    let namespace = world.cluster.namespace(what).await;
    let person =
        world.reader(&namespace, "jane", &["", "helm.toolkit.fluxcd.io"], &["configmaps", "helmreleases"]).await;
    for (name, text) in [("alpha", "first"), ("beta", "second"), ("gamma", "third")] {
        make_map(world.cluster, &namespace, name, &[("text", text)]).await;
    }
    let release = json!({
        "apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease",
        "metadata": { "name": "podinfo", "namespace": namespace, "labels": { "app": "podinfo" } },
        "spec": { "interval": "5m", "chart": { "spec": { "chart": "podinfo" } } },
        "status": { "conditions": [
            { "type": "Ready", "status": "False", "reason": "InstallFailed", "message": "install retries exhausted" },
        ] },
    });
    world.cluster.apply(&release.to_string()).await;
    person.sees(&format!("ns:\"{namespace}\" -name:kube-root-ca.crt"), &["alpha", "beta", "gamma", "podinfo"]).await;
    (person, namespace)
}

#[tokio::test]
async fn rows_have_the_fields_of_the_original_and_bodies_for_those_who_may_get() {
    let (person, namespace) = start("fields").await;
    // As the original's client sends it.
    let request =
        json!({ "terms": "", "filters": [format!("+namespace:{namespace}"), "+kind:HelmRelease"], "limit": 25 });
    let answer = person.ask(request).await;
    let [object] = answer["objects"].as_array().unwrap().as_slice() else { panic!("{answer}") };
    let expected = json!({
        "cluster": "local", "namespace": namespace, "kind": "HelmRelease", "name": "podinfo", "status": "Failed",
        "apiGroup": "helm.toolkit.fluxcd.io", "apiVersion": "v2", "message": "install retries exhausted",
        "category": "automation", "id": format!("local/{namespace}/helm.toolkit.fluxcd.io/v2/HelmRelease/podinfo"),
        "tenant": "", "labels": { "app": "podinfo" },
    });
    for (field, value) in expected.as_object().unwrap() {
        assert_eq!(object[field], *value, "{field}");
    }
    let body: Value = serde_json::from_str(object["unstructured"].as_str().unwrap()).unwrap();
    assert_eq!(body["spec"]["interval"], "5m");
    assert_eq!((&answer["total"], &answer["cursor"], &answer["truncated"]), (&json!(1), &Value::Null, &json!(false)));
    let without = person.ask(json!({ "query": "kind:HelmRelease", "unstructured": false })).await;
    assert!(without["objects"][0].get("unstructured").is_none(), "{without}");
}

#[tokio::test]
async fn terms_filters_order_offset_limit_and_cursor_do_what_they_say() {
    let (person, namespace) = start("semantics").await;
    let here = own(&namespace);
    let ordered = |answer: &Value| -> Vec<String> {
        let objects = answer["objects"].as_array().unwrap();
        objects.iter().map(|object| object["name"].as_str().unwrap().to_owned()).collect()
    };
    let table: Vec<(Value, Vec<&str>)> = vec![
        (json!({ "query": here }), vec!["alpha", "beta", "gamma"]),
        (json!({ "query": here, "descending": true }), vec!["gamma", "beta", "alpha"]),
        (json!({ "query": here, "limit": 2 }), vec!["alpha", "beta"]),
        (json!({ "query": here, "limit": 2, "offset": 2 }), vec!["gamma"]),
        (json!({ "query": here, "offset": 9 }), vec![]),
        // All: as many as the server gives at once.
        (json!({ "query": here, "limit": 0 }), vec!["alpha", "beta", "gamma"]),
        (json!({ "query": here, "orderBy": "created", "descending": false }), vec!["alpha", "beta", "gamma"]),
        (json!({ "query": here, "terms": "second" }), vec!["beta"]),
        (json!({ "terms": "first", "filters": [format!("+namespace:{namespace}")] }), vec!["alpha"]),
        (json!({ "filters": [format!("+namespace:{namespace}"), "+name:/(alpha|gamma)/"] }), vec!["alpha", "gamma"]),
        (json!({ "query": format!("{here} name:*a -name:beta") }), vec!["alpha", "gamma"]),
        (json!({ "query": format!("{here} Object.data.text:third") }), vec!["gamma"]),
        (json!({ "query": format!("ns:{namespace} status:Failed podinfo") }), vec!["podinfo"]),
        (json!({ "query": format!("ns:{namespace} label.app=podinfo") }), vec!["podinfo"]),
        (json!({ "query": format!("ns:{namespace} kind:hr") }), vec!["podinfo"]),
    ];
    for (request, expected) in table {
        assert_eq!(ordered(&person.ask(request.clone()).await), expected, "{request}");
    }
    let first = person.ask(json!({ "query": here, "limit": 2 })).await;
    assert_eq!(first["total"], 3);
    let next = person.ask(json!({ "query": here, "limit": 2, "cursor": first["cursor"] })).await;
    assert_eq!((ordered(&next), &next["cursor"], &next["total"]), (vec!["gamma".to_owned()], &Value::Null, &json!(3)));
}

#[tokio::test]
async fn a_question_that_is_wrong_is_told_where() {
    let (person, _) = start("wrong").await;
    let table = [
        (json!({ "query": "kind:Pod status:no" }), "query at character 17: there is no such status"),
        (json!({ "query": "colour:red" }), "query at character 1: there is no field 'colour'"),
        (json!({ "query": "a -" }), "query at character 3: nothing follows '-'"),
        (json!({ "filters": ["kind:a", "status:no"] }), "filters[1] at character 8: there is no such status"),
        (json!({ "orderBy": "size" }), "orderBy: rows cannot be ordered by that"),
        (json!({ "limit": -1 }), "limit: it is below 0"),
        (json!({ "offset": -1 }), "offset: it is below 0"),
        (json!({ "cursor": "x" }), "cursor: it is not a cursor"),
        (json!({ "limit": "many" }), "the body is no question: a fault at line 1 column 15"),
        (json!({ "colour": "canary-in-a-field" }), "the body is no question: a fault at line 1 column"),
        (json!(["query"]), "the body is no question"),
    ];
    for (request, expected) in table {
        let (status, answer) = person.post("/v1/query", &request).await;
        let message = answer["error"]["message"].as_str().unwrap_or_default();
        assert!(status == 400 && message.starts_with(expected), "{request}: {status} {answer}");
        assert!(!answer["error"]["hint"].as_str().unwrap().is_empty(), "{answer}");
        assert!(!answer.to_string().contains("canary"), "{answer}");
    }
    for path in [
        "/v1/facets?query=a%20-",
        "/v1/facets?colour=red",
        "/v1/suggest",
        "/v1/suggest?field=message",
        "/v1/suggest?field=kind&limit=0",
        "/v1/changes?query=status:no",
        "/v1/who-can-see",
        "/v1/who-can-see?object=ConfigMap",
        "/v1/who-can-see?object=Unheard/a/b",
    ] {
        let (status, answer) = person.get(path).await;
        assert_eq!(status, 400, "{path}: {answer}");
    }
    let (status, _) = person.post("/v1/query", &json!({ "query": "x".repeat(2 << 20) })).await;
    assert_eq!(status, 413);
    let stranger = Person { token: "garbage".to_owned(), ..person };
    for path in ["/v1/facets", "/v1/clusters", "/v1/changes", "/v1/openapi.json"] {
        assert_eq!(stranger.get(path).await.0, 401, "{path}");
    }
}

#[tokio::test]
async fn facets_suggestions_components_and_rules_are_those_of_the_caller() {
    let (person, namespace) = start("facets").await;
    let (_, all) = person.get("/v1/facets").await;
    assert_eq!(facet(&all, "namespace").into_keys().collect::<Vec<_>>(), std::slice::from_ref(&namespace));
    assert_eq!(facet(&all, "cluster").into_keys().collect::<Vec<_>>(), ["local"]);
    let (_, automation) = person.get("/v1/facets?category=automation").await;
    assert_eq!(facet(&automation, "kind").into_iter().collect::<Vec<_>>(), [("HelmRelease".to_owned(), 1)]);
    assert!(automation["humanReadableLabels"].is_object());

    let (_, suggested) = person.get("/v1/suggest?field=kind&prefix=hel").await;
    assert_eq!(suggested["values"], json!([{ "value": "HelmRelease", "count": 1 }]));
    let (_, suggested) = person.get("/v1/suggest?field=name&prefix=al").await;
    assert_eq!(suggested["values"], json!([{ "value": "alpha", "count": 1 }]));
    let (_, suggested) = person.get("/v1/suggest?field=label").await;
    assert_eq!(suggested["values"], json!([{ "value": "app", "count": 1 }]));

    let (_, components) = person.get("/v1/enabled-components").await;
    assert_eq!(components["components"], json!(["applications", "sources"]));

    let (_, rules) = person.get("/v1/debug/access-rules").await;
    let rules = rules["rules"].as_array().unwrap();
    let own: Vec<_> = rules.iter().filter(|rule| rule["namespace"] == namespace.as_str()).collect();
    assert_eq!(own.len(), 1, "{rules:?}");
    assert_eq!(own[0]["cluster"], "local");
    assert!(own[0]["accessibleKinds"].as_array().unwrap().contains(&json!("helm.toolkit.fluxcd.io/helmreleases")));
    assert_eq!(own[0]["subjects"][0]["name"], "jane");
}

#[tokio::test]
async fn an_object_has_a_body_events_and_relations_as_far_as_the_caller_sees_them() {
    let (person, namespace) = start("object").await;
    let world = world().await;
    let id = format!("local/{namespace}/helm.toolkit.fluxcd.io/v2/HelmRelease/podinfo");
    let (status, object) = person.get(&format!("/v1/objects/{}", in_path(&id))).await;
    assert_eq!((status, &object["body"]["spec"]["interval"]), (200, &json!("5m")), "{object}");
    assert!(object["body"]["metadata"].get("managedFields").is_none(), "{object}");

    // A thing that belongs to the release, waits for another and takes its content from a third.
    let set = |kind: &str, group: &str, version: &str, name: &str, more: Value| {
        let mut object = json!({
            "apiVersion": format!("{group}/{version}"), "kind": kind, "metadata": { "name": name, "namespace": namespace },
        });
        for (field, value) in more.as_object().unwrap() {
            match field.as_str() {
                "metadata" => {
                    for (key, value) in value.as_object().unwrap() {
                        object["metadata"][key] = value.clone();
                    }
                }
                _ => object[field] = value.clone(),
            }
        }
        object.to_string()
    };
    let kustomize = ("Kustomization", "kustomize.toolkit.fluxcd.io", "v1");
    world.cluster.apply(&set("GitRepository", "source.toolkit.fluxcd.io", "v1", "repo", json!({ "spec": {} }))).await;
    world.cluster.apply(&set(kustomize.0, kustomize.1, kustomize.2, "base", json!({ "spec": {} }))).await;
    let owner = json!([{ "apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease", "name": "podinfo", "uid": object["uid"] }]);
    let apps = json!({
        "metadata": { "ownerReferences": owner },
        "spec": { "sourceRef": { "kind": "GitRepository", "name": "repo" }, "dependsOn": [{ "name": "base" }] },
        "status": { "inventory": { "entries": [{ "id": format!("{namespace}_alpha__ConfigMap"), "v": "v1" }] } },
    });
    world.cluster.apply(&set(kustomize.0, kustomize.1, kustomize.2, "apps", apps)).await;
    let event = json!({
        "apiVersion": "v1", "kind": "Event", "metadata": { "name": "told", "namespace": namespace },
        "involvedObject": { "apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization", "name": "apps", "namespace": namespace },
        "type": "Warning", "reason": "Failed", "message": "the build failed",
    });
    world.cluster.apply(&event.to_string()).await;

    let flux = ["kustomize.toolkit.fluxcd.io", "source.toolkit.fluxcd.io"];
    let account = [testbed::subject::service_account(&namespace, "jane")];
    let scope = testbed::Scope::Namespace(&namespace);
    let kustomizations = testbed::rule(&["get", "list"], &flux, &["kustomizations"]);
    world.cluster.grant(scope, &account, &[kustomizations]).await;
    let path = format!(
        "/v1/objects/{}",
        in_path(&format!("local/{namespace}/kustomize.toolkit.fluxcd.io/v1/Kustomization/apps"))
    );
    eventually(PATIENCE, || async { person.get(&path).await.0 == 200 }).await;
    let related = |list: &'static str| {
        let (person, path) = (person.clone(), path.clone());
        async move {
            let (_, related) = person.get(&format!("{path}/related")).await;
            names(&json!({ "objects": related[list] }))
        }
    };
    assert_eq!(related("owners").await, ["podinfo"]);
    assert_eq!(related("dependsOn").await, ["base"]);
    assert_eq!(related("inventory").await, ["alpha"]);
    assert_eq!(related("sources").await, [""; 0], "what she may not see is not told");
    assert_eq!(person.get(&format!("{path}/events")).await.1["objects"], json!([]));

    let more = [
        testbed::rule(&["list"], &["source.toolkit.fluxcd.io"], &["gitrepositories"]),
        testbed::rule(&["get", "list"], &[""], &["events"]),
    ];
    world.cluster.grant(scope, &account, &more).await;
    eventually(PATIENCE, || async { related("sources").await == ["repo"] }).await;
    eventually(PATIENCE, || async {
        let (_, events) = person.get(&format!("{path}/events")).await;
        let told = &events["objects"][0];
        if told["message"] == "the build failed" && told["status"] == "Failed" { Ok(()) } else { Err(events) }
    })
    .await;

    // Without `get` there is the row and nothing else; without anything, nothing at all.
    let lister = world.nobody(&namespace, "lister").await;
    let path = format!("/v1/objects/{}", in_path(&id));
    assert_eq!(lister.get(&path).await.0, 404);
    let account = [testbed::subject::service_account(&namespace, "lister")];
    let rules = [testbed::rule(&["list"], &["helm.toolkit.fluxcd.io"], &["helmreleases"])];
    world.cluster.grant(scope, &account, &rules).await;
    let object = eventually(PATIENCE, || async {
        let (status, object) = lister.get(&path).await;
        (status == 200).then_some(object)
    })
    .await;
    assert_eq!((&object["name"], &object["body"]), (&json!("podinfo"), &Value::Null));
    for id in ["nonsense", "local/a/b/c/D/e", "%2F%2F%2F%2F%2F"] {
        assert_eq!(person.get(&format!("/v1/objects/{id}")).await.0, 404, "{id}");
    }
}

#[tokio::test]
async fn the_document_describes_every_route_and_is_the_one_that_is_committed() {
    let (person, _) = start("openapi").await;
    let (status, document) = person.get("/v1/openapi.json").await;
    assert_eq!(status, 200);
    let committed =
        std::fs::read_to_string(crate::run::repository().join("docs/reference/explorer-openapi.json")).unwrap();
    assert_eq!(document, serde_json::from_str::<Value>(&committed).unwrap(), "run `cargo xtask generate`");
    for (template, path) in document["paths"].as_object().unwrap() {
        let place = template.replace("{id}", "a%2Fb%2Fc%2Fd%2Fe%2Ff").replace("{name}", "nowhere");
        let response = person.request("BREW", &place).send().await.unwrap();
        assert_eq!(response.status().as_u16(), 405, "{template}");
        let allowed = response.headers()["allow"].to_str().unwrap().to_owned();
        let mut methods: Vec<String> = allowed.split(',').map(|method| method.trim().to_lowercase()).collect();
        methods.retain(|method| method != "head");
        methods.sort();
        let mut described: Vec<&String> = path.as_object().unwrap().keys().filter(|key| *key != "parameters").collect();
        described.sort();
        assert_eq!(methods.iter().collect::<Vec<_>>(), described, "{template}");
    }
}
