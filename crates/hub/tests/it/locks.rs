//! Locks, with and without leases.

use std::time::Duration;

use hub::{Change, Error, Hub};
use jiff::SignedDuration;

use crate::place::{Place, create, new, on_both};

on_both!(locks_are_taken_and_released_all_or_none, a_lease_ends_and_the_next_one_gets_the_lock, a_lock_can_be_broken);

fn text(done: Result<(), Error>) -> String {
    done.unwrap_err().to_string()
}

async fn holder(hub: &Hub, id: &str) -> Option<String> {
    hub.find(id).await.unwrap().unwrap().lock.map(|lock| lock.owner)
}

async fn locks_are_taken_and_released_all_or_none(place: Place) {
    let hub = place.hub().await;
    let (a, b) = (create(&hub, new("1")).await, create(&hub, new("1")).await);
    let both = || vec![a.clone(), b.clone()];
    hub.lock(vec![b.clone()], "me".to_owned(), None).await.unwrap();
    hub.lock(vec![b.clone()], "me".to_owned(), None).await.unwrap();
    let missing = vec![a.clone(), "x".to_owned(), b.clone(), "y".to_owned()];
    let (absent, held) = (
        "TypeInstances with IDs \"x\", \"y\" were not found",
        format!("TypeInstances with IDs \"{b}\" are locked by different owner"),
    );
    let you = || "you".to_owned();
    let expected = format!("failed to lock TypeInstances: 2 errors occurred: [{absent}, {held}]");
    assert_eq!(text(hub.lock(missing.clone(), you(), None).await), expected);
    let expected = format!("failed to unlock TypeInstances: 2 errors occurred: [{absent}, {held}]");
    assert_eq!(text(hub.unlock(missing, you()).await), expected);
    let expected = format!("failed to lock TypeInstances: 1 error occurred: {held}");
    assert_eq!(text(hub.lock(both(), you(), None).await), expected);
    let expected = format!("failed to unlock TypeInstances: 1 error occurred: {held}");
    assert_eq!(text(hub.unlock(both(), you()).await), expected);
    let expected = "failed to lock TypeInstances: 1 error occurred: TypeInstances with IDs \"x\" were not found";
    assert_eq!(text(hub.lock(vec!["x".to_owned()], you(), None).await), expected);
    assert_eq!((holder(&hub, &a).await, holder(&hub, &b).await), (None, Some("me".to_owned())));
    hub.lock(both(), "me".to_owned(), None).await.unwrap();
    hub.unlock(both(), "me".to_owned()).await.unwrap();
    hub.unlock(both(), you()).await.unwrap();
    assert_eq!((holder(&hub, &a).await, holder(&hub, &b).await), (None, None));
    assert!(text(hub.lock(both(), String::new(), None).await).starts_with("ownerID: "));
    assert!(text(hub.lock(both(), you(), Some(SignedDuration::ZERO)).await).starts_with("expiresIn: "));
}

async fn a_lease_ends_and_the_next_one_gets_the_lock(place: Place) {
    let hub = place.hub().await;
    let id = create(&hub, new("1")).await;
    hub.lock(vec![id.clone()], "me".to_owned(), Some(SignedDuration::from_millis(1))).await.unwrap();
    let (taken, ids) = (hub.clone(), vec![id.clone()]);
    testbed::eventually(Duration::from_secs(30), || {
        let (hub, ids) = (taken.clone(), ids.clone());
        async move { hub.lock(ids, "you".to_owned(), Some(SignedDuration::from_hours(1))).await.is_ok() }
    })
    .await;
    let change = |owner: &str| Change { id: id.clone(), owner: Some(owner.to_owned()), ..Change::default() };
    assert!(hub.update(vec![change("me")]).await.unwrap_err().to_string().contains("locked by different owner"));
    hub.update(vec![change("you")]).await.unwrap();
    let lock = hub.find(&id).await.unwrap().unwrap().lock.unwrap();
    hub.lock(vec![id.clone()], "you".to_owned(), Some(SignedDuration::from_hours(2))).await.unwrap();
    let renewed = hub.find(&id).await.unwrap().unwrap().lock.unwrap();
    assert!(renewed.since == lock.since && renewed.expires > lock.expires, "{lock:?} {renewed:?}");
}

async fn a_lock_can_be_broken(place: Place) {
    let hub = place.hub().await;
    let id = create(&hub, new("1")).await;
    hub.lock(vec![id.clone()], "me".to_owned(), None).await.unwrap();
    let expected = "failed to unlock TypeInstances: 1 error occurred: TypeInstances with IDs \"x\" were not found";
    assert_eq!(text(hub.force_unlock(vec![id.clone(), "x".to_owned()]).await), expected);
    assert_eq!(holder(&hub, &id).await, Some("me".to_owned()));
    hub.force_unlock(vec![id.clone()]).await.unwrap();
    assert_eq!(holder(&hub, &id).await, None);
}
