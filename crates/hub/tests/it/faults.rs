//! Backends that hang, refuse, lose answers or answer nonsense: everything ends in time, and nothing is half done.

use std::time::{Duration, Instant};

use backends::Code;
use hub::{
    AllowedUrls, Batch, Change, Deletion, Error, Filter, IntentState, NewRecord, OnBackendFailure, Reason, Relation,
    Settings, VersionId,
};
use tokio::sync::watch;

use crate::outside::moody::Mood;
use crate::outside::{Outside, World, batch, choice, hasty, kept_in, patient, storage, versions};
use crate::place::{Place, create, json, new, on_both, value};

on_both!(
    a_failed_create_leaves_nothing,
    a_failed_update_leaves_the_version_before,
    a_deletion_is_refused_or_carried_through,
    what_one_that_stays_uses_stays_too,
    nobody_waits_for_what_is_undone,
    what_is_undone_is_named_by_the_context_that_its_backend_told,
    a_lost_value_is_told_and_never_moved,
    an_orphan_goes_without_its_backend,
    what_lands_after_its_undo_is_undone_again,
    a_dead_backend_hides_no_other_value,
    many_values_of_a_dead_backend_take_one_limit,
    what_a_backend_says_of_one_value_is_said_of_no_other,
    the_journal_can_be_ended_by_hand,
    addresses_are_limited,
);

/// Longer than any change with these settings may take, on a busy machine.
const BOUND: Duration = Duration::from_secs(30);
/// For what has no limit but that it has to happen.
const PATIENCE: Duration = Duration::from_secs(60);

fn sorted(ids: &[String]) -> Vec<String> {
    let mut ids = ids.to_vec();
    ids.sort_unstable();
    ids
}

async fn bounded<T>(work: impl Future<Output = Result<T, Error>>) -> Error {
    let begun = Instant::now();
    let Err(error) = work.await else { panic!("it succeeded") };
    assert!(begun.elapsed() < BOUND, "{:?}", begun.elapsed());
    error
}

fn moods() -> Vec<(Mood, &'static str)> {
    vec![
        (Mood::Hang, "DEADLINE_EXCEEDED"),
        (Mood::Fail(Code::Internal), "INTERNAL"),
        (Mood::Fail(Code::InvalidArgument), "INVALID_ARGUMENT"),
        (Mood::Fail(Code::Unavailable), "UNAVAILABLE"),
        (Mood::Lose, "UNKNOWN"),
        (Mood::Say("{garbage"), "is not JSON"),
    ]
}

fn reason(error: &Error) -> Reason {
    let Error::Refused { reason, .. } = error else { panic!("{error}") };
    *reason
}

async fn a_failed_create_leaves_nothing(place: Place) {
    let world = World::new(place, hasty()).await;
    let (good, bad) = (world.register("good").await, world.register("bad").await);
    let before = world.hub.count(Filter::default()).await.unwrap();
    for (mood, text) in moods() {
        bad.moody.set("OnCreate", mood.clone());
        let named = NewRecord { name: Some("precious".to_owned()), ..kept_in("good", "\"a secret\"") };
        let records = vec![named, new("2"), kept_in("bad", "\"a secret\"")];
        let error = bounded(world.hub.create(batch(records))).await;
        assert!(error.to_string().contains(text) && !error.to_string().contains("secret"), "{mood:?}: {error}");
        assert_eq!(reason(&error), Reason::Backend, "{mood:?}");
        assert_eq!(world.hub.count(Filter::default()).await.unwrap(), before, "{mood:?}");
        bad.moody.be_well();
        world.settled().await;
        assert!(good.original.ids().is_empty() && bad.original.ids().is_empty(), "{mood:?}");
    }
    // Its name is free.
    create(&world.hub, NewRecord { name: Some("precious".to_owned()), ..kept_in("good", "1") }).await;
}

async fn a_failed_update_leaves_the_version_before(place: Place) {
    let world = World::new(place, hasty()).await;
    let (good, bad) = (world.register("good").await, world.register("bad").await);
    let ids = [
        create(&world.hub, kept_in("good", "1")).await,
        create(&world.hub, kept_in("bad", "1")).await,
        create(&world.hub, new("1")).await,
    ];
    let changes = || {
        let change = |id: &String| Change { id: id.clone(), value: Some(json("2")), ..Change::default() };
        ids.iter().map(change).collect::<Vec<_>>()
    };
    for (mood, text) in moods() {
        bad.moody.set("OnUpdate", mood.clone());
        let error = bounded(world.hub.update(changes())).await;
        assert!(error.to_string().contains(text), "{mood:?}: {error}");
        for id in &ids {
            assert_eq!(world.hub.find(id).await.unwrap().unwrap().latest, 1, "{mood:?}");
        }
        assert!(world.hub.rest(PATIENCE).await, "all are undone as far as they can be");
        // Until it is known to be undone, reads give what was, and writes are to be tried again.
        assert_eq!(value(&world.hub, &ids[0], 1).await, "1", "{mood:?}");
        let open = world.hub.journal().await.unwrap();
        if let Some(entry) = open.first() {
            assert_eq!((&entry.record, entry.state), (&ids[1], IntentState::Undo), "{mood:?}");
            let change = Change { id: ids[1].clone(), ..Change::default() };
            assert_eq!(reason(&world.hub.update(vec![change]).await.unwrap_err()), Reason::Retry, "{mood:?}");
        }
        bad.moody.be_well();
        world.settled().await;
        let one = [(1, "1".to_owned())];
        assert_eq!((versions(&good.original, &ids[0]), versions(&bad.original, &ids[1])), (one.to_vec(), one.to_vec()));
    }
    world.hub.update(changes()).await.unwrap();
    for id in &ids {
        assert_eq!(value(&world.hub, id, 2).await, "2");
    }
}

fn deletion(id: &str, on_backend_failure: OnBackendFailure) -> Deletion {
    Deletion { ids: vec![id.to_owned()], owner: None, on_backend_failure }
}

async fn a_deletion_is_refused_or_carried_through(place: Place) {
    let world = World::new(place, hasty()).await;
    let outside = world.register("shelf").await;
    let id = create(&world.hub, kept_in("shelf", "1")).await;
    for code in [Code::FailedPrecondition, Code::Unavailable] {
        outside.moody.set("OnDelete", Mood::Fail(code));
        let error = bounded(world.hub.delete(deletion(&id, OnBackendFailure::Fail))).await;
        assert_eq!(reason(&error), Reason::Backend);
        assert!(error.to_string().starts_with(&format!("failed to delete TypeInstance with ID \"{id}\": ClientError")));
        assert!(world.hub.journal().await.unwrap().is_empty(), "it stays as it is");
        assert_eq!(value(&world.hub, &id, 1).await, "1");
    }
    for mood in [Mood::Hang, Mood::Lose] {
        let id = create(&world.hub, kept_in("shelf", "1")).await;
        outside.moody.set("OnDelete", mood.clone());
        let error = bounded(world.hub.delete(deletion(&id, OnBackendFailure::Fail))).await.to_string();
        assert!(error.contains("goes as soon as its backend answers"), "{error}");
        assert!(world.hub.find(&id).await.unwrap().is_some());
        outside.moody.be_well();
        world.settled().await;
        assert!(world.hub.find(&id).await.unwrap().is_none() && outside.original.kept(&id).is_none(), "{mood:?}");
    }
    // One that refuses keeps no other.
    let other = create(&world.hub, kept_in("shelf", "2")).await;
    outside.moody.set("OnDelete", Mood::FailFor(id.clone(), Code::PermissionDenied));
    let both = Deletion { ids: vec![id.clone(), other.clone()], ..Deletion::default() };
    bounded(world.hub.delete(both)).await;
    assert!(world.hub.find(&other).await.unwrap().is_none() && world.hub.find(&id).await.unwrap().is_some());
    outside.moody.be_well();
    world.hub.delete(deletion(&id, OnBackendFailure::Fail)).await.unwrap();
    assert!(outside.original.ids().is_empty());
}

async fn what_one_that_stays_uses_stays_too(place: Place) {
    let world = World::new(place, hasty()).await;
    let (good, bad) = (world.register("good").await, world.register("bad").await);
    for mood in [Mood::Fail(Code::FailedPrecondition), Mood::Hang] {
        let used = create(&world.hub, kept_in("good", "1")).await;
        let user = create(&world.hub, kept_in("bad", "2")).await;
        let (apart, here) = (create(&world.hub, kept_in("good", "3")).await, create(&world.hub, new("4")).await);
        let uses = |from: &String, to: &String| Relation { from: from.clone(), to: to.clone() };
        let relations = vec![uses(&user, &used), uses(&here, &apart)];
        world.hub.create(Batch { relations, ..Batch::default() }).await.unwrap();
        let ids = vec![used.clone(), apart.clone(), user.clone(), here.clone()];
        bad.moody.set("OnDelete", mood.clone());
        bounded(world.hub.delete(Deletion { ids: ids.clone(), ..Deletion::default() })).await;
        let left = world.hub.records(&ids).await.unwrap();
        let left: Vec<String> = left.into_iter().map(|record| record.id).collect();
        // What is apart goes, and whatever uses it with it.
        assert_eq!(sorted(&left), sorted(&[used.clone(), user.clone()]), "{mood:?}");
        assert_eq!(good.original.ids(), [used.as_str()], "{mood:?}: it was not even asked");
        bad.moody.be_well();
        world.settled().await;
        let ids = world.hub.records(&[user, used]).await.unwrap().into_iter().map(|record| record.id).collect();
        world.hub.delete(Deletion { ids, ..Deletion::default() }).await.unwrap();
        assert!(good.original.ids().is_empty() && bad.original.ids().is_empty(), "{mood:?}");
    }
}

async fn nobody_waits_for_what_is_undone(place: Place) {
    let world = World::new(place, patient()).await;
    let outside = world.register("shelf").await;
    let (open, gate) = watch::channel(false);
    outside.moody.set("OnCreate", Mood::Lose);
    outside.moody.set("OnDelete", Mood::Wait(gate));
    let error = world.hub.create(batch(vec![kept_in("shelf", "1")])).await.unwrap_err();
    assert_eq!(reason(&error), Reason::Backend);
    let entry = world.hub.journal().await.unwrap().remove(0);
    assert_eq!((entry.state, entry.attempts), (IntentState::Undo, 0), "nobody has given that up yet");
    assert!(!world.hub.rest(Duration::ZERO).await, "it is still at work");
    assert_eq!(outside.original.ids().len(), 1);
    open.send_replace(true);
    assert!(world.hub.rest(PATIENCE).await);
    assert!(outside.original.ids().is_empty());
}

async fn what_is_undone_is_named_by_the_context_that_its_backend_told(place: Place) {
    let world = World::new(place, hasty()).await;
    let good = world.register_with("good", r#"{"type":"object"}"#).await;
    let bad = world.register("bad").await;
    let told = |method: &str, context: &str| {
        let contexts = good.moody.contexts(method);
        assert!(!contexts.is_empty() && contexts.iter().all(|told| told.as_deref() == Some(context)), "{contexts:?}");
        contexts.len()
    };
    for method in ["OnCreate", "OnUpdate"] {
        good.moody.set(method, Mood::Say(r#"{"path":"told"}"#));
        bad.moody.set(method, Mood::Fail(Code::InvalidArgument));
    }
    world.hub.create(batch(vec![kept_in("good", "1"), kept_in("bad", "1")])).await.unwrap_err();
    world.settled().await;
    assert_eq!(told("OnDelete", r#"{"path":"told"}"#), 2, "once more later, as the journal has it");
    assert!(good.original.ids().is_empty());

    bad.moody.be_well();
    let ids = [create(&world.hub, kept_in("good", "1")).await, create(&world.hub, kept_in("bad", "1")).await];
    good.moody.set("OnUpdate", Mood::Say(r#"{"path":"newer"}"#));
    bad.moody.set("OnUpdate", Mood::Fail(Code::InvalidArgument));
    let change = |id: &String| Change { id: id.clone(), value: Some(json("2")), ..Change::default() };
    world.hub.update(ids.iter().map(change).collect()).await.unwrap_err();
    world.settled().await;
    told("OnDeleteRevision", r#"{"path":"newer"}"#);
    assert_eq!(versions(&good.original, &ids[0]), [(1, "1".to_owned())]);

    bad.moody.be_well();
    let moved = create(&world.hub, new("1")).await;
    world.hub.update(vec![change(&moved)]).await.unwrap();
    good.moody.set("OnCreate", Mood::Say(r#"{"path":"newer"}"#));
    good.moody.set("OnUpdate", Mood::Fail(Code::InvalidArgument));
    let before = good.moody.count("OnDelete");
    world.hub.move_records(vec![moved.clone()], "good", None).await.unwrap_err();
    world.settled().await;
    let contexts = good.moody.contexts("OnDelete").split_off(before);
    assert!(contexts.len() == 2 && contexts.iter().all(|told| told.as_deref() == Some(r#"{"path":"newer"}"#)));
    assert_eq!(good.original.ids(), [ids[0].as_str()]);
}

async fn a_lost_value_is_told_and_never_moved(place: Place) {
    let world = World::new(place, patient()).await;
    let (one, two) = (world.register("one").await, world.register("two").await);
    let id = create(&world.hub, kept_in("one", "1")).await;
    let empty = create(&world.hub, NewRecord { value: None, ..kept_in("one", "1") }).await;
    let lost = |error: Error| {
        let text = error.to_string();
        assert!(text.contains("the answer to GetValue has no value of version 1"), "{text}");
    };
    for nothing in ["", "null"] {
        one.moody.set("GetValue", Mood::Say(nothing));
        lost(world.hub.value(&id, 1).await.unwrap_err());
        for to in ["two", "builtin"] {
            lost(world.hub.move_records(vec![id.clone()], to, None).await.unwrap_err());
        }
        // What is not given is read, to be sent on.
        lost(world.hub.update(vec![Change { id: id.clone(), ..Change::default() }]).await.unwrap_err());
        assert_eq!(one.moody.count("OnDelete"), 0);
    }
    one.moody.be_well();
    world.settled().await;
    assert_eq!((value(&world.hub, &id, 1).await, versions(&two.original, &id).len()), ("1".to_owned(), 0));
    // One that never had a value has none, and is moved as it is.
    assert_eq!(value(&world.hub, &empty, 1).await, "none");
    world.hub.update(vec![Change { id: empty.clone(), ..Change::default() }]).await.unwrap();
    world.hub.move_records(vec![empty.clone(), id.clone()], "two", None).await.unwrap();
    assert_eq!(
        (value(&world.hub, &empty, 2).await, value(&world.hub, &id, 1).await),
        ("none".to_owned(), "1".to_owned())
    );
    two.moody.set("GetValue", Mood::Say(""));
    assert_eq!(value(&world.hub, &empty, 1).await, "none");
    lost(world.hub.value(&id, 1).await.unwrap_err());
    let (shown, moody) = world.register_shown("shown").await;
    let context = Some(choice(&shown, Some(json(r#"{"a":1}"#))));
    let made = create(&world.hub, NewRecord { value: None, backend: context, ..new("1") }).await;
    assert_eq!(value(&world.hub, &made, 1).await, r#"{"shown":{"a":1}}"#);
    moody.set("GetValue", Mood::Say(""));
    lost(world.hub.value(&made, 1).await.unwrap_err());
}

async fn an_orphan_goes_without_its_backend(place: Place) {
    let world = World::new(place, hasty()).await;
    let outside = world.register("shelf").await;
    let id = create(&world.hub, kept_in("shelf", "1")).await;
    outside.moody.die();
    // Something is open there, too.
    let change = Change { id: id.clone(), value: Some(json("2")), ..Change::default() };
    bounded(world.hub.update(vec![change])).await;
    let left = world.hub.delete(deletion(&id, OnBackendFailure::Orphan)).await.unwrap();
    assert_eq!((left.len(), &left[0].id, &left[0].backend, left[0].versions), (1, &id, &outside.id, 1));
    assert!(left[0].fault.as_ref().unwrap().contains("DEADLINE_EXCEEDED"), "{left:?}");
    assert!(world.hub.find(&id).await.unwrap().is_none() && world.hub.journal().await.unwrap().is_empty());
    assert_eq!(outside.original.ids(), [id], "that is what is left");
}

async fn what_lands_after_its_undo_is_undone_again(place: Place) {
    let world = World::new(place, hasty()).await;
    let outside = world.register("shelf").await;
    let id = create(&world.hub, kept_in("shelf", "1")).await;
    let locked = create(&world.hub, kept_in("shelf", "1")).await;
    let moved = create(&world.hub, new("1")).await;
    let both = [id.clone(), locked.clone()];
    let (open, gate) = watch::channel(false);
    for method in ["OnCreate", "OnUpdate", "OnLock"] {
        outside.moody.set(method, Mood::Late(gate.clone()));
    }
    bounded(world.hub.create(batch(vec![kept_in("shelf", "2")]))).await;
    let change = Change { id: id.clone(), value: Some(json("2")), ..Change::default() };
    bounded(world.hub.update(vec![change.clone()])).await;
    bounded(world.hub.lock(vec![locked.clone()], "me".to_owned(), None)).await;
    bounded(world.hub.move_records(vec![moved.clone()], "shelf", None)).await;
    assert!(world.hub.rest(PATIENCE).await, "all are undone once");
    assert_eq!(world.hub.journal().await.unwrap().len(), 4, "and will be once more");
    let mut kept = outside.original.ids();
    kept.sort_unstable();
    assert_eq!(kept, sorted(&both), "nothing has landed yet");
    open.send_replace(true);
    let original = &outside.original;
    testbed::eventually(PATIENCE, || {
        let landed = original.ids().len() == 4 && versions(original, &id).len() == 2;
        let is_locked = original.kept(&locked).is_some_and(|kept| kept.locked_by.is_some());
        async move { landed && is_locked }
    })
    .await;
    outside.moody.be_well();
    world.settled().await;
    assert_eq!(sorted(&outside.original.ids()), sorted(&both));
    assert_eq!(versions(&outside.original, &id), [(1, "1".to_owned())]);
    assert_eq!(outside.original.kept(&locked).unwrap().locked_by, None);
    world.hub.update(vec![change]).await.unwrap();
    assert_eq!(value(&world.hub, &id, 2).await, "2");
}

/// The version 1 of these records.
fn first(ids: &[String]) -> Vec<VersionId> {
    ids.iter().map(|id| VersionId { record: id.clone(), number: 1 }).collect()
}

async fn a_dead_backend_hides_no_other_value(place: Place) {
    let world = World::new(place, hasty()).await;
    let (alive, dead) = (world.register("alive").await, world.register("dead").await);
    let mut records: Vec<NewRecord> = (0..900).map(|number| new(&number.to_string())).collect();
    records.extend((900..999).map(|number| kept_in("alive", &number.to_string())));
    records.push(kept_in("dead", "999"));
    let mut ids: Vec<String> = Vec::new();
    // Without limits that a busy machine might reach.
    let calm = world.second(patient()).await;
    for records in records.chunks(100) {
        let created = calm.create(batch(records.to_vec())).await.unwrap();
        ids.extend(created.into_iter().map(|created| created.id));
    }
    assert_eq!(alive.original.ids().len(), 99);
    dead.moody.die();
    let begun = Instant::now();
    let values = world.hub.values(&first(&ids)).await.unwrap();
    assert!(begun.elapsed() < BOUND);
    assert_eq!(values.len(), 1000);
    for (number, id) in first(&ids).iter().enumerate() {
        match &values[id] {
            Ok(value) => assert_eq!(value.text(), number.to_string()),
            Err(error) => {
                assert_eq!((number, reason(error)), (999, Reason::Backend));
                assert!(error.to_string().contains("GetValue DEADLINE_EXCEEDED"), "{error}");
            }
        }
    }
    assert_eq!(values.values().filter(|value| value.is_err()).count(), 1);
}

async fn many_values_of_a_dead_backend_take_one_limit(place: Place) {
    let world = World::new(place, hasty()).await;
    let dead = world.register("dead").await;
    let records = (0..200).map(|number| kept_in("dead", &number.to_string())).collect();
    let created = world.second(patient()).await.create(batch(records)).await.unwrap();
    let ids: Vec<String> = created.into_iter().map(|created| created.id).collect();
    dead.moody.die();
    let values = world.hub.values(&first(&ids)).await.unwrap();
    // Those that were under way when the first of them was given up, and no other.
    assert!(dead.moody.count("GetValue") <= 16, "{}", dead.moody.count("GetValue"));
    assert!(values.len() == 200 && values.values().all(Result::is_err));
    dead.moody.set("GetValue", Mood::Say("{garbage"));
    let error = world.hub.value(&ids[0], 1).await.unwrap_err().to_string();
    assert!(error.contains("the answer to GetValue is not JSON") && !error.contains("garbage"), "{error}");
}

async fn what_a_backend_says_of_one_value_is_said_of_no_other(place: Place) {
    let world = World::new(place, patient()).await;
    let outside = world.register("shelf").await;
    let records = (0..40).map(|number| kept_in("shelf", &number.to_string())).collect();
    let created = world.hub.create(batch(records)).await.unwrap();
    let ids: Vec<String> = created.into_iter().map(|created| created.id).collect();
    for code in [Code::DeadlineExceeded, Code::Unavailable, Code::Internal] {
        for method in ["GetValue", "GetLockedBy"] {
            outside.moody.set(method, Mood::FailFor(ids[0].clone(), code));
        }
        let values = world.hub.values(&first(&ids)).await.unwrap();
        let failed: Vec<&str> = values.iter().filter(|(_, value)| value.is_err()).map(|(id, _)| &*id.record).collect();
        assert_eq!((values.len(), failed), (40, vec![ids[0].as_str()]), "{code:?}");
        let records = world.hub.records(&ids).await.unwrap();
        let held = world.hub.locked_by(&records).await.unwrap();
        let failed: Vec<&String> = held.iter().filter(|(_, held)| held.backend.is_err()).map(|(id, _)| id).collect();
        assert_eq!((held.len(), failed), (40, vec![&ids[0]]), "{code:?}");
    }
}

async fn the_journal_can_be_ended_by_hand(place: Place) {
    let world = World::new(place, hasty()).await;
    let outside = world.register("shelf").await;
    let Outside { moody, original, .. } = &outside;
    let ids = [create(&world.hub, kept_in("shelf", "1")).await, create(&world.hub, kept_in("shelf", "1")).await];
    moody.set("OnDelete", Mood::Lose);
    for id in &ids {
        bounded(world.hub.delete(deletion(id, OnBackendFailure::Fail))).await;
    }
    let open = world.hub.journal().await.unwrap();
    assert_eq!(open.iter().map(|entry| &entry.record).collect::<Vec<_>>(), ids.iter().collect::<Vec<_>>());
    moody.die();
    let left = world.hub.journal_retry(&open[0].id).await.unwrap().unwrap();
    assert_eq!((left.attempts, left.fault.as_deref()), (1, Some("DEADLINE_EXCEEDED")));
    moody.be_well();
    assert!(world.hub.journal_retry(&open[0].id).await.unwrap().is_none());
    assert!(world.hub.find(&ids[0]).await.unwrap().is_none());
    let abandoned = world.hub.journal_abandon(&open[1].id).await.unwrap();
    assert!(abandoned.is_empty(), "nothing is left that no record tells of: {abandoned:?}");
    assert!(world.hub.journal().await.unwrap().is_empty() && world.hub.find(&ids[1]).await.unwrap().is_some());
    let missing = world.hub.journal_abandon(&open[1].id).await.unwrap_err();
    assert_eq!(reason(&missing), Reason::NotFound);
    assert!(original.ids().is_empty());
}

async fn addresses_are_limited(place: Place) {
    let allowed_urls = AllowedUrls::parse(["shelf:50051"]).unwrap();
    let world = World::new(place, Settings { allowed_urls, ..patient() }).await;
    let outside = world.register("shelf").await;
    let elsewhere = storage("elsewhere:50051", "null");
    let error = world.hub.create(batch(vec![elsewhere.clone()])).await.unwrap_err().to_string();
    assert!(error.contains("url: this server does not let backends be there"), "{error}");
    let change = Change { id: outside.id.clone(), value: elsewhere.value, ..Change::default() };
    assert!(world.hub.update(vec![change.clone()]).await.unwrap_err().to_string().contains("url: "));
    // One that was registered before the list was made is not called either.
    let open = world.second(patient()).await;
    open.update(vec![change]).await.unwrap();
    let error = world.hub.create(batch(vec![kept_in("shelf", "1")])).await.unwrap_err().to_string();
    assert!(error.contains("url: this server does not let backends be there"), "{error}");
}
