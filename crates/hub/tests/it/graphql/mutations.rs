//! What mutations do, as the original does it.

use hub::model::BUILT_IN;
use serde_json::{Value, json};

use super::ids;
use crate::front::Front;
use crate::place::{Place, on_both};

on_both!(
    a_record_begins_with_version_1_and_uses_its_backend,
    a_batch_is_answered_in_order_with_aliases,
    every_update_makes_a_version_and_copies_what_is_absent,
    attributes_are_cleared_by_an_empty_list_and_kept_by_null,
    null_is_absent_everywhere,
    an_expected_version_keeps_others_out,
    each_change_of_one_request_is_answered_as_it_is_after_it,
    a_deleted_record_is_gone_with_its_versions,
    a_request_with_a_key_is_answered_once,
    what_the_original_declares_and_never_fills_can_be_selected,
);

const EVERYTHING: &str = "fragment everything on TypeInstance {
  id name namespace createdAt lockedBy lockError lockedAt lockExpiresAt
  typeRef { path revision }
  uses { id } usedBy { id }
  backend { id abstract } backendID
  latestResourceVersion { ...version } firstResourceVersion { ...version } previousResourceVersion { ...version }
  resourceVersion(resourceVersion: 2) { ...version }
  resourceVersions { ...version }
}
fragment version on TypeInstanceResourceVersion {
  resourceVersion createdBy createdAt
  metadata { attributes { path revision } }
  spec { value valueError additionalParameters backend { context } instrumentation { health { status url method } } }
}";

fn everything() -> String {
    format!("query($id: ID!) {{ typeInstance(id: $id) {{ ...everything }} }} {EVERYTHING}")
}

const UPDATE: &str = "mutation($in: [UpdateTypeInstancesInput]!) {
  updateTypeInstances(in: $in) { id latestResourceVersion { resourceVersion createdBy metadata { attributes { path } } spec { value } } }
}";

async fn a_record_begins_with_version_1_and_uses_its_backend(place: Place) {
    let front = Front::open(place).await;
    let admin = front.admin().await;
    let attributes =
        json!([{ "path": "cap.attribute.b", "revision": "0.1.0" }, { "path": "cap.attribute.a", "revision": "0.2.0" }]);
    let id = admin.create(json!({ "name": "first", "createdBy": "nature", "attributes": attributes })).await;
    for named in [id.as_str(), "first"] {
        let found = admin.data(&everything(), json!({ "id": named })).await["typeInstance"].clone();
        let version = json!({
            "resourceVersion": 1, "createdBy": "nature", "createdAt": found["createdAt"], "metadata": { "attributes": attributes },
            "spec": {
                "value": { "a": 1 }, "valueError": null, "additionalParameters": null, "backend": { "context": null },
                "instrumentation": null,
            },
        });
        assert!(found["createdAt"].as_str().unwrap().ends_with('Z'), "{found}");
        let expected = json!({
            "id": id, "name": "first", "namespace": "default", "createdAt": found["createdAt"],
            "lockedBy": null, "lockError": null, "lockedAt": null, "lockExpiresAt": null,
            "typeRef": { "path": "cap.type.test", "revision": "0.1.0" },
            "uses": [{ "id": BUILT_IN }], "usedBy": [],
            "backend": { "id": BUILT_IN, "abstract": true }, "backendID": BUILT_IN,
            "latestResourceVersion": version, "firstResourceVersion": version, "previousResourceVersion": null,
            "resourceVersion": null, "resourceVersions": [version],
        });
        assert_eq!(found, expected);
    }
    assert_eq!(admin.data("{ typeInstance(id: \"nobody\") { id } }", json!({})).await, json!({ "typeInstance": null }));
    let built_in =
        admin.data("{ typeInstance(id: \"builtin\") { id name usedBy { id } uses { id } } }", json!({})).await;
    let expected = json!({ "id": BUILT_IN, "name": "builtin", "usedBy": [{ "id": id }], "uses": [] });
    assert_eq!(built_in["typeInstance"], expected);
}

async fn a_batch_is_answered_in_order_with_aliases(place: Place) {
    let front = Front::open(place).await;
    let admin = front.admin().await;
    let there = admin.create(json!({})).await;
    let record = |alias: Value| json!({ "alias": alias, "typeRef": { "path": "cap.type.test", "revision": "0.1.0" } });
    let input = json!({
        "typeInstances": [record(json!("parent")), record(json!("child")), record(Value::Null)],
        "usesRelations": [{ "from": "parent", "to": "child" }, { "from": "child", "to": there }],
    });
    let query = "mutation($in: CreateTypeInstancesInput!) { createTypeInstances(in: $in) { id alias } }";
    let created = admin.data(query, json!({ "in": input })).await["createTypeInstances"].clone();
    let made = ids(&created);
    assert_eq!((&created[0]["alias"], &created[1]["alias"]), (&json!("parent"), &json!("child")));
    assert_eq!(created[2]["alias"].as_str().unwrap().split('_').count(), 4, "{created}");
    let query = "query($id: ID!) { typeInstance(id: $id) { uses { id } usedBy { id } } }";
    let child = admin.data(query, json!({ "id": made[1] })).await["typeInstance"].clone();
    assert_eq!(ids(&child["usedBy"]), [made[0].as_str()]);
    let mut uses = ids(&child["uses"]);
    uses.sort_unstable();
    assert_eq!(uses, [there, BUILT_IN.to_owned()]);
}

async fn every_update_makes_a_version_and_copies_what_is_absent(place: Place) {
    let front = Front::open(place).await;
    let admin = front.admin().await;
    let attributes = json!([{ "path": "cap.attribute.a", "revision": "0.1.0" }]);
    let id = admin.create(json!({ "createdBy": "nature", "attributes": attributes })).await;
    let updated = admin.data(UPDATE, json!({ "in": [{ "id": id, "createdBy": "update", "typeInstance": {} }] })).await;
    let expected = json!([{ "id": id, "latestResourceVersion": {
        "resourceVersion": 2, "createdBy": "update", "metadata": { "attributes": [{ "path": "cap.attribute.a" }] },
        "spec": { "value": { "a": 1 } },
    } }]);
    assert_eq!(updated["updateTypeInstances"], expected);
    // A falsy value is a value: the original took it for none.
    for (number, value) in [(3, json!(0)), (4, json!(false)), (5, json!("")), (6, json!([null])), (7, json!({}))] {
        let changed = admin.data(UPDATE, json!({ "in": [{ "id": id, "typeInstance": { "value": value } }] })).await;
        let latest = &changed["updateTypeInstances"][0]["latestResourceVersion"];
        assert_eq!((&latest["resourceVersion"], &latest["spec"]["value"]), (&json!(number), &value));
    }
    let found = admin.data(&everything(), json!({ "id": id })).await["typeInstance"].clone();
    let number = |field: &str| found[field]["resourceVersion"].clone();
    assert_eq!(
        [
            number("firstResourceVersion"),
            number("previousResourceVersion"),
            number("latestResourceVersion"),
            number("resourceVersion")
        ],
        [json!(1), json!(6), json!(7), json!(2)]
    );
    assert_eq!(found["resourceVersions"].as_array().unwrap().len(), 7);
}

async fn attributes_are_cleared_by_an_empty_list_and_kept_by_null(place: Place) {
    let front = Front::open(place).await;
    let admin = front.admin().await;
    let id = admin.create(json!({ "attributes": [{ "path": "cap.attribute.a", "revision": "0.1.0" }] })).await;
    for (given, expected) in [(Value::Null, 1), (json!([]), 0), (Value::Null, 0)] {
        let updated =
            admin.data(UPDATE, json!({ "in": [{ "id": id, "typeInstance": { "attributes": given } }] })).await;
        let attributes = updated["updateTypeInstances"][0]["latestResourceVersion"]["metadata"]["attributes"].clone();
        assert_eq!(attributes.as_array().unwrap().len(), expected, "{given}");
    }
    for (count, is_taken) in [(256, true), (257, false)] {
        let attributes = vec![json!({ "path": "cap.attribute.a", "revision": "0.1.0" }); count];
        let variables = json!({ "in": [{ "id": id, "typeInstance": { "attributes": attributes } }] });
        let answer = admin.answer(UPDATE, variables).await;
        assert_eq!(answer["errors"][0]["extensions"]["code"] == "INVALID", !is_taken, "{count}");
    }
}

async fn null_is_absent_everywhere(place: Place) {
    let front = Front::open(place).await;
    let admin = front.admin().await;
    let nothing = json!({
        "alias": null, "name": null, "namespace": null, "createdBy": null, "attributes": null, "value": null, "backend": null,
        "additionalParameters": null,
    });
    let id = admin.create(nothing).await;
    let change =
        json!({ "attributes": null, "value": null, "backend": { "context": null }, "additionalParameters": null });
    let change = json!([
        { "id": id, "ownerID": null, "createdBy": null, "expectedResourceVersion": null, "typeInstance": change },
        { "id": id, "typeInstance": { "backend": null } },
        null,
    ]);
    assert_eq!(admin.data(UPDATE, json!({ "in": change })).await["updateTypeInstances"].as_array().unwrap().len(), 2);
    let query =
        "query($filter: TypeInstanceFilter, $first: Int) { typeInstances(filter: $filter, first: $first) { id } }";
    let nothing = json!({
        "attributes": null, "typeRef": null, "createdBy": null, "name": null, "namespace": null, "backend": null, "versions": null,
    });
    for filter in [Value::Null, json!({}), nothing, json!({ "attributes": [null] }), json!({ "attributes": [] })] {
        let listed = admin.data(query, json!({ "filter": filter, "first": null })).await["typeInstances"].clone();
        assert_eq!(ids(&listed), [BUILT_IN, id.as_str()], "{filter}");
    }
    assert_eq!(ids(&admin.data("{ typeInstances(filter: null) { id } }", json!({})).await["typeInstances"]).len(), 2);
    assert_eq!(ids(&admin.data("{ typeInstances { id } }", json!({})).await["typeInstances"]).len(), 2);
    // Within a value it is a value.
    let id = admin.create(json!({ "value": { "a": null, "b": [null] } })).await;
    let query = "query($id: ID!) { typeInstance(id: $id) { latestResourceVersion { spec { value } } } }";
    let found = admin.data(query, json!({ "id": id })).await;
    assert_eq!(found["typeInstance"]["latestResourceVersion"]["spec"]["value"], json!({ "a": null, "b": [null] }));
}

async fn an_expected_version_keeps_others_out(place: Place) {
    let front = Front::open(place).await;
    let admin = front.admin().await;
    let id = admin.create(json!({})).await;
    let change =
        |expected: i32| json!({ "in": [{ "id": id, "expectedResourceVersion": expected, "typeInstance": {} }] });
    admin.data(UPDATE, change(1)).await;
    let text = format!(
        "failed to update TypeInstances: 1 error occurred:\n\t* Error: TypeInstance with ID \"{id}\" has resourceVersion 2, \
         not 1 as expected; read it again"
    );
    assert_eq!(admin.refused(UPDATE, change(1)).await, ("CONFLICT".to_owned(), text));
    assert_eq!(admin.refused(UPDATE, change(-1)).await.0, "INVALID");
}

async fn each_change_of_one_request_is_answered_as_it_is_after_it(place: Place) {
    let front = Front::open(place).await;
    let admin = front.admin().await;
    let id = admin.create(json!({})).await;
    let shown = "lockedBy usedBy { name } resourceVersions { resourceVersion }";
    let query = format!(
        "mutation($id: ID!, $user: String!) {{
            first: updateTypeInstances(in: [{{ id: $id, typeInstance: {{}} }}]) {{ {shown} }}
            createTypeInstances(in: {{ usesRelations: [{{ from: \"user\", to: $user }}], typeInstances: [
                {{ alias: \"user\", name: \"user\", typeRef: {{ path: \"cap.type.test\", revision: \"0.1.0\" }} }}] }}) {{ alias }}
            lockTypeInstances(in: {{ ids: [$id], ownerID: \"me\" }})
            second: updateTypeInstances(in: [{{ id: $id, ownerID: \"me\", typeInstance: {{}} }}]) {{ {shown} }}
        }}"
    );
    let answer = admin.data(&query, json!({ "id": id, "user": id })).await;
    let versions = |to: u32| (1..=to).map(|number| json!({ "resourceVersion": number })).collect::<Vec<_>>();
    assert_eq!(answer["first"], json!([{ "lockedBy": null, "usedBy": [], "resourceVersions": versions(2) }]));
    let second = json!([{ "lockedBy": "me", "usedBy": [{ "name": "user" }], "resourceVersions": versions(3) }]);
    assert_eq!(answer["second"], second);
}

async fn a_deleted_record_is_gone_with_its_versions(place: Place) {
    let front = Front::open(place).await;
    let admin = front.admin().await;
    let (one, two, three) =
        (admin.create(json!({})).await, admin.create(json!({})).await, admin.create(json!({})).await);
    let query = "mutation($id: ID!) { deleteTypeInstance(id: $id) }";
    assert_eq!(admin.data(query, json!({ "id": one })).await, json!({ "deleteTypeInstance": one }));
    let query = "mutation($ids: [ID!]!) { deleteTypeInstances(ids: $ids) }";
    let deleted = admin.data(query, json!({ "ids": [two, three] })).await;
    assert_eq!(deleted, json!({ "deleteTypeInstances": [two, three] }));
    assert_eq!(admin.data("{ typeInstanceCount }", json!({})).await, json!({ "typeInstanceCount": 1 }));
}

async fn a_request_with_a_key_is_answered_once(place: Place) {
    let front = Front::open(place).await;
    let admin = front.admin().await;
    let query =
        "mutation($in: CreateTypeInstanceInput!, $key: String) { createTypeInstance(in: $in, idempotencyKey: $key) }";
    let mut variables =
        json!({ "in": { "typeRef": { "path": "cap.type.test", "revision": "0.1.0" }, "value": 1 }, "key": "k" });
    let first = admin.data(query, variables.clone()).await;
    assert_eq!(admin.data(query, variables.clone()).await, first);
    let other = front.admin().await;
    let others = other.data(query, variables.clone()).await;
    assert!(others != first && other.data(query, variables.clone()).await == others, "a key is its caller's own");
    variables["in"]["value"] = json!(2);
    let (code, text) = admin.refused(query, variables).await;
    assert!(code == "CONFLICT" && text.contains("idempotencyKey"), "{text}");
    let query = "mutation($in: CreateTypeInstancesInput!) { createTypeInstances(in: $in) { id } }";
    let batch = json!({ "in": {
        "typeInstances": [{ "typeRef": { "path": "cap.type.test", "revision": "0.1.0" } }], "usesRelations": [], "idempotencyKey": "b",
    } });
    assert_eq!(admin.data(query, batch.clone()).await, admin.data(query, batch).await);
}

async fn what_the_original_declares_and_never_fills_can_be_selected(place: Place) {
    let front = Front::open(place).await;
    let admin = front.admin().await;
    let query = "{ typeInstance(id: \"builtin\") { latestResourceVersion { spec { instrumentation {
        metrics { endpoint regex dashboards { url } } health { url method status } } } } } }";
    let found = admin.data(query, json!({})).await;
    assert_eq!(found["typeInstance"]["latestResourceVersion"]["spec"]["instrumentation"], Value::Null);
}
