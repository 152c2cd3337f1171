//! What only a bucket can do wrong: ignore conditions, lose answers, vanish, or never answer.

use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Method, StatusCode, header};
use jiff::Timestamp;
use states::head::Head;
use states::store::{ChunkId, Expect, Identity, S3Settings, S3Store, Store, StoreError, Transport, Unfit};
use states::{Error, Key, Written};
use testbed::certificates::Authority;
use testbed::faults::{Fault, Proxy, Rule};
use testbed::{Direction, Toxiproxy, Weed, eventually};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use uuid::Uuid;

use crate::places::{Place, bucket, info, read, small_state, unlock, weed, write};

fn head() -> Head {
    let mut head = Head::new();
    head.operations.push(Uuid::new_v4());
    head
}

/// A store behind a proxy, and the same bucket past it.
fn behind(proxy: &Proxy) -> (Place, S3Store) {
    let (name, prefix) = (weed().create_bucket().unwrap(), "behind/a.proxy");
    let store = S3Store::connect(&bucket(proxy.url(), &name, prefix)).expect("a bucket");
    let past = S3Store::connect(&bucket(&weed().url(), &name, prefix)).expect("a bucket");
    let store = std::sync::Arc::new(store);
    (Place { namespace: "team-a".to_owned(), store }, past)
}

#[tokio::test]
async fn a_bucket_that_ignores_conditions_is_refused_and_nothing_is_left_in_it() {
    let weed = Weed::start_open().expect("weed");
    let name = weed.create_bucket().unwrap();
    let proxy = Proxy::to(&weed.url()).start();
    let settings = bucket(proxy.url(), &name, "states");
    S3Store::open(&settings).await.expect("it is a good one");
    for (header, shown) in [(header::IF_NONE_MATCH, "If-None-Match"), (header::IF_MATCH, "If-Match")] {
        proxy.clear();
        // The signature is over the condition, too.
        proxy.add(Rule::new(Fault::RemoveHeaders(vec![header, header::AUTHORIZATION])).method(Method::PUT));
        let refused = S3Store::open(&settings).await.expect_err("a bucket without conditions");
        assert!(matches!(refused, Unfit::Conditions { header, winners: 2.., .. } if header == shown), "{refused}");
        let text = refused.to_string();
        assert!(text.contains(&name) && text.contains("states.routes"), "{text}");
    }
    let listed = reqwest::get(format!("{}/{name}?list-type=2", weed.url())).await.unwrap();
    assert_eq!(listed.status(), StatusCode::OK);
    let listed = listed.text().await.unwrap();
    assert!(listed.contains("ListBucketResult") && !listed.contains("<Key>"), "{listed}");
}

#[tokio::test]
async fn a_swap_whose_answer_is_lost_is_unknown_whether_it_took_place_or_not() {
    let proxy = Proxy::to(&weed().url()).start();
    let (place, past) = behind(&proxy);
    let key = place.key("swap");
    let fault = |fault| proxy.add(Rule::new(fault).method(Method::PUT).path("/heads/").first(1));
    let mut expected = Expect::Nothing;
    // For a creation first, then for an update.
    for _round in 0..2 {
        let before = past.read_head(&key).await.unwrap().map(|found| found.head);
        for lost in [Fault::LoseRequest, Fault::status(StatusCode::SERVICE_UNAVAILABLE)] {
            fault(lost);
            let swapped = place.store.write_head(&key, &head(), &expected).await;
            assert!(matches!(swapped, Err(StoreError::Unknown(_))), "{swapped:?}");
            assert_eq!(past.read_head(&key).await.unwrap().map(|found| found.head), before);
            proxy.clear();
        }
        let done = head();
        fault(Fault::LoseAnswer);
        let swapped = place.store.write_head(&key, &done, &expected).await;
        assert!(matches!(swapped, Err(StoreError::Unknown(_))), "{swapped:?}");
        proxy.clear();
        let found = past.read_head(&key).await.unwrap().expect("a head");
        assert_eq!(found.head, done);
        expected = Expect::Revision(found.revision);
    }
    // Sent twice on the way: it met itself, and that is no conflict.
    let done = head();
    fault(Fault::Repeat);
    place.store.write_head(&key, &done, &expected).await.expect("it took place");
    assert_eq!(past.read_head(&key).await.unwrap().expect("a head").head, done);
    let late = place.store.write_head(&key, &head(), &expected).await;
    assert!(matches!(late, Err(StoreError::Conflict)), "{late:?}");
}

#[tokio::test]
async fn lost_answers_do_not_make_two_of_one_change() {
    let proxy = Proxy::to(&weed().url()).start();
    let (place, _) = behind(&proxy);
    let state = place.state("lost");
    let mut number = 0;
    for fault in [Fault::LoseAnswer, Fault::LoseRequest, Fault::Repeat, Fault::status(StatusCode::BAD_GATEWAY)] {
        let lose = |turn| proxy.add(Rule::new(fault.clone()).method(Method::PUT).nth(turn));
        let (lock, id) = (info(&format!("id-{number}")), format!("id-{number}"));
        lose(1);
        state.lock(&lock, "ann").await.expect("a lock");
        for _ in 0..2 {
            number += 1;
            lose(1);
            let written = write(&state, &small_state(number), Some(&id), "ann").await.unwrap();
            assert_eq!(written, Written::Version(number));
        }
        lose(1);
        unlock(&state, &id, "ann").await.expect("unlocked");
        proxy.clear();
        assert_eq!(read(&state).await.unwrap(), small_state(number));
        assert!(state.head().await.unwrap().unwrap().lock.is_none());
    }
    assert_eq!(state.versions().await.unwrap().len() as u64, number);
}

#[tokio::test]
async fn lost_answers_of_reads_and_chunks_are_asked_for_again() {
    let proxy = Proxy::to(&weed().url()).start();
    let (place, _) = behind(&proxy);
    let chunk = ChunkId { key: place.key("chunks"), upload: Uuid::new_v4(), number: 0 };
    let deadline = Timestamp::from_second(1_700_000_000).unwrap();
    proxy.add(Rule::new(Fault::LoseAnswer).first(2));
    place.store.put_chunk(&chunk, deadline, Bytes::from_static(b"bytes")).await.unwrap();
    for fault in [Fault::LoseRequest, Fault::status(StatusCode::INTERNAL_SERVER_ERROR)] {
        proxy.add(Rule::new(fault.clone()).nth(1));
        assert_eq!(place.store.get_chunk(&chunk).await.unwrap().as_deref(), Some(&b"bytes"[..]));
        proxy.add(Rule::new(fault.clone()).nth(1));
        assert_eq!(place.uploads_before(Timestamp::MAX).await.len(), 1);
    }
    proxy.add(Rule::new(Fault::LoseAnswer).first(1));
    place.store.delete_chunks(&chunk.key, chunk.upload).await.unwrap();
    assert_eq!(place.store.get_chunk(&chunk).await.unwrap(), None);
    assert_eq!(place.uploads_before(Timestamp::MAX).await, []);
}

#[tokio::test]
async fn every_call_ends_when_the_bucket_says_nothing() {
    let toxiproxy = Toxiproxy::start().expect("toxiproxy");
    let proxy = toxiproxy.proxy(&weed().address()).await.unwrap();
    let name = weed().create_bucket().unwrap();
    let settings = S3Settings {
        deadline: Duration::from_millis(500),
        ..bucket(&format!("http://{}", proxy.address), &name, "silent")
    };
    let store = S3Store::connect(&settings).expect("settings");
    let key = Key::new("team-a", "silent").unwrap();
    let chunk = ChunkId { key: key.clone(), upload: Uuid::new_v4(), number: 0 };
    for direction in [Direction::Upstream, Direction::Downstream] {
        proxy.timeout(direction).await.unwrap();
        let started = Instant::now();
        let swapped = store.write_head(&key, &head(), &Expect::Nothing).await;
        assert!(matches!(swapped, Err(StoreError::Unknown(_))), "{swapped:?}");
        assert!(matches!(store.read_head(&key).await, Err(StoreError::Unavailable(_))));
        assert!(matches!(store.list(None).await, Err(StoreError::Unavailable(_))));
        assert!(matches!(store.get_chunk(&chunk).await, Err(StoreError::Unavailable(_))));
        let put = store.put_chunk(&chunk, Timestamp::now(), Bytes::from_static(b"bytes")).await;
        assert!(matches!(put, Err(StoreError::Unavailable(_) | StoreError::Unknown(_))), "{put:?}");
        assert!(store.reachable().await.is_err());
        assert!(started.elapsed() < Duration::from_secs(30), "{:?}", started.elapsed());
        proxy.heal().await.unwrap();
    }
    proxy.cut().await.unwrap();
    // Nothing was sent, so that there is nothing to find out.
    let swapped = store.write_head(&key, &head(), &Expect::Nothing).await;
    assert!(matches!(swapped, Err(StoreError::Unavailable(_))), "{swapped:?}");
    proxy.heal().await.unwrap();
    eventually(Duration::from_mins(1), || async { store.reachable().await.is_ok() }).await;
}

#[tokio::test]
async fn a_bucket_that_is_gone_is_not_a_state_that_is_not_there() {
    let name = weed().create_bucket().unwrap();
    let settings = bucket(&weed().url(), &name, "");
    let store = S3Store::open(&settings).await.expect("a bucket");
    let key = Key::new("team-a", "gone").unwrap();
    assert!(store.read_head(&key).await.unwrap().is_none());
    weed().delete_bucket(&name).unwrap();
    let gone = eventually(Duration::from_mins(1), || async { store.read_head(&key).await.err() }).await;
    assert!(matches!(&gone, StoreError::Refused(refusal) if refusal.text.contains("NoSuchBucket")), "{gone:?}");
    assert!(store.reachable().await.is_err());

    for (settings, told) in [
        (S3Settings { identity: Identity::keys(Weed::ACCESS_KEY_ID, "wrong"), ..settings.clone() }, "403"),
        (S3Settings { prefix: "a//b".to_owned(), ..settings.clone() }, "prefix"),
        (S3Settings { transport: Transport::TlsOnly, ..settings.clone() }, "https"),
        (S3Settings { endpoint: Some("http://127.0.0.1:9".to_owned()), ..settings.clone() }, &name),
    ] {
        let refused = S3Store::open(&settings).await.expect_err(told).to_string();
        assert!(refused.contains(told) && refused.contains("s3."), "{refused}");
        assert!(!refused.contains("wrong") && !format!("{settings:?}").contains("wrong"), "{refused}");
    }
}

#[tokio::test]
async fn the_authority_of_the_settings_is_the_one_that_is_trusted() {
    let (ours, other) = (Authority::new("ours"), Authority::new("other"));
    let proxy = Proxy::to(&weed().url()).serving(&ours.server(&["127.0.0.1"])).start();
    let name = weed().create_bucket().unwrap();
    let with = |authority: Option<&Authority>| S3Settings {
        authorities: authority.map(|authority| authority.certificate_pem().into()),
        transport: Transport::TlsOnly,
        ..bucket(proxy.url(), &name, "tls")
    };
    let store = S3Store::open(&with(Some(&ours))).await.expect("a bucket over TLS");
    store.reachable().await.unwrap();
    for authority in [None, Some(&other)] {
        assert!(matches!(S3Store::open(&with(authority)).await, Err(Unfit::Unreachable { .. })));
    }
}

#[tokio::test]
async fn a_server_that_is_killed_loses_no_acknowledged_write() {
    let weed = Weed::start().expect("weed");
    let name = weed.create_bucket().unwrap();
    let store = S3Store::connect(&bucket(&weed.url(), &name, "")).expect("a bucket");
    let place = Place { namespace: "team-a".to_owned(), store: std::sync::Arc::new(store) };
    let state = place.state("killed");
    // It takes its time to start again.
    for number in 1..=testbed::scale().of(1, 5) {
        assert_eq!(write(&state, &small_state(number), None, "ann").await.unwrap(), Written::Version(number));
        weed.kill();
        assert!(matches!(state.head().await, Err(Error::Store(StoreError::Unavailable(_)))));
        weed.start_again().unwrap();
        assert_eq!(read(&state).await.unwrap(), small_state(number));
    }
}

/// The answer of AWS's token service, which cannot be had here, by its documentation; what it is asked goes to `seen`.
async fn token_service(seen: mpsc::UnboundedSender<String>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            let mut request = vec![0; 16 << 10];
            let length = socket.read(&mut request).await.unwrap_or_default();
            let _ = seen.send(String::from_utf8_lossy(&request[..length]).into_owned());
            let soon = Timestamp::now() + Duration::from_secs(2);
            let body = format!(
                "<AssumeRoleWithWebIdentityResponse><AssumeRoleWithWebIdentityResult><Credentials>\
                 <AccessKeyId>{}</AccessKeyId><SecretAccessKey>{}</SecretAccessKey><SessionToken></SessionToken>\
                 <Expiration>{soon}</Expiration></Credentials></AssumeRoleWithWebIdentityResult>\
                 </AssumeRoleWithWebIdentityResponse>",
                Weed::ACCESS_KEY_ID,
                Weed::SECRET_ACCESS_KEY
            );
            let head = "HTTP/1.1 200 OK\r\nContent-Type: text/xml\r\nConnection: close";
            let answer = format!("{head}\r\nContent-Length: {}\r\n\r\n{body}", body.len());
            let _ = socket.write_all(answer.as_bytes()).await;
        }
    });
    format!("http://{address}")
}

#[tokio::test]
async fn a_role_is_assumed_again_with_the_token_of_now() {
    let (sender, mut seen) = mpsc::unbounded_channel();
    let sts = token_service(sender).await;
    let token_file = testbed::process::scratch("token").unwrap().join("token");
    std::fs::write(&token_file, "first-token").unwrap();
    let identity = Identity::WebIdentity {
        role: "arn:aws:iam::1:role/states".to_owned(),
        token_file: token_file.to_str().unwrap().to_owned(),
        session: "stateward".to_owned(),
        sts: Some(sts),
    };
    let name = weed().create_bucket().unwrap();
    let settings = S3Settings { identity, ..bucket(&weed().url(), &name, "role") };
    let store = S3Store::connect(&settings).expect("settings");
    let key = Key::new("team-a", "role").unwrap();
    assert!(store.read_head(&key).await.unwrap().is_none());
    let asked = seen.recv().await.unwrap();
    assert!(asked.contains("AssumeRoleWithWebIdentity") && asked.contains("WebIdentityToken=first-token"), "{asked}");
    std::fs::write(&token_file, "second-token").unwrap();
    store.write_head(&key, &head(), &Expect::Nothing).await.expect("written as the role");
    // Keys that end within minutes are asked for with the next request, though not many times in one moment.
    let (store, seen) = (&store, &tokio::sync::Mutex::new(seen));
    eventually(Duration::from_mins(1), || async move {
        store.reachable().await.expect("a bucket");
        seen.lock().await.try_recv().is_ok_and(|asked| asked.contains("WebIdentityToken=second-token"))
    })
    .await;
    let plain = S3Store::connect(&S3Settings { transport: Transport::TlsOnly, ..settings });
    assert!(plain.unwrap_err().to_string().contains("https"), "the token would cross the network in clear");
}
