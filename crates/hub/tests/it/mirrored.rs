//! Locks that backends hear of.

use std::time::Duration;

use backends::Code;
use hub::{Change, Deletion, Error, Hub, NewRecord, Reason};
use jiff::SignedDuration;
use tokio::sync::watch;

use crate::outside::moody::Mood;
use crate::outside::original::Original;
use crate::outside::{World, choice, hasty, kept_in, patient};
use crate::place::{Place, create, json, new, on_both, value};

on_both!(
    a_backend_hears_of_a_lock_once_and_of_its_end,
    a_lease_that_ended_is_released_before_anything_else,
    leases_end_without_anybody_asking,
    a_lock_that_fails_in_part_is_undone,
    a_lost_answer_to_a_lock_is_found_again_or_undone,
    a_release_is_refused_or_carried_through,
    the_backend_is_asked_who_holds_a_record,
    one_damaged_context_hides_no_other_holder,
    a_lease_counts_from_when_it_is_granted,
    many_writers_lose_no_update,
);

fn holder(original: &Original, id: &str) -> Option<String> {
    original.kept(id).unwrap().locked_by
}

async fn locked(hub: &Hub, id: &str) -> Option<String> {
    hub.find(id).await.unwrap().unwrap().lock.map(|lock| lock.owner)
}

fn change(id: &str, owner: Option<&str>) -> Change {
    Change { id: id.to_owned(), owner: owner.map(str::to_owned), value: Some(json("2")), ..Change::default() }
}

async fn a_backend_hears_of_a_lock_once_and_of_its_end(place: Place) {
    let world = World::new(place, patient()).await;
    let outside = world.register("shelf").await;
    let ids = vec![create(&world.hub, kept_in("shelf", "1")).await, create(&world.hub, new("1")).await];
    let hour = Some(SignedDuration::from_hours(1));
    for lease in [None, hour, None, hour] {
        world.hub.lock(ids.clone(), "me".to_owned(), lease).await.unwrap();
    }
    assert_eq!((outside.moody.count("OnLock"), outside.moody.count("OnUnlock")), (1, 0));
    assert_eq!(holder(&outside.original, &ids[0]).as_deref(), Some("me"));
    world.hub.lock(ids.clone(), "you".to_owned(), None).await.unwrap_err();
    world.hub.update(vec![change(&ids[0], Some("me"))]).await.unwrap();
    world.hub.unlock(ids.clone(), "me".to_owned()).await.unwrap();
    world.hub.unlock(ids.clone(), "me".to_owned()).await.unwrap();
    assert_eq!((outside.moody.count("OnLock"), outside.moody.count("OnUnlock")), (1, 1));
    assert_eq!(holder(&outside.original, &ids[0]), None);
    world.hub.lock(ids.clone(), "me".to_owned(), None).await.unwrap();
    world.hub.force_unlock(ids.clone()).await.unwrap();
    assert_eq!((holder(&outside.original, &ids[0]), locked(&world.hub, &ids[0]).await), (None, None));
    world.hub.lock(ids.clone(), "me".to_owned(), None).await.unwrap();
    let owner = Some("me".to_owned());
    world.hub.delete(Deletion { ids, owner, ..Deletion::default() }).await.unwrap();
    assert!(outside.original.ids().is_empty());
}

async fn a_lease_that_ended_is_released_before_anything_else(place: Place) {
    let world = World::new(place, patient()).await;
    let outside = world.register("shelf").await;
    let short = Some(SignedDuration::from_millis(1));
    let id = create(&world.hub, kept_in("shelf", "1")).await;
    let expire = async || {
        world.hub.lock(vec![id.clone()], "me".to_owned(), short).await.unwrap();
        assert_eq!(holder(&outside.original, &id).as_deref(), Some("me"));
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    expire().await;
    world.hub.update(vec![change(&id, None)]).await.unwrap();
    assert_eq!((holder(&outside.original, &id), value(&world.hub, &id, 2).await), (None, "2".to_owned()));
    expire().await;
    world.hub.lock(vec![id.clone()], "you".to_owned(), None).await.unwrap();
    assert_eq!(holder(&outside.original, &id).as_deref(), Some("you"));
    world.hub.unlock(vec![id.clone()], "you".to_owned()).await.unwrap();
    expire().await;
    world.hub.delete(Deletion { ids: vec![id.clone()], ..Deletion::default() }).await.unwrap();
    assert!(outside.original.ids().is_empty());
}

async fn leases_end_without_anybody_asking(place: Place) {
    let world = World::new(place, patient()).await;
    let outside = world.register("shelf").await;
    let id = create(&world.hub, kept_in("shelf", "1")).await;
    world.hub.lock(vec![id.clone()], "me".to_owned(), Some(SignedDuration::from_millis(1))).await.unwrap();
    let hub = world.hub.clone();
    let looking_after = tokio::spawn(async move { hub.run().await });
    let original = outside.original.clone();
    testbed::eventually(Duration::from_secs(30), || {
        let gone = holder(&original, &id).is_none();
        async move { gone }
    })
    .await;
    looking_after.abort();
    world.settled().await;
    assert_eq!(locked(&world.hub, &id).await, None);
}

async fn a_lock_that_fails_in_part_is_undone(place: Place) {
    let world = World::new(place, hasty()).await;
    let (good, bad) = (world.register("good").await, world.register("bad").await);
    let ids = vec![
        create(&world.hub, kept_in("good", "1")).await,
        create(&world.hub, new("1")).await,
        create(&world.hub, kept_in("bad", "1")).await,
    ];
    for mood in [Mood::Fail(Code::FailedPrecondition), Mood::Hang, Mood::Lose] {
        bad.moody.set("OnLock", mood.clone());
        let error = world.hub.lock(ids.clone(), "me".to_owned(), None).await.unwrap_err();
        let Error::Refused { reason, message } = &error else { panic!("{error}") };
        assert_eq!(*reason, Reason::Backend);
        assert!(message.starts_with("failed to lock TypeInstances: 1 error occurred: ClientError"), "{message}");
        bad.moody.be_well();
        world.settled().await;
        for id in &ids {
            assert_eq!(locked(&world.hub, id).await, None, "{mood:?}");
        }
        let held = (holder(&good.original, &ids[0]), holder(&bad.original, &ids[2]));
        assert_eq!(held, (None, None), "{mood:?}");
    }
    world.hub.lock(ids.clone(), "me".to_owned(), None).await.unwrap();
}

async fn a_lost_answer_to_a_lock_is_found_again_or_undone(place: Place) {
    let world = World::new(place, hasty()).await;
    let outside = world.register("shelf").await;
    let id = create(&world.hub, kept_in("shelf", "1")).await;
    // As if an earlier attempt had landed: the backend refuses a second one, and is asked whose it is.
    let driver: &dyn backends::Driver = &*outside.original;
    let target = backends::Target { id: &id, context: None, key: "", within: Duration::from_secs(1) };
    driver.on_lock(target, "me").await.unwrap();
    world.hub.lock(vec![id.clone()], "me".to_owned(), None).await.unwrap();
    world.hub.unlock(vec![id.clone()], "me".to_owned()).await.unwrap();
    // Somebody else's is left alone.
    driver.on_lock(target, "stranger").await.unwrap();
    world.hub.lock(vec![id.clone()], "me".to_owned(), None).await.unwrap_err();
    world.settled().await;
    assert_eq!(holder(&outside.original, &id).as_deref(), Some("stranger"));
}

async fn a_release_is_refused_or_carried_through(place: Place) {
    let world = World::new(place, hasty()).await;
    let outside = world.register("shelf").await;
    let ids = vec![create(&world.hub, kept_in("shelf", "1")).await];
    world.hub.lock(ids.clone(), "me".to_owned(), None).await.unwrap();
    outside.moody.set("OnUnlock", Mood::Fail(Code::PermissionDenied));
    let error = world.hub.unlock(ids.clone(), "me".to_owned()).await.unwrap_err().to_string();
    assert!(error.contains("OnUnlock PERMISSION_DENIED"), "{error}");
    assert_eq!(locked(&world.hub, &ids[0]).await.as_deref(), Some("me"));
    outside.moody.set("OnUnlock", Mood::Lose);
    world.hub.unlock(ids.clone(), "me".to_owned()).await.unwrap_err();
    let busy = world.hub.lock(ids.clone(), "me".to_owned(), None).await.unwrap_err();
    assert!(matches!(busy, Error::Refused { reason: Reason::Retry, .. }), "{busy}");
    outside.moody.be_well();
    world.settled().await;
    assert_eq!((locked(&world.hub, &ids[0]).await, holder(&outside.original, &ids[0])), (None, None));
}

async fn the_backend_is_asked_who_holds_a_record(place: Place) {
    let world = World::new(place, hasty()).await;
    let outside = world.register("shelf").await;
    let dead = world.register("dead").await;
    let ids = [
        create(&world.hub, kept_in("shelf", "1")).await,
        create(&world.hub, new("1")).await,
        create(&world.hub, kept_in("dead", "1")).await,
    ];
    world.hub.lock(ids.to_vec(), "me".to_owned(), None).await.unwrap();
    dead.moody.die();
    let asked = async || {
        let records = world.hub.records(&ids).await.unwrap();
        let told = world.hub.locked_by(&records).await.unwrap();
        ids.clone().map(|id| (told[&id].owner().map(str::to_owned), told[&id].drifts(), told[&id].backend.is_ok()))
    };
    let me = || Some("me".to_owned());
    assert_eq!(asked().await, [(me(), false, true), (me(), false, true), (me(), false, false)]);
    outside.moody.set("GetLockedBy", Mood::Say("somebody"));
    assert_eq!(asked().await[0], (Some("somebody".to_owned()), true, true), "what differs is seen");
    outside.moody.set("GetLockedBy", Mood::Fail(Code::Unimplemented));
    assert_eq!(asked().await[0], (me(), false, true), "a backend that knows no locks leaves them to the hub");
}

async fn one_damaged_context_hides_no_other_holder(place: Place) {
    let world = World::new(place, patient()).await;
    world.register_with("shelf", r#"{"type":"object"}"#).await;
    let record = || NewRecord { backend: Some(choice("shelf", Some(json("{}")))), ..new("1") };
    let ids = [create(&world.hub, record()).await, create(&world.hub, record()).await];
    world.hub.lock(ids.to_vec(), "me".to_owned(), None).await.unwrap();
    let (db, damaged) = (world.place.db().await, ids[0].clone());
    let sql = "UPDATE hub_versions SET context = $1 WHERE record = $2";
    let done = db.write(move |tx| tx.execute(sql, db::params![b"damaged".as_slice(), &damaged])).await;
    assert_eq!(done.map_err(|error: db::Error| error).unwrap(), 1);
    let told = world.hub.locked_by(&world.hub.records(&ids).await.unwrap()).await.unwrap();
    assert!(told[&ids[0]].backend.is_err() && told[&ids[0]].owner() == Some("me"), "{told:?}");
    assert_eq!(told[&ids[1]].backend.as_ref().unwrap().as_deref(), Some("me"));
}

async fn a_lease_counts_from_when_it_is_granted(place: Place) {
    let world = World::new(place, patient()).await;
    let outside = world.register("shelf").await;
    let id = create(&world.hub, kept_in("shelf", "1")).await;
    let (open, gate) = watch::channel(false);
    outside.moody.set("OnLock", Mood::Wait(gate));
    let (hub, ids, hour) = (world.hub.clone(), vec![id.clone()], SignedDuration::from_hours(1));
    let locking = tokio::spawn(async move { hub.lock(ids, "me".to_owned(), Some(hour)).await });
    let moody = &outside.moody;
    testbed::eventually(Duration::from_secs(60), || async { moody.count("OnLock") == 1 }).await;
    let answered = world.hub.now();
    open.send_replace(true);
    locking.await.unwrap().unwrap();
    let expires = world.hub.find(&id).await.unwrap().unwrap().lock.unwrap().expires.unwrap();
    // Kept in microseconds.
    assert!(expires.as_microsecond() >= (answered + hour).as_microsecond(), "{expires} {answered}");
}

/// Adds one to a number, if nobody else is at it.
async fn try_to_add_one(hub: &Hub, id: &str) -> Result<(), Error> {
    let latest = hub.find(id).await?.unwrap().latest;
    let number: u64 = hub.value(id, latest).await?.unwrap().text().parse().unwrap();
    let value = Some(json(&(number + 1).to_string()));
    hub.update(vec![Change { id: id.to_owned(), value, expected: Some(latest), ..Change::default() }]).await.map(drop)
}

/// Until it succeeds; the database may be too busy for all of them.
pub(crate) async fn add_one(hub: Hub, id: String) {
    loop {
        match try_to_add_one(&hub, &id).await {
            Ok(()) => return,
            Err(
                Error::Refused { reason: Reason::Conflict | Reason::Retry, .. }
                | Error::Database(db::Error::Conflict { .. } | db::Error::Unavailable { .. }),
            ) => {}
            Err(error) => panic!("{error}"),
        }
        tokio::time::sleep(Duration::from_millis(fastrand::u64(1..100))).await;
    }
}

async fn many_writers_lose_no_update(place: Place) {
    let world = World::new(place, patient()).await;
    let outside = world.register("shelf").await;
    let hubs = [world.hub.clone(), world.second(patient()).await];
    let id = create(&world.hub, kept_in("shelf", "0")).await;
    let writing = (0..32).map(|writer| tokio::spawn(add_one(hubs[writer % 2].clone(), id.clone())));
    for writer in writing.collect::<Vec<_>>() {
        writer.await.unwrap();
    }
    assert_eq!(value(&world.hub, &id, 33).await, "32");
    let kept = outside.original.kept(&id).unwrap().versions;
    assert!((1..=33).all(|version| kept[&version] == (version - 1).to_string()), "{kept:?}");
}
