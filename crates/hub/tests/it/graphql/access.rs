//! What each caller may see and do: what they may not get is not there, in lists, counts, relations, answers and events.

use std::time::Duration;

use futures::StreamExt as _;
use hub::model::BUILT_IN;
use serde_json::{Value, json};

use super::ids;
use crate::front::{CREATE, Front, Person, file_backend};
use crate::place::{Place, on_both};

on_both!(
    lists_counts_and_relations_have_what_the_caller_may_see,
    changes_need_their_verb_and_hidden_records_are_not_there,
    storage_backends_are_for_those_who_may_change_them,
    acts_are_on_record_with_their_names_and_without_values,
    followers_hear_of_what_they_may_watch,
    a_stream_ends_with_the_credentials,
);

/// Records in two namespaces, one of which uses the other's.
struct World {
    front: Front,
    /// In `team-a` and in `team-b`, which uses it.
    a: String,
    b: String,
}

async fn world(place: Place) -> World {
    let front = Front::open(place).await;
    let admin = front.admin().await;
    let create = "mutation($in: CreateTypeInstancesInput!) { createTypeInstances(in: $in) { id } }";
    let record = |namespace: &str| {
        json!({
            "alias": namespace, "name": format!("of-{namespace}"), "namespace": namespace, "value": { "secret": format!("canary-{namespace}") },
            "typeRef": { "path": "cap.type.test", "revision": "0.1.0" },
        })
    };
    let batch = json!({ "typeInstances": [record("team-a"), record("team-b")], "usesRelations": [{ "from": "team-b", "to": "team-a" }] });
    let made = ids(&admin.data(create, json!({ "in": batch })).await["createTypeInstances"]);
    let (a, b) = (made[0].clone(), made[1].clone());
    World { front, a, b }
}

const SEEN: &str = "{ typeInstances { id uses { id } usedBy { id } latestResourceVersion { spec { value valueError backend { context } } } }
    typeInstanceCount typeInstancesPage(first: 1) { count } }";

async fn lists_counts_and_relations_have_what_the_caller_may_see(place: Place) {
    let World { front, a, b } = world(place).await;
    // Who, which records, whether values.
    let table: [(&[&str], Vec<&str>, bool); 6] = [
        (&["admin@*"], vec![BUILT_IN, &a, &b], true),
        (&["editor@*"], vec![BUILT_IN, &a, &b], true),
        (&["viewer@*"], vec![BUILT_IN, &a, &b], false),
        (&["editor@team-a"], vec![&a], true),
        (&["viewer@team-b"], vec![&b], false),
        (&["monitor@*"], vec![], false),
    ];
    for (grants, expected, values) in table {
        let person = front.person(grants).await;
        let seen = person.data(SEEN, json!({})).await;
        assert_eq!(ids(&seen["typeInstances"]), expected, "{grants:?}");
        assert_eq!(
            (&seen["typeInstanceCount"], &seen["typeInstancesPage"]["count"]),
            (&json!(expected.len()), &json!(expected.len())),
            "{grants:?}"
        );
        for record in seen["typeInstances"].as_array().unwrap() {
            for relation in ["uses", "usedBy"] {
                for id in ids(&record[relation]) {
                    assert!(expected.contains(&id.as_str()), "{grants:?} must not see {id} by {relation}");
                }
            }
            let spec = &record["latestResourceVersion"]["spec"];
            assert_eq!(
                (spec["value"].is_object(), spec["valueError"].is_null()),
                (values, values),
                "{grants:?}: {spec}"
            );
        }
        for (id, name) in [(&a, "of-team-a"), (&b, "of-team-b")] {
            let query = "query($id: ID!, $name: ID!, $filter: TypeInstanceFilter) {
                typeInstance(id: $id) { id } named: typeInstance(id: $name) { id } typeInstances(filter: $filter) { id } }";
            let found = person.data(query, json!({ "id": id, "name": name, "filter": { "name": name } })).await;
            let there = expected.contains(&id.as_str());
            assert_eq!(
                [!found["typeInstance"].is_null(), !found["named"].is_null(), !ids(&found["typeInstances"]).is_empty()],
                [there; 3],
                "{grants:?} {name}"
            );
        }
        let of_b = person.data("{ typeInstances(filter: { namespace: \"team-b\" }) { id } }", json!({})).await;
        assert_eq!(ids(&of_b["typeInstances"]).len(), usize::from(expected.contains(&b.as_str())), "{grants:?}");
    }
}

async fn changes_need_their_verb_and_hidden_records_are_not_there(place: Place) {
    let World { front, a, b } = world(place).await;
    let update = "mutation($id: ID!) { updateTypeInstances(in: [{ id: $id, typeInstance: { value: 1 } }]) { id } }";
    let delete = "mutation($id: ID!) { deleteTypeInstance(id: $id) }";
    let lock = "mutation($id: ID!) { lockTypeInstances(in: { ids: [$id], ownerID: \"me\" }) }";
    let unlock = "mutation($id: ID!) { unlockTypeInstances(in: { ids: [$id], ownerID: \"me\" }) }";
    let force = "mutation($id: ID!) { forceUnlockTypeInstances(ids: [$id]) }";
    let missing = "11111111-1111-1111-1111-111111111111";
    // Who, for the record in team-a: what becomes of each of the mutations.
    let table: [(&[&str], [&str; 5]); 5] = [
        (&["viewer@*"], ["FORBIDDEN"; 5]),
        (&["viewer@team-a"], ["FORBIDDEN"; 5]),
        (&["editor@team-b"], ["NOT_FOUND"; 5]),
        (&["editor@team-a"], ["", "IN_USE", "", "", "FORBIDDEN"]),
        (&["admin@team-a"], ["", "IN_USE", "", "", ""]),
    ];
    for (grants, expected) in table {
        let person = front.person(grants).await;
        for (query, code) in [update, delete, lock, unlock, force].into_iter().zip(expected) {
            let answer = person.answer(query, json!({ "id": a })).await;
            let told = answer["errors"][0]["extensions"]["code"].as_str().unwrap_or_default();
            assert_eq!(told, code, "{grants:?} {query}: {answer}");
            if code == "NOT_FOUND" {
                let unknown = person.answer(query, json!({ "id": missing })).await;
                let texts =
                    [&answer, &unknown].map(|answer| answer["errors"][0]["message"].as_str().unwrap().to_owned());
                assert_eq!(texts[0].replace(&a, missing), texts[1], "the same words");
            }
        }
    }
    // Who uses it is not told to those who may not know.
    let person = front.person(&["editor@team-a"]).await;
    let (_, text) = person.refused(delete, json!({ "id": a })).await;
    assert!(!text.contains(&b) && text.ends_with("you must first remove 1 that you may not get"), "{text}");
    // A record is created where the caller may create, with relations to what it may get.
    let create = "mutation($in: CreateTypeInstancesInput!) { createTypeInstances(in: $in) { id } }";
    let batch = |namespaces: &[&str], relations: Value| {
        let record = |namespace: &&str| json!({ "alias": namespace, "namespace": namespace, "typeRef": { "path": "cap.type.test", "revision": "0.1.0" } });
        json!({ "in": { "typeInstances": namespaces.iter().map(record).collect::<Vec<_>>(), "usesRelations": relations } })
    };
    let before = front.hub.count(hub::Filter::default()).await.unwrap();
    for (namespaces, relations, code) in [
        (&["team-b"][..], json!([]), "FORBIDDEN"),
        (&["team-a", "team-b"][..], json!([]), "FORBIDDEN"),
        (&["team-b", "team-a"][..], json!([]), "FORBIDDEN"),
        (&["team-a"][..], json!([{ "from": "team-a", "to": b }]), "NOT_FOUND"),
        (&["team-a"][..], json!([{ "from": b, "to": "team-a" }]), "NOT_FOUND"),
        (&["team-a"][..], json!([{ "from": "team-a", "to": missing }]), "NOT_FOUND"),
    ] {
        assert_eq!(person.refused(create, batch(namespaces, relations)).await.0, code, "{namespaces:?}");
    }
    assert_eq!(front.hub.count(hub::Filter::default()).await.unwrap(), before);
    person
        .data(create, batch(&["team-a"][..], json!([{ "from": "team-a", "to": a }, { "from": a, "to": "team-a" }])))
        .await;
    let mixed = front.person(&["viewer@*", "editor@team-a"]).await;
    assert_eq!(
        mixed.refused(create, batch(&["team-a"][..], json!([{ "from": b, "to": "team-a" }]))).await.0,
        "FORBIDDEN",
        "what gets a relation is updated"
    );
}

async fn storage_backends_are_for_those_who_may_change_them(place: Place) {
    let address = file_backend(&place).await;
    let front = Front::open(place).await;
    let (admin, editor) = (front.admin().await, front.person(&["editor@*"]).await);
    let (viewer, team) = (front.person(&["viewer@*"]).await, front.person(&["editor@team-a"]).await);
    let manifest = "ocfVersion: 0.0.1\nkind: Type\nrevision: 0.1.0\nmetadata: {path: cap.type.attached}\nspec: {additionalRefs: [cap.core.type.hub.storage]}\n";
    let apply = "mutation($m: [String!]!) { applyTypes(manifests: $m) { path } }";
    assert_eq!(viewer.refused(apply, json!({ "m": [manifest] })).await.0, "FORBIDDEN");
    assert_eq!(team.refused(apply, json!({ "m": [manifest] })).await.0, "FORBIDDEN", "Types are everybody's");
    editor.data(apply, json!({ "m": [manifest] })).await;
    let value = json!({ "url": address, "acceptValue": true });
    let by_path =
        json!({ "typeRef": { "path": "cap.core.type.hub.storage.mine", "revision": "0.1.0" }, "value": value });
    let by_reference = json!({ "typeRef": { "path": "cap.type.attached", "revision": "0.2.0" }, "value": value });
    let marked = json!([{ "path": "cap.core.attribute.default", "revision": "0.1.0" }]);
    let by_attribute = json!({ "typeRef": { "path": "cap.type.test", "revision": "0.1.0" }, "attributes": marked });
    for record in [by_path, by_reference, by_attribute] {
        let (code, text) = editor.refused(CREATE, json!({ "in": record })).await;
        assert!(code == "FORBIDDEN" && text.contains("create storagebackends"), "{text}");
    }
    let backend = admin.create(json!({ "name": "outside", "typeRef": { "path": "cap.type.attached", "revision": "0.1.0" }, "value": value })).await;
    let update = "mutation($in: [UpdateTypeInstancesInput]!) { updateTypeInstances(in: $in) { id } }";
    let plain = editor.create(json!({})).await;
    for (id, change) in [
        (&backend, json!({ "value": { "url": "127.0.0.1:1", "acceptValue": true } })),
        (&backend, json!({})),
        (&plain, json!({ "attributes": marked })),
    ] {
        let (code, text) = editor.refused(update, json!({ "in": [{ "id": id, "typeInstance": change }] })).await;
        assert!(code == "FORBIDDEN" && text.contains("update storagebackends"), "{text}");
    }
    let delete = "mutation($id: ID!) { deleteTypeInstance(id: $id) }";
    assert_eq!(editor.refused(delete, json!({ "id": backend })).await.0, "FORBIDDEN");
    assert_eq!(admin.refused(delete, json!({ "id": BUILT_IN })).await.0, "IN_USE", "the built-in one stays");
    // Who may get it may use it; to others it is not there.
    editor.create(json!({ "backend": "outside" })).await;
    let (code, text) = team
        .refused(
            CREATE,
            json!({ "in": {
        "namespace": "team-a", "backend": "outside", "typeRef": { "path": "cap.type.test", "revision": "0.1.0" },
    } }),
        )
        .await;
    assert!(
        code == "NOT_FOUND" && text.ends_with("TypeInstances for storage backends with IDs \"outside\" were not found"),
        "{text}"
    );
    team.create(json!({ "namespace": "team-a", "backend": "builtin" })).await;
    let listed = async |person: &Person<'_>| {
        person.data("{ storageBackends { name } }", json!({})).await["storageBackends"].as_array().unwrap().len()
    };
    assert_eq!([listed(&admin).await, listed(&editor).await, listed(&viewer).await, listed(&team).await], [2, 2, 2, 0]);
    let journal = "{ journal { id } }";
    viewer.data(journal, json!({})).await;
    assert_eq!(team.refused(journal, json!({})).await.0, "FORBIDDEN");
    let abandon = "mutation { abandonJournalEntry(id: \"x\") { id } }";
    assert_eq!(editor.refused(abandon, json!({})).await.0, "FORBIDDEN");
    assert_eq!(admin.refused(abandon, json!({})).await.0, "NOT_FOUND");
    assert_eq!(team.refused("{ types { path } }", json!({})).await.0, "FORBIDDEN");
    assert_eq!(viewer.data("{ types { path } }", json!({})).await["types"][0]["path"], "cap.type.attached");
}

async fn acts_are_on_record_with_their_names_and_without_values(place: Place) {
    let World { front, a, b: _ } = world(place).await;
    let person = front.person(&["editor@team-a"]).await;
    person.data("mutation($id: ID!) { updateTypeInstances(in: [{ id: $id, typeInstance: { value: \"canary-team-a\" } }]) { id } }", json!({ "id": a })).await;
    person.refused("mutation($id: ID!) { forceUnlockTypeInstances(ids: [$id]) }", json!({ "id": a })).await;
    person
        .data(
            "query($id: ID!) { typeInstance(id: $id) { latestResourceVersion { spec { value } } } }",
            json!({ "id": a }),
        )
        .await;
    // Decisions get to the disk soon, and not before the answer.
    let read = |lines: &str| lines.lines().any(|line| line.contains("\"get\"") && line.contains("value"));
    testbed::eventually(Duration::from_secs(30), || async { read(&front.audit()) }).await;
    let lines = front.audit();
    let line = |parts: &[&str]| lines.lines().any(|line| parts.iter().all(|part| line.contains(part)));
    assert!(line(&["\"act\"", "\"update\"", "typeinstances", "team-a", "of-team-a"]), "{lines}");
    assert!(line(&["\"intent\"", "\"create\"", "typeinstances", "team-b", "of-team-b"]), "{lines}");
    assert!(line(&["force-unlock", "lock", "of-team-a"]), "{lines}");
    assert!(line(&["\"get\"", "value", "of-team-a"]), "{lines}");
    assert!(!lines.contains("canary"), "a value is on record");
}

/// The next events of a subscription, until as many are there.
async fn events(response: axum::response::Response, count: usize) -> Vec<(String, Value)> {
    let mut body = response.into_body().into_data_stream();
    let (mut text, mut found) = (String::new(), Vec::new());
    while found.len() < count {
        let chunk = tokio::time::timeout(Duration::from_secs(60), body.next()).await.expect("an event in time");
        let Some(chunk) = chunk else { break };
        text.push_str(std::str::from_utf8(&chunk.unwrap()).unwrap());
        while let Some((event, rest)) = text.split_once("\n\n") {
            let field = |name: &str| {
                event.lines().find_map(|line| line.strip_prefix(name)).map(|value| value.trim_start().to_owned())
            };
            if let Some(kind) = field("event:") {
                let data = field("data:").unwrap_or_default();
                found.push((kind, serde_json::from_str(&data).unwrap_or_default()));
            }
            text = rest.to_owned();
        }
    }
    found
}

const FOLLOW: &str =
    "subscription($filter: TypeInstanceFilter, $after: String) { typeInstanceChanges(filter: $filter, after: $after) {
    cursor kind id at typeInstance { id namespace latestResourceVersion { spec { value } } } } }";

async fn follow(person: &Person<'_>, variables: Value) -> axum::response::Response {
    let body = json!({ "query": FOLLOW, "variables": variables }).to_string();
    person.response("text/event-stream", "application/json", body).await
}

async fn followers_hear_of_what_they_may_watch(place: Place) {
    let World { front, a, b } = world(place).await;
    let admin = front.admin().await;
    let (team, viewer) = (front.person(&["editor@team-a"]).await, front.person(&["viewer@*"]).await);
    // A stream begins when it is first read: from here on, whenever that is.
    let after = front.hub.changes_after(None, 1000).await.unwrap().pop().unwrap().cursor.to_string();
    let (by_team, by_viewer) = (
        follow(&team, json!({ "after": after })).await,
        follow(&viewer, json!({ "after": after, "filter": { "createdBy": "nature", "versions": "LATEST" } })).await,
    );
    assert_eq!(by_team.status(), 200);
    assert_eq!(follow(&team, json!({})).await.status(), 429, "hub.followers");
    // Whoever takes JSON, too, gets a query as JSON, and takes no place of a follower for it.
    for kinds in [
        "application/json, text/event-stream",
        "text/event-stream;q=0.5, application/graphql-response+json",
        "text/event-stream, */*",
    ] {
        let body = json!({ "query": "{ typeInstanceCount }" }).to_string();
        let response = team.response(kinds, "application/json", body).await;
        assert_eq!(
            (response.status(), &response.headers()["content-type"]),
            (http::StatusCode::OK, &"application/json".parse().unwrap())
        );
    }
    let team_hears = events(by_team, 4);
    let viewer_hears = events(by_viewer, 2);
    let work = async {
        let update = "mutation($id: ID!) { updateTypeInstances(in: [{ id: $id, createdBy: \"nature\", typeInstance: { value: 2 } }]) { id } }";
        admin.data(update, json!({ "id": b })).await;
        admin.data(update, json!({ "id": a })).await;
        admin
            .data("mutation($id: ID!) { lockTypeInstances(in: { ids: [$id], ownerID: \"me\" }) }", json!({ "id": a }))
            .await;
        admin
            .data("mutation($id: ID!) { unlockTypeInstances(in: { ids: [$id], ownerID: \"me\" }) }", json!({ "id": a }))
            .await;
        admin.create(json!({ "namespace": "team-b" })).await;
        admin.create(json!({ "namespace": "team-a" })).await
    };
    let (heard, seen, new) = tokio::join!(team_hears, viewer_hears, work);
    let told: Vec<(&str, &str)> = heard
        .iter()
        .map(|(_, data)| {
            let change = &data["data"]["typeInstanceChanges"];
            (change["kind"].as_str().unwrap(), change["id"].as_str().unwrap())
        })
        .collect();
    assert_eq!(told, [("UPDATED", a.as_str()), ("LOCKED", &a), ("UNLOCKED", &a), ("CREATED", &new)]);
    assert_eq!(heard[0].1["data"]["typeInstanceChanges"]["typeInstance"]["latestResourceVersion"]["spec"]["value"], 2);
    let values: Vec<&Value> = seen
        .iter()
        .map(|(_, data)| &data["data"]["typeInstanceChanges"]["typeInstance"]["latestResourceVersion"]["spec"]["value"])
        .collect();
    assert_eq!(values, [&Value::Null, &Value::Null], "a viewer sees no values");
    // On from a change that was told.
    let cursor = heard[2].1["data"]["typeInstanceChanges"]["cursor"].clone();
    let again = events(follow(&team, json!({ "after": cursor })).await, 1).await;
    assert_eq!(again[0].1["data"]["typeInstanceChanges"]["id"], new.as_str());
    let wrong = events(follow(&team, json!({ "after": "x" })).await, 2).await;
    assert_eq!((wrong[0].0.as_str(), wrong[1].0.as_str()), ("next", "complete"));
    assert_eq!(wrong[0].1["errors"][0]["extensions"]["code"], "INVALID");
    // A query is answered as an event, too.
    let body = json!({ "query": "{ typeInstanceCount }" }).to_string();
    let answered = events(team.response("text/event-stream", "application/json", body).await, 2).await;
    assert_eq!(
        answered,
        [("next".to_owned(), json!({ "data": { "typeInstanceCount": 2 } })), ("complete".to_owned(), Value::Null)]
    );
}

async fn a_stream_ends_with_the_credentials(place: Place) {
    let World { front, .. } = world(place).await;
    let person = front.person(&["viewer@*"]).await;
    let stream = follow(&person, json!({})).await;
    person.revoke().await;
    // On a database that others write to, what was committed just before may still be told.
    let heard = tokio::time::timeout(Duration::from_mins(2), events(stream, usize::MAX)).await.expect("an end in time");
    let [.., (_, reason), (last, _)] = heard.as_slice() else { panic!("{heard:?}") };
    assert_eq!(reason["errors"][0]["extensions"]["code"], "UNAUTHENTICATED");
    assert_eq!(last, "complete");
}
