//! What a server does with calls under way.

use std::sync::Arc;
use std::time::Duration;

use backends::{Client, Code, Driver, Endpoint, Mode, Server, ServerLimits, Serving, Target};
use testbed::eventually;
use tokio::sync::oneshot;

use crate::place::{PATIENCE, document, serve, target, text};
use crate::recorder::Recorder;

fn client(address: &str) -> Client {
    Client::new(&Endpoint::new(address, Mode::Value)).unwrap()
}

async fn asked(recorder: &Recorder) -> Vec<String> {
    eventually(PATIENCE, || async { Some(recorder.asked()).filter(|asked| !asked.is_empty()) }).await
}

#[tokio::test]
async fn a_call_goes_on_when_its_caller_hangs_up() {
    let recorder = Arc::new(Recorder::new(Mode::Value));
    let running = serve(recorder.clone(), None, ServerLimits::default()).await;
    recorder.hold();
    let short = Target { within: Duration::from_secs(2), ..target("r", "k") };
    let failure = client(&running.address).on_create(short, Some(&document("1"))).await.unwrap_err();
    assert_eq!(failure.code, Code::DeadlineExceeded, "{failure}");
    assert_eq!(asked(&recorder).await, [r#"on_create "r" - "k" 1"#]);
    recorder.release();
    assert_eq!(asked(&recorder).await, ["and went on"]);
}

#[tokio::test]
async fn a_stop_lets_calls_end_and_takes_no_more() {
    let recorder = Arc::new(Recorder::new(Mode::Value));
    let serving = Serving { listen: "127.0.0.1:0".parse().unwrap(), tls: None, limits: ServerLimits::default() };
    let server = Server::bind(recorder.clone(), serving).await.unwrap();
    let address = server.address().to_string();
    let (stop, stopped) = oneshot::channel::<()>();
    let ending = tokio::spawn(server.run(async {
        let _ = stopped.await;
    }));
    recorder.hold();
    let called = client(&address);
    let calling = tokio::spawn(async move { called.on_create(target("r", "k"), None).await });
    asked(&recorder).await;
    stop.send(()).unwrap();
    eventually(PATIENCE, || async { tokio::net::TcpStream::connect(&address).await.is_err() }).await;
    recorder.release();
    assert_eq!(text(calling.await.unwrap().unwrap()).as_deref(), Some("{\"made\":1}"), "it got its answer");
    tokio::time::timeout(PATIENCE, ending).await.expect("an end").unwrap();
    let failure = client(&address).on_create(target("s", "k"), None).await.unwrap_err();
    assert_eq!(failure.code, Code::Unavailable, "{failure}");
}

#[tokio::test]
async fn a_stop_does_not_wait_for_ever() {
    let recorder = Arc::new(Recorder::new(Mode::Value));
    let limits = ServerLimits { grace: Duration::from_millis(200), ..ServerLimits::default() };
    let serving = Serving { listen: "127.0.0.1:0".parse().unwrap(), tls: None, limits };
    let server = Server::bind(recorder.clone(), serving).await.unwrap();
    let called = client(&server.address().to_string());
    let (stop, stopped) = oneshot::channel::<()>();
    let ending = tokio::spawn(server.run(async {
        let _ = stopped.await;
    }));
    recorder.hold();
    let calling = tokio::spawn(async move { called.on_create(target("r", "k"), None).await });
    asked(&recorder).await;
    stop.send(()).unwrap();
    tokio::time::timeout(PATIENCE / 2, ending).await.expect("an end").unwrap();
    calling.abort();
}

#[tokio::test]
async fn calls_wait_for_their_turn() {
    let recorder = Arc::new(Recorder::new(Mode::Value));
    let limits = ServerLimits { calls: 2, ..ServerLimits::default() };
    let running = serve(recorder.clone(), None, limits).await;
    let called = client(&running.address);
    recorder.hold();
    let calling: Vec<_> = (0..8)
        .map(|number| {
            let called = called.clone();
            tokio::spawn(async move { called.on_create(target(&number.to_string(), "k"), None).await })
        })
        .collect();
    eventually(PATIENCE, || async { recorder.most() == 2 }).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(recorder.asked().len(), 2, "the others are not begun");
    recorder.release();
    for call in calling {
        assert!(call.await.unwrap().is_ok());
    }
    assert_eq!(recorder.most(), 2);
}

#[tokio::test]
async fn more_connections_than_places_wait_outside() {
    let recorder = Arc::new(Recorder::new(Mode::Value));
    let limits = ServerLimits { connections: 1, ..ServerLimits::default() };
    let running = serve(recorder.clone(), None, limits).await;
    let first = client(&running.address);
    first.on_lock(target("r", "k"), "me").await.unwrap();
    let second = client(&running.address);
    let short = Target { within: Duration::from_secs(2), ..target("r", "k") };
    assert!(second.on_lock(short, "you").await.is_err());
    drop(first);
    eventually(PATIENCE, || second.on_unlock(target("r", "k"))).await;
    let asked = recorder.asked();
    assert!(
        asked.first().is_some_and(|first| first.starts_with("on_lock"))
            && !asked.iter().any(|line| line.ends_with("you")),
        "{asked:?}"
    );
}
