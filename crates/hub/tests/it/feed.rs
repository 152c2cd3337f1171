//! The feed of changes.

use std::time::Duration;

use hub::{Batch, Change, ChangeCursor, ChangeEvent, ChangeKind, Deletion, Error, Hub, Reason, Settings, Times};

use crate::outside::{World, kept_in, patient};
use crate::place::{Place, create, new, on_both, settings};

on_both!(
    everything_that_happens_is_told_in_order,
    nothing_is_missed_while_many_write,
    a_place_that_is_too_old_is_refused,
    only_so_many_changes_are_kept,
);

/// So many changes after a cursor, a few at a time. A transaction of somebody else may hold the last ones back for a moment.
async fn some_after(hub: &Hub, mut after: Option<ChangeCursor>, count: usize) -> Vec<ChangeEvent> {
    let mut all = Vec::new();
    for _ in 0..3000 {
        let page = hub.changes_after(after, 3).await.unwrap();
        after = page.last().map(|last| last.cursor).or(after);
        all.extend(page);
        if all.len() >= count {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(all.len(), count, "{all:?}");
    all
}

async fn everything_that_happens_is_told_in_order(place: Place) {
    let world = World::new(place, patient()).await;
    let hub = &world.hub;
    world.register("shelf").await;
    // Others on the same PostgreSQL may hold back what is told of it until they are done.
    some_after(hub, None, 1).await;
    let (start, mut changed) = (hub.changes_end().await.unwrap(), hub.changed());
    changed.mark_unchanged();
    let records = vec![kept_in("shelf", "1"), new("2")];
    let ids: Vec<String> =
        hub.create(Batch { records, ..Batch::default() }).await.unwrap().into_iter().map(|made| made.id).collect();
    assert!(changed.has_changed().unwrap(), "whoever waits is told");
    let twice =
        || vec![Change { id: ids[0].clone(), ..Change::default() }, Change { id: ids[0].clone(), ..Change::default() }];
    hub.update(twice()).await.unwrap();
    hub.lock(ids.clone(), "me".to_owned(), None).await.unwrap();
    hub.unlock(ids.clone(), "me".to_owned()).await.unwrap();
    hub.delete(Deletion { ids: ids.clone(), ..Deletion::default() }).await.unwrap();
    let second = world.second(patient()).await;
    let told: Vec<(usize, ChangeKind, u32)> = some_after(&second, Some(start), 10)
        .await
        .iter()
        .map(|event| (ids.iter().position(|id| *id == event.record).unwrap(), event.kind, event.version))
        .collect();
    let mut expected = vec![
        (0, ChangeKind::Created, 1),
        (1, ChangeKind::Created, 1),
        (0, ChangeKind::Updated, 2),
        (0, ChangeKind::Updated, 3),
        (0, ChangeKind::Locked, 3),
        (1, ChangeKind::Locked, 1),
        (0, ChangeKind::Unlocked, 3),
        (1, ChangeKind::Unlocked, 1),
        (0, ChangeKind::Deleted, 3),
        (1, ChangeKind::Deleted, 1),
    ];
    // What one transaction did is in no order.
    let sort = |told: &mut Vec<(usize, ChangeKind, u32)>| {
        told.chunks_mut(2).for_each(|pair| pair.sort_by_key(|one| (one.0, one.2)));
    };
    let mut told = told;
    sort(&mut told);
    sort(&mut expected);
    assert_eq!(told, expected);
    let text = start.to_string();
    assert_eq!(text.parse::<ChangeCursor>().unwrap(), start);
    assert!("1.2.3".parse::<ChangeCursor>().is_err() && "x".parse::<ChangeCursor>().is_err());
}

async fn nothing_is_missed_while_many_write(place: Place) {
    let hubs = [place.hub().await, place.hub().await];
    let start = hubs[0].changes_end().await.unwrap();
    let writing: Vec<_> = (0..8)
        .map(|writer| {
            let hub = hubs[writer % 2].clone();
            tokio::spawn(async move {
                let mut ids = Vec::new();
                for _ in 0..10 {
                    ids.push(create(&hub, new("1")).await);
                }
                ids
            })
        })
        .collect();
    // Read while they write: none may appear behind what was read.
    let seen = some_after(&hubs[0], Some(start), 80).await;
    let mut seen: Vec<String> = seen.into_iter().map(|event| event.record).collect();
    let mut written = Vec::new();
    for writer in writing {
        written.extend(writer.await.unwrap());
    }
    written.sort_unstable();
    let count = seen.len();
    seen.sort_unstable();
    seen.dedup();
    assert_eq!((count, seen), (80, written));
}

async fn a_place_that_is_too_old_is_refused(place: Place) {
    let times = Times { changes: Duration::from_millis(1), ..Times::default() };
    let hub = place.hub_with(Settings { times, ..settings() }).await;
    let start = hub.changes_end().await.unwrap();
    for _ in 0..3 {
        create(&hub, new("1")).await;
    }
    tokio::time::sleep(Duration::from_millis(20)).await;
    hub.tend().await.unwrap();
    let error = hub.changes_after(Some(start), 10).await.unwrap_err();
    assert!(matches!(error, Error::Refused { reason: Reason::Reset, .. }), "{error}");
    let kept = some_after(&hub, None, 1).await;
    assert!(hub.changes_after(Some(kept[0].cursor), 10).await.unwrap().is_empty());
    let id = create(&hub, new("1")).await;
    let next = some_after(&hub, Some(kept[0].cursor), 1).await;
    assert_eq!(next.iter().map(|event| &event.record).collect::<Vec<_>>(), [&id]);
}

async fn only_so_many_changes_are_kept(place: Place) {
    let hub = place.hub_with(Settings { changes: 2, ..settings() }).await;
    let start = hub.changes_end().await.unwrap();
    let records = vec![new("1"), new("2"), new("3")];
    hub.create(Batch { records, ..Batch::default() }).await.unwrap();
    let first = some_after(&hub, Some(start), 3).await;
    let later = [create(&hub, new("4")).await, create(&hub, new("5")).await];
    hub.tend().await.unwrap();
    let is_reset = |error: &Error| matches!(error, Error::Refused { reason: Reason::Reset, .. });
    // Also in the midst of a transaction: whoever has not read all of it would miss the rest.
    for behind in [start, first[0].cursor, first[1].cursor] {
        let error = hub.changes_after(Some(behind), 10).await.unwrap_err();
        assert!(is_reset(&error) && error.to_string().contains("hub.changes_records"), "{error}");
    }
    let told = some_after(&hub, Some(first[2].cursor), 2).await;
    assert_eq!(told.iter().map(|event| event.record.as_str()).collect::<Vec<_>>(), later);
    // It goes on so: what is there is counted anew.
    for _ in 0..5 {
        create(&hub, new("6")).await;
        hub.tend().await.unwrap();
    }
    assert!(is_reset(&hub.changes_after(Some(told[1].cursor), 10).await.unwrap_err()));
    some_after(&hub, None, 2).await;
}
