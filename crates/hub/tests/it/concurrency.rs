//! Many at once, in two hubs on one database.

use hub::{Batch, Filter, NewRecord};

use crate::mirrored::add_one;
use crate::place::{Place, create, new, on_both, value};

on_both!(no_update_is_lost, one_of_many_gets_the_lock, one_of_many_gets_the_name);

async fn no_update_is_lost(place: Place) {
    let hubs = [place.hub().await, place.hub().await];
    let id = create(&hubs[0], new("0")).await;
    let (writers, rounds) = (32, testbed::scale().of(2_u64, 20));
    let writing = (0..writers).map(|writer| {
        let (hub, id) = (hubs[writer % 2].clone(), id.clone());
        tokio::spawn(async move {
            for _ in 0..rounds {
                add_one(hub.clone(), id.clone()).await;
            }
        })
    });
    for writer in writing.collect::<Vec<_>>() {
        writer.await.unwrap();
    }
    let expected = writers as u64 * rounds;
    let latest = hubs[1].find(&id).await.unwrap().unwrap().latest;
    assert_eq!((u64::from(latest), value(&hubs[1], &id, latest).await), (expected + 1, expected.to_string()));
}

async fn one_of_many_gets_the_lock(place: Place) {
    let hubs = [place.hub().await, place.hub().await];
    let id = create(&hubs[0], new("0")).await;
    let asking = (0..16).map(|number| {
        let (hub, id) = (hubs[number % 2].clone(), id.clone());
        tokio::spawn(async move { hub.lock(vec![id], format!("owner-{number}"), None).await.is_ok() })
    });
    let mut granted = 0;
    for asked in asking.collect::<Vec<_>>() {
        granted += usize::from(asked.await.unwrap());
    }
    assert_eq!(granted, 1);
}

async fn one_of_many_gets_the_name(place: Place) {
    let hubs = [place.hub().await, place.hub().await];
    let asking = (0..16).map(|number: usize| {
        let hub = hubs[number % 2].clone();
        let records = vec![NewRecord { name: Some("only".to_owned()), ..new("0") }];
        tokio::spawn(async move { hub.create(Batch { records, ..Batch::default() }).await.is_ok() })
    });
    let mut created = 0;
    for asked in asking.collect::<Vec<_>>() {
        created += usize::from(asked.await.unwrap());
    }
    assert_eq!((created, hubs[0].count(Filter::default()).await.unwrap()), (1, 2));
}
