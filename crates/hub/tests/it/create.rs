//! Creating records.

use hub::model::BUILT_IN;
use hub::{Batch, Error, NewRecord, Reason, Relation, StorageChoice};

use crate::place::{Place, attribute, create, json, new, on_both, settings, type_ref, value};

on_both!(
    a_record_begins_with_version_1_in_the_built_in_store,
    values_come_back_as_they_were_given,
    null_is_as_good_as_nothing,
    a_batch_is_related_by_aliases_and_ids,
    a_batch_takes_place_as_a_whole_or_not_at_all,
    names_are_unique_and_found,
    a_request_that_comes_again_is_answered_again,
    the_built_in_record_is_there_once,
);

fn relation(from: &str, to: &str) -> Relation {
    Relation { from: from.to_owned(), to: to.to_owned() }
}

fn alias(alias: &str) -> NewRecord {
    NewRecord { alias: Some(alias.to_owned()), ..new("1") }
}

async fn refused(hub: &hub::Hub, batch: Batch) -> (Reason, String) {
    let before = hub.count(hub::Filter::default()).await.unwrap();
    let error = hub.create(batch).await.unwrap_err();
    assert_eq!(hub.count(hub::Filter::default()).await.unwrap(), before, "something is left of {error}");
    let Error::Refused { reason, message } = error else { panic!("{error}") };
    (reason, message)
}

async fn a_record_begins_with_version_1_in_the_built_in_store(place: Place) {
    let hub = place.hub().await;
    let attributes = vec![attribute("cap.attribute.b", "0.1.0"), attribute("cap.attribute.a", "0.2.0")];
    let given = NewRecord { created_by: Some("me".to_owned()), attributes: attributes.clone(), ..new("{}") };
    let created = hub.create(Batch { records: vec![given], ..Batch::default() }).await.unwrap().remove(0);
    assert!(created.alias.matches('_').count() == 3, "made up: {}", created.alias);
    let record = hub.find(&created.id).await.unwrap().unwrap();
    assert_eq!((record.latest, record.backend.as_str(), record.namespace.as_str()), (1, BUILT_IN, "default"));
    assert_eq!((record.name.clone(), record.lock.clone()), (None, None));
    assert_eq!(record.type_ref, type_ref("cap.type.test", "0.1.0"));
    let versions = hub.versions(&created.id).await.unwrap();
    assert_eq!((versions.len(), versions[0].number), (1, 1));
    assert_eq!((versions[0].created_by.as_deref(), &versions[0].attributes), (Some("me"), &attributes));
    let uses = hub.uses(std::slice::from_ref(&created.id)).await.unwrap();
    assert_eq!(uses[&created.id].iter().map(|used| used.id.as_str()).collect::<Vec<_>>(), [BUILT_IN]);
}

async fn values_come_back_as_they_were_given(place: Place) {
    let hub = place.hub().await;
    for text in [
        "12345678901234567890123",
        "1.50",
        "[1.50,-0.0,1e400,null]",
        r#"{"b":null,"a":{"z":12345678901234567890123,"y":[]}}"#,
        "\"text\"",
        "\"\"",
        "0",
        "false",
        "{}",
    ] {
        let id = create(&hub, new(text)).await;
        assert_eq!(value(&hub, &id, 1).await, text);
    }
}

async fn null_is_as_good_as_nothing(place: Place) {
    let hub = place.hub().await;
    let backend = StorageChoice { id: Some(BUILT_IN.to_owned()), context: Some(json("null")) };
    let id = create(&hub, NewRecord { backend: Some(backend), ..new("null") }).await;
    assert_eq!(value(&hub, &id, 1).await, "none");
    assert_eq!(hub.context(&id, 1).await.unwrap(), None);
    assert_eq!(hub.value(&id, 2).await.unwrap(), None, "a version that is not there");
}

async fn a_batch_is_related_by_aliases_and_ids(place: Place) {
    let hub = place.hub().await;
    let old = create(&hub, new("1")).await;
    let relations = vec![relation("a", "b"), relation("a", &old), relation("a", "b")];
    let batch = Batch { records: vec![alias("b"), alias("a")], relations, idempotency_key: None };
    let created = hub.create(batch).await.unwrap();
    assert_eq!(created.iter().map(|created| created.alias.as_str()).collect::<Vec<_>>(), ["b", "a"]);
    let (b, a) = (&created[0].id, &created[1].id);
    let ids = |records: &[hub::model::Record]| {
        let mut ids: Vec<String> = records.iter().map(|record| record.id.clone()).collect();
        ids.sort();
        ids
    };
    let mut expected = vec![BUILT_IN.to_owned(), b.clone(), old.clone()];
    expected.sort();
    assert_eq!(ids(&hub.uses(std::slice::from_ref(a)).await.unwrap()[a]), expected);
    let used_by = hub.used_by(&[b.clone(), old.clone()]).await.unwrap();
    assert_eq!((ids(&used_by[b]), ids(&used_by[&old])), (vec![a.clone()], vec![a.clone()]));
}

async fn a_batch_takes_place_as_a_whole_or_not_at_all(place: Place) {
    let hub = place.hub().await;
    let stored = |id: &str, context: Option<&str>| NewRecord {
        backend: Some(StorageChoice { id: Some(id.to_owned()), context: context.map(json) }),
        ..new("1")
    };
    let records = |records: Vec<NewRecord>| Batch { records, ..Batch::default() };
    let other = create(&hub, new("1")).await;
    let failed = "failed to create the TypeInstances: 1 error occurred:\n\t* Error: ";
    let table = [
        (
            records(vec![alias("a"), alias("a")]),
            Reason::Invalid,
            "Validation failed: Duplicated TypeInstance aliases. Please ensure that each TypeInstance alias is unique."
                .to_owned(),
        ),
        (
            records(vec![new("1"), stored(BUILT_IN, Some("{}"))]),
            Reason::Invalid,
            format!("Validation failed: Built-in storage backend with ID {BUILT_IN} does not accept context"),
        ),
        (
            records(vec![new("1"), stored("nowhere", None), stored("elsewhere", None)]),
            Reason::NotFound,
            format!("{failed}TypeInstances for storage backends with IDs \"elsewhere,nowhere\" were not found"),
        ),
        (
            Batch { records: vec![alias("a")], relations: vec![relation("a", "b")], idempotency_key: None },
            Reason::NotFound,
            format!(
                "{failed}Failed to create some relations. Please verify, if you use proper aliases or IDs in relations \
                 definition."
            ),
        ),
        (
            records(vec![new("1"), stored(&other, None)]),
            Reason::Invalid,
            format!("{failed}failed to resolve the TypeInstance's backend \"{other}\": spec/value must be object"),
        ),
    ];
    for (batch, reason, text) in table {
        assert_eq!(refused(&hub, batch).await, (reason, text));
    }
    let bad = [
        ("name: ", NewRecord { name: Some("Not a name".to_owned()), ..new("1") }),
        ("namespace: ", NewRecord { namespace: Some("a.b".to_owned()), ..new("1") }),
        ("createdBy: ", NewRecord { created_by: Some(String::new()), ..new("1") }),
        ("alias: ", alias("a\nb")),
    ];
    for (field, record) in bad {
        let (reason, text) = refused(&hub, records(vec![new("1"), record])).await;
        assert!(reason == Reason::Invalid && text.starts_with(field), "{text}");
    }
}

async fn names_are_unique_and_found(place: Place) {
    let hub = place.hub().await;
    let named = || NewRecord { name: Some("helm-storage".to_owned()), ..new("1") };
    let id = create(&hub, named()).await;
    assert_eq!(hub.find("helm-storage").await.unwrap().unwrap().id, id);
    let batch = Batch { records: vec![new("1"), named()], ..Batch::default() };
    let text = "failed to create the TypeInstances: 1 error occurred:\n\t* Error: the name \"helm-storage\" belongs to \
                another TypeInstance; choose another";
    assert_eq!(refused(&hub, batch).await, (Reason::Conflict, text.to_owned()));
    let choice = |id: &str| StorageChoice { id: Some(id.to_owned()), context: None };
    let by_name = create(&hub, NewRecord { backend: Some(choice("builtin")), ..new("1") }).await;
    assert_eq!(hub.find(&by_name).await.unwrap().unwrap().backend, BUILT_IN);
}

async fn a_request_that_comes_again_is_answered_again(place: Place) {
    let hub = place.hub().await;
    let batch =
        |value: &str| Batch { idempotency_key: Some("k".to_owned()), records: vec![new(value)], ..Batch::default() };
    let first = hub.create(batch("1")).await.unwrap();
    assert_eq!(hub.create(batch("1")).await.unwrap(), first);
    let again = place.hub().await.create(batch("1")).await.unwrap();
    assert_eq!(again, first, "by another process");
    let (reason, text) = refused(&hub, batch("2")).await;
    assert!(reason == Reason::Conflict && text.contains("the idempotencyKey was used for another request"), "{text}");
}

async fn the_built_in_record_is_there_once(place: Place) {
    let hub = place.hub().await;
    let first = hub.find("builtin").await.unwrap().unwrap();
    assert_eq!((first.id.as_str(), first.backend.as_str(), first.latest), (BUILT_IN, BUILT_IN, 1));
    let again = place.hub_with(hub::Settings { namespace: "other".to_owned(), ..settings() }).await;
    assert_eq!(again.find(BUILT_IN).await.unwrap().unwrap(), first);
    assert_eq!(value(&hub, BUILT_IN, 1).await, r#"{"acceptValue":true,"contextSchema":null}"#);
}
