//! `stateward ti edit` with editors that are scripts.

use serde_json::json;

use super::desk::{Desk, script};
use crate::run::Run;

fn desk_with_a_record() -> Desk {
    let desk = Desk::new();
    desk.create("typeRef: {path: cap.type.x, revision: 0.1.0}\nname: x\nvalue: {price: 1.50, key: \"one\\ntwo\\n\"}");
    desk
}

fn edit(desk: &Desk, editor: &str) -> Run {
    let editor = script(&desk.path("editor"), editor);
    // The first that is set counts, and it may have arguments.
    Run::of(desk.command(&["ti", "edit", "x"]).env("VISUAL", format!("{editor} --wait")).env("EDITOR", "false"))
}

#[test]
fn what_is_saved_is_a_new_version() {
    let desk = desk_with_a_record();
    let run = edit(
        &desk,
        "test \"$1\" = --wait || exit 1; cp \"$2\" seen.yaml; sed -i 's/price: 1.50/price: 12345678901234567890123/' \"$2\"",
    );
    assert!(run.ok().contains('2'));
    let value = desk.ok(&["ti", "get", "x", "-o", "jsonpath={.latestResourceVersion.spec.value}"]);
    assert_eq!(value.trim(), r#"{"price":12345678901234567890123,"key":"one\ntwo\n"}"#);
    let seen = desk.read("seen.yaml");
    assert!(seen.starts_with("# x cap.type.x:0.1.0, version 1.\n") && seen.contains("price: 1.50\n"), "{seen}");
    assert!(seen.contains("key: |\n      one\n      two\n"), "{seen}");
}

#[test]
fn nothing_happens_if_nothing_is_changed_or_the_editor_fails() {
    let desk = desk_with_a_record();
    let run = edit(&desk, "touch \"$2\"");
    assert_eq!((run.code, run.err.as_str()), (Some(0), "nothing was changed\n"));
    let run = edit(&desk, "echo changed >> \"$2\"; exit 3");
    run.fails(1, "ended with");
    assert_eq!(desk.json(&["ti", "get", "x"])["latestResourceVersion"]["resourceVersion"], 1);
    let run = Run::of(desk.command(&["ti", "edit", "x"]).env("EDITOR", "/nowhere/editor"));
    run.fails(1, "ended with");
    desk.fails(3, "was not found", &["ti", "edit", "nobody"]);
}

/// The file that a failure names.
fn kept(run: &Run) -> String {
    let path =
        run.err.split("your text is kept in ").nth(1).and_then(|rest| rest.split(';').next()).expect("a kept file");
    let text = std::fs::read_to_string(path).unwrap();
    assert_eq!(std::os::unix::fs::MetadataExt::mode(&std::fs::metadata(path).unwrap()) & 0o777, 0o600);
    std::fs::remove_file(path).unwrap();
    text
}

#[test]
fn somebody_who_was_faster_is_not_overwritten_and_the_text_is_kept() {
    let desk = desk_with_a_record();
    desk.file("other.yaml", "id: x\ntypeInstance: {value: faster}");
    let binary = env!("CARGO_BIN_EXE_stateward");
    let run = edit(&desk, &format!("{binary} ti apply -f other.yaml >/dev/null; sed -i 's/1.50/2.50/' \"$2\""));
    run.fails(5, "has resourceVersion 2, not 1 as expected");
    assert!(kept(&run).contains("price: 2.50"));
    assert_eq!(desk.json(&["ti", "get", "x"])["latestResourceVersion"]["spec"]["value"], json!("faster"));
}

#[test]
fn a_text_that_makes_no_sense_is_kept() {
    let desk = desk_with_a_record();
    for (editor, fault) in [
        ("echo 'a: [' >> \"$2\"", "the edited text is no document"),
        ("sed -i 's/^id: .*/id: other/' \"$2\"", "records keep theirs"),
        ("sed -i 's/typeInstance/instance/' \"$2\"", "typeInstance: it is needed"),
    ] {
        let run = edit(&desk, editor);
        run.fails(1, fault);
        assert!(!kept(&run).is_empty());
    }
    // The lock of somebody else, too.
    let id = desk.json(&["ti", "get", "x"])["id"].as_str().unwrap().to_owned();
    desk.ok(&["ti", "lock", &id, "--owner", "you"]);
    let run = edit(&desk, "sed -i 's/1.50/2.50/' \"$2\"");
    run.fails(8, "locked by different owner");
    assert!(kept(&run).contains("2.50"));
}
