//! `stateward type`.

use super::desk::{Desk, cells};

fn manifest(name: &str, revision: &str, schema: &str) -> String {
    format!(
        "ocfVersion: 0.0.1\nrevision: {revision}\nkind: Type\nmetadata: {{prefix: cap.type.test, name: {name}}}\nspec:\n  \
         additionalRefs: [cap.core.type.platform]\n  jsonSchema:\n    value: '{schema}'\n"
    )
}

#[test]
fn types_are_applied_from_files_and_directories_and_found_by_patterns() {
    let desk = Desk::new();
    desk.file("types/one.yaml", &manifest("one", "0.1.0", "{\"type\": \"object\"}"));
    desk.file(
        "types/deep/two.yaml",
        &format!("{}---\n{}", manifest("two", "0.1.0", "{}"), manifest("two", "0.2.0", "{}")),
    );
    desk.file("types/other.yaml", "kind: Interface\nmetadata: {name: x}\n");
    desk.file("types/readme.txt", "not a manifest");
    let table = desk.ok(&["type", "apply", "-f", "types"]);
    assert!(table.starts_with("TYPE"), "{table}");
    let rows = desk.ok(&["type", "get", "cap.type.test.*"]);
    assert_eq!(
        cells(&rows),
        [
            ["cap.type.test.one", "0.1.0", "0.1.0", "cap.core.type.platform"].to_vec(),
            ["cap.type.test.two", "0.2.0", cells(&rows)[1][2], "cap.core.type.platform"].to_vec()
        ],
        "{rows}"
    );
    assert!(desk.ok(&["type", "get", "cap.core.type.platform.*"]).contains("cap.type.test.one"), "found by its node");
    let one = desk.json(&["type", "get", "cap.type.test.one"]);
    assert_eq!(one["items"][0]["revisions"][0]["spec"]["jsonSchema"]["type"], "object");
    assert!(cells(&desk.ok(&["type", "get"])).len() >= 2);
    desk.fails(3, "no Type is called", &["type", "get", "cap.type.absent"]);
}

#[test]
fn a_revision_never_changes_and_bad_manifests_are_named() {
    let desk = Desk::new();
    let file = desk.file("one.yaml", &manifest("one", "0.1.0", "{\"type\": \"object\"}"));
    desk.ok(&["type", "apply", "-f", &file]);
    desk.ok(&["type", "apply", "-f", &file]);
    let other = desk.file("other.yaml", &manifest("one", "0.1.0", "{\"type\": \"string\"}"));
    let run = desk.run(&["type", "apply", "-f", &other]);
    assert!(matches!(run.code, Some(1 | 5)) && run.err.contains("cap.type.test.one"), "{run:#?}");
    let bad = desk.file("bad.yaml", &manifest("two", "one", "{}"));
    let run = desk.run(&["type", "apply", "-f", &bad, "-f", &file]);
    assert!(run.code == Some(1) && run.err.contains("revision"), "{run:#?}");
    desk.fails(
        2,
        "none of the manifests is of kind Type",
        &["type", "apply", "-f", &desk.file("i.yaml", "kind: Interface")],
    );
    // Values are checked against it.
    let value = desk.file("value.yaml", "typeRef: {path: cap.type.test.one, revision: 0.1.0}\nvalue: text\n");
    desk.fails(1, "must be object", &["ti", "create", "-f", &value]);
}
