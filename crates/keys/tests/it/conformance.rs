//! What every kind of key must do.

use std::time::{Duration, Instant};

use keys::{Error, Keyring, Settings, Wrapped};
use testbed::eventually;

use crate::kinds::on_every_kind;
use crate::ring::{ring, same};

/// No question may take longer, whatever is broken.
const BOUND: Duration = Duration::from_secs(30);

#[tokio::test]
async fn a_data_key_comes_back_in_its_context_and_in_no_other() {
    on_every_kind(|place| async move {
        let ring = place.ring();
        for context in [&b""[..], b"states/team-a/app/1", &[0, 255, 10]] {
            let (data_key, wrapped) = ring.generate("main", context).await.expect("generated");
            assert_eq!(wrapped.key, "main");
            // Another ring, as in another process; and through JSON, as in a store.
            let text = serde_json::to_string(&wrapped).expect("JSON");
            let wrapped: Wrapped = serde_json::from_str(&text).expect("the same");
            let opened = place.ring().unwrap(&wrapped, context).await.expect("unwrapped");
            assert!(same(&data_key, &opened));
            for other in [&b"states/team-a/app/2"[..], b"states/team-a/app/", b"\0"] {
                let refused = place.ring().unwrap(&wrapped, other).await.expect_err("another context");
                assert_eq!(refused, wrong(&wrapped));
            }
        }
        let (one, first) = ring.generate("main", b"").await.expect("generated");
        let (two, second) = ring.generate("main", b"").await.expect("generated");
        assert!(!same(&one, &two) && first.bytes != second.bytes, "keys repeat");
    })
    .await;
}

#[tokio::test]
async fn changed_bytes_are_refused() {
    on_every_kind(|place| async move {
        let ring = place.ring();
        let (_, wrapped) = ring.generate("main", b"context").await.expect("generated");
        for index in 0..wrapped.bytes.len() {
            let mut changed = wrapped.clone();
            changed.bytes[index] ^= 1;
            let refused = ring.unwrap(&changed, b"context").await.expect_err("changed");
            assert_eq!(refused, wrong(&wrapped), "byte {index}");
        }
        let cut = wrapped.bytes.len() - 1;
        let lengths =
            [Vec::new(), wrapped.bytes[..cut].to_vec(), [&wrapped.bytes[..], b"A"].concat(), vec![65; 10_000]];
        for bytes in lengths {
            let changed = Wrapped { bytes, ..wrapped.clone() };
            assert_eq!(ring.unwrap(&changed, b"context").await.expect_err("changed"), wrong(&wrapped));
        }
        let other_name = Wrapped { key: "other".to_owned(), ..wrapped.clone() };
        let unknown = ring.unwrap(&other_name, b"context").await.expect_err("an unknown key");
        assert_eq!(unknown, Error::UnknownKey { key: "other".to_owned() });
        // The same key under another name is another key.
        let renamed = crate::ring::ring("other", place.key()).unwrap(&other_name, b"context").await;
        assert_eq!(renamed.expect_err("renamed"), wrong(&other_name));
    })
    .await;
}

#[tokio::test]
async fn rotation_wraps_anew_and_still_opens_the_old() {
    on_every_kind(|place| async move {
        let (data_key, old) = place.ring().generate("main", b"context").await.expect("generated");
        assert_eq!(place.ring().rewrap("main", &old, b"context").await, Ok(None), "already the newest");
        place.rotate().await;

        let ring = place.ring();
        let (_, fresh) = ring.generate("main", b"context").await.expect("generated");
        assert_ne!(fresh.version, old.version);
        assert_eq!(ring.check("main").await.as_ref(), Ok(&fresh.version));
        assert!(same(&data_key, &ring.unwrap(&old, b"context").await.expect("the old version still opens")));

        let again = ring.rewrap("main", &old, b"context").await.expect("re-wrapped").expect("an older version");
        assert_eq!(again.version, fresh.version);
        assert!(same(&data_key, &place.ring().unwrap(&again, b"context").await.expect("unwrapped")));
        assert_eq!(ring.rewrap("main", &again, b"context").await, Ok(None));
        let moved = ring.rewrap("main", &old, b"another context").await.expect_err("another context");
        assert_eq!(moved, wrong(&old));

        place.remove_oldest().await;
        let gone = place.ring().unwrap(&old, b"context").await.expect_err("removed");
        assert_eq!(gone, Error::NoVersion { key: "main".to_owned(), version: old.version.clone() });
        let text = gone.to_string();
        assert!(
            text.contains("'main'") && text.contains(&old.version) && text.contains("put that version back"),
            "{text}"
        );
        assert!(same(&data_key, &place.ring().unwrap(&again, b"context").await.expect("what was re-wrapped stays")));
    })
    .await;
}

#[tokio::test]
async fn a_rotation_is_seen_without_a_restart() {
    on_every_kind(|place| async move {
        let ring = place.ring();
        let (_, first) = ring.generate("main", b"").await.expect("generated");
        place.rotate().await;
        // Somebody else has seen it already: what they wrapped opens at once.
        let (data_key, second) = place.ring().generate("main", b"").await.expect("generated");
        assert_ne!(first.version, second.version);
        assert!(same(&data_key, &ring.unwrap(&second, b"").await.expect("a version that was unknown until now")));
        eventually(Duration::from_mins(1), || async {
            ring.generate("main", b"").await.expect("generated").1.version == second.version
        })
        .await;
        eventually(Duration::from_mins(1), || async {
            ring.rewrap("main", &first, b"").await.expect("re-wrapped").is_some()
        })
        .await;
    })
    .await;
}

#[tokio::test]
async fn a_data_key_moves_from_one_named_key_to_another() {
    on_every_kind(|place| async move {
        let file = keys::Key::file(crate::ring::scratch_key(), keys::Sharing::Private);
        let both = [("main".to_owned(), place.key()), ("next".to_owned(), file)];
        let ring = Keyring::new(both, crate::ring::FORGETFUL).expect("a keyring");
        let (data_key, old) = ring.generate("main", b"context").await.expect("generated");
        let moved = ring.rewrap("next", &old, b"context").await.expect("re-wrapped").expect("another key");
        assert_eq!(moved.key, "next");
        assert!(same(&data_key, &ring.unwrap(&moved, b"context").await.expect("unwrapped")));
        let back = ring.rewrap("main", &moved, b"context").await.expect("re-wrapped").expect("another key");
        assert!(same(&data_key, &place.ring().unwrap(&back, b"context").await.expect("unwrapped")));
    })
    .await;
}

#[tokio::test]
async fn another_key_under_the_same_name_is_one_clear_error() {
    on_every_kind(|place| async move {
        let (_, wrapped) = place.ring().generate("main", b"context").await.expect("generated");
        place.replace().await;
        let refused = place.ring().unwrap(&wrapped, b"context").await.expect_err("another key");
        assert_eq!(refused, wrong(&wrapped));
        let expected = format!(
            "version '{}' of the key 'main' does not open this: it was sealed with another key or for another place, \
             or its bytes were changed; give the key the content back that it had, or restore the bytes from a back-up",
            wrapped.version
        );
        assert_eq!(refused.to_string(), expected);
    })
    .await;
}

#[tokio::test]
async fn a_key_out_of_reach_is_unavailable_in_bounded_time_and_comes_back() {
    on_every_kind(|place| async move {
        let forgetful = place.ring();
        let (_, wrapped) = forgetful.generate("main", b"context").await.expect("generated");
        let remembering = Keyring::new([("main".to_owned(), place.key())], Settings::default()).expect("a keyring");
        remembering.unwrap(&wrapped, b"context").await.expect("unwrapped");

        place.down().await;
        let started = Instant::now();
        for ring in [&place.ring(), &forgetful] {
            // What a kind read a moment ago may count for a few seconds.
            let error = eventually(BOUND, || async { ring.unwrap(&wrapped, b"context").await.err() }).await;
            assert!(matches!(&error, Error::Unavailable { key, .. } if key == "main"), "{error:?}");
            assert!(error.to_string().contains("try again later"), "{error}");
        }
        let error = place.ring().generate("main", b"context").await.expect_err("down");
        assert!(matches!(error, Error::Unavailable { .. }), "{error:?}");
        let error = place.ring().rewrap("main", &wrapped, b"context").await.expect_err("down");
        assert!(matches!(error, Error::Unavailable { .. }), "{error:?}");
        assert!(started.elapsed() < 2 * BOUND, "{:?}", started.elapsed());
        remembering.unwrap(&wrapped, b"context").await.expect("remembered for minutes");

        place.up().await;
        for ring in [&place.ring(), &forgetful] {
            eventually(BOUND, || ring.unwrap(&wrapped, b"context")).await;
            ring.generate("main", b"context").await.expect("back");
        }
    })
    .await;
}

#[tokio::test]
async fn no_secret_is_in_debug_or_error_texts() {
    on_every_kind(|place| async move {
        let key = place.key();
        let ring = ring("main", key.clone());
        let (data_key, wrapped) = ring.generate("main", b"context").await.expect("generated");
        let stream = data_key.stream(b"info");
        let mut texts = vec![format!("{key:?} {ring:?} {data_key:?} {stream:?} {wrapped:?}")];
        let sealer = ring.seal_stream("main", b"context", Vec::new()).await.expect("a sealer");
        texts.push(format!("{sealer:?}"));
        let mut tell = |error: Error| texts.push(format!("{error} {error:?}"));
        tell(ring.unwrap(&wrapped, b"another").await.expect_err("another context"));
        let mut secrets = place.canaries().await;
        place.rotate().await;
        secrets.extend(place.canaries().await);
        place.remove_oldest().await;
        tell(place.ring().unwrap(&wrapped, b"context").await.expect_err("removed"));
        place.down().await;
        tell(place.ring().unwrap(&wrapped, b"context").await.expect_err("down"));
        place.up().await;
        assert!(secrets.iter().all(|secret| secret.len() > 10) && secrets.len() > 1, "{} canaries", secrets.len());
        for text in texts {
            for secret in &secrets {
                assert!(!text.contains(secret.trim()), "a secret in: {text}");
            }
        }
    })
    .await;
}

fn wrong(wrapped: &Wrapped) -> Error {
    Error::WrongKey { key: wrapped.key.clone(), version: wrapped.version.clone() }
}
