//! Records whose values are kept by backends, where all is well.

use std::time::Duration;

use hub::{Batch, Change, Deletion, Error, Filter, NewRecord, Reason, Relation, VersionId};

use crate::outside::moody::Mood;
use crate::outside::{World, batch, choice, kept_in, patient, storage, versions};
use crate::place::{Place, attribute, create, json, new, on_both, type_ref, value};

on_both!(
    a_value_goes_to_its_backend_and_nowhere_else,
    a_batch_may_mix_places,
    what_is_absent_in_an_update_is_sent_on,
    contexts_are_checked_before_and_after,
    a_backend_must_be_one,
    a_changed_backend_counts_at_once,
    a_request_that_comes_again_calls_nobody,
    backends_in_use_stay,
    registered_backends_are_listed_with_their_health,
);

const CANARY: &str = "canary-0815-belongs-elsewhere";

async fn a_value_goes_to_its_backend_and_nowhere_else(place: Place) {
    let world = World::new(place, patient()).await;
    let outside = world.register("shelf").await;
    let secret = format!("{{\"password\":\"{CANARY}\"}}");
    let id = create(&world.hub, kept_in("shelf", &secret)).await;
    assert_eq!(world.hub.find(&id).await.unwrap().unwrap().backend, outside.id);
    assert_eq!(versions(&outside.original, &id), [(1, secret.clone())]);
    assert_eq!(value(&world.hub, &id, 1).await, secret);
    let changed = format!("{{\"password\":\"{CANARY}\",\"n\":1.50}}");
    let change = Change { id: id.clone(), value: Some(json(&changed)), ..Change::default() };
    assert_eq!(world.hub.update(vec![change]).await.unwrap()[0].latest, 2);
    assert_eq!(versions(&outside.original, &id), [(1, secret), (2, changed.clone())]);
    assert_eq!(value(&world.hub, &id, 2).await, changed);
    // Also while the journal knows of it: one that fails half way stays there for a while.
    outside.moody.set("OnUpdate", Mood::Lose);
    let change = Change { id: id.clone(), value: Some(json(&changed)), ..Change::default() };
    world.hub.update(vec![change]).await.unwrap_err();
    outside.moody.be_well();
    assert_eq!(world.hub.journal().await.unwrap().len(), 1);
    let uses = world.hub.uses(std::slice::from_ref(&id)).await.unwrap();
    assert_eq!(uses[&id].iter().map(|record| &record.id).collect::<Vec<_>>(), [&outside.id]);
    world.place.holds_nothing_of(CANARY).await;
    world.hub.journal_abandon(&world.hub.journal().await.unwrap()[0].id).await.unwrap();
    world.hub.delete(Deletion { ids: vec![id.clone()], ..Deletion::default() }).await.unwrap();
    assert_eq!(outside.original.ids(), Vec::<String>::new());
    world.place.holds_nothing_of(CANARY).await;
}

async fn a_batch_may_mix_places(place: Place) {
    let world = World::new(place, patient()).await;
    let (one, two) = (world.register("one").await, world.register("two").await);
    let alias = |alias: &str, record: NewRecord| NewRecord { alias: Some(alias.to_owned()), ..record };
    let records = vec![alias("a", kept_in("one", "1")), alias("b", new("2")), alias("c", kept_in(&two.id, "3"))];
    let relation = |from: &str, to: &str| Relation { from: from.to_owned(), to: to.to_owned() };
    let relations = vec![relation("a", "b"), relation("b", "c")];
    let created = world.hub.create(Batch { records, relations, idempotency_key: None }).await.unwrap();
    let ids: Vec<String> = created.into_iter().map(|created| created.id).collect();
    for (id, expected) in ids.iter().zip(["1", "2", "3"]) {
        assert_eq!(value(&world.hub, id, 1).await, expected);
    }
    assert_eq!((one.original.ids(), two.original.ids()), (vec![ids[0].clone()], vec![ids[2].clone()]));
    let used = world.hub.used_by(&ids).await.unwrap();
    assert_eq!((used[&ids[1]][0].id.clone(), used[&ids[2]][0].id.clone()), (ids[0].clone(), ids[1].clone()));
    // All versions appear at once, also of a record that is named twice.
    let change =
        |index: usize, value: &str| Change { id: ids[index].clone(), value: Some(json(value)), ..Change::default() };
    let updated = world.hub.update(vec![change(0, "10"), change(1, "20"), change(0, "11")]).await.unwrap();
    assert_eq!(updated.iter().map(|record| record.latest).collect::<Vec<_>>(), [2, 2, 3]);
    let texts = [(1, "1".to_owned()), (2, "10".to_owned()), (3, "11".to_owned())];
    assert_eq!(versions(&one.original, &ids[0]), texts);
    let wanted: Vec<VersionId> =
        [(0, 1), (0, 3), (1, 2), (2, 1)].map(|(index, number)| VersionId { record: ids[index].clone(), number }).into();
    let mut values = world.hub.values(&wanted).await.unwrap();
    let texts = wanted.iter().map(|id| values.remove(id).unwrap().unwrap().text().to_owned());
    assert_eq!(texts.collect::<Vec<_>>(), ["1", "11", "20", "3"]);
    world.hub.delete(Deletion { ids, ..Deletion::default() }).await.unwrap();
    assert!(one.original.ids().is_empty() && two.original.ids().is_empty());
    assert_eq!(world.hub.count(Filter::default()).await.unwrap(), 3);
}

async fn what_is_absent_in_an_update_is_sent_on(place: Place) {
    let world = World::new(place, patient()).await;
    let outside = world.register_with("shelf", r#"{"type":"object"}"#).await;
    let backend = Some(choice("shelf", Some(json(r#"{"a":1.50}"#))));
    let id = create(&world.hub, NewRecord { backend, ..new("12345678901234567890123") }).await;
    let attributes = Some(vec![attribute("cap.attribute.a", "0.1.0")]);
    world.hub.update(vec![Change { id: id.clone(), attributes, ..Change::default() }]).await.unwrap();
    let null = Change { id: id.clone(), context: Some(json("null")), value: Some(json("null")), ..Change::default() };
    world.hub.update(vec![null]).await.unwrap();
    let texts = versions(&outside.original, &id);
    assert!(texts.len() == 3 && texts.iter().all(|(_version, text)| text == "12345678901234567890123"), "{texts:?}");
    for version in 1..=3 {
        assert_eq!(world.hub.context(&id, version).await.unwrap().unwrap().text(), r#"{"a":1.50}"#);
    }
}

async fn contexts_are_checked_before_and_after(place: Place) {
    let world = World::new(place, patient()).await;
    let schema = r#"{"type":"object","required":["provider"],"properties":{"provider":{"type":"string"}}}"#;
    let strict = world.register_with("strict", schema).await;
    let plain = world.register("plain").await;
    let failed = "failed to create the TypeInstances: 1 error occurred:\n\t* Error: ";
    let given = |backend: &str, context: Option<&str>| NewRecord {
        backend: Some(choice(backend, context.map(json))),
        ..new("1")
    };
    let table = [
        (given("plain", Some("{}")), format!("External backend \"{}\": input context not allowed", plain.id)),
        (
            given("strict", Some("7")),
            format!("External backend \"{}\": invalid input: context must be object", strict.id),
        ),
        (
            given("strict", Some(r#"{"provider":7}"#)),
            format!("External backend \"{}\": invalid input: context/provider must be string", strict.id),
        ),
        (
            given("strict", None),
            format!(
                "External backend \"{}\": invalid input: context must have required property 'provider'",
                strict.id
            ),
        ),
    ];
    for (record, text) in table {
        let error = world.hub.create(batch(vec![record])).await.unwrap_err().to_string();
        assert_eq!(error, format!("{failed}{text}"));
    }
    strict.moody.set("OnCreate", Mood::Say(r#"{"provider":"better"}"#));
    let id = create(&world.hub, given("strict", Some(r#"{"provider":"good"}"#))).await;
    assert_eq!(world.hub.context(&id, 1).await.unwrap().unwrap().text(), r#"{"provider":"better"}"#);
    for answer in [r#"{"provider":7}"#, "no json"] {
        strict.moody.set("OnCreate", Mood::Say(answer));
        let record = given("strict", Some(r#"{"provider":"good"}"#));
        let error = world.hub.create(batch(vec![record])).await.unwrap_err().to_string();
        assert!(error.contains(&format!("External backend \"{}\": ", strict.id)), "{error}");
        assert!(world.hub.rest(Duration::from_mins(1)).await);
        assert_eq!(strict.original.ids(), [id.as_str()], "what does not fit is not kept");
    }
    strict.moody.be_well();
    let change = Change { id: id.clone(), context: Some(json("[]")), ..Change::default() };
    let error = world.hub.update(vec![change]).await.unwrap_err().to_string();
    assert!(error.ends_with(": invalid input: context must be object"), "{error}");
    // The context that is there is good enough.
    world.hub.update(vec![Change { id: id.clone(), ..Change::default() }]).await.unwrap();
}

async fn a_backend_must_be_one(place: Place) {
    let world = World::new(place, patient()).await;
    let resolve = |id: &str| format!("failed to resolve the TypeInstance's backend \"{id}\": ");
    let empty = create(&world.hub, new("{}")).await;
    let missing = "spec/value must have required property 'url', spec/value must have required property 'acceptValue'";
    let wrong = create(&world.hub, new(r#"{"url":"a:1","acceptValue":true,"contextSchema":1}"#)).await;
    let not_storage = create(&world.hub, new(r#"{"url":"a:1","acceptValue":true}"#)).await;
    let nothing_there = create(&world.hub, storage("nowhere:1", "null")).await;
    let table = [
        (empty, missing),
        (wrong, "spec/value/contextSchema must be object"),
        (not_storage, "its Type cap.type.test:0.1.0 is not attached to cap.core.type.hub.storage"),
        (nothing_there, "nothing is at nowhere:1"),
    ];
    for (id, text) in table {
        let error = world.hub.create(batch(vec![kept_in(&id, "1")])).await.unwrap_err().to_string();
        assert_eq!(error.split_once("* Error: ").unwrap().1, resolve(&id) + text);
    }
}

async fn a_changed_backend_counts_at_once(place: Place) {
    let world = World::new(place, patient()).await;
    let (old, new_one) = (world.register("old").await, world.register("new").await);
    let second = world.second(patient()).await;
    let first = create(&second, kept_in("old", "1")).await;
    assert_eq!(old.original.ids(), [first]);
    let record = storage("new:50051", r#"{"type":"object"}"#);
    world.hub.update(vec![Change { id: old.id.clone(), value: record.value, ..Change::default() }]).await.unwrap();
    for hub in [&world.hub, &second] {
        let record = NewRecord { backend: Some(choice("old", Some(json("{}")))), ..new("2") };
        let id = create(hub, record).await;
        assert!(new_one.original.kept(&id).is_some() && old.original.kept(&id).is_none());
    }
}

async fn a_request_that_comes_again_calls_nobody(place: Place) {
    let world = World::new(place, patient()).await;
    let outside = world.register("shelf").await;
    let request = || Batch {
        records: vec![NewRecord { alias: Some("a".to_owned()), ..kept_in("shelf", "1") }],
        relations: Vec::new(),
        idempotency_key: Some("once".to_owned()),
    };
    let first = world.hub.create(request()).await.unwrap();
    assert_eq!(world.hub.create(request()).await.unwrap(), first);
    assert_eq!((outside.moody.count("OnCreate"), outside.original.ids().len()), (1, 1));
}

async fn backends_in_use_stay(place: Place) {
    let world = World::new(place, patient()).await;
    let outside = world.register("shelf").await;
    let id = create(&world.hub, kept_in("shelf", "1")).await;
    let deletion =
        |ids: &[&String]| Deletion { ids: ids.iter().map(|id| (*id).clone()).collect(), ..Deletion::default() };
    let Error::Refused { reason, message } = world.hub.delete(deletion(&[&outside.id])).await.unwrap_err() else {
        panic!("another error")
    };
    assert!(reason == Reason::InUse && message.ends_with(&id), "{message}");
    world.hub.delete(deletion(&[&id])).await.unwrap();
    world.hub.delete(deletion(&[&outside.id])).await.unwrap();
}

async fn registered_backends_are_listed_with_their_health(place: Place) {
    let world = World::new(place, patient()).await;
    let outside = world.register_with("shelf", r#"{"type":"object"}"#).await;
    let broken = create(&world.hub, storage("nowhere:1", "null")).await;
    create(&world.hub, NewRecord::new(type_ref("cap.type.test", "0.1.0"))).await;
    let listed = world.hub.storage_backends().await.unwrap();
    assert_eq!(listed.len(), 3, "with the built-in one");
    let by_id = |id: &str| listed.iter().find(|backend| backend.record.id == id).unwrap();
    let shelf = by_id(&outside.id);
    assert_eq!(shelf.url.as_deref(), Some("shelf:50051"));
    assert!(shelf.accept_value && shelf.health.is_ok() && shelf.context_schema.is_some());
    assert!(by_id(&broken).health.as_ref().unwrap_err().to_string().contains("nothing is at"));
    assert!(by_id(hub::model::BUILT_IN).health.is_ok());
    assert_eq!(world.hub.storage_backend("shelf").await.unwrap().unwrap().record.id, outside.id);
    assert!(world.hub.storage_backend("nobody").await.unwrap().is_none());
    let error = world.hub.pre_create_value("shelf", &json("{}")).await.unwrap_err().to_string();
    assert!(error.contains("GetPreCreateValue UNIMPLEMENTED"), "{error}");
}
