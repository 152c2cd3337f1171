//! `stateward ti apply`, `lock`, `unlock` and `journal`.

use serde_json::json;

use super::desk::{Desk, cells};
use crate::server::PATIENCE;

fn desk_with_a_record() -> Desk {
    let desk = Desk::new();
    desk.create(
        "typeRef: {path: cap.type.x, revision: 0.1.0}\nname: x\nattributes: [{path: cap.attribute.a, revision: 0.1.0}]\nvalue: {n: 1}",
    );
    desk
}

#[test]
fn changes_are_applied_together_and_only_what_is_given_changes() {
    let desk = desk_with_a_record();
    desk.create("typeRef: {path: cap.type.x, revision: 0.1.0}\nname: y\nvalue: 1");
    let both =
        desk.file("both.yaml", "- {id: x, typeInstance: {value: {n: 2}}}\n- {id: y, typeInstance: {value: 2}}\n");
    let table = desk.ok(&["ti", "apply", "-f", &both]);
    assert_eq!(
        cells(&table).iter().map(|row| (row[1], row[2])).collect::<Vec<_>>(),
        [("x", "2"), ("y", "2")],
        "{table}"
    );
    let version = &desk.json(&["ti", "get", "x"])["latestResourceVersion"];
    assert_eq!(version["spec"]["value"], json!({"n": 2}));
    assert_eq!(version["metadata"]["attributes"][0]["path"], "cap.attribute.a", "attributes stay");
    let cleared = desk.file("clear.yaml", "id: x\ntypeInstance: {attributes: []}");
    desk.ok(&["ti", "apply", "-f", &cleared]);
    assert_eq!(desk.json(&["ti", "get", "x"])["latestResourceVersion"]["metadata"]["attributes"], json!([]));
    let half = desk.file("half.yaml", "id: x\ntypeInstance: {value: 3}\n---\nid: nobody\ntypeInstance: {value: 3}\n");
    desk.fails(3, "were not found", &["ti", "apply", "-f", &half]);
    assert_eq!(desk.json(&["ti", "get", "x"])["latestResourceVersion"]["resourceVersion"], 3, "all or none");
}

#[test]
fn an_expected_version_refuses_what_is_outdated() {
    let desk = desk_with_a_record();
    let change = desk.file("change.yaml", "id: x\ntypeInstance: {value: {n: 2}}");
    desk.ok(&["ti", "apply", "-f", &change, "--expected-version", "1"]);
    desk.fails(
        5,
        "has resourceVersion 2, not 1 as expected",
        &["ti", "apply", "-f", &change, "--expected-version", "1"],
    );
    let two = desk.file("two.yaml", "- {id: x, typeInstance: {}}\n- {id: x, typeInstance: {}}");
    desk.fails(2, "--expected-version is for one record", &["ti", "apply", "-f", &two, "--expected-version", "2"]);
    desk.fails(1, "[0].typeInstance", &["ti", "apply", "-f", &desk.file("bad.yaml", "id: x")]);
}

#[test]
fn locks_keep_others_out_until_they_are_released_broken_or_over() {
    let desk = desk_with_a_record();
    let change = desk.file("change.yaml", "id: x\ntypeInstance: {value: {n: 2}}");
    let id = desk.json(&["ti", "get", "x"])["id"].as_str().unwrap().to_owned();
    assert!(desk.ok(&["ti", "lock", &id, "--owner", "me"]).starts_with("LOCKED\n"));
    let row = desk.ok(&["ti", "get", "x"]);
    assert_eq!(cells(&row)[0][6], "by me", "{row}");
    let different = "locked by different owner";
    desk.fails(8, different, &["ti", "apply", "-f", &change]);
    desk.fails(8, different, &["ti", "apply", "-f", &change, "--owner", "you"]);
    desk.fails(8, different, &["ti", "delete", "x"]);
    desk.fails(8, different, &["ti", "lock", &id, "--owner", "you"]);
    desk.fails(8, different, &["ti", "unlock", &id, "--owner", "you"]);
    desk.ok(&["ti", "apply", "-f", &change, "--owner", "me"]);
    desk.ok(&["ti", "unlock", &id, "--owner", "me"]);
    desk.ok(&["ti", "lock", &id, "--owner", "you"]);
    assert!(desk.ok(&["ti", "unlock", &id, "--force"]).starts_with("UNLOCKED\n"));
    desk.fails(2, "--owner", &["ti", "unlock", &id]);
    desk.fails(3, "were not found", &["ti", "lock", "nobody", "--owner", "me"]);
    desk.fails(2, "a time has a unit", &["ti", "lock", &id, "--owner", "me", "--expires-in", "5"]);
    desk.ok(&["ti", "lock", &id, "--owner", "you"]);
    assert_eq!(desk.ok(&["ti", "delete", "x", "--owner", "you"]), "TypeInstance \"x\" deleted\n");
}

#[tokio::test]
async fn a_lease_ends_by_itself() {
    let desk = desk_with_a_record();
    let id = desk.json(&["ti", "get", "x"])["id"].as_str().unwrap().to_owned();
    desk.ok(&["ti", "lock", &id, "--owner", "me", "--expires-in", "1h"]);
    assert!(desk.json(&["ti", "get", "x"])["lockExpiresAt"].is_string());
    desk.fails(8, "locked by different owner", &["ti", "lock", &id, "--owner", "you"]);
    // Its holder gives it another end.
    desk.ok(&["ti", "lock", &id, "--owner", "me", "--expires-in", "1ms"]);
    testbed::eventually(PATIENCE, || async { desk.run(&["ti", "lock", &id, "--owner", "you"]).code == Some(0) }).await;
}

#[test]
fn an_empty_journal_is_an_empty_table() {
    let desk = desk_with_a_record();
    assert_eq!(desk.ok(&["ti", "journal", "ls"]).lines().count(), 1);
    assert_eq!(desk.json(&["ti", "journal", "ls"])["items"], json!([]));
    let run = desk.run(&["ti", "journal", "retry", "nothing"]);
    assert!(
        run.code == Some(3) && run.err.contains("nothing") && run.err.contains("`stateward ti journal ls`"),
        "{run:#?}"
    );
}
