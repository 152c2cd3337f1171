//! Storage backends as callers meet them.

use serde_json::{Value, json};

use super::ids;
use crate::front::{CREATE, Front, Person, file_backend};
use crate::place::{Place, on_both};

on_both!(
    backends_are_listed_with_their_health,
    a_dead_backend_hides_its_own_values_only,
    a_lock_is_asked_of_the_backend,
    a_record_can_go_without_its_backend,
    hostile_schemas_and_contexts_are_refused,
    a_context_alone_is_for_the_backend_that_the_hub_chooses,
);

/// Registers a backend under a name; its id.
pub(crate) async fn register(admin: &Person<'_>, name: &str, value: Value) -> String {
    admin.create(json!({ "name": name, "typeRef": { "path": "cap.core.type.hub.storage.file", "revision": "0.1.0" }, "value": value })).await
}

const BACKENDS: &str =
    "{ storageBackends { id name url acceptValue contextSchema default typeInstanceCount typeRef { path }
    health { status message } typeInstance { id } } }";

async fn backends_are_listed_with_their_health(place: Place) {
    let address = file_backend(&place).await;
    let front = Front::open(place).await;
    let admin = front.admin().await;
    let good =
        register(&admin, "good", json!({ "url": address, "acceptValue": true, "contextSchema": { "type": "object" } }))
            .await;
    let dead = register(&admin, "dead", json!({ "url": "127.0.0.1:1", "acceptValue": true })).await;
    admin.create(json!({ "backend": "good", "value": { "a": 1 } })).await;
    let listed = admin.data(BACKENDS, json!({})).await["storageBackends"].clone();
    let found = |name: &str| listed.as_array().unwrap().iter().find(|backend| backend["name"] == name).unwrap().clone();
    let expected = json!({
        "id": good, "name": "good", "url": address, "acceptValue": true, "contextSchema": { "type": "object" }, "default": false,
        "typeInstanceCount": 1, "typeRef": { "path": "cap.core.type.hub.storage.file" },
        "health": { "status": "READY", "message": null }, "typeInstance": { "id": good },
    });
    assert_eq!(found("good"), expected);
    assert_eq!((&found("dead")["id"], &found("dead")["health"]["status"]), (&json!(dead), &json!("FAILING")));
    assert!(found("dead")["health"]["message"].is_string());
    assert_eq!((&found("builtin")["default"], &found("builtin")["url"]), (&json!(true), &Value::Null));
    let one = admin
        .data("{ storageBackend(id: \"good\") { id } none: storageBackend(id: \"nobody\") { id } }", json!({}))
        .await;
    assert_eq!(one, json!({ "storageBackend": { "id": good }, "none": null }));
    let update = "mutation($in: [UpdateTypeInstancesInput]!) { updateTypeInstances(in: $in) { id } }";
    let marked = json!([{ "path": "cap.core.attribute.default", "revision": "0.1.0" }]);
    admin.data(update, json!({ "in": [{ "id": good, "typeInstance": { "attributes": marked } }] })).await;
    assert_eq!(
        admin.data("{ storageBackend(id: \"good\") { default } }", json!({})).await["storageBackend"]["default"],
        true
    );
    let id = admin.create(json!({ "value": "kept outside" })).await;
    let query = "query($id: ID!) { typeInstance(id: $id) { backend { id abstract } latestResourceVersion { spec { value } } uses { id } } }";
    let kept = admin.data(query, json!({ "id": id })).await["typeInstance"].clone();
    assert_eq!(
        kept,
        json!({
            "backend": { "id": good, "abstract": false }, "latestResourceVersion": { "spec": { "value": "kept outside" } }, "uses": [{ "id": good }],
        })
    );
    assert_eq!(
        admin.data("{ journal { id operation backend typeInstances startedAt attempts error } }", json!({})).await["journal"],
        json!([])
    );
}

async fn a_dead_backend_hides_its_own_values_only(place: Place) {
    let address = file_backend(&place).await;
    let front = Front::open(place).await;
    let admin = front.admin().await;
    let backend = register(&admin, "moving", json!({ "url": address, "acceptValue": true })).await;
    let outside = admin.create(json!({ "backend": "moving", "value": 1 })).await;
    let inside = admin.create(json!({ "value": 2 })).await;
    let update = "mutation($in: [UpdateTypeInstancesInput]!) { updateTypeInstances(in: $in) { id } }";
    // What its record says counts at once.
    let away = json!({ "url": "127.0.0.1:1", "acceptValue": true });
    admin.data(update, json!({ "in": [{ "id": backend, "typeInstance": { "value": away } }] })).await;
    let query = "{ typeInstances(filter: { typeRef: { path: \"cap.type.test\" } }) { id latestResourceVersion { spec { value valueError } } } }";
    let listed = admin.data(query, json!({})).await["typeInstances"].clone();
    let spec = |id: &str| {
        let found = listed.as_array().unwrap().iter().find(|record| record["id"] == id);
        found.unwrap()["latestResourceVersion"]["spec"].clone()
    };
    assert_eq!(spec(&inside), json!({ "value": 2, "valueError": null }));
    let told = spec(&outside);
    assert!(told["value"].is_null() && told["valueError"].as_str().unwrap().contains("UNAVAILABLE"), "{told}");
}

async fn a_lock_is_asked_of_the_backend(place: Place) {
    let address = file_backend(&place).await;
    let front = Front::open(place).await;
    let admin = front.admin().await;
    let backend = register(&admin, "locking", json!({ "url": address, "acceptValue": true })).await;
    let id = admin.create(json!({ "backend": "locking", "value": 1 })).await;
    admin
        .data(
            "mutation($in: LockTypeInstancesInput!) { lockTypeInstances(in: $in) }",
            json!({ "in": { "ids": [id], "ownerID": "me" } }),
        )
        .await;
    let query = "query($id: ID!) { typeInstance(id: $id) { lockedBy hub: lockedBy(source: HUB) lockError } }";
    let held = admin.data(query, json!({ "id": id })).await["typeInstance"].clone();
    assert_eq!(held, json!({ "lockedBy": "me", "hub": "me", "lockError": null }));
    let update = "mutation($in: [UpdateTypeInstancesInput]!) { updateTypeInstances(in: $in) { id } }";
    let away = json!({ "url": "127.0.0.1:1", "acceptValue": true });
    admin.data(update, json!({ "in": [{ "id": backend, "typeInstance": { "value": away } }] })).await;
    let held = admin.data(query, json!({ "id": id })).await["typeInstance"].clone();
    assert_eq!((&held["lockedBy"], &held["hub"]), (&json!("me"), &json!("me")), "what the hub knows");
    assert!(held["lockError"].is_string(), "{held}");
}

async fn a_record_can_go_without_its_backend(place: Place) {
    let address = file_backend(&place).await;
    let front = Front::open(place).await;
    let (admin, editor) = (front.admin().await, front.person(&["editor@*"]).await);
    let backend = register(&admin, "ending", json!({ "url": address, "acceptValue": true })).await;
    let id = admin.create(json!({ "backend": "ending", "value": 1 })).await;
    let update = "mutation($in: [UpdateTypeInstancesInput]!) { updateTypeInstances(in: $in) { id } }";
    let away = json!({ "url": "127.0.0.1:1", "acceptValue": true });
    admin.data(update, json!({ "in": [{ "id": backend, "typeInstance": { "value": away } }] })).await;
    let delete =
        "mutation($id: ID!, $failure: OnBackendFailure!) { deleteTypeInstance(id: $id, onBackendFailure: $failure) }";
    assert_eq!(admin.refused(delete, json!({ "id": id, "failure": "FAIL" })).await.0, "BACKEND");
    assert_eq!(
        editor.refused(delete, json!({ "id": id, "failure": "ORPHAN" })).await.0,
        "FORBIDDEN",
        "it leaves something behind"
    );
    let orphan = admin.data(delete, json!({ "id": id, "failure": "ORPHAN" })).await;
    assert_eq!(orphan, json!({ "deleteTypeInstance": id }));
    let gone = admin.data("query($id: ID!) { typeInstance(id: $id) { id } }", json!({ "id": id })).await;
    assert_eq!(gone, json!({ "typeInstance": null }));
}

async fn hostile_schemas_and_contexts_are_refused(place: Place) {
    let address = file_backend(&place).await;
    let front = Front::open(place).await;
    let admin = front.admin().await;
    let schema = json!({ "type": "object", "required": ["provider"], "properties": { "provider": { "type": "string" } }, "additionalProperties": false });
    let backend =
        register(&admin, "strict", json!({ "url": address, "acceptValue": true, "contextSchema": schema })).await;
    let create = "mutation($in: CreateTypeInstancesInput!) { createTypeInstances(in: $in) { id } }";
    for (context, fault) in [
        (json!("x"), "invalid input: context must be object"),
        (json!({ "provider": 1 }), "invalid input: context/provider must be string"),
        (json!({}), "invalid input: context must have required property 'provider'"),
        (json!({ "provider": "file", "x": 1 }), "invalid input: context must NOT have additional properties"),
    ] {
        let record = json!({ "typeRef": { "path": "cap.type.test", "revision": "0.1.0" }, "value": 1, "backend": { "id": "strict", "context": context } });
        let (code, text) =
            admin.refused(create, json!({ "in": { "typeInstances": [record], "usesRelations": [] } })).await;
        let expected = format!(
            "failed to create the TypeInstances: 1 error occurred:\n\t* Error: External backend \"{backend}\": {fault}"
        );
        assert_eq!((code.as_str(), text), ("INVALID", expected));
    }
    let deep = (0..200).fold(json!({}), |inner, _| json!({ "not": inner }));
    for hostile in [json!({ "$ref": "http://127.0.0.1:1/x" }), json!({ "pattern": "(a+)+$(?=x)" }), deep] {
        let value = json!({ "url": address, "acceptValue": true, "contextSchema": hostile });
        let record =
            json!({ "typeRef": { "path": "cap.core.type.hub.storage.file", "revision": "0.1.0" }, "value": value });
        let (status, text) = admin
            .send(
                json!({ "query": create, "variables": { "in": { "typeInstances": [record], "usesRelations": [] } } })
                    .to_string(),
            )
            .await;
        assert!(status.as_u16() == 400 || text.contains("INVALID"), "{text}");
    }
    assert_eq!(
        ids(&admin.data("{ typeInstances { id } }", json!({})).await["typeInstances"]).len(),
        2,
        "nothing was created"
    );
}

async fn a_context_alone_is_for_the_backend_that_the_hub_chooses(place: Place) {
    let address = file_backend(&place).await;
    let front = Front::open(place).await;
    let admin = front.admin().await;
    let schema =
        json!({ "type": "object", "properties": { "key": { "type": "string" } }, "additionalProperties": false });
    let value = json!({ "url": address, "acceptValue": true, "contextSchema": schema });
    let id = register(&admin, "usual", value).await;
    let with = |more: Value| {
        let mut record = json!({ "typeRef": { "path": "cap.type.test", "revision": "0.1.0" }, "value": 1 });
        record.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({ "in": record })
    };
    let forms =
        [json!({ "additionalParameters": { "key": "k" } }), json!({ "backend": { "context": { "key": "k" } } })];
    for form in &forms {
        let (code, text) = admin.refused(CREATE, with(form.clone())).await;
        assert!(code == "INVALID" && text.contains("none is named"), "the built-in store takes none: {text}");
    }
    let update = "mutation($in: [UpdateTypeInstancesInput]!) { updateTypeInstances(in: $in) { id } }";
    let marked = json!([{ "path": "cap.core.attribute.default", "revision": "0.1.0" }]);
    admin.data(update, json!({ "in": [{ "id": id, "typeInstance": { "attributes": marked } }] })).await;
    let query = "query($id: ID!) { typeInstance(id: $id) { backend { id } latestResourceVersion { spec { value additionalParameters } } } }";
    let spec = json!({ "value": 1, "additionalParameters": { "key": "k" } });
    let kept = json!({ "backend": { "id": id }, "latestResourceVersion": { "spec": spec } });
    let literal = r#"mutation { createTypeInstance(in: { typeRef: { path: "cap.type.test", revision: "0.1.0" }, value: 1,
        backend: { context: { key: "k" } } }) }"#;
    let mut created = vec![admin.data(literal, json!({})).await];
    for form in forms {
        created.push(admin.data(CREATE, with(form)).await);
    }
    for created in created {
        let found = admin.data(query, json!({ "id": created["createTypeInstance"] })).await;
        assert_eq!(found["typeInstance"], kept);
    }
    let (code, text) = admin.refused(CREATE, with(json!({ "additionalParameters": { "key": 1 } }))).await;
    assert!(code == "INVALID" && text.contains("context/key must be string"), "{text}");
}
