//! Encryption at rest: nothing readable in a store, keys that rotate, bytes that cannot be moved.

use std::path::{Path, PathBuf};

use jiff::Timestamp;
use keys::{Key, Keyring, Sharing, key_file};
use states::head::{Body, Extent, Head};
use states::store::{ChunkId, Expect, Found, Store};
use states::{Error, Sealing, Settings, State, Written};
use testbed::process::scratch;

use crate::places::{Place, big_state, collect, no_time, on_every_large_store, read, settings, write};

const CANARY: &str = "canary-4711-must-not-be-readable";

pub(crate) fn key_file_in(directory: &Path) -> PathBuf {
    let path = directory.join("states.key");
    key_file::create(&path).unwrap();
    path
}

pub(crate) fn sealing(path: &Path) -> Sealing {
    let key = Key::file(path, Sharing::Private);
    let keyring = Keyring::new([("states".to_owned(), key)], keys::Settings::default()).unwrap();
    Sealing { keyring: Some(keyring), key: Some("states".to_owned()) }
}

fn sealed_settings(path: &Path) -> Settings {
    Settings { sealing: sealing(path), times: no_time(), ..settings() }
}

/// A state with a canary as a value, in an address and as an id, of about this size.
fn body(number: u64, size: usize) -> Vec<u8> {
    let text = String::from_utf8(big_state(number, size)).unwrap();
    text.replace("\"begin\"", &format!("{{\"type\": \"{CANARY}\", \"id\": \"{CANARY}\", \"password\": \"{CANARY}\"}}"))
        .into_bytes()
}

/// Small, just in the head, in chunks.
fn sizes(place: &Place) -> [usize; 3] {
    [500, place.store.limits().inline / 2, 3 * place.store.limits().inline]
}

/// Everything of a state that is in its store.
async fn stored_bytes(place: &Place, state: &State) -> Vec<u8> {
    let Found { head, .. } = place.store.read_head(state.key()).await.unwrap().expect("a head");
    let mut all = serde_json::to_vec(&head).unwrap();
    for version in head.current.iter().chain(&head.recent) {
        if let Body::Inline { bytes, .. } | Body::Difference { bytes, .. } | Body::File { bytes, .. } = &version.body {
            all.extend_from_slice(bytes);
        }
    }
    for stray in place.uploads_before(Timestamp::MAX).await {
        for number in 0.. {
            let chunk = ChunkId { key: stray.key.clone(), upload: stray.upload, number };
            let Some(bytes) = place.store.get_chunk(&chunk).await.unwrap() else { break };
            all.extend_from_slice(&bytes);
        }
    }
    all
}

fn holds(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

/// What zstd and gzip make of the canary is not searched for; what is stored must not even begin like them.
fn looks_packed(bytes: &[u8]) -> bool {
    bytes.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) || bytes.starts_with(&[0x1f, 0x8b])
}

#[tokio::test]
async fn nothing_of_a_sealed_state_can_be_read_in_its_store() {
    on_every_large_store(|place| async move {
        let path = key_file_in(&scratch("keys").unwrap());
        for (index, size) in sizes(&place).into_iter().enumerate() {
            let state = place.state_with(&format!("sealed-{index}"), sealed_settings(&path));
            for number in 1..=testbed::scale().of(5, 14) {
                assert_eq!(write(&state, &body(number, size), None, "ann").await.unwrap(), Written::Version(number));
                assert!(read(&state).await.unwrap() == body(number, size), "{number} of {size} bytes");
            }
            state.upkeep().await.unwrap();
            for version in state.versions().await.unwrap() {
                let number = version.number;
                if let Body::Inline { bytes, sealed, .. } = &version.body {
                    assert!(sealed.is_some() && !looks_packed(bytes));
                }
                assert!(collect(state.open(version).await.unwrap()).await == body(number, size), "{number}");
            }
            let stored = stored_bytes(&place, &state).await;
            assert!(!holds(&stored, CANARY) && stored.len() > 100, "{size} bytes");
            // Without the key there is a clear error, not a damaged or empty state.
            let other = key_file_in(&scratch("keys").unwrap());
            for settings in [settings(), sealed_settings(&other)] {
                let stranger = place.state_with(&format!("sealed-{index}"), settings);
                let refused = match stranger.read().await {
                    Ok(Some(mut reading)) => reading.next().await.map(drop),
                    other => other.map(drop),
                };
                assert!(matches!(&refused, Err(Error::Key(_))), "{refused:?}");
            }
        }
    })
    .await;
}

#[tokio::test]
async fn a_rotated_key_wraps_old_states_anew_and_its_old_version_may_go() {
    on_every_large_store(|place| async move {
        let path = key_file_in(&scratch("keys").unwrap());
        let before = std::fs::read_to_string(&path).unwrap();
        let [small, _, large] = sizes(&place);
        let states = place.states(sealed_settings(&path));
        for (name, size) in [("small", small), ("large", large)] {
            write(&states.at(place.key(name)), &body(1, size), None, "ann").await.unwrap();
        }
        key_file::rotate(&path).unwrap();
        states.sweep().await;
        // Only the newest version stays in the file.
        let after = std::fs::read_to_string(&path).unwrap();
        let kept: String = after.lines().filter(|line| !before.contains(line)).flat_map(|line| [line, "\n"]).collect();
        assert!(!kept.is_empty() && kept.len() < after.len());
        std::fs::write(&path, kept).unwrap();
        for (name, size) in [("small", small), ("large", large)] {
            let state = place.state_with(name, sealed_settings(&path));
            assert!(read(&state).await.unwrap() == body(1, size), "{name}");
            assert_eq!(write(&state, &body(2, size), None, "ann").await.unwrap(), Written::Version(2));
        }
    })
    .await;
}

#[tokio::test]
async fn what_is_moved_to_another_state_or_exchanged_is_refused() {
    on_every_large_store(|place| async move {
        let path = key_file_in(&scratch("keys").unwrap());
        let [small, _, large] = sizes(&place);
        let state = |name: &str| place.state_with(name, sealed_settings(&path));
        for (name, size) in
            [("one", small), ("other", small), ("big", 3 * place.store.limits().chunk), ("target", large)]
        {
            write(&state(name), &body(1, size), None, "ann").await.unwrap();
            write(&state(name), &body(2, size), None, "ann").await.unwrap();
        }
        // A whole head, with its key, under another name.
        let found = place.store.read_head(&place.key("one")).await.unwrap().unwrap();
        swap(&*place.store, &state("other"), |head| *head = Head { generation: head.generation, ..found.head.clone() })
            .await;
        assert!(matches!(read_error(&state("other")).await, Error::Key(_)));
        // The body of the old version in the place of the new one, under its facts.
        swap(&*place.store, &state("one"), |head| {
            let old = head.recent[0].body.clone();
            let Body::Inline { bytes: old, .. } = old else { panic!("a small body") };
            let Some(Body::Inline { bytes, .. }) = head.current.as_mut().map(|version| &mut version.body) else {
                panic!()
            };
            *bytes = old;
        })
        .await;
        assert!(matches!(read_error(&state("one")).await, Error::Key(_)));
        // Two chunks of one upload exchanged, by a new upload that has them in the other order.
        let found = place.store.read_head(&place.key("big")).await.unwrap().unwrap();
        let Some(Body::Chunks { extent, .. }) = found.head.current.map(|version| version.body) else {
            panic!("chunks")
        };
        assert!(extent.sealed && extent.length > extent.chunk, "{extent:?}");
        let chunk = |upload, number| ChunkId { key: place.key("big"), upload, number };
        let count = u32::try_from(extent.length.div_ceil(extent.chunk)).unwrap();
        let exchanged = uuid::Uuid::new_v4();
        for number in 0..count {
            let from = match number {
                0 => 1,
                1 => 0,
                other => other,
            };
            let bytes = place.store.get_chunk(&chunk(extent.upload, from)).await.unwrap().unwrap();
            place.store.put_chunk(&chunk(exchanged, number), Timestamp::MAX, bytes).await.unwrap();
        }
        swap(&*place.store, &state("big"), |head| {
            let Some(Body::Chunks { extent, .. }) = head.current.as_mut().map(|version| &mut version.body) else {
                panic!()
            };
            *extent = Extent { upload: exchanged, ..*extent };
        })
        .await;
        assert!(matches!(read_error(&state("big")).await, Error::Key(_)));
    })
    .await;
}

async fn swap(store: &dyn Store, state: &State, change: impl FnOnce(&mut Head)) {
    let Found { mut head, revision } = store.read_head(state.key()).await.unwrap().unwrap();
    change(&mut head);
    head.operations.push(uuid::Uuid::new_v4());
    store.write_head(state.key(), &head, &Expect::Revision(revision)).await.unwrap();
}

async fn read_error(state: &State) -> Error {
    match state.read().await {
        Err(error) => error,
        Ok(Some(mut reading)) => reading.next().await.expect_err("it must not open"),
        Ok(None) => panic!("there is a state"),
    }
}

#[tokio::test]
async fn a_sealed_head_that_vanished_is_rebuilt_with_its_key() {
    on_every_large_store(|place| async move {
        let path = key_file_in(&scratch("keys").unwrap());
        let state = place.state_with("vanished", Settings { sealing: sealing(&path), ..settings() });
        let [_, _, large] = sizes(&place);
        for number in 1..=3 {
            write(&state, &body(number, large), None, "ann").await.unwrap();
        }
        state.upkeep().await.unwrap();
        let found = place.store.read_head(state.key()).await.unwrap().unwrap();
        place.store.delete_head(state.key(), &found.revision).await.unwrap();
        let state = place.state_with("vanished", Settings { sealing: sealing(&path), ..settings() });
        assert_eq!(state.rebuild(None, "ann").await.unwrap(), 3);
        for version in state.versions().await.unwrap() {
            let number = version.number;
            assert!(collect(state.open(version).await.unwrap()).await == body(number, large), "{number}");
        }
        assert_eq!(state.versions().await.unwrap().len(), 3);
    })
    .await;
}

/// Sealing can be switched on for states that are there, and off again: what was written stays readable.
#[tokio::test]
async fn sealing_begins_and_ends_with_the_next_write() {
    on_every_large_store(|place| async move {
        let path = key_file_in(&scratch("keys").unwrap());
        let on = sealing(&path);
        let off = Sealing { keyring: on.keyring.clone(), key: None };
        let size = place.store.limits().inline * 2;
        for (number, sealing) in (1..).zip([&off, &on, &on, &off, &off, &on]) {
            let state = place.state_with("switched", Settings { sealing: (*sealing).clone(), ..settings() });
            write(&state, &body(number, size), None, "ann").await.unwrap();
            state.upkeep().await.unwrap();
            for version in state.versions().await.unwrap() {
                let number = version.number;
                assert!(collect(state.open(version).await.unwrap()).await == body(number, size), "{number}");
            }
        }
    })
    .await;
}

#[tokio::test]
async fn what_was_written_before_sealing_was_switched_on_is_sealed_in_the_background() {
    on_every_large_store(|place| async move {
        let path = key_file_in(&scratch("keys").unwrap());
        let clear = Settings { times: no_time(), ..settings() };
        let sizes = sizes(&place);
        let count = testbed::scale().of(30, 44);
        // Each state has all sizes in its history, so that small and large ones are in the head and in pages.
        let body = |number: u64| body(number, sizes[usize::try_from(number % 3).unwrap()]);
        let state = place.state_with("before", clear);
        for number in 1..=count {
            write(&state, &body(number), None, "ann").await.unwrap();
            if number % 7 == 0 {
                state.upkeep().await.unwrap();
            }
        }
        let head = state.head().await.unwrap().unwrap();
        assert!(!head.pages.is_empty(), "{} in the head", head.recent.len());
        let states = place.states(sealed_settings(&path));
        // One more, so that a head has both; then what is in the clear lets go of its chunks in the first sweep.
        write(&states.at(place.key("before")), &body(count + 1), None, "ann").await.unwrap();
        states.sweep().await;
        states.sweep().await;
        let state = states.at(place.key("before"));
        let versions = state.versions().await.unwrap();
        assert_eq!(versions.len() as u64, count + 1);
        let head = state.head().await.unwrap().unwrap();
        let mut kept: Vec<uuid::Uuid> = head.pages.iter().map(|page| page.extent.upload).collect();
        kept.extend(head.seal.iter().map(|key| key.copy));
        for version in versions {
            let number = version.number;
            if let Body::Chunks { extent, .. } | Body::Spilled { extent, .. } = &version.body {
                kept.push(extent.upload);
            }
            match &version.body {
                Body::Inline { sealed, .. } | Body::Difference { sealed, .. } => assert!(sealed.is_some(), "{number}"),
                Body::Chunks { extent, .. } | Body::Spilled { extent, .. } => assert!(extent.sealed, "{number}"),
                Body::File { .. } => panic!("version {number} is in the clear"),
            }
            assert!(collect(state.open(version).await.unwrap()).await == body(number), "{number}");
        }
        let stored = stored_bytes(&place, &state).await;
        assert!(!holds(&stored, CANARY) && stored.len() > 100);
        let clear = place.uploads_before(Timestamp::MAX).await.len();
        assert_eq!(clear, kept.len(), "clear chunks are still there");
        assert!(matches!(read_error(&place.state("before")).await, Error::Key(_)));
    })
    .await;
}
