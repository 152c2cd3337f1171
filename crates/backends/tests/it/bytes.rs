//! What exactly stands on the wire, read by hand.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use backends::{Client, Code, Driver, Encoding, Endpoint, Mode, Target, Update};

use crate::fields::{self, Field, one};
use crate::place::{PATIENCE, document, text};
use crate::raw::{Peer, Reply};

/// Numbers that are ours, and not of the original.
const DEADLINE: u64 = 101;
const KEY: u64 = 102;
const OLD_VERSION: u64 = 103;
const OLD_CONTEXT: u64 = 104;

fn client(peer: &Peer, mode: Mode) -> Client {
    Client::new(&Endpoint::new(peer.address.clone(), mode)).unwrap()
}

/// The fields of the only request, without the deadline, which must be where it belongs and near.
fn sent(peer: &Peer, rpc: &str) -> Vec<(u64, Field)> {
    let seen = peer.only();
    assert_eq!(seen.path, format!("/storage_backend.{rpc}"));
    assert!(seen.timeout.is_some(), "the other side is told how long we wait");
    let mut fields = fields::read(&seen.message);
    let now = u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis()).unwrap();
    if let Some(at) = fields.iter().position(|(number, _)| *number == DEADLINE) {
        let (_, Field::Number(deadline)) = fields.remove(at) else { panic!("a number") };
        let left = Duration::from_millis(deadline.checked_sub(now).expect("it is still to come"));
        assert!(left <= PATIENCE, "{left:?}");
    }
    fields
}

#[tokio::test]
async fn the_numbers_of_the_fields_are_the_originals() {
    let (value, context, old) = (document("1.50"), document(r#"{"c":1}"#), document("{}"));
    let target = Target { id: "id", context: Some(&context), key: "key", within: PATIENCE };
    let (id, c, key) = ((1, "id".into()), r#"{"c":1}"#.into(), (KEY, "key".into()));
    let ours = [key.clone(), (OLD_VERSION, Field::Number(2)), (OLD_CONTEXT, "{}".into())];
    for mode in [Mode::Value, Mode::Context] {
        let service = if mode == Mode::Value { "ValueAndContextStorageBackend" } else { "ContextStorageBackend" };
        let given = (mode == Mode::Value).then_some(&value);
        let update = Update { version: 3, value: given, owner: Some("me"), old_version: 2, old_context: Some(&old) };
        let (v, owner): (Field, Field) = ("1.50".into(), "me".into());
        let in_mode = |with: &[(u64, Field)], without: &[(u64, Field)]| match mode {
            Mode::Value => with.to_vec(),
            Mode::Context => without.to_vec(),
        };
        let c: Field = Field::clone(&c);

        let peer = Peer::start([Reply::Message(Vec::new())]).await;
        client(&peer, mode).on_create(target, given).await.unwrap();
        let expected = in_mode(
            &[id.clone(), (2, v.clone()), (3, c.clone()), key.clone()],
            &[id.clone(), (2, c.clone()), key.clone()],
        );
        assert_eq!(sent(&peer, &format!("{service}/OnCreate")), expected);

        let peer = Peer::start([Reply::Message(Vec::new())]).await;
        client(&peer, mode).on_update(target, update).await.unwrap();
        let version = (2, Field::Number(3));
        let mut expected = in_mode(
            &[id.clone(), version.clone(), (3, v.clone()), (4, c.clone()), (5, owner.clone())],
            &[id.clone(), version.clone(), (3, c.clone()), (4, owner.clone())],
        );
        expected.extend(ours.clone());
        assert_eq!(sent(&peer, &format!("{service}/OnUpdate")), expected);

        let peer = Peer::start([Reply::Message(Vec::new())]).await;
        client(&peer, mode).on_delete(target, Some("me")).await.unwrap();
        let expected = [id.clone(), (2, c.clone()), (3, owner.clone()), key.clone()];
        assert_eq!(sent(&peer, &format!("{service}/OnDelete")), expected);

        let peer = Peer::start([Reply::Message(Vec::new())]).await;
        client(&peer, mode).on_delete_revision(target, 9, Some("me")).await.unwrap();
        let rest = [(3, owner.clone()), (4, Field::Number(9)), key.clone()];
        let mut expected = in_mode(&[id.clone(), (2, c.clone())], std::slice::from_ref(&id));
        expected.extend(rest);
        assert_eq!(sent(&peer, &format!("{service}/OnDeleteRevision")), expected);

        let peer = Peer::start([Reply::Message(one(b"1"))]).await;
        client(&peer, mode).get_value(target, 9).await.unwrap();
        let expected = [id.clone(), (2, Field::Number(9)), (3, c.clone())];
        assert_eq!(sent(&peer, &format!("{service}/GetValue")), expected);

        let peer = Peer::start([Reply::Message(one(b"me"))]).await;
        assert_eq!(client(&peer, mode).get_locked_by(target).await.unwrap().as_deref(), Some("me"));
        assert_eq!(sent(&peer, &format!("{service}/GetLockedBy")), [id.clone(), (2, c.clone())]);

        let peer = Peer::start([Reply::Message(Vec::new())]).await;
        client(&peer, mode).on_lock(target, "me").await.unwrap();
        let expected = [id.clone(), (2, c.clone()), (3, owner.clone()), key.clone()];
        assert_eq!(sent(&peer, &format!("{service}/OnLock")), expected);

        let peer = Peer::start([Reply::Message(Vec::new())]).await;
        client(&peer, mode).on_unlock(target).await.unwrap();
        assert_eq!(sent(&peer, &format!("{service}/OnUnlock")), [id.clone(), (2, c.clone()), key.clone()]);
    }
    let peer = Peer::start([Reply::Message(one(b"1"))]).await;
    client(&peer, Mode::Context).get_pre_create_value(target).await.unwrap();
    assert_eq!(sent(&peer, "ContextStorageBackend/GetPreCreateValue"), [(1, r#"{"c":1}"#.into())]);
}

#[tokio::test]
async fn values_are_sent_as_the_bytes_that_they_are() {
    let values = [
        r#""text""#,
        "null",
        "[]",
        r#"[1,null]"#,
        r#"{"a":{"b":null}}"#,
        "12345678901234567890123",
        "1.50",
        r#"{"b":1,"a":[1.50,12345678901234567890123]}"#,
    ];
    for value in values {
        let peer = Peer::start([Reply::Message(Vec::new())]).await;
        let target = Target { id: "id", context: None, key: "", within: PATIENCE };
        client(&peer, Mode::Value).on_create(target, Some(&document(value))).await.unwrap();
        let fields = sent(&peer, "ValueAndContextStorageBackend/OnCreate");
        assert_eq!(fields, [(1, "id".into()), (2, value.into())], "an absent context has no field at all");
    }
    let peer = Peer::start([Reply::Message(Vec::new())]).await;
    let target = Target { id: "id", context: Some(&document("null")), key: "", within: PATIENCE };
    client(&peer, Mode::Value).on_create(target, None).await.unwrap();
    let fields = sent(&peer, "ValueAndContextStorageBackend/OnCreate");
    assert_eq!(fields, [(1, "id".into()), (3, "null".into())], "an absent value has no bytes, and null has four");
}

#[tokio::test]
async fn what_comes_back_is_json_or_an_error_that_names_the_cure() {
    let target = Target { id: "the-id", context: None, key: "", within: PATIENCE };
    // What the backend answers, and what that is when it is strict, and legacy.
    let table: [(&[u8], Option<&str>, Option<&str>); 8] = [
        (br#"{"a":1.50}"#, Some(r#"{"a":1.50}"#), Some(r#"{"a":1.50}"#)),
        (b"12345678901234567890123", Some("12345678901234567890123"), Some("12345678901234567890123")),
        (b"null", Some("null"), Some("null")),
        (b"bare words", None, Some(r#""bare words""#)),
        (b"a\"quote\"\n", None, Some(r#""a\"quote\"\n""#)),
        (b"{\"a\":", None, Some(r#""{\"a\":""#)),
        (b"\"cut\"off", None, Some(r#""\"cut\"off""#)),
        (b"\xff\xfe", None, None),
    ];
    for (answer, strict, legacy) in table {
        for (encoding, expected) in [(Encoding::Strict, strict), (Encoding::Legacy, legacy)] {
            let peer = Peer::start([Reply::Message(one(answer))]).await;
            let endpoint = Endpoint { encoding, ..Endpoint::new(peer.address.clone(), Mode::Value) };
            let read = Client::new(&endpoint).unwrap().get_value(target, 1).await;
            let Some(expected) = expected else {
                let failure = read.unwrap_err();
                assert_eq!(failure.code, Code::Internal);
                let words =
                    ["/storage_backend.ValueAndContextStorageBackend/GetValue INTERNAL: ", "\"the-id\"", "JSON"];
                assert!(words.iter().all(|word| failure.text.contains(word)), "{failure}");
                let cure = failure.text.contains("encoding: legacy");
                assert_eq!(cure, encoding == Encoding::Strict, "{failure}");
                assert!(!failure.text.contains("bare words"), "{failure}");
                continue;
            };
            assert_eq!(text(read.unwrap()).as_deref(), Some(expected), "{answer:?} {encoding:?}");
        }
    }
    for nothing in [Vec::new(), one(b"")] {
        let peer = Peer::start([Reply::Message(nothing)]).await;
        let read = client(&peer, Mode::Value).get_value(target, 1).await;
        assert_eq!(read, Ok(None), "no field, and no bytes, are no value");
    }
    let peer = Peer::start([Reply::Message(one(b"no context"))]).await;
    let failure = client(&peer, Mode::Value).on_create(target, None).await.unwrap_err();
    assert_eq!(failure.code, Code::Internal, "it did take place: {failure}");
    assert!(!failure.code.is_certain());
}
