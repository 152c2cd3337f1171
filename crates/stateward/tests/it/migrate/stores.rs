//! Between the stores of one server.

use serde_json::{Value, json};

use crate::compat::beside_cluster;
use crate::server::answer;
use crate::state_commands::{Person, a_state, file_with, lock_of};

fn with<'a>(common: &[&'a str], own: &[&'a str]) -> Vec<&'a str> {
    [common, own].concat()
}

#[tokio::test]
async fn states_move_between_stores_one_by_one_or_many_at_once() {
    let (server, token, namespace) = beside_cluster("stores", |start| start).await;
    let me = Person::new(&server, &token);
    let name = |name: &str| format!("{namespace}/{name}");
    for (number, state) in ["one", "two", "three", "four"].iter().enumerate() {
        me.ok(&["push", &name(state), &file_with(&a_state(number as u64 + 1, state))]);
    }
    let between = ["migrate", "--from-store", "sqlite", "--to-store", "secret"];

    // One, which is then found in its new place only.
    assert!(me.ok(&with(&between, &[&name("one")])).contains("copied"));
    assert_eq!(me.ok(&["pull", &name("one"), "--store", "secret"]), a_state(1, "one"));
    me.fails(5, "in the store secret", &["pull", &name("one")]);
    let path = format!("/state/{}", name("one"));
    let (status, text) = answer(server.request("LOCK", &path).bearer_auth(&token).body(r#"{"ID":"x"}"#)).await;
    assert!(status == 409 && text.contains("in the store secret"), "{status} {text}");

    // Several, of which one is locked: the others go on, and the end says so.
    let held = me.ok(&["lock", &name("three"), "--reason", "busy"]).trim().to_owned();
    let run = me.run(&with(&between, &["-n", &namespace, "-o", "json"]));
    assert_eq!(run.code, Some(8), "{run:#?}");
    assert!(run.err.contains("1 of 4 states were not copied") && run.err.contains("busy"), "{run:#?}");
    let done: Value = serde_json::from_str(&run.out).unwrap();
    let results: Vec<&Value> = done["items"].as_array().unwrap().iter().map(|item| &item["result"]).collect();
    assert_eq!(results, [&json!("copied"), &json!("already-moved"), &json!("copied")], "{run:#?}");
    assert_eq!(lock_of(&me, &name("three")), Some(held.clone()));
    assert_eq!(me.run(&["unlock", &name("three"), &held]).code, Some(0));

    // By a search, and the source kept.
    assert!(me.ok(&with(&between, &["--search", "/three", "--keep-source"])).contains("copied"));
    assert_eq!(me.ok(&["pull", &name("three")]), a_state(3, "three"));
    assert_eq!(me.ok(&["pull", &name("three"), "--store", "secret"]), a_state(3, "three"));
    assert_eq!(me.json(&["locks"])["items"], json!([]));

    // Without a lock of its own, a source that somebody else holds is copied and left as it is.
    me.ok(&["push", &name("three"), &file_with(&a_state(4, "more"))]);
    let held = me.ok(&["lock", &name("three"), "--reason", "busy"]).trim().to_owned();
    let three = name("three");
    let unlocked = with(&between, &[&three, "--no-source-lock"]);
    assert!(me.ok(&unlocked).contains("copied"));
    assert_eq!(me.ok(&["pull", &name("three"), "--store", "secret"]), a_state(4, "more"));
    assert_eq!(
        (me.ok(&["pull", &name("three")]), lock_of(&me, &name("three"))),
        (a_state(4, "more"), Some(held.clone()))
    );
    assert!(me.ok(&unlocked).contains("already there"));
    assert_eq!(me.run(&["unlock", &name("three"), &held]).code, Some(0));

    // And back: what is restored in the old place is the same bytes.
    me.ok(&["restore", &name("two")]);
    let back = ["migrate", &name("two"), "--from-store", "secret", "--to-store", "configmap"];
    assert!(me.ok(&back).contains("copied"));
    assert_eq!(me.ok(&["pull", &name("two"), "--store", "configmap"]), a_state(2, "two"));
    me.fails(1, "names no store", &["migrate", &name("two"), "--from-store", "sqlite", "--to-store", "none"]);
    me.fails(2, "not clear", &["migrate", &name("two"), "--from-store", "sqlite", "--to-store", "sqlite"]);
}
