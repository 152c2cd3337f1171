//! Records that get another backend, and backends that go.

use std::sync::Arc;

use backends::{Code, Driver};
use hub::model::BUILT_IN;
use hub::{Change, Deletion, Error, Filter, Hub, NewRecord, OldCopy, Reason, Retire, VersionId};

use crate::outside::moody::Mood;
use crate::outside::{World, choice, hasty, kept_in, patient, storage, versions};
use crate::place::{Place, create, json, new, on_both};

on_both!(
    all_versions_move_and_the_old_copy_goes,
    a_move_that_fails_leaves_everything_where_it_was,
    an_old_copy_that_stays_hinders_nobody,
    one_place_under_two_names_is_not_moved_onto_itself,
    a_backend_is_retired_with_its_records_moved,
    a_backend_that_never_returns_is_retired,
    contexts_move_without_the_backend_that_had_them,
);

async fn texts(hub: &Hub, id: &str) -> Vec<String> {
    let latest = hub.find(id).await.unwrap().unwrap().latest;
    let wanted: Vec<VersionId> = (1..=latest).map(|number| VersionId { record: id.to_owned(), number }).collect();
    let mut values = hub.values(&wanted).await.unwrap();
    wanted.iter().map(|id| values.remove(id).unwrap().unwrap().text().to_owned()).collect()
}

/// A record with three versions.
async fn three(hub: &Hub, record: hub::NewRecord) -> String {
    let id = create(hub, record).await;
    for text in ["\"b\"", "3.0"] {
        hub.update(vec![Change { id: id.clone(), value: Some(json(text)), ..Change::default() }]).await.unwrap();
    }
    id
}

const TEXTS: [&str; 3] = ["1.50", "\"b\"", "3.0"];

fn expected() -> Vec<(u32, String)> {
    (1..).zip(TEXTS.map(str::to_owned)).collect()
}

async fn all_versions_move_and_the_old_copy_goes(place: Place) {
    let world = World::new(place, patient()).await;
    let (one, two) = (world.register("one").await, world.register("two").await);
    let id = three(&world.hub, kept_in("one", "1.50")).await;
    world.hub.lock(vec![id.clone()], "me".to_owned(), None).await.unwrap();
    let owner = || Some("me".to_owned());
    let refused = world.hub.move_records(vec![id.clone()], "two", None).await.unwrap_err();
    assert!(refused.to_string().contains("locked by different owner"), "{refused}");
    let moved = world.hub.move_records(vec![id.clone()], "two", owner()).await.unwrap();
    assert_eq!((moved[0].from.as_str(), moved[0].to.as_str()), (one.id.as_str(), two.id.as_str()));
    assert_eq!(moved[0].old_copy, OldCopy::Gone);
    assert!(one.original.ids().is_empty());
    assert_eq!(versions(&two.original, &id), expected());
    assert_eq!(two.original.kept(&id).unwrap().locked_by.as_deref(), Some("me"), "its lock goes with it");
    assert_eq!(texts(&world.hub, &id).await, TEXTS);
    let uses = world.hub.uses(std::slice::from_ref(&id)).await.unwrap();
    assert_eq!(uses[&id].iter().map(|record| record.id.as_str()).collect::<Vec<_>>(), [two.id.as_str()]);
    assert!(world.hub.move_records(vec![id.clone()], "two", owner()).await.unwrap().is_empty(), "it is there");
    world.hub.move_records(vec![id.clone()], "builtin", owner()).await.unwrap();
    assert!(two.original.ids().is_empty());
    assert_eq!(world.hub.find(&id).await.unwrap().unwrap().backend, BUILT_IN);
    assert_eq!(texts(&world.hub, &id).await, TEXTS);
    world.hub.move_records(vec![id.clone()], "one", owner()).await.unwrap();
    assert_eq!(
        (versions(&one.original, &id), texts(&world.hub, &id).await),
        (expected(), TEXTS.map(str::to_owned).into())
    );
    // Nothing of it stays here.
    let db = world.place.db().await;
    let sql = "SELECT COUNT(*) FROM hub_versions WHERE record = $1 AND value IS NOT NULL";
    assert_eq!(db.look_up(sql, db::params![&id]).await.unwrap().unwrap().get::<i64>(0).unwrap(), 0);
    world.hub.update(vec![Change { id: id.clone(), owner: owner(), ..Change::default() }]).await.unwrap();
}

async fn a_move_that_fails_leaves_everything_where_it_was(place: Place) {
    let world = World::new(place, hasty()).await;
    let (one, two) = (world.register("one").await, world.register("two").await);
    let id = three(&world.hub, kept_in("one", "1.50")).await;
    let here = three(&world.hub, new("1.50")).await;
    for method in ["OnCreate", "OnUpdate"] {
        for mood in [Mood::Fail(Code::InvalidArgument), Mood::Hang, Mood::Lose] {
            two.moody.set(method, mood.clone());
            for id in [&id, &here] {
                let error = world.hub.move_records(vec![id.clone()], "two", None).await.unwrap_err();
                assert!(error.to_string().starts_with(&format!("failed to move TypeInstance with ID \"{id}\": ")));
            }
            two.moody.be_well();
            world.settled().await;
            assert!(two.original.ids().is_empty(), "{method} {mood:?}");
        }
    }
    two.moody.set("GetValue", Mood::Say("\"otherwise\""));
    let error = world.hub.move_records(vec![id.clone()], "two", None).await.unwrap_err().to_string();
    assert!(error.contains("version 1 came back otherwise"), "{error}");
    two.moody.be_well();
    world.settled().await;
    assert!(two.original.ids().is_empty(), "what was not read back is not kept");
    assert_eq!(
        (texts(&world.hub, &id).await, texts(&world.hub, &here).await),
        (TEXTS.map(str::to_owned).into(), TEXTS.map(str::to_owned).into())
    );
    assert_eq!(versions(&one.original, &id), expected());
    for (to, text) in [("nowhere", "were not found"), (&id, "failed to resolve")] {
        let error = world.hub.move_records(vec![here.clone()], to, None).await.unwrap_err().to_string();
        assert!(error.contains(text), "{error}");
    }
    let error = world.hub.move_records(vec![one.id.clone()], "two", None).await.unwrap_err().to_string();
    assert!(error.contains("only the built-in one takes it"), "{error}");
}

async fn an_old_copy_that_stays_hinders_nobody(place: Place) {
    let world = World::new(place, hasty()).await;
    let (one, two) = (world.register("one").await, world.register("two").await);
    let id = three(&world.hub, kept_in("one", "1.50")).await;
    one.moody.set("OnDelete", Mood::Fail(Code::Unavailable));
    let moved = world.hub.move_records(vec![id.clone()], "two", None).await.unwrap();
    assert_eq!(moved[0].old_copy, OldCopy::StillThere);
    world.hub.update(vec![Change { id: id.clone(), value: Some(json("4")), ..Change::default() }]).await.unwrap();
    let back = world.hub.move_records(vec![id.clone()], "one", None).await.unwrap_err();
    assert!(matches!(back, Error::Refused { reason: Reason::Conflict, .. }), "{back}");
    one.moody.be_well();
    world.settled().await;
    assert!(one.original.ids().is_empty() && versions(&two.original, &id).len() == 4);
    world.hub.move_records(vec![id.clone()], "one", None).await.unwrap();
    assert!(two.original.ids().is_empty() && versions(&one.original, &id).len() == 4);
}

async fn one_place_under_two_names_is_not_moved_onto_itself(place: Place) {
    let world = World::new(place, patient()).await;
    let one = world.register("one").await;
    world.shelf.put("again:50051", Arc::clone(&one.moody) as Arc<dyn Driver>);
    let again = create(&world.hub, storage("again:50051", "null")).await;
    let id = three(&world.hub, kept_in("one", "1.50")).await;
    let error = world.hub.move_records(vec![id.clone()], &again, None).await.unwrap_err().to_string();
    assert!(error.contains("has a value for it already"), "{error}");
    world.settled().await;
    assert_eq!(texts(&world.hub, &id).await, TEXTS);
}

async fn a_backend_is_retired_with_its_records_moved(place: Place) {
    let world = World::new(place, patient()).await;
    let (one, two) = (world.register("one").await, world.register("two").await);
    let ids = [three(&world.hub, kept_in("one", "1.50")).await, create(&world.hub, kept_in("one", "1")).await];
    world.hub.lock(vec![ids[1].clone()], "somebody".to_owned(), None).await.unwrap();
    let itself = world.hub.retire("one", Retire::MoveTo("one".to_owned())).await.unwrap_err().to_string();
    assert!(itself.contains("cannot be moved to itself"), "{itself}");
    let retired = world.hub.retire("one", Retire::MoveTo("two".to_owned())).await.unwrap();
    assert_eq!((retired.moved.len(), retired.left.len()), (2, 0));
    assert!(one.original.ids().is_empty() && two.original.ids().len() == 2);
    assert!(world.hub.find("one").await.unwrap().is_none());
    assert_eq!(texts(&world.hub, &ids[0]).await, TEXTS);
    assert!(world.hub.retire("builtin", Retire::Orphan).await.unwrap_err().to_string().contains("which stays"));
}

async fn a_backend_that_never_returns_is_retired(place: Place) {
    let world = World::new(place, hasty()).await;
    let dead = world.register("dead").await;
    let ids = [create(&world.hub, kept_in("dead", "1")).await, create(&world.hub, kept_in("dead", "2")).await];
    let user = create(&world.hub, new("3")).await;
    let relations = vec![hub::Relation { from: user.clone(), to: ids[0].clone() }];
    world.hub.create(hub::Batch { relations, ..hub::Batch::default() }).await.unwrap();
    dead.moody.die();
    // Something is open with it, of a record that is there and of one that never was.
    let change = Change { id: ids[1].clone(), value: Some(json("2")), ..Change::default() };
    world.hub.update(vec![change]).await.unwrap_err();
    world.hub.create(crate::outside::batch(vec![kept_in("dead", "4")])).await.unwrap_err();
    assert!(world.hub.retire("dead", Retire::MoveTo("builtin".to_owned())).await.is_err(), "it cannot be read");
    let retired = world.hub.retire("dead", Retire::Orphan).await.unwrap();
    let left: Vec<&str> = retired.left.iter().map(|left| left.id.as_str()).collect();
    assert!(left.len() == 3 && ids.iter().all(|id| left.contains(&id.as_str())), "{left:?}");
    assert!(world.hub.journal().await.unwrap().is_empty());
    assert_eq!(world.hub.count(Filter::default()).await.unwrap(), 2, "the built-in one and the user");
    world.hub.delete(Deletion { ids: vec![user], ..Deletion::default() }).await.unwrap();
}

async fn contexts_move_without_the_backend_that_had_them(place: Place) {
    let world = World::new(place, hasty()).await;
    let ((old, silent), (_, new_one)) = (world.register_shown("old").await, world.register_shown("new").await);
    world.register_with("values", r#"{"type":"object"}"#).await;
    let record = |backend: &str| NewRecord {
        value: None,
        backend: Some(choice(backend, Some(json(r#"{"release":"a"}"#)))),
        ..new("1")
    };
    let (id, other) = (create(&world.hub, record("old")).await, create(&world.hub, record("values")).await);
    let change = Change { id: id.clone(), context: Some(json(r#"{"release":"b"}"#)), ..Change::default() };
    world.hub.update(vec![change]).await.unwrap();
    let shown = [r#"{"shown":{"release":"a"}}"#, r#"{"shown":{"release":"b"}}"#];
    assert_eq!(texts(&world.hub, &id).await, shown);
    silent.die();
    // Nothing counts before the new one has made a value of every context.
    new_one.set("GetValue", Mood::Say(""));
    let error = world.hub.move_records(vec![id.clone()], "new", None).await.unwrap_err().to_string();
    assert!(error.contains("has no value of version 1"), "{error}");
    new_one.be_well();
    world.settled().await;
    assert_eq!(world.hub.find(&id).await.unwrap().unwrap().backend, old);
    let retired = world.hub.retire("old", Retire::MoveTo("new".to_owned())).await.unwrap();
    assert_eq!((retired.moved.len(), &retired.moved[0].id), (1, &id));
    assert_eq!(retired.left.iter().map(|left| (&left.id, &left.backend)).collect::<Vec<_>>(), [(&id, &old)]);
    assert!(world.hub.find("old").await.unwrap().is_none() && world.hub.journal().await.unwrap().is_empty());
    assert_eq!(texts(&world.hub, &id).await, shown);
    // A record without a value may go there from where values are taken, one with a value may not.
    world.hub.move_records(vec![other.clone()], "new", None).await.unwrap();
    assert_eq!(texts(&world.hub, &other).await, shown[..1]);
    let here = create(&world.hub, new("1")).await;
    let error = world.hub.move_records(vec![here], "new", None).await.unwrap_err().to_string();
    assert!(error.contains("input value not allowed"), "{error}");
}
