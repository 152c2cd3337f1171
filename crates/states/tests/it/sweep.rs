//! The sweeper takes what nobody can reach, and nothing else.

use std::time::Duration;

use bytes::Bytes;
use jiff::Timestamp;
use states::store::ChunkId;
use states::{Settings, Times};
use uuid::Uuid;

use crate::places::{big_state, collect, no_time, on_every_large_store, read, settings, write};

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
        sweeping.abort();
    })
    .await;
}
