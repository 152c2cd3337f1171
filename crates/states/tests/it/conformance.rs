//! What every store must do, seen through the engine.

use std::collections::BTreeSet;

use bytes::Bytes;
use futures::future::join_all;
use jiff::Timestamp;
use states::head::Head;
use states::store::{ChunkId, Expect, StoreError};
use states::{Error, Force, Settings, Unlocked, Written};
use uuid::Uuid;

use crate::places::{
    big_state, collect, info, on_every_large_store, on_every_store, read, settings, small_state, unlock, write,
};

fn head() -> Head {
    let mut head = Head::new();
    head.generation = 1;
    head.operations.push(Uuid::new_v4());
    head
}

#[tokio::test]
async fn of_many_swaps_of_the_same_head_exactly_one_wins() {
    on_every_store(|place| async move {
        let key = place.key("swap");
        assert!(place.store.read_head(&key).await.unwrap().is_none());
        for _round in 0..3 {
            let found = place.store.read_head(&key).await.unwrap();
            let expected = found.map_or(Expect::Nothing, |found| Expect::Revision(found.revision));
            let heads: Vec<Head> = (0..8).map(|_| head()).collect();
            let swaps = heads.iter().map(|head| place.store.write_head(&key, head, &expected));
            let (won, lost): (Vec<_>, Vec<_>) =
                join_all(swaps).await.into_iter().enumerate().partition(|(_, result)| result.is_ok());
            assert_eq!(won.len(), 1);
            assert!(lost.iter().all(|(_, result)| matches!(result, Err(StoreError::Conflict))), "{lost:?}");
            let found = place.store.read_head(&key).await.unwrap().expect("a head");
            assert_eq!(found.head, heads[won[0].0]);
        }
        let found = place.store.read_head(&key).await.unwrap().expect("a head");
        assert_eq!(place.store.list(Some(&place.namespace)).await.unwrap(), std::slice::from_ref(&key));
        place.store.delete_head(&key, &found.revision).await.unwrap();
        assert!(place.store.read_head(&key).await.unwrap().is_none());
        let late = place.store.write_head(&key, &head(), &Expect::Revision(found.revision)).await;
        assert!(matches!(late, Err(StoreError::Conflict)), "{late:?}");
    })
    .await;
}

#[tokio::test]
async fn chunks_come_back_as_they_were_put_and_only_for_their_state() {
    on_every_store(|place| async move {
        let (upload, deadline) = (Uuid::new_v4(), Timestamp::from_second(1_700_000_000).unwrap());
        let chunk = |number| ChunkId { key: place.key("chunks"), upload, number };
        let largest = Bytes::from(vec![7; place.store.limits().chunk]);
        for (number, bytes) in [(0, Bytes::from_static(b"\0zero")), (1, largest)] {
            for _ in 0..2 {
                place.store.put_chunk(&chunk(number), deadline, bytes.clone()).await.unwrap();
            }
            assert_eq!(place.store.get_chunk(&chunk(number)).await.unwrap(), Some(bytes));
        }
        assert_eq!(place.store.get_chunk(&chunk(2)).await.unwrap(), None);
        let elsewhere = ChunkId { key: place.key("elsewhere"), ..chunk(0) };
        assert_eq!(place.store.get_chunk(&elsewhere).await.unwrap(), None);
        let strays = place.uploads_before(Timestamp::now()).await;
        assert_eq!(strays.iter().map(|stray| (stray.upload, stray.deadline)).collect::<Vec<_>>(), [(upload, deadline)]);
        assert_eq!(place.uploads_before(deadline).await, []);
        place.store.delete_chunks(&place.key("chunks"), upload).await.unwrap();
        assert_eq!(place.store.get_chunk(&chunk(0)).await.unwrap(), None);
    })
    .await;
}

#[tokio::test]
async fn small_and_large_states_come_back_byte_for_byte() {
    on_every_large_store(|place| async move {
        let state = place.state("sizes");
        assert_eq!(read(&state).await, None);
        for (number, size) in (1..).zip([10, 40_000, 3_000_000, 20_000]) {
            let bytes = if size < 1000 { small_state(number) } else { big_state(number, size) };
            assert_eq!(write(&state, &bytes, None, "ann").await.unwrap(), Written::Version(number));
            assert_eq!(write(&state, &bytes, None, "ann").await.unwrap(), Written::Same, "a replay");
            assert!(read(&state).await.unwrap() == bytes, "{size} bytes");
            let head = state.head().await.unwrap().unwrap();
            assert_eq!(head.current.unwrap().facts.serial.unwrap(), number.to_string());
            assert_eq!(head.uploads, [], "nothing is left open");
        }
    })
    .await;
}

#[tokio::test]
async fn states_that_just_fit_a_head_can_be_written_again_and_again() {
    on_every_store(|place| async move {
        let state = place.state("tight");
        // The hexadecimal digits of random numbers compress to about a half.
        let body = |number| big_state(number, place.store.limits().inline);
        for number in 1..=4 {
            assert_eq!(write(&state, &body(number), None, "ann").await.unwrap(), Written::Version(number));
            assert!(read(&state).await.unwrap() == body(number), "version {number}");
        }
        let both = join_all([5, 6].map(|number| {
            let state = state.clone();
            let bytes = body(number);
            async move { write(&state, &bytes, None, "ann").await }
        }));
        assert!(both.await.iter().all(|written| matches!(written, Ok(Written::Version(_)))));
        let versions = state.versions().await.unwrap();
        let numbers: Vec<u64> = versions.iter().map(|version| version.number).collect();
        assert_eq!(numbers, [6, 5, 4, 3, 2, 1]);
        for version in versions.into_iter().skip(2) {
            let number = version.number;
            assert!(collect(state.open(version).await.unwrap()).await == body(number), "version {number}");
        }
        assert_eq!(state.head().await.unwrap().unwrap().uploads, [], "nothing is left open");
    })
    .await;
}

#[tokio::test]
async fn of_many_locks_one_wins_and_only_its_holder_writes() {
    on_every_store(|place| async move {
        let state = place.state("locks");
        let infos: Vec<_> = (0..8).map(|number| info(&format!("id-{number}"))).collect();
        let locks = join_all(infos.iter().map(|info| state.lock(info, "ann"))).await;
        let winners: Vec<usize> = (0..8).filter(|index| locks[*index].is_ok()).collect();
        assert_eq!(winners.len(), 1);
        let (winner, loser) = (&infos[winners[0]], &infos[(winners[0] + 1) % 8]);
        for lost in locks.iter().filter_map(|lock| lock.as_ref().err()) {
            assert!(matches!(lost, Error::Locked { info } if *info == winner.text), "{lost:?}");
        }
        state.lock(winner, "ann").await.expect("a replay");
        for id in [None, Some(loser.id.as_str())] {
            let refused = write(&state, &small_state(1), id, "ann").await;
            assert!(matches!(refused, Err(Error::Locked { .. })), "{refused:?}");
        }
        write(&state, &small_state(1), Some(&winner.id), "ann").await.unwrap();
        assert!(matches!(unlock(&state, &loser.id, "ann").await, Err(Error::Locked { .. })));
        assert!(matches!(unlock(&state, &winner.id, "bob").await, Err(Error::ForceNeeded)));
        assert_eq!(unlock(&state, &winner.id, "ann").await.unwrap(), Unlocked::Now);
        assert_eq!(unlock(&state, &winner.id, "ann").await.unwrap(), Unlocked::Before);
        let displaced = write(&state, &small_state(2), Some(&winner.id), "ann").await;
        assert!(matches!(displaced, Err(Error::Locked { .. })), "{displaced:?}");

        state.lock(loser, "bob").await.unwrap();
        assert!(matches!(state.unlock(None, "root", Force::NotAsked).await, Err(Error::ForceNeeded)));
        assert_eq!(state.unlock(None, "root", Force::Granted).await.unwrap(), Unlocked::Now);
        assert_eq!(read(&state).await.unwrap(), small_state(1));
    })
    .await;
}

#[tokio::test]
async fn concurrent_writers_lose_nothing() {
    on_every_store(|place| async move {
        let state = place.state("writers");
        let bodies: Vec<Vec<u8>> = (0..6).map(|number| big_state(number, 100_000)).collect();
        let written = join_all(bodies.iter().map(|body| write(&state, body, None, "ann"))).await;
        let numbers: BTreeSet<u64> = written
            .into_iter()
            .map(|written| match written {
                Ok(Written::Version(number)) => number,
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(numbers, (1..=6).collect());
        let mut found = BTreeSet::new();
        for version in state.versions().await.unwrap() {
            found.insert(collect(state.open(version).await.unwrap()).await);
        }
        assert!(found == bodies.into_iter().collect(), "every version is one that somebody wrote");
    })
    .await;
}

#[tokio::test]
async fn old_versions_can_be_read_until_they_are_too_many() {
    on_every_store(|place| async move {
        let state = place.state_with("history", Settings { versions: 30, ..settings() });
        let body =
            |number: u64| if number.is_multiple_of(10) { big_state(number, 100_000) } else { small_state(number) };
        for number in 1..=60 {
            assert_eq!(write(&state, &body(number), None, "ann").await.unwrap(), Written::Version(number));
        }
        state.upkeep().await.unwrap();
        let numbers: Vec<u64> = state.versions().await.unwrap().iter().map(|version| version.number).collect();
        assert_eq!(numbers, (31..=60).rev().collect::<Vec<_>>());
        for number in numbers {
            let version = state.version(number).await.unwrap();
            assert!(collect(state.open(version).await.unwrap()).await == body(number), "version {number}");
        }
        assert!(matches!(state.version(1).await, Err(Error::NoVersion)));
        let head = state.head().await.unwrap().unwrap();
        assert!(head.recent.len() <= 12 && !head.pages.is_empty(), "{} {}", head.recent.len(), head.pages.len());
    })
    .await;
}

#[tokio::test]
async fn a_deleted_state_is_gone_for_readers_and_can_be_written_again() {
    on_every_store(|place| async move {
        let state = place.state("deleted");
        assert!(matches!(state.delete(None, "ann").await, Err(Error::NotFound)));
        write(&state, &small_state(1), None, "ann").await.unwrap();
        state.lock(&info("a"), "ann").await.unwrap();
        assert!(matches!(state.delete(None, "ann").await, Err(Error::Locked { .. })));
        state.delete(Some("a"), "ann").await.unwrap();
        state.delete(Some("a"), "ann").await.expect("a replay");
        assert_eq!(read(&state).await, None);
        let written = write(&state, &small_state(1), Some("a"), "ann").await.unwrap();
        assert_eq!(written, Written::Version(2), "the same bytes are a new version after a delete");
        assert_eq!(read(&state).await.unwrap(), small_state(1));
    })
    .await;
}
