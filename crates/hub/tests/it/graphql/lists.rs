//! Lists: order, filters, pages, counts.

use hub::model::BUILT_IN;
use serde_json::{Value, json};

use super::ids;
use crate::front::{Front, Person};
use crate::place::{Place, on_both};

on_both!(
    lists_go_by_path_newest_revision_and_newest_record,
    filters_look_at_any_version_unless_told_otherwise,
    pages_follow_one_another_and_are_counted,
    a_list_without_first_has_its_limit,
    answers_have_only_so_many_records,
    answers_have_only_so_many_bytes_of_values,
    types_are_applied_and_found_by_pattern,
);

const LIST: &str =
    "query($filter: TypeInstanceFilter) { typeInstances(filter: $filter) { id } typeInstanceCount(filter: $filter) }";

async fn of_type(admin: &Person<'_>, path: &str, revision: &str) -> String {
    admin.create(json!({ "typeRef": { "path": path, "revision": revision } })).await
}

async fn lists_go_by_path_newest_revision_and_newest_record(place: Place) {
    let front = Front::open(place).await;
    let admin = front.admin().await;
    let old = of_type(&admin, "cap.type.b", "0.9.0").await;
    let new = of_type(&admin, "cap.type.b", "0.9.0").await;
    let ten = of_type(&admin, "cap.type.b", "0.10.0").await;
    let first = of_type(&admin, "cap.type.a", "0.1.0").await;
    let listed = admin.data(LIST, json!({})).await;
    let expected = [BUILT_IN.to_owned(), first.clone(), ten.clone(), new.clone(), old.clone()];
    assert_eq!(ids(&listed["typeInstances"]), expected);
    let used_by = admin.data("{ typeInstance(id: \"builtin\") { usedBy { id } } }", json!({})).await;
    assert_eq!(ids(&used_by["typeInstance"]["usedBy"]), [first, ten, new, old]);
}

async fn filters_look_at_any_version_unless_told_otherwise(place: Place) {
    let front = Front::open(place).await;
    let admin = front.admin().await;
    let attribute = |path: &str| json!({ "path": path, "revision": "0.1.0" });
    let both = admin.create(json!({
        "createdBy": "nature", "name": "both", "attributes": [attribute("cap.attribute.a"), attribute("cap.attribute.b")],
    })).await;
    let one = admin
        .create(json!({ "createdBy": "nature", "namespace": "team", "attributes": [attribute("cap.attribute.a")] }))
        .await;
    let update = "mutation($in: [UpdateTypeInstancesInput]!) { updateTypeInstances(in: $in) { id } }";
    admin
        .data(update, json!({ "in": [{ "id": both, "createdBy": "update", "typeInstance": { "attributes": [] } }] }))
        .await;
    let (a, b) = (json!({ "path": "cap.attribute.a" }), json!({ "path": "cap.attribute.b" }));
    let not_b = json!({ "path": "cap.attribute.b", "rule": "EXCLUDE" });
    let table: [(Value, &[&str]); 17] = [
        (json!({ "createdBy": "nature" }), &[&one, &both]),
        (json!({ "createdBy": "update" }), &[&both]),
        (json!({ "createdBy": "nature", "versions": "LATEST" }), &[&one]),
        (json!({ "attributes": [a] }), &[&one, &both]),
        // Two at once must hold in one version: the original found nothing.
        (json!({ "attributes": [a, b] }), &[&both]),
        (json!({ "attributes": [a, not_b] }), &[&one]),
        (json!({ "attributes": [a], "versions": "LATEST" }), &[&one]),
        (
            json!({ "attributes": [{ "path": "cap.attribute.a", "rule": "INCLUDE", "revision": "0.1.0" }] }),
            &[&one, &both],
        ),
        (json!({ "attributes": [{ "path": "cap.attribute.a", "rule": null, "revision": "0.2.0" }] }), &[]),
        (json!({ "typeRef": { "path": "cap.type.test" } }), &[&one, &both]),
        (json!({ "typeRef": { "path": "cap.type.test", "revision": "0.2.0" } }), &[]),
        (json!({ "typeRef": { "path": "cap.type.*" } }), &[&one, &both]),
        (json!({ "typeRef": { "path": "cap.core.type.hub.storage.*" } }), &[BUILT_IN]),
        (json!({ "name": "both" }), &[&both]),
        (json!({ "namespace": "team" }), &[&one]),
        (json!({ "backend": "builtin", "typeRef": { "path": "cap.type.test" } }), &[&one, &both]),
        (json!({ "backend": "nobody" }), &[]),
    ];
    for (filter, expected) in table {
        let listed = admin.data(LIST, json!({ "filter": filter })).await;
        assert_eq!(ids(&listed["typeInstances"]), expected, "{filter}");
        assert_eq!(listed["typeInstanceCount"], expected.len(), "{filter}");
    }
    for (filter, field) in [
        (json!({ "typeRef": { "path": "(" } }), "filter.typeRef.path: "),
        (json!({ "typeRef": { "path": "a", "revision": "one" } }), "filter.typeRef.revision: "),
        (json!({ "attributes": [{ "path": "a b" }] }), "filter.attributes.path: "),
        (json!({ "attributes": vec![a.clone(); 257] }), "filter.attributes: there are 257, and 256 is the most"),
        (json!({ "namespace": "A" }), "namespace: "),
    ] {
        let (code, text) = admin.refused(LIST, json!({ "filter": filter })).await;
        assert!(code == "INVALID" && text.starts_with(field), "{text}");
    }
}

async fn pages_follow_one_another_and_are_counted(place: Place) {
    let front = Front::open(place).await;
    let admin = front.admin().await;
    for _ in 0..6 {
        admin.create(json!({})).await;
    }
    let query = "query($first: Int, $after: String) {
        typeInstancesPage(first: $first, after: $after, filter: { typeRef: { path: \"cap.type.test\" } }) {
            items { id } count endCursor hasNextPage } }";
    let (mut found, mut after, mut pages) = (Vec::new(), Value::Null, 0);
    loop {
        let page = admin.data(query, json!({ "first": 4, "after": after })).await["typeInstancesPage"].clone();
        assert_eq!(page["count"], 6);
        found.extend(ids(&page["items"]));
        after = page["endCursor"].clone();
        pages += 1;
        if page["hasNextPage"] == false {
            break;
        }
    }
    let listed = "query($first: Int, $after: String) {
        typeInstances(first: $first, after: $after, filter: { typeRef: { path: \"cap.type.test\" } }) { id } }";
    let all = ids(&admin.data(listed, json!({})).await["typeInstances"]);
    assert_eq!((pages, &found), (2, &all));
    let rest = admin.data(listed, json!({ "first": 2, "after": after })).await;
    assert_eq!(ids(&rest["typeInstances"]), [""; 0]);
    let empty = admin.data(query, json!({ "first": 0 })).await["typeInstancesPage"].clone();
    assert_eq!((&empty["items"], &empty["hasNextPage"]), (&json!([]), &json!(true)));
    for (variables, reason, fault) in [
        (json!({ "first": -1 }), "INVALID", "first: it must not be negative"),
        (json!({ "first": 51 }), "TOO_LARGE", "hub.list_records"),
        (json!({ "after": "!" }), "INVALID", "after: "),
    ] {
        let (code, text) = admin.refused(query, variables).await;
        assert!(code == reason && text.contains(fault), "{code}: {text}");
    }
}

async fn a_list_without_first_has_its_limit(place: Place) {
    let front = Front::open(place).await;
    let admin = front.admin().await;
    let record = json!({ "typeRef": { "path": "cap.type.test", "revision": "0.1.0" } });
    let create = "mutation($in: CreateTypeInstancesInput!) { createTypeInstances(in: $in) { id } }";
    for count in [20, 20, 9] {
        let batch = json!({ "in": { "typeInstances": vec![record.clone(); count], "usesRelations": [] } });
        admin.data(create, batch).await;
    }
    assert_eq!(ids(&admin.data("{ typeInstances { id } }", json!({})).await["typeInstances"]).len(), 50);
    admin.create(json!({})).await;
    let (_, text) = admin.refused("{ typeInstances { id } }", json!({})).await;
    assert!(text.contains("more than 50") && text.contains("hub.list_records"), "{text}");
    let batch = json!({ "in": { "typeInstances": vec![record; 21], "usesRelations": [] } });
    let (code, text) = admin.refused(create, batch).await;
    assert!(code == "INVALID" && text.contains("more than 20 TypeInstances (the setting hub.batch_records)"), "{text}");
}

async fn answers_have_only_so_many_records(place: Place) {
    let front = Front::open(place).await;
    let admin = front.admin().await;
    let record = json!({ "typeRef": { "path": "cap.type.test", "revision": "0.1.0" } });
    let create = "mutation($in: CreateTypeInstancesInput!) { createTypeInstances(in: $in) { id } }";
    for _ in 0..2 {
        let batch = json!({ "in": { "typeInstances": vec![record.clone(); 20], "usesRelations": [] } });
        admin.data(create, batch).await;
    }
    // 40 records use one, which 40 use: 40 * 40 are more than 1,000.
    let (code, text) = admin.refused("{ typeInstances { uses { usedBy { id } } } }", json!({})).await;
    assert!(code == "TOO_LARGE" && text.contains("hub.answer_records"), "{text}");
}

async fn answers_have_only_so_many_bytes_of_values(place: Place) {
    let front = Front::open(place).await;
    let admin = front.admin().await;
    let id = admin.create(json!({ "value": "x".repeat(50_000) })).await;
    let asked = |times: usize| {
        let one = |number: usize| {
            format!("a{number}: typeInstance(id: $id) {{ latestResourceVersion {{ spec {{ value }} }} }}")
        };
        let all: Vec<String> = (0..times).map(one).collect();
        format!("query($id: ID!) {{ {} }}", all.join(" "))
    };
    admin.data(&asked(20), json!({ "id": id })).await;
    let (code, text) = admin.refused(&asked(25), json!({ "id": id })).await;
    assert!(
        code == "TOO_LARGE" && text.contains("more than 1048576 bytes") && text.contains("hub.answer_bytes"),
        "{text}"
    );
}

async fn types_are_applied_and_found_by_pattern(place: Place) {
    let front = Front::open(place).await;
    let admin = front.admin().await;
    let manifest = |revision: &str, name: &str, nodes: &str| {
        format!(
            "ocfVersion: 0.0.1\nkind: Type\nrevision: {revision}\nmetadata: {{prefix: cap.type.aws, name: {name}, displayName: An {name}}}\n\
             spec:\n  additionalRefs: [{nodes}]\n  jsonSchema: {{value: '{{\"type\": \"object\", \"maximum\": 1.5}}'}}\n"
        )
    };
    let apply =
        "mutation($manifests: [String!]!) { applyTypes(manifests: $manifests) { path revisions { revision } } }";
    let manifests = json!([
        manifest("0.2.0", "user", "cap.core.type.platform"),
        manifest("0.10.0", "user", "cap.core.type.platform"),
        manifest("0.1.0", "role", ""),
    ]);
    let applied = admin.data(apply, json!({ "manifests": manifests })).await;
    assert_eq!(applied["applyTypes"][0]["path"], "cap.type.aws.role");
    let query = "query($filter: TypeFilter) { types(filter: $filter) { path name prefix } }";
    let user = json!({ "path": "cap.type.aws.user", "name": "user", "prefix": "cap.type.aws" });
    let role = json!({ "path": "cap.type.aws.role", "name": "role", "prefix": "cap.type.aws" });
    for (filter, expected) in [
        (json!({ "pathPattern": "cap.type.aws.*" }), json!([role, user])),
        (json!({ "pathPattern": "(cap.type.aws.user|cap.type.gcp.user)" }), json!([user])),
        (json!({ "pathPattern": "cap.core.type.platform.*" }), json!([user])),
        (json!({ "pathPattern": "*" }), json!([role, user])),
        (json!({ "pathPattern": null }), json!([role, user])),
        (json!({}), json!([role, user])),
        (Value::Null, json!([role, user])),
        (json!({ "pathPattern": "cap.type.gcp.*" }), json!([])),
    ] {
        assert_eq!(admin.data(query, json!({ "filter": filter })).await["types"], expected, "{filter}");
    }
    let query = "query($path: NodePath!) { type(path: $path) {
        path latestRevision { revision metadata { path name prefix displayName description } spec { additionalRefs jsonSchema } }
        revision(revision: \"0.2.0\") { revision } revisions { revision } } }";
    let found = admin.data(query, json!({ "path": "cap.type.aws.user" })).await["type"].clone();
    let expected = json!({
        "path": "cap.type.aws.user", "revision": { "revision": "0.2.0" }, "revisions": [{ "revision": "0.2.0" }, { "revision": "0.10.0" }],
        "latestRevision": {
            "revision": "0.10.0",
            "metadata": {
                "path": "cap.type.aws.user", "name": "user", "prefix": "cap.type.aws", "displayName": "An user", "description": null,
            },
            "spec": { "additionalRefs": ["cap.core.type.platform"], "jsonSchema": { "type": "object", "maximum": 1.5 } },
        },
    });
    assert_eq!(found, expected);
    assert_eq!(admin.data(query, json!({ "path": "cap.core.type.platform" })).await["type"], Value::Null);
    // A revision never changes.
    assert_eq!(admin.refused(apply, json!({ "manifests": [manifest("0.2.0", "user", "")] })).await.0, "CONFLICT");
    let (code, text) =
        admin.refused(apply, json!({ "manifests": [manifest("0.3.0", "user", ""), "kind: Other"] })).await;
    assert!(code == "INVALID" && text.starts_with("manifests[1]: "), "{text}");
    assert_eq!(
        admin.data(query, json!({ "path": "cap.type.aws.user" })).await["type"]["revisions"].as_array().unwrap().len(),
        2
    );
}
