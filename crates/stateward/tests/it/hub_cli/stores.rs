//! `stateward storage`, `ti move` and the end of a backend.

use rustix::process::Signal;

use super::backend::{FileBackend, Projection, register, socket};
use super::desk::{Desk, cells};
use crate::server::Start;

fn record(name: &str, backend: &str, value: &str) -> String {
    format!("typeRef: {{path: cap.type.secret, revision: 0.1.0}}\nname: {name}\nbackend: {backend}\nvalue: {value}\n")
}

#[test]
fn a_backend_is_registered_listed_tested_and_keeps_values() {
    let (desk, backend) = (Desk::new(), FileBackend::start());
    let id = backend.register(&desk, "files");
    let list = desk.ok(&["storage", "list"]);
    assert!(list.starts_with("BACKEND ID"), "{list}");
    let row = cells(&list).into_iter().find(|row| row[0] == id).expect("the backend");
    assert_eq!(
        row[1..],
        ["files", "cap.type.files.storage:0.1.0", &backend.address, "values", "no", "0", "ready"],
        "{list}"
    );
    assert!(cells(&list).iter().any(|row| row[1] == "builtin"), "{list}");
    desk.ok(&["storage", "test", "files", "builtin"]);

    desk.create(&record("password", "files", "{password: canary, n: 1.50}"));
    assert!(backend.has("canary"), "the value is in the backend");
    assert_eq!(desk.ok(&["ti", "get", "password", "-o", "jsonpath={.latestResourceVersion.spec.value.n}"]), "1.50\n");
    let mine = desk.ok(&["ti", "get", "--backend", "files"]);
    assert_eq!(cells(&mine).len(), 1, "{mine}");
    assert_eq!(desk.json(&["storage", "test", "files"])["items"][0]["typeInstanceCount"], 1);
    desk.ok(&["ti", "delete", "password"]);
    assert!(!backend.has("canary"), "it is gone there, too");

    desk.fails(3, "storage backend \"nobody\" was not found", &["storage", "test", "nobody"]);
    let no_url = desk
        .file("no-url.yaml", "typeRef: {path: cap.type.files.storage, revision: 0.1.0}\nvalue: {acceptValue: true}");
    desk.fails(1, "value.url: it is needed", &["storage", "register", "-f", &no_url]);
}

#[test]
fn a_backend_that_is_away_fails_its_test_and_is_told_per_record() {
    let (desk, mut backend) = (Desk::new(), FileBackend::start());
    let backend_id = backend.register(&desk, "files");
    desk.create(&record("inside", "{id: files, context: {name: canary}}", "one"));
    let id = desk.json(&["ti", "get", "inside"])["id"].as_str().unwrap().to_owned();
    desk.create("typeRef: {path: cap.type.secret, revision: 0.1.0}\nname: here\nvalue: two\n");
    backend.process.kill();
    let run = desk.run(&["storage", "test", "files"]);
    assert!(run.code == Some(6) && run.err.contains("storage backend files is failing"), "{run:#?}");
    let both = desk.json(&["ti", "get", "--type", "cap.type.secret"]);
    let spec = |name: &str| {
        let items = both["items"].as_array().unwrap();
        items.iter().find(|item| item["name"] == name).unwrap()["latestResourceVersion"]["spec"].clone()
    };
    assert_eq!(spec("here")["value"], "two");
    assert!(spec("inside")["value"].is_null() && spec("inside")["valueError"].is_string(), "{both}");
    desk.fails(6, "its value could not be read", &["ti", "get", "inside", "--export", "-o", "yaml"]);
    let deletion = desk.run(&["ti", "delete", "inside"]);
    assert!(deletion.code != Some(0), "{deletion:#?}");
    let orphaned = desk.ok(&["ti", "delete", "inside", "--orphan"]);
    let (first, left) = orphaned.split_once('\n').unwrap();
    assert_eq!(first, "TypeInstance \"inside\" deleted");
    let row = cells(left).remove(0);
    assert_eq!(row[..5], [id.as_str(), &backend_id, "values", "1", "name"], "{orphaned}");
    assert!(row[5].contains("UNAVAILABLE") && !orphaned.contains("canary"), "{orphaned}");
    assert!(backend.has("one"), "what is left outside is still there");
    let whole = desk.json(&["ti", "delete", "here", "--orphan"]);
    assert_eq!(whole, serde_json::json!({ "items": [{ "id": "here" }], "leftOutside": [] }));
}

#[test]
fn records_move_between_backends_and_a_backend_is_retired() {
    let (desk, first, second) = (Desk::new(), FileBackend::start(), FileBackend::start());
    first.register(&desk, "first");
    let second_id = second.register(&desk, "second");
    desk.create(&record("a", "first", "canary-a"));
    desk.create(&record("b", "first", "canary-b"));
    let a = desk.json(&["ti", "get", "a"])["id"].as_str().unwrap().to_owned();
    let moved = desk.ok(&["ti", "move", &a, "--to", "second"]);
    assert_eq!(cells(&moved)[0], [a.as_str(), "a", second_id.as_str()], "{moved}");
    assert!(second.has("canary-a") && !first.has("canary-a"));

    desk.fails(2, "--move-to", &["storage", "retire", "first"]);
    let retired = desk.ok(&["storage", "retire", "first", "--move-to", "second"]);
    assert!(cells(&retired)[0][1] == "moved" && second.has("canary-b"), "{retired}");
    desk.fails(3, "was not found", &["storage", "test", "first"]);
    let run = desk.run(&["storage", "retire", "second", "--orphan", "-o", "json"]);
    let left: serde_json::Value = serde_json::from_str(&run.ok()).unwrap();
    assert_eq!(left["left"].as_array().unwrap().len(), 2, "{left}");
    let outside = &left["leftOutside"][0];
    assert_eq!((&outside["backendID"], &outside["versions"]), (&second_id.as_str().into(), &1.into()), "{left}");
    desk.fails(3, "was not found", &["ti", "get", "a"]);
    assert!(second.has("canary-a"), "what is left outside is still there");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_value_that_a_backend_does_not_take_is_not_exported_and_a_comment_in_the_editor() {
    let (desk, projection) = (Desk::new(), Projection::start().await);
    register(&desk, "shown", &projection.address, false);
    desk.create(
        "typeRef: {path: cap.type.release, revision: 0.1.0}\nname: r\nbackend: {id: shown, context: {name: one}}\n",
    );
    assert_eq!(
        desk.ok(&["ti", "get", "r", "-o", "jsonpath={.latestResourceVersion.spec.value}"]).trim(),
        r#"{"release":"one","size":1.50}"#
    );
    let exported = desk.ok(&["ti", "get", "r", "--export", "-o", "yaml"]);
    assert!(exported.contains("context:\n      name: one\n") && !exported.contains("value"), "{exported}");
    let editor =
        super::desk::script(&desk.path("editor"), "cp \"$1\" seen.yaml; sed -i 's/name: one/name: two/' \"$1\"");
    let run = crate::run::Run::of(desk.command(&["ti", "edit", "r"]).env("EDITOR", editor));
    assert_eq!(run.code, Some(0), "{run:#?}");
    let seen = desk.read("seen.yaml");
    assert!(seen.contains("#   value:\n#     release: one\n#     size: 1.50\n"), "{seen}");
    assert_eq!(desk.ok(&["ti", "get", "r", "-o", "jsonpath={.latestResourceVersion.spec.value.release}"]), "two\n");
}

#[test]
fn a_backend_that_never_returns_is_retired_and_what_it_has_is_listed() {
    let (desk, mut backend) = (Desk::new(), FileBackend::start());
    let backend_id = backend.register(&desk, "files");
    desk.create(&record("lost", "{id: files, context: {name: canary, namespace: n}}", "one"));
    let id = desk.json(&["ti", "get", "lost"])["id"].as_str().unwrap().to_owned();
    backend.process.kill();
    let retired = desk.ok(&["storage", "retire", "files", "--orphan"]);
    assert!(retired.starts_with("LEFT OUTSIDE"), "{retired}");
    assert_eq!(cells(&retired), [[id.as_str(), &backend_id, "values", "1", "name,namespace", "-"]], "{retired}");
    desk.fails(3, "was not found", &["ti", "get", "lost"]);
}

#[test]
fn what_was_begun_with_a_silent_backend_is_listed_and_given_up() {
    let server = Start::new().variable("STATEWARD_HUB_CALL_TIME", "500ms").serve();
    let (desk, backend) = (Desk::at(server), FileBackend::start());
    let backend_id = backend.register(&desk, "files");
    // Once there is a connection, nobody can tell what became of a call.
    desk.ok(&["storage", "test", "files"]);
    backend.process.signal(Signal::STOP);
    let begun = desk.file("begun.yaml", &record("begun", "{id: files, context: {name: canary}}", "one"));
    desk.fails(6, "DEADLINE_EXCEEDED", &["ti", "create", "-f", &begun]);
    let journal = desk.json(&["ti", "journal", "ls"]);
    let entry = &journal["items"][0];
    assert_eq!(
        (&entry["operation"], &entry["backendID"]),
        (&"CREATE".into(), &backend_id.as_str().into()),
        "{journal}"
    );
    let (entry_id, record) = (entry["id"].as_str().unwrap(), entry["typeInstances"][0].as_str().unwrap());
    let abandoned = desk.ok(&["ti", "journal", "abandon", entry_id]);
    let rows = cells(&abandoned);
    assert_eq!(rows[0], [entry_id], "{abandoned}");
    assert_eq!(rows[2][..5], [record, &backend_id, "values", "1", "name"], "{abandoned}");
    assert!(!abandoned.contains("canary"), "{abandoned}");
    assert_eq!(desk.json(&["ti", "journal", "ls"])["items"], serde_json::json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backend_may_be_a_socket_of_this_machine_also_where_others_need_certificates() {
    let authority = testbed::certificates::Authority::new("backends");
    let file = testbed::process::scratch("authority").unwrap().join("ca.crt");
    std::fs::write(&file, authority.certificate_pem()).unwrap();
    let server = Start::new().flag("--hub-backend-ca-file", &file).serve();
    let (desk, backend) = (Desk::at(server), FileBackend::start());
    register(&desk, "near", &socket(&backend.address), true);
    desk.create(&record("kept", "near", "canary"));
    assert!(backend.has("canary"));
    desk.ok(&["storage", "test", "near"]);
    assert_eq!(desk.ok(&["ti", "get", "kept", "-o", "jsonpath={.latestResourceVersion.spec.value}"]), "canary\n");
}
