//! The sweeper takes what nobody can reach, and nothing else.

use std::time::Duration;

use bytes::Bytes;
use jiff::Timestamp;
use states::store::ChunkId;
use states::{Error, Key, Settings, Times};
use testbed::eventually;
use uuid::Uuid;

use crate::places::{
    KINDS, Place, big_state, collect, fresh, info, no_time, on_every_large_store, read, settings, unlock, write,
};

#[tokio::test]
async fn what_no_head_names_goes_and_what_one_names_stays() {
    on_every_large_store(|place| async move {
        let hasty = Settings { times: no_time(), versions: 4, ..settings() };
        let states = place.states(hasty.clone());
        let state = states.at(place.key("swept"));
        // Too large for a head.
        let body = |number| big_state(number, 3 * place.store.limits().inline);
        for number in 1..=7 {
            write(&state, &body(number), None, "ann").await.unwrap();
        }
        // A write that died after its first chunk, and one whose head vanished.
        for name in ["swept", "vanished"] {
            let chunk = ChunkId { key: place.key(name), upload: Uuid::new_v4(), number: 0 };
            let past = Timestamp::from_second(1_700_000_000).unwrap();
            place.store.put_chunk(&chunk, past, Bytes::from_static(b"orphan")).await.unwrap();
        }
        let patient = Settings { times: Times { grace: Duration::from_hours(24 * 365 * 100), ..no_time() }, ..hasty };
        place.states(patient).sweep().await;
        let all = || place.uploads_before(Timestamp::MAX);
        assert!(all().await.iter().any(|stray| stray.key == place.key("vanished")), "the grace period");

        states.sweep().await;
        let head = state.head().await.unwrap().unwrap();
        assert_eq!(head.uploads, []);
        let versions = state.versions().await.unwrap();
        assert_eq!((all().await.len(), versions.len()), (4, 4), "every version is one upload here");
        for version in versions {
            let number = version.number;
            assert!(collect(state.open(version).await.unwrap()).await == body(number), "{number}");
        }
    })
    .await;
}

#[tokio::test]
async fn an_upload_under_way_is_left_alone_by_any_number_of_sweepers() {
    on_every_large_store(|place| async move {
        // Few versions: two hundred of these are more than a cluster takes of one state.
        let states = place.states(Settings { times: no_time(), versions: 10, ..settings() });
        let state = states.at(place.key("busy"));
        let sweeping = tokio::spawn({
            let states = states.clone();
            async move {
                loop {
                    tokio::join!(states.sweep(), states.sweep());
                    tokio::task::yield_now().await;
                }
            }
        });
        for number in 1..=testbed::scale().of(4, 200) {
            let bytes = big_state(number, 3 * place.store.limits().inline);
            write(&state, &bytes, None, "ann").await.unwrap();
            assert!(read(&state).await.unwrap() == bytes, "{number}");
        }
        assert!(!sweeping.is_finished(), "it was swept throughout");
        sweeping.abort();
    })
    .await;
}

/// Puts the chunks of a state again as if that had been years ago.
async fn age(description: &str, key: &Key) {
    // A store of its own: one that has put an upload remembers that it has.
    let (place, long_ago) = (Place::open(description).await, Timestamp::from_second(1_700_000_000).unwrap());
    for stray in place.uploads_before(Timestamp::MAX).await {
        let chunk = |number| ChunkId { key: key.clone(), upload: stray.upload, number };
        let mut chunks = Vec::new();
        while let Some(bytes) = place.store.get_chunk(&chunk(u32::try_from(chunks.len()).unwrap())).await.unwrap() {
            chunks.push(bytes);
        }
        place.store.delete_chunks(key, stray.upload).await.unwrap();
        for (number, bytes) in chunks.into_iter().enumerate() {
            place.store.put_chunk(&chunk(u32::try_from(number).unwrap()), long_ago, bytes).await.unwrap();
        }
    }
}

#[tokio::test]
async fn the_grace_of_a_lost_head_begins_when_the_loss_is_seen_and_a_lock_does_not_end_it() {
    for kind in KINDS.into_iter().filter(|kind| *kind != "kubernetes") {
        let description = fresh(kind).await;
        let (place, other) = (Place::open(&description).await, Place::open(&description).await);
        let times = Times { grace: Duration::from_hours(7 * 24), ..no_time() };
        let sweepers = [&place, &other].map(|place| place.states(Settings { times, ..settings() }));
        let sweep = async || {
            let (one, two) = tokio::join!(sweepers[0].sweep(), sweepers[1].sweep());
            assert_eq!((one.failures, two.failures), (0, 0), "{kind}");
        };
        let state = sweepers[0].at(place.key("lost"));
        let body = big_state(1, 3 * place.store.limits().inline);
        write(&state, &body, None, "ann").await.unwrap();
        age(&description, state.key()).await;
        let lose = async || {
            let found = place.store.read_head(state.key()).await.unwrap().expect("a head");
            place.store.delete_head(state.key(), &found.revision).await.unwrap();
        };

        lose().await;
        for _ in 0..3 {
            sweep().await;
        }
        assert_eq!(read(&state).await, None, "{kind}: a mark is no state");
        assert_eq!(place.store.list(None).await.unwrap(), [], "{kind}: and none in a list");
        state.lock(&info("a"), "ann").await.unwrap();
        sweep().await;
        let refused = state.restore(None, "bob").await;
        assert!(matches!(refused, Err(Error::Locked { .. })), "{kind}: {refused:?}");
        state.restore(Some("a"), "ann").await.unwrap();
        assert!(read(&state).await.unwrap() == body, "{kind}");
        unlock(&state, "a", "ann").await.unwrap();
        sweep().await;
        assert_eq!(place.uploads_before(Timestamp::MAX).await.len(), 1, "{kind}: no mark is left");
        assert!(read(&state).await.unwrap() == body, "{kind}");

        lose().await;
        sweep().await;
        sweep().await;
        state.restore(None, "ann").await.unwrap();
        lose().await;
        // Nothing is waited for any more: the first sweep notes the loss, and a later one ends it.
        let hasty = other.states(Settings { times: no_time(), ..settings() });
        eventually(Duration::from_mins(1), || async {
            assert_eq!(hasty.sweep().await.failures, 0, "{kind}");
            place.uploads_before(Timestamp::MAX).await.is_empty()
        })
        .await;
        assert!(matches!(state.restore(None, "ann").await, Err(Error::NotFound)), "{kind}");
    }
}

#[tokio::test]
async fn a_deleted_state_goes_with_its_chunks_when_its_grace_is_over() {
    on_every_large_store(|place| async move {
        let states = place.states(Settings { times: no_time(), ..settings() });
        let state = states.at(place.key("deleted"));
        for number in 1..=3 {
            write(&state, &big_state(number, 3 * place.store.limits().inline), None, "ann").await.unwrap();
        }
        state.upkeep().await.unwrap();
        state.delete(None, "ann").await.unwrap();
        // Uploads that the head has just let go of are the first to go.
        eventually(Duration::from_mins(1), || async {
            assert_eq!(states.sweep().await.failures, 0);
            state.head().await.unwrap().is_none()
        })
        .await;
        assert_eq!(place.uploads_before(Timestamp::MAX).await, [], "they had their time with the head");
    })
    .await;
}
