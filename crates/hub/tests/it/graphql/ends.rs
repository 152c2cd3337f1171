//! Moves, ends of backends, the journal by hand, and what hooks of backends answer.

use std::sync::Arc;
use std::time::Duration;

use backends::{Code, Driver};
use hub::NewRecord;
use serde_json::{Value, json};

use super::ids;
use crate::front::{CREATE, Front};
use crate::outside::moody::{Mood, Moody};
use crate::outside::shown::Shown;
use crate::outside::{Outside, World, patient, storage, versions};
use crate::place::{Place, create, on_both};

on_both!(
    records_are_moved_with_all_their_versions,
    a_backend_is_retired_with_its_records_moved_or_left,
    an_orphan_is_told_with_what_is_left_of_it,
    the_journal_is_retried_and_abandoned,
    a_context_that_a_hook_answers_is_checked_again,
    what_a_record_would_be_is_told_before_it_is_there,
);

/// For what has no limit but that it has to happen.
const PATIENCE: Duration = Duration::from_secs(60);
const SCHEMA: &str = r#"{"type":"object","properties":{"path":{"type":"string"},"region":{"type":"string"}},"additionalProperties":false}"#;
const UPDATE: &str = "mutation($in: [UpdateTypeInstancesInput]!) { updateTypeInstances(in: $in) { id latestResourceVersion { resourceVersion } } }";
const FOUND: &str = "query($id: ID!) { typeInstance(id: $id) { backend { id } latestResourceVersion { spec { backend { context } } } } }";
const JOURNAL: &str = "{ journal { id operation state backend typeInstances attempts error } }";
const LEFT: &str = "{ id name backendID what versions contextKeys error }";

/// A hub behind its front door, with two backends that behave as they are told. The first one takes contexts.
async fn with_two(place: Place) -> (Front, Outside, Outside) {
    let world = World::new(place, patient()).await;
    let (one, two) = (world.register_with("one", SCHEMA).await, world.register("two").await);
    let World { place, hub, .. } = world;
    (Front::over(place, hub).await, one, two)
}

async fn records_are_moved_with_all_their_versions(place: Place) {
    let (front, one, two) = with_two(place).await;
    let (admin, viewer) = (front.admin().await, front.person(&["viewer@*"]).await);
    let id = admin.create(json!({ "backend": "one", "value": 1 })).await;
    admin.data(UPDATE, json!({ "in": [{ "id": id, "typeInstance": { "value": 2 } }] })).await;
    let go = "mutation($ids: [ID!]!, $to: ID!, $owner: LockOwnerID) { moveTypeInstances(ids: $ids, to: $to, ownerID: $owner) \
              { id backend { id abstract } uses { id } resourceVersions { resourceVersion spec { value } } } }";
    let to = |to: &str| json!({ "ids": [id], "to": to });
    assert_eq!(viewer.refused(go, to("two")).await.0, "FORBIDDEN");
    assert_eq!(admin.refused(go, to("nowhere")).await.0, "NOT_FOUND");
    assert_eq!(admin.refused(go, json!({ "ids": [id, "nobody"], "to": "two" })).await.0, "NOT_FOUND");
    two.moody.set("OnCreate", Mood::Fail(Code::PermissionDenied));
    assert_eq!(admin.refused(go, to("two")).await.0, "BACKEND");
    let found = admin.data(FOUND, json!({ "id": id })).await;
    assert_eq!(found["typeInstance"]["backend"]["id"], one.id.as_str(), "it stays where it was");
    assert_eq!(versions(&one.original, &id).len(), 2);
    two.moody.be_well();

    let moved = admin.data(go, to("two")).await["moveTypeInstances"].clone();
    let version = |number: u32| json!({ "resourceVersion": number, "spec": { "value": number } });
    let expected = json!([{
        "id": id, "backend": { "id": two.id, "abstract": false }, "uses": [{ "id": two.id }],
        "resourceVersions": [version(1), version(2)],
    }]);
    assert_eq!(moved, expected);
    assert!(one.original.ids().is_empty() && versions(&two.original, &id).len() == 2);

    let lock = "mutation($in: LockTypeInstancesInput!) { lockTypeInstances(in: $in) }";
    admin.data(lock, json!({ "in": { "ids": [id], "ownerID": "me" } })).await;
    assert_eq!(admin.refused(go, to("builtin")).await.0, "LOCKED");
    let moved = admin.data(go, json!({ "ids": [id], "to": "builtin", "owner": "me" })).await;
    assert_eq!(moved["moveTypeInstances"][0]["backend"]["abstract"], true);
    assert!(two.original.ids().is_empty());
}

async fn a_backend_is_retired_with_its_records_moved_or_left(place: Place) {
    let (front, one, two) = with_two(place).await;
    let (admin, editor) = (front.admin().await, front.person(&["editor@*"]).await);
    let moved = admin.create(json!({ "backend": "two", "value": 1 })).await;
    let context = json!({ "region": "canary-region", "path": "canary-path" });
    let left =
        admin.create(json!({ "name": "left", "backend": { "id": "one", "context": context }, "value": 1 })).await;
    let retire = format!(
        "mutation($id: ID!, $to: ID, $orphan: Boolean = false) {{ retireStorageBackend(id: $id, moveTo: $to, orphan: $orphan) \
         {{ id moved left leftOutside {LEFT} }} }}"
    );
    for neither in [json!({ "id": "two" }), json!({ "id": "two", "to": "one", "orphan": true })] {
        let (code, text) = admin.refused(&retire, neither).await;
        assert!(code == "INVALID" && text.starts_with("moveTo: "), "{text}");
    }
    assert_eq!(editor.refused(&retire, json!({ "id": "two", "to": "one" })).await.0, "FORBIDDEN");
    assert_eq!(admin.refused(&retire, json!({ "id": "nobody", "orphan": true })).await.0, "NOT_FOUND");
    assert_eq!(admin.refused(&retire, json!({ "id": "builtin", "orphan": true })).await.0, "IN_USE");

    let retired = admin.data(&retire, json!({ "id": "two", "to": "one" })).await;
    let expected = json!({ "id": "two", "moved": [moved], "left": [], "leftOutside": [] });
    assert_eq!(retired["retireStorageBackend"], expected);
    assert!(two.original.ids().is_empty() && one.original.ids().len() == 2);

    let answer = admin.data(&retire, json!({ "id": one.id, "orphan": true })).await["retireStorageBackend"].clone();
    let outside = |id: &str, name: Value, keys: Value| json!({ "id": id, "name": name, "backendID": one.id, "what": "VALUES", "versions": 1, "contextKeys": keys, "error": null });
    let mut told = answer["leftOutside"].as_array().unwrap().clone();
    told.sort_by_key(|left| left["name"].is_null());
    assert_eq!(
        told,
        [outside(&left, json!("left"), json!(["path", "region"])), outside(&moved, Value::Null, json!([]))]
    );
    assert!(!answer.to_string().contains("canary"), "{answer}");
    assert_eq!(one.original.ids().len(), 2, "it was not asked, and keeps what it has");
    let gone = admin.data("{ storageBackend(id: \"one\") { id } typeInstance(id: \"left\") { id } }", json!({})).await;
    assert_eq!(gone, json!({ "storageBackend": null, "typeInstance": null }));
    let audit = front.audit();
    assert!(audit.contains("orphan") && !audit.contains("canary"), "{audit}");
}

async fn an_orphan_is_told_with_what_is_left_of_it(place: Place) {
    let (front, one, _two) = with_two(place).await;
    let (admin, editor) = (front.admin().await, front.person(&["editor@*"]).await);
    let context = json!({ "path": "canary" });
    let id = admin.create(json!({ "name": "o", "backend": { "id": "one", "context": context }, "value": 1 })).await;
    let whole = admin.create(json!({ "backend": "two", "value": 1 })).await;
    admin.data(UPDATE, json!({ "in": [{ "id": id, "typeInstance": { "value": 2 } }] })).await;
    one.moody.set("OnDelete", Mood::Fail(Code::Unavailable));
    let orphan = format!("mutation($ids: [ID!]!) {{ orphanTypeInstances(ids: $ids) {{ ids leftOutside {LEFT} }} }}");
    assert_eq!(editor.refused(&orphan, json!({ "ids": [id] })).await.0, "FORBIDDEN");
    let answer = admin.data(&orphan, json!({ "ids": [id, whole] })).await["orphanTypeInstances"].clone();
    assert_eq!(answer["ids"], json!([id, whole]));
    let left = answer["leftOutside"].as_array().unwrap();
    let error = left[0]["error"].as_str().unwrap().to_owned();
    let expected = json!({
        "id": id, "name": "o", "backendID": one.id, "what": "VALUES", "versions": 2, "contextKeys": ["path"], "error": error,
    });
    assert_eq!((left.len(), &left[0]), (1, &expected), "of the other one nothing is left");
    assert!(error.contains("UNAVAILABLE") && !answer.to_string().contains("canary"), "{answer}");
    assert_eq!(versions(&one.original, &id).len(), 2);
    assert_eq!(
        ids(&admin.data("{ typeInstances(filter: { typeRef: { path: \"cap.type.test\" } }) { id } }", json!({})).await
            ["typeInstances"]),
        Vec::<String>::new()
    );
}

async fn the_journal_is_retried_and_abandoned(place: Place) {
    let (front, one, _two) = with_two(place).await;
    let (admin, editor) = (front.admin().await, front.person(&["editor@*"]).await);
    let id = admin.create(json!({ "backend": "one", "value": 1 })).await;
    let (retry, abandon) = (
        "mutation($id: ID!) { retryJournalEntry(id: $id) }",
        format!("mutation($id: ID!) {{ abandonJournalEntry(id: $id) {{ id leftOutside {LEFT} }} }}"),
    );
    let journal = async || admin.data(JOURNAL, json!({})).await["journal"].clone();

    one.moody.set("OnDelete", Mood::Lose);
    let delete = "mutation($id: ID!) { deleteTypeInstance(id: $id) }";
    assert_eq!(admin.refused(delete, json!({ "id": id })).await.0, "BACKEND");
    let open = journal().await;
    let entry = open[0]["id"].clone();
    let expected = |attempts: u32, error: Value| json!([{ "id": entry, "operation": "DELETE", "state": "FORWARD", "backend": one.id, "typeInstances": [id], "attempts": attempts, "error": error }]);
    assert_eq!(open, expected(0, Value::Null));
    assert_eq!(editor.refused(retry, json!({ "id": entry })).await.0, "FORBIDDEN");
    assert_eq!(editor.refused(&abandon, json!({ "id": entry })).await.0, "FORBIDDEN");
    one.moody.set("OnDelete", Mood::Fail(Code::Unavailable));
    assert_eq!(admin.data(retry, json!({ "id": entry })).await, json!({ "retryJournalEntry": entry }));
    assert_eq!(journal().await, expected(1, json!("UNAVAILABLE")));
    one.moody.be_well();
    admin.data(retry, json!({ "id": entry })).await;
    assert_eq!(journal().await, json!([]));
    assert_eq!(admin.data(FOUND, json!({ "id": id })).await["typeInstance"], Value::Null);
    for nobody in [retry, &abandon] {
        assert_eq!(admin.refused(nobody, json!({ "id": entry })).await.0, "NOT_FOUND");
    }

    // A record that never was, and whose value stays.
    one.moody.set("OnCreate", Mood::Lose);
    one.moody.set("OnDelete", Mood::Fail(Code::Unavailable));
    let record = json!({
        "typeRef": { "path": "cap.type.test", "revision": "0.1.0" }, "value": 1,
        "backend": { "id": "one", "context": { "path": "canary" } },
    });
    assert_eq!(admin.refused(CREATE, json!({ "in": record })).await.0, "BACKEND");
    let open = journal().await;
    assert_eq!((&open[0]["operation"], &open[0]["state"]), (&json!("CREATE"), &json!("UNDO")));
    let answer = admin.data(&abandon, json!({ "id": open[0]["id"] })).await["abandonJournalEntry"].clone();
    let never = open[0]["typeInstances"][0].clone();
    let expected = json!({
        "id": open[0]["id"],
        "leftOutside": [{ "id": never, "name": null, "backendID": one.id, "what": "VALUES", "versions": 1, "contextKeys": ["path"], "error": "UNAVAILABLE" }],
    });
    assert_eq!(answer, expected);
    assert_eq!((json!(one.original.ids()), journal().await), (json!([never]), json!([])));
}

async fn a_context_that_a_hook_answers_is_checked_again(place: Place) {
    let (front, one, two) = with_two(place).await;
    let admin = front.admin().await;
    let record = |backend: &str| json!({ "in": { "typeRef": { "path": "cap.type.test", "revision": "0.1.0" }, "value": 1, "backend": backend } });
    one.moody.set("OnCreate", Mood::Say(r#"{"path":7}"#));
    let (code, text) = admin.refused(CREATE, record("one")).await;
    let fault = "invalid answer to OnCreate: context/path must be string";
    assert!(code == "BACKEND" && text.contains(fault), "{text}");
    two.moody.set("OnCreate", Mood::Say(r#"{"path":"p"}"#));
    let (code, text) = admin.refused(CREATE, record("two")).await;
    assert!(code == "BACKEND" && text.contains("it has no schema for contexts"), "{text}");
    assert!(front.hub.rest(PATIENCE).await, "nobody waits for what is undone");
    assert!(one.original.ids().is_empty() && two.original.ids().is_empty(), "what was made is undone");

    one.moody.set("OnCreate", Mood::Say(r#"{"path":"given"}"#));
    let id = admin.data(CREATE, record("one")).await["createTypeInstance"].clone();
    let context = async || {
        let found = admin.data(FOUND, json!({ "id": id })).await;
        found["typeInstance"]["latestResourceVersion"]["spec"]["backend"]["context"].clone()
    };
    assert_eq!(context().await, json!({ "path": "given" }));
    let change = json!({ "in": [{ "id": id, "typeInstance": { "value": 2 } }] });
    one.moody.set("OnUpdate", Mood::Say(r#"{"other":"x"}"#));
    let (code, text) = admin.refused(UPDATE, change.clone()).await;
    assert!(code == "BACKEND" && text.contains("context must NOT have additional properties"), "{text}");
    assert!(front.hub.rest(PATIENCE).await);
    assert_eq!((context().await, versions(&one.original, id.as_str().unwrap()).len()), (json!({ "path": "given" }), 1));
    // It is undone once more later; until then the record is busy.
    assert_eq!(admin.refused(UPDATE, change).await.0, "RETRY");
}

async fn what_a_record_would_be_is_told_before_it_is_there(place: Place) {
    let world = World::new(place, patient()).await;
    world.register("values").await;
    let moody = Arc::new(Moody::around(Arc::new(Shown)));
    world.shelf.put("shown:50051", Arc::clone(&moody) as Arc<dyn Driver>);
    let value = format!(r#"{{"url":"shown:50051","acceptValue":false,"contextSchema":{SCHEMA}}}"#);
    let registration =
        NewRecord { name: Some("shown".to_owned()), value: Some(crate::place::json(&value)), ..storage("", "null") };
    create(&world.hub, registration).await;
    let World { place, hub, .. } = world;
    let front = Front::over(place, hub).await;
    let (admin, viewer) = (front.admin().await, front.person(&["viewer@*"]).await);
    let ask = "query($backend: ID!, $context: Any) { preCreateValue(backend: $backend, context: $context) }";
    let of = |backend: &str, context: Value| json!({ "backend": backend, "context": context });
    let told = admin.data(ask, of("shown", json!({ "path": "p" }))).await;
    assert_eq!(told, json!({ "preCreateValue": { "shown": { "path": "p" } } }));
    let (code, text) = admin.refused(ask, of("shown", json!({ "path": 1 }))).await;
    assert!(code == "INVALID" && text.contains("context/path must be string"), "{text}");
    assert_eq!(admin.refused(ask, of("builtin", json!({}))).await.0, "INVALID");
    assert_ne!(admin.refused(ask, of("values", Value::Null)).await.0, "INTERNAL");
    assert_eq!(admin.refused(ask, of("nobody", json!({}))).await.0, "NOT_FOUND");
    assert_eq!(viewer.refused(ask, of("shown", json!({ "path": "p" }))).await.0, "FORBIDDEN");

    // The same path as a record, whose hook may change the context.
    let record = json!({ "in": {
        "typeRef": { "path": "cap.type.test", "revision": "0.1.0" }, "backend": { "id": "shown", "context": { "path": "p" } },
    } });
    moody.set("OnCreate", Mood::Say(r#"{"path":null}"#));
    let (code, text) = admin.refused(CREATE, record.clone()).await;
    assert!(code == "BACKEND" && text.contains("context/path must be string"), "{text}");
    moody.set("OnCreate", Mood::Say(r#"{"path":"other"}"#));
    let id = admin.data(CREATE, record).await["createTypeInstance"].clone();
    let query = "query($id: ID!) { typeInstance(id: $id) { latestResourceVersion { spec { value } } } }";
    let found = admin.data(query, json!({ "id": id })).await;
    assert_eq!(
        found["typeInstance"]["latestResourceVersion"]["spec"]["value"],
        json!({ "shown": { "path": "other" } })
    );
}
