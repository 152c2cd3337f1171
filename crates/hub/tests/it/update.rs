//! New versions.

use hub::{Batch, Change, Error, Filter, Hub, NewRecord, Reason, VersionId};

use crate::place::{Place, attribute, create, json, new, on_both, value};

on_both!(
    what_is_absent_stays_as_it_was,
    an_empty_list_clears_attributes,
    every_update_is_a_version,
    falsy_values_are_values,
    updates_take_place_as_a_whole_or_not_at_all,
    many_versions_and_documents_are_read_at_once,
);

fn change(id: &str) -> Change {
    Change { id: id.to_owned(), ..Change::default() }
}

async fn refused(hub: &Hub, changes: Vec<Change>) -> (Reason, String) {
    match hub.update(changes).await.unwrap_err() {
        Error::Refused { reason, message } => (reason, message),
        other => panic!("{other}"),
    }
}

async fn what_is_absent_stays_as_it_was(place: Place) {
    let hub = place.hub().await;
    let attributes = vec![attribute("cap.attribute.a", "0.1.0")];
    let id = create(&hub, NewRecord { attributes: attributes.clone(), ..new("1.50") }).await;
    let second = Change { context: Some(json(r#"{"a":1.50}"#)), created_by: Some("b".to_owned()), ..change(&id) };
    assert_eq!(hub.update(vec![second]).await.unwrap()[0].latest, 2);
    hub.update(vec![Change { value: Some(json("2")), ..change(&id) }]).await.unwrap();
    hub.update(vec![Change { value: Some(json("null")), context: Some(json("null")), ..change(&id) }]).await.unwrap();
    let versions = hub.versions(&id).await.unwrap();
    assert_eq!(versions.iter().map(|version| version.number).collect::<Vec<_>>(), [1, 2, 3, 4]);
    assert!(versions.iter().all(|version| version.attributes == attributes));
    let authors: Vec<Option<&str>> = versions.iter().map(|version| version.created_by.as_deref()).collect();
    assert_eq!(authors, [None, Some("b"), None, None]);
    let mut seen = Vec::new();
    for version in 1..=4 {
        let context = hub.context(&id, version).await.unwrap().map(|context| context.text().to_owned());
        seen.push((value(&hub, &id, version).await, context));
    }
    let context = Some(r#"{"a":1.50}"#.to_owned());
    let expected = [("1.50", None), ("1.50", context.clone()), ("2", context.clone()), ("2", context)];
    assert_eq!(seen, expected.map(|(value, context)| (value.to_owned(), context)));
}

async fn an_empty_list_clears_attributes(place: Place) {
    let hub = place.hub().await;
    let id = create(&hub, NewRecord { attributes: vec![attribute("cap.attribute.a", "0.1.0")], ..new("1") }).await;
    hub.update(vec![Change { attributes: Some(Vec::new()), ..change(&id) }]).await.unwrap();
    let versions = hub.versions(&id).await.unwrap();
    assert_eq!((versions[0].attributes.len(), versions[1].attributes.len()), (1, 0));
}

async fn every_update_is_a_version(place: Place) {
    let hub = place.hub().await;
    let id = create(&hub, new("1")).await;
    let updated = hub.update(vec![change(&id), change(&id)]).await.unwrap();
    assert_eq!(updated.iter().map(|record| record.latest).collect::<Vec<_>>(), [2, 3]);
    assert_eq!(hub.find(&id).await.unwrap().unwrap().latest, 3);
    assert_eq!(value(&hub, &id, 3).await, "1");
}

async fn falsy_values_are_values(place: Place) {
    let hub = place.hub().await;
    let id = create(&hub, new("1")).await;
    for (version, text) in (2..).zip(["0", "false", "\"\"", "[]", "{}"]) {
        hub.update(vec![Change { value: Some(json(text)), ..change(&id) }]).await.unwrap();
        assert_eq!(value(&hub, &id, version).await, text);
    }
}

async fn updates_take_place_as_a_whole_or_not_at_all(place: Place) {
    let hub = place.hub().await;
    let (free, held) = (create(&hub, new("1")).await, create(&hub, new("1")).await);
    hub.lock(vec![held.clone()], "me".to_owned(), None).await.unwrap();
    let failed = "failed to update TypeInstances: 1 error occurred:\n\t* Error: ";
    let missing = format!("{failed}TypeInstances with IDs \"x\", \"y\" were not found");
    let changes = vec![change(&free), change("x"), change(&held), change("y")];
    assert_eq!(refused(&hub, changes).await, (Reason::NotFound, missing));
    let locked = format!("{failed}TypeInstances with IDs \"{held}\" are locked by different owner");
    for owner in [None, Some("you".to_owned())] {
        let changes = vec![change(&free), Change { owner, ..change(&held) }];
        assert_eq!(refused(&hub, changes).await, (Reason::Locked, locked.clone()));
    }
    let outdated = vec![change(&free), Change { expected: Some(1), ..change(&free) }];
    let text =
        format!("{failed}TypeInstance with ID \"{free}\" has resourceVersion 2, not 1 as expected; read it again");
    assert_eq!(refused(&hub, outdated).await, (Reason::Conflict, text));
    assert_eq!(hub.find(&free).await.unwrap().unwrap().latest, 1, "nothing of all that took place");
    hub.update(vec![Change { owner: Some("me".to_owned()), expected: Some(1), ..change(&held) }]).await.unwrap();
    assert_eq!(hub.count(Filter::default()).await.unwrap(), 3);
}

async fn many_versions_and_documents_are_read_at_once(place: Place) {
    let hub = place.hub().await;
    // More than one statement takes.
    let records = (0..600).map(|number| new(&format!("{number}.0"))).collect();
    let created = hub.create(Batch { records, ..Batch::default() }).await.unwrap();
    let ids: Vec<String> = created.into_iter().map(|created| created.id).collect();
    let change = Change { value: Some(json("\"new\"")), context: Some(json("{}")), ..change(&ids[7]) };
    hub.update(vec![change]).await.unwrap();
    let versions = hub.versions_of(&ids).await.unwrap();
    assert_eq!((versions.len(), versions[&ids[7]].len(), versions[&ids[8]].len()), (600, 2, 1));
    let version = |id: &String, number: u32| VersionId { record: id.clone(), number };
    let mut wanted: Vec<VersionId> = ids.iter().map(|id| version(id, 1)).collect();
    wanted.extend([version(&ids[7], 2), version(&ids[7], 3), version(&"nobody".to_owned(), 1)]);
    let values = hub.values(&wanted).await.unwrap();
    assert_eq!(values.len(), 601);
    for (number, id) in ids.iter().enumerate() {
        assert_eq!(values[&version(id, 1)].as_ref().unwrap().text(), format!("{number}.0"));
    }
    assert_eq!(values[&version(&ids[7], 2)].as_ref().unwrap().text(), "\"new\"");
    let contexts = hub.contexts(&wanted).await.unwrap();
    assert_eq!(contexts.keys().collect::<Vec<_>>(), [&version(&ids[7], 2)]);
}
