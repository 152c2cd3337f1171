//! Through a client and a server of ours nothing of a call is lost, in either mode.

use std::sync::Arc;

use backends::{Client, Code, Driver, Endpoint, Mode, ServerLimits, Target, Update};

use crate::place::{PATIENCE, Running, document, serve, text};
use crate::recorder::Recorder;

async fn recorder(mode: Mode) -> (Arc<Recorder>, Client, Running) {
    let recorder = Arc::new(Recorder::new(mode));
    let running = serve(recorder.clone(), None, ServerLimits::default()).await;
    let client = Client::new(&Endpoint::new(running.address.clone(), mode)).unwrap();
    (recorder, client, running)
}

#[tokio::test]
async fn every_argument_arrives_and_every_answer_comes_back() {
    for mode in [Mode::Value, Mode::Context] {
        let (recorder, client, _running) = recorder(mode).await;
        client.health(PATIENCE).await.unwrap();
        let (context, old, value) = (document(r#"{"c":1}"#), document(r#"{"o":1}"#), document("[1]"));
        let target = Target { id: "r", context: Some(&context), key: "key", within: PATIENCE };
        let sent = (mode == Mode::Value).then_some(&value);
        let shown = if mode == Mode::Value { "[1]" } else { "-" };

        assert_eq!(text(client.get_value(target, 7).await.unwrap()).unwrap(), "\"value\"");
        assert_eq!(recorder.asked(), [r#"get_value "r" {"c":1} "" 7"#]);

        assert_eq!(text(client.on_create(target, sent).await.unwrap()).unwrap(), "{\"made\":1}");
        assert_eq!(recorder.asked(), [format!(r#"on_create "r" {{"c":1}} "key" {shown}"#)]);

        let update = Update { version: 3, value: sent, owner: Some("me"), old_version: 2, old_context: Some(&old) };
        assert_eq!(client.on_update(target, update).await, Ok(None));
        assert_eq!(recorder.asked(), [format!(r#"on_update "r" {{"c":1}} "key" 3 {shown} Some("me") 2 {{"o":1}}"#)]);

        let update = Update { version: 2, value: None, owner: None, old_version: 1, old_context: None };
        let bare = Target { context: None, key: "", ..target };
        assert_eq!(client.on_update(bare, update).await, Ok(None));
        assert_eq!(recorder.asked(), [r#"on_update "r" - "" 2 - None 1 -"#]);

        client.on_delete(target, Some("me")).await.unwrap();
        assert_eq!(recorder.asked(), [r#"on_delete "r" {"c":1} "key" Some("me")"#]);
        client.on_delete(bare, None).await.unwrap();
        assert_eq!(recorder.asked(), [r#"on_delete "r" - "" None"#]);

        client.on_delete_revision(target, 9, Some("me")).await.unwrap();
        // The original has no field for a context here.
        let context = if mode == Mode::Value { r#"{"c":1}"# } else { "-" };
        assert_eq!(recorder.asked(), [format!(r#"on_delete_revision "r" {context} "key" 9 Some("me")"#)]);

        assert_eq!(client.get_locked_by(target).await.unwrap().as_deref(), Some("somebody"));
        assert_eq!(recorder.asked(), [r#"get_locked_by "r" {"c":1} """#]);
        client.on_lock(target, "me").await.unwrap();
        assert_eq!(recorder.asked(), [r#"on_lock "r" {"c":1} "key" me"#]);
        client.on_unlock(target).await.unwrap();
        assert_eq!(recorder.asked(), [r#"on_unlock "r" {"c":1} "key""#]);
    }
}

#[tokio::test]
async fn each_mode_has_its_own_questions() {
    let (recorder, client, running) = recorder(Mode::Context).await;
    let (context, value) = (document(r#"{"c":1}"#), document("[1]"));
    let target = Target { id: "", context: Some(&context), key: "", within: PATIENCE };
    assert_eq!(text(client.get_pre_create_value(target).await.unwrap()).unwrap(), "\"before\"");
    assert_eq!(recorder.asked(), [r#"get_pre_create_value "" {"c":1} """#]);

    let failure = client.on_create(target, Some(&value)).await.unwrap_err();
    assert_eq!(failure.code, Code::InvalidArgument);
    assert_eq!(recorder.asked(), Vec::<String>::new(), "a value is not sent to whoever takes none");

    let other = Client::new(&Endpoint::new(running.address.clone(), Mode::Value)).unwrap();
    let failure = other.get_value(target, 1).await.unwrap_err();
    assert_eq!(failure.code, Code::Unimplemented, "{failure}");
    let expected = "/storage_backend.ValueAndContextStorageBackend/GetValue UNIMPLEMENTED: ";
    assert!(failure.text.starts_with(expected), "{failure}");
}
