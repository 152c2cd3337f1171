//! The words of the original, letter by letter: its clients compare them.

use serde_json::{Value, json};

use crate::front::{CREATE, Front};
use crate::place::{Place, on_both};

on_both!(each_fault_is_told_in_the_words_of_the_original, values_are_checked_in_the_words_of_the_original);

const MISSING: &str = "11111111-1111-1111-1111-111111111111";

async fn each_fault_is_told_in_the_words_of_the_original(place: Place) {
    let front = Front::open(place).await;
    let admin = front.admin().await;
    let (free, held) = (admin.create(json!({})).await, admin.create(json!({})).await);
    let (user, used) = (admin.create(json!({})).await, admin.create(json!({})).await);
    let create = "mutation($in: CreateTypeInstancesInput!) { createTypeInstances(in: $in) { id } }";
    let record = |alias: &str| json!({ "alias": alias, "typeRef": { "path": "cap.type.test", "revision": "0.1.0" } });
    let second = admin
        .data(create, json!({ "in": { "typeInstances": [record("x")], "usesRelations": [{ "from": "x", "to": used }] } }))
        .await["createTypeInstances"][0]["id"]
        .as_str()
        .unwrap()
        .to_owned();
    admin
        .data(create, json!({ "in": { "typeInstances": [record("x")], "usesRelations": [{ "from": user, "to": "x" }, { "from": user, "to": used }] } }))
        .await;
    let lock = "mutation($in: LockTypeInstancesInput!) { lockTypeInstances(in: $in) }";
    let unlock = "mutation($in: UnlockTypeInstancesInput!) { unlockTypeInstances(in: $in) }";
    let update = "mutation($in: [UpdateTypeInstancesInput]!) { updateTypeInstances(in: $in) { id } }";
    let delete = "mutation($id: ID!, $owner: LockOwnerID) { deleteTypeInstance(id: $id, ownerID: $owner) }";
    admin.data(lock, json!({ "in": { "ids": [held], "ownerID": "somebody" } })).await;

    let by = |ids: &[&str]| json!({ "in": { "ids": ids, "ownerID": "me" } });
    let change = |ids: &[&str]| {
        let changes: Vec<Value> = ids.iter().map(|id| json!({ "id": id, "ownerID": "me", "typeInstance": {} })).collect();
        json!({ "in": changes })
    };
    let batch = |records: Value, relations: Value| json!({ "in": { "typeInstances": records, "usesRelations": relations } });
    let aaa = "aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa";
    let with_backend = |backend: Value| json!({ "typeRef": { "path": "cap.type.test", "revision": "0.1.0" }, "backend": backend });
    let mut users = [user.clone(), second.clone()];
    users.sort_by(|left, right| right.cmp(left));
    let table: Vec<(&str, Value, &str, String)> = vec![
        (lock, by(&[MISSING]), "NOT_FOUND", format!("failed to lock TypeInstances: 1 error occurred: TypeInstances with IDs \"{MISSING}\" were not found")),
        (lock, by(&[MISSING, "b"]), "NOT_FOUND", format!("failed to lock TypeInstances: 1 error occurred: TypeInstances with IDs \"{MISSING}\", \"b\" were not found")),
        (lock, by(&[&free, &held]), "LOCKED", format!("failed to lock TypeInstances: 1 error occurred: TypeInstances with IDs \"{held}\" are locked by different owner")),
        (lock, by(&[MISSING, &held]), "NOT_FOUND", format!("failed to lock TypeInstances: 2 errors occurred: [TypeInstances with IDs \"{MISSING}\" were not found, TypeInstances with IDs \"{held}\" are locked by different owner]")),
        (unlock, by(&[MISSING]), "NOT_FOUND", format!("failed to unlock TypeInstances: 1 error occurred: TypeInstances with IDs \"{MISSING}\" were not found")),
        (unlock, by(&[MISSING, &held]), "NOT_FOUND", format!("failed to unlock TypeInstances: 2 errors occurred: [TypeInstances with IDs \"{MISSING}\" were not found, TypeInstances with IDs \"{held}\" are locked by different owner]")),
        (update, change(&[&free, MISSING]), "NOT_FOUND", format!("failed to update TypeInstances: 1 error occurred:\n\t* Error: TypeInstances with IDs \"{MISSING}\" were not found")),
        (update, change(&[&held]), "LOCKED", format!("failed to update TypeInstances: 1 error occurred:\n\t* Error: TypeInstances with IDs \"{held}\" are locked by different owner")),
        (delete, json!({ "id": MISSING }), "NOT_FOUND", format!("failed to delete TypeInstance with ID \"{MISSING}\": TypeInstance was not found")),
        (delete, json!({ "id": held }), "LOCKED", format!("failed to delete TypeInstance with ID \"{held}\": TypeInstance is locked by different owner")),
        (delete, json!({ "id": used }), "IN_USE", format!("failed to delete TypeInstance with ID \"{used}\": TypeInstance is used by other TypeInstances, you must first remove {}\", \"{}", users[0], users[1])),
        (create, batch(json!([record("a"), record("a")]), json!([])), "INVALID", "Validation failed: Duplicated TypeInstance aliases. Please ensure that each TypeInstance alias is unique.".to_owned()),
        (create, batch(json!([record("a")]), json!([{ "from": "a", "to": MISSING }])), "NOT_FOUND", "failed to create the TypeInstances: 1 error occurred:\n\t* Error: Failed to create some relations. Please verify, if you use proper aliases or IDs in relations definition.".to_owned()),
        (create, batch(json!([record("a")]), json!([{ "from": "b", "to": "a" }])), "NOT_FOUND", "failed to create the TypeInstances: 1 error occurred:\n\t* Error: Failed to create some relations. Please verify, if you use proper aliases or IDs in relations definition.".to_owned()),
        (create, batch(json!([with_backend(json!({ "id": MISSING }))]), json!([])), "NOT_FOUND", format!("failed to create the TypeInstances: 1 error occurred:\n\t* Error: TypeInstances for storage backends with IDs \"{MISSING}\" were not found")),
        (CREATE, json!({ "in": with_backend(json!(MISSING)) }), "NOT_FOUND", format!("failed to create TypeInstance: failed to create the TypeInstances: 1 error occurred:\n\t* Error: TypeInstances for storage backends with IDs \"{MISSING}\" were not found")),
        (create, batch(json!([with_backend(json!({ "id": aaa, "context": { "a": 1 } }))]), json!([])), "INVALID", format!("Validation failed: Built-in storage backend with ID {aaa} does not accept context")),
    ];
    for (query, variables, code, text) in table {
        assert_eq!(admin.refused(query, variables).await, (code.to_owned(), text));
    }
}

async fn values_are_checked_in_the_words_of_the_original(place: Place) {
    let front = Front::open(place).await;
    let admin = front.admin().await;
    let manifest = json!({
        "ocfVersion": "0.0.1", "kind": "Type", "revision": "0.1.0", "metadata": { "path": "cap.type.checked" },
        "spec": { "value": {
            "type": "object", "required": ["key", "other"], "additionalProperties": false,
            "properties": { "key": { "type": "string" }, "other": { "enum": ["a", "b"] }, "fixed": { "const": 1 } },
        } },
    });
    admin.data("mutation($m: [String!]!) { applyTypes(manifests: $m) { path } }", json!({ "m": [manifest.to_string()] })).await;
    let create = "mutation($in: CreateTypeInstancesInput!) { createTypeInstances(in: $in) { id } }";
    for (value, faults) in [
        (json!("x"), "value must be object"),
        (json!({ "key": 1, "other": "a" }), "value/key must be string"),
        (json!({ "other": "a" }), "value must have required property 'key'"),
        (json!({ "key": "", "other": "c" }), "value/other must be equal to one of the allowed values"),
        (json!({ "key": "", "other": "a", "fixed": 2 }), "value/fixed must be equal to constant"),
        (json!({ "key": "", "other": "a", "more": 2 }), "value must NOT have additional properties"),
    ] {
        let record = json!({ "alias": "x", "typeRef": { "path": "cap.type.checked", "revision": "0.1.0" }, "value": value });
        let refused = admin.refused(create, json!({ "in": { "typeInstances": [record], "usesRelations": [] } })).await;
        let text = format!("failed to create the TypeInstances: 1 error occurred:\n\t* Error: TypeInstance \"x\": invalid input: {faults}");
        assert_eq!(refused, ("INVALID".to_owned(), text));
    }
}
