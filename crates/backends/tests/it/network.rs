//! The way between: a real proxy that cuts, swallows and heals.

use std::sync::Arc;
use std::time::{Duration, Instant};

use backends::{Client, Code, Driver, Endpoint, Limits, Mode, ServerLimits, Target};
use testbed::{Direction, Proxy, Toxiproxy, eventually};

use crate::place::{PATIENCE, Running, document, file, serve, target, text};
use crate::recorder::Recorder;

async fn through(driver: Arc<dyn Driver>, limits: Limits) -> (Client, Proxy, (Toxiproxy, Running)) {
    let running = serve(driver, None, ServerLimits::default()).await;
    let toxiproxy = Toxiproxy::start().unwrap();
    let proxy = toxiproxy.proxy(&running.address).await.unwrap();
    let endpoint = Endpoint { limits, ..Endpoint::new(proxy.address.clone(), Mode::Value) };
    (Client::new(&endpoint).unwrap(), proxy, (toxiproxy, running))
}

#[tokio::test]
async fn a_change_whose_answer_was_lost_is_unknown_and_was_sent_once() {
    let recorder = Arc::new(Recorder::new(Mode::Value));
    let (client, proxy, _running) = through(recorder.clone(), Limits::default()).await;
    client.get_locked_by(target("r", "")).await.unwrap();
    recorder.asked();

    recorder.hold();
    let creating = tokio::spawn({
        let client = client.clone();
        async move { client.on_create(target("r", "k"), Some(&document("1"))).await }
    });
    let asked = eventually(PATIENCE, || async { Some(recorder.asked()).filter(|asked| !asked.is_empty()) }).await;
    assert_eq!(asked, [r#"on_create "r" - "k" 1"#]);
    proxy.cut().await.unwrap();
    recorder.release();
    let failure = creating.await.unwrap().unwrap_err();
    assert_eq!(failure.code, Code::Unknown, "{failure}");
    assert!(
        failure.text.ends_with("UNKNOWN: the connection ended before the answer; it may have taken place"),
        "{failure}"
    );
    let went_on = eventually(PATIENCE, || async { Some(recorder.asked()).filter(|asked| !asked.is_empty()) }).await;
    assert_eq!(went_on, ["and went on"], "whoever called");

    proxy.heal().await.unwrap();
    assert_eq!(text(client.get_value(target("r", ""), 1).await.unwrap()).as_deref(), Some("\"value\""));
    assert_eq!(recorder.asked().len(), 1, "and never came again");
}

#[tokio::test]
async fn a_connection_that_died_without_a_word_is_noticed_and_left() {
    let limits = Limits { ping_every: Duration::from_millis(300), ..Limits::default() };
    let (client, proxy, _running) = through(file(), limits).await;
    client.on_create(target("r", "k"), Some(&document("1"))).await.unwrap();

    // Nothing comes through any more, and nothing is closed. Who waits long is told by the pings.
    proxy.timeout(Direction::Downstream).await.unwrap();
    let started = Instant::now();
    let failure = client.on_lock(target("r", "k2"), "me").await.unwrap_err();
    assert_eq!(failure.code, Code::Unknown, "{failure}");
    assert!(started.elapsed() < PATIENCE / 2, "{:?}", started.elapsed());
    proxy.heal().await.unwrap();
    assert_eq!(client.get_locked_by(target("r", "")).await.unwrap().as_deref(), Some("me"));

    // Who does not wait for a ping leaves the connection to nobody else.
    let (client, proxy, _running) = through(file(), Limits::default()).await;
    client.on_create(target("r", "k"), Some(&document("1"))).await.unwrap();
    proxy.timeout(Direction::Upstream).await.unwrap();
    let short = Target { within: Duration::from_millis(300), ..target("r", "k2") };
    assert_eq!(client.on_lock(short, "me").await.unwrap_err().code, Code::DeadlineExceeded);
    proxy.heal().await.unwrap();
    assert_eq!(client.get_locked_by(target("r", "")).await, Ok(None), "it never got there");
}

#[tokio::test]
async fn a_backend_that_was_started_anew_is_found_again() {
    let (client, proxy, _running) = through(file(), Limits::default()).await;
    client.on_create(target("r", "k"), Some(&document("1"))).await.unwrap();
    for round in 0..5 {
        proxy.cut().await.unwrap();
        let failure = client.on_lock(target("r", "k"), "me").await.unwrap_err();
        assert!(matches!(failure.code, Code::Unavailable | Code::Unknown), "{round}: {failure}");
        proxy.heal().await.unwrap();
        assert_eq!(client.get_locked_by(target("r", "")).await, Ok(None), "{round}");
    }
}
