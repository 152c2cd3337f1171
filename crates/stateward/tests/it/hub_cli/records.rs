//! `stateward ti create`, `get` and `delete`.

use serde_json::json;

use super::desk::{Desk, cells};
use crate::server::Start;

const TWO: &str = "
typeInstances:
- alias: db
  name: main-db
  typeRef: {path: cap.type.database, revision: 0.1.0}
  attributes: [{path: cap.attribute.test, revision: 0.1.0}]
  createdBy: somebody
  value: {host: db.example, port: 5432}
- alias: app
  typeRef: {path: cap.type.app, revision: 0.2.0}
  value: plain text
usesRelations:
- {from: app, to: db}
---
# One record alone needs no alias.
typeRef: {path: cap.type.note, revision: 0.1.0}
value: [1, null]
";

#[test]
fn records_are_created_from_documents_and_shown_as_tables() {
    let desk = Desk::new();
    let file = desk.file("two.yaml", TWO);
    let table = desk.ok(&["ti", "create", "-f", &file]);
    let rows = cells(&table);
    assert!(table.starts_with("ALIAS") && table.lines().next().unwrap().ends_with("ASSIGNED ID"), "{table}");
    assert_eq!((rows.len(), rows[0][0], rows[1][0]), (3, "db", "app"));
    let (db, app) = (rows[0][1], rows[1][1]);

    let list = desk.ok(&["ti", "get"]);
    let header: Vec<&str> =
        list.lines().next().unwrap().split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect();
    assert_eq!(header, ["TYPE INSTANCE ID", "NAME", "TYPE", "USES", "USED BY", "REVISION", "LOCKED"]);
    let one = desk.ok(&["ti", "get", app]);
    let row = &cells(&one)[0];
    assert_eq!((row[0], row[1], row[2], row[5], row[6]), (app, "-", "cap.type.app:0.2.0", "1", "no"), "{one}");
    assert!(row[3].contains(db) && row[4] == "-", "{one}");
    let by_name = desk.ok(&["typeinstance", "get", "main-db"]);
    assert!(cells(&by_name)[0][0] == db && cells(&by_name)[0][4] == app, "{by_name}");

    desk.fails(3, "TypeInstance \"nobody\" was not found", &["ti", "get", "nobody"]);
    let some = desk.run(&["ti", "get", "main-db", "nobody"]);
    assert_eq!((some.code, some.out.lines().count()), (Some(3), 2), "{some:#?}");
}

#[test]
fn records_are_shown_whole_as_json_yaml_and_by_paths() {
    let desk = Desk::new();
    let created = desk.create(TWO);
    let shown = desk.json(&["ti", "get", "main-db"]);
    assert_eq!(shown["typeRef"], json!({"path": "cap.type.database", "revision": "0.1.0"}));
    assert_eq!(shown["latestResourceVersion"]["spec"]["value"], json!({"host": "db.example", "port": 5432}));
    assert_eq!(shown["latestResourceVersion"]["metadata"]["attributes"][0]["path"], "cap.attribute.test");
    let yaml: serde_json::Value = serde_saphyr::from_str(&desk.ok(&["ti", "get", "main-db", "-o", "yaml"])).unwrap();
    assert_eq!(yaml, shown);
    let path = "jsonpath={.latestResourceVersion.spec.value.host}:{.latestResourceVersion.spec.value.port}";
    assert_eq!(desk.ok(&["ti", "get", "main-db", "-o", path]), "db.example:5432\n");
    let all = desk.ok(&["ti", "get", "--type", "cap.type.*", "-o", "jsonpath={range .items[*]}{.id}{\"\\n\"}{end}"]);
    assert_eq!(all.lines().count(), created.len(), "{all}");
    desk.fails(2, "a format is", &["ti", "get", "-o", "xml"]);
    desk.fails(2, "a { has no }", &["ti", "get", "-o", "jsonpath={.id"]);
    assert_eq!(desk.ok(&["version", "-o", "jsonpath={.absent}"]), "");
}

#[test]
fn lists_are_filtered_by_type_attribute_backend_namespace_and_author() {
    let desk = Desk::new();
    desk.create(TWO);
    desk.create("typeRef: {path: cap.type.app, revision: 0.1.0}\nnamespace: team-a\nvalue: 1");
    let count = |filter: &[&str]| desk.ok(&[&["ti", "get"], filter].concat()).lines().count() - 1;
    let table: [(&[&str], usize); 9] = [
        (&["--type", "cap.type.app"], 2),
        (&["--type", "cap.type.(app|note)"], 3),
        (&["--type", "cap.type.absent"], 0),
        (&["--attribute", "cap.attribute.test"], 1),
        (&["--type", "cap.type.*", "--attribute", "!cap.attribute.test"], 3),
        (&["-n", "team-a"], 1),
        (&["--created-by", "somebody"], 1),
        (&["--type", "cap.type.*", "--backend", "builtin"], 4),
        (&["--type", "cap.type.app", "-n", "default"], 1),
    ];
    for (filter, expected) in table {
        assert_eq!(count(filter), expected, "{filter:?}");
    }
    desk.fails(2, "cannot be used with", &["ti", "get", "main-db", "--type", "x"]);
}

#[test]
fn numbers_survive_files_requests_and_answers_digit_by_digit() {
    let desk = Desk::new();
    let exact = r#"{"big":12345678901234567890123,"price":1.50,"zero":-0.0,"list":[1E400,{"n":null}]}"#;
    let json =
        format!(r#"{{"typeRef":{{"path":"cap.type.n","revision":"0.1.0"}},"name":"from-json","value":{exact}}}"#);
    let yaml = "typeRef: {path: cap.type.n, revision: 0.1.0}\nname: from-yaml\nvalue:\n  big: 12345678901234567890123\n  price: 1.50\n  \
                zero: -0.0\n  list: [1E400, {n: null}]\n";
    desk.create(&json);
    desk.create(yaml);
    for name in ["from-json", "from-yaml"] {
        let path = "jsonpath={.latestResourceVersion.spec.value}";
        assert_eq!(desk.ok(&["ti", "get", name, "-o", path]).trim(), exact, "{name}");
        let shown = desk.ok(&["ti", "get", name, "-o", "json"]);
        assert!(
            shown.contains("12345678901234567890123") && shown.contains("1.50") && shown.contains("1E400"),
            "{shown}"
        );
        let shown = desk.ok(&["ti", "get", name, "-o", "yaml"]);
        assert!(shown.contains("big: 12345678901234567890123\n") && shown.contains("price: 1.50\n"), "{shown}");
        // What is exported and applied is the same again.
        let exported = desk.ok(&["ti", "get", name, "--export", "-o", "yaml"]);
        let file = desk.file("exported.yaml", &exported);
        desk.ok(&["ti", "apply", "-f", &file]);
        assert_eq!(desk.ok(&["ti", "get", name, "-o", path]).trim(), exact, "{name}");
    }
}

#[test]
fn a_version_is_chosen_by_name_or_number() {
    let desk = Desk::new();
    desk.create("typeRef: {path: cap.type.v, revision: 0.1.0}\nname: v\nvalue: one");
    for value in ["two", "three"] {
        desk.ok(&["ti", "apply", "-f", &desk.file("change.yaml", &format!("id: v\ntypeInstance: {{value: {value}}}"))]);
    }
    let shown = |revision: &str| desk.json(&["ti", "get", "v", "--revision", revision]);
    for (revision, field, value) in [
        ("@latest", "latestResourceVersion", "three"),
        ("@previous", "previousResourceVersion", "two"),
        ("1", "resourceVersion", "one"),
        ("2", "resourceVersion", "two"),
    ] {
        assert_eq!(shown(revision)[field]["spec"]["value"], value, "{revision}");
    }
    desk.fails(3, "has no version 9", &["ti", "get", "v", "--revision", "9", "-o", "json"]);
    desk.fails(2, "a version is @latest", &["ti", "get", "v", "--revision", "@first", "-o", "json"]);
    desk.fails(2, "--revision has no table", &["ti", "get", "v", "--revision", "1"]);
    desk.fails(2, "--export has no table", &["ti", "get", "v", "--export"]);
}

#[test]
fn long_lists_come_in_pages_and_stdin_is_a_file() {
    let desk = Desk::new();
    let records: Vec<String> = (0..620)
        .map(|number| {
            format!("- {{alias: a{number}, typeRef: {{path: cap.type.many, revision: 0.1.0}}, value: {number}}}")
        })
        .collect();
    let run = desk.typed(&format!("typeInstances:\n{}\n", records.join("\n")), &["ti", "create", "-f", "-"]);
    assert_eq!(cells(&run.ok()).len(), 620);
    assert_eq!(desk.ok(&["ti", "get", "--type", "cap.type.many"]).lines().count(), 621);
    let whole = desk.json(&["ti", "get", "--type", "cap.type.many"]);
    let mut values: Vec<u64> = whole["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| item["latestResourceVersion"]["spec"]["value"].as_u64().unwrap())
        .collect();
    values.sort_unstable();
    assert_eq!(values, (0..620).collect::<Vec<_>>());
}

#[test]
fn bad_documents_are_refused_before_anything_is_created() {
    let desk = Desk::new();
    let good = "typeRef: {path: cap.type.x, revision: 0.1.0}\nvalue: 1\n";
    let before = desk.ok(&["ti", "get"]);
    for (text, code, fault) in [
        ("a: [1", 1, "neither JSON nor YAML"),
        ("", 1, "it holds no document"),
        ("value: 1", 1, "typeRef: it is needed"),
        (
            "typeInstances: [{typeRef: {path: p, revision: 0.1.0}}, {typeRef: {path: p, revision: 0.1.0}}]",
            1,
            "typeInstances[0].alias",
        ),
    ] {
        let (first, second) = (desk.file("good.yaml", good), desk.file("bad.yaml", text));
        desk.fails(code, fault, &["ti", "create", "-f", &first, "-f", &second]);
        assert_eq!(desk.ok(&["ti", "get"]), before, "{text}");
    }
    desk.fails(3, "failed to read absent.yaml", &["ti", "create", "-f", "absent.yaml"]);
    // What the hub refuses is told, and what was created before it, too.
    let later = "typeRef: {path: cap.type.x, revision: 0.1.0}\nvalue: 1\n---\ntypeRef: {path: cap.type.x, revision: one}\nvalue: 1\n";
    let run = desk.run(&["ti", "create", "-f", &desk.file("later.yaml", later)]);
    assert_eq!((run.code, cells(&run.out).len()), (Some(1), 1), "{run:#?}");
    assert!(run.err.contains("typeRef.revision"), "{run:#?}");
}

#[test]
fn deletion_goes_on_after_a_refusal_and_fails_at_the_end() {
    let desk = Desk::new();
    let created = desk.create(TWO);
    let (db, app) = (created.id("db"), created.id("app"));
    let run = desk.run(&["ti", "delete", db, "nobody", app]);
    assert_eq!(run.code, Some(5), "{run:#?}");
    assert_eq!(run.out, format!("TypeInstance \"{app}\" deleted\n"));
    assert!(
        run.err.contains(&format!("you must first remove {app}")) && run.err.contains("TypeInstance was not found"),
        "{run:#?}"
    );
    assert_eq!(desk.ok(&["ti", "delete", "main-db"]), "TypeInstance \"main-db\" deleted\n");
    desk.fails(3, "was not found", &["ti", "get", db]);
    desk.fails(5, "TypeInstance is used by other TypeInstances", &["ti", "delete", "builtin"]);
}

#[tokio::test]
async fn those_who_may_not_are_told_so() {
    let desk = Desk::new();
    desk.create(TWO);
    let token = desk.somebody("reader", &["viewer@*"]).await;
    let file = desk.file("new.yaml", "typeRef: {path: cap.type.x, revision: 0.1.0}\nvalue: 1\n");
    for arguments in
        [&["ti", "create", "-f", &file][..], &["ti", "delete", "main-db"], &["ti", "lock", "main-db", "--owner", "me"]]
    {
        let run = crate::run::Run::of(desk.command(arguments).env("STATEWARD_TOKEN", &token));
        assert_eq!(run.code, Some(4), "{arguments:?}: {run:#?}");
    }
}

/// So many records of one Type, all kept by the built-in store.
fn many(desk: &Desk, count: usize) {
    let record = |number: usize| format!("- {{alias: r{number}, typeRef: {{path: cap.type.many, revision: 0.1.0}}}}\n");
    let records: Vec<String> = (0..count).map(record).collect();
    desk.create(&format!("typeInstances:\n{}", records.concat()));
}

#[test]
fn a_record_that_many_use_is_shown_with_some_of_them() {
    let desk = Desk::new();
    many(&desk, 130);
    let table = desk.ok(&["ti", "get", "builtin"]);
    let row = cells(&table).remove(0);
    assert!(row[4].matches(',').count() == 2 && row[4].ends_with(" and more"), "{table}");
    let run = desk.run(&["ti", "get", "builtin", "-o", "json"]);
    assert!(run.err.contains("usedBy of aaaaaaaa") && run.err.contains("more than the 100"), "{run:#?}");
    assert_eq!(run.code, Some(0));
    let shown: serde_json::Value = serde_json::from_str(&run.out).unwrap();
    assert_eq!(shown["usedBy"].as_array().unwrap().len(), 100);
}

#[test]
fn a_server_that_gives_little_at_once_is_asked_for_less() {
    let server = Start::new()
        .variable("STATEWARD_HUB_ANSWER_RECORDS", "30")
        .variable("STATEWARD_HUB_LIST_RECORDS", "200")
        .serve();
    let desk = Desk::at(server);
    many(&desk, 70);
    let table = desk.ok(&["ti", "get"]);
    assert_eq!(cells(&table).len(), 71, "{table}");
    let table = desk.ok(&["ti", "get", "builtin"]);
    assert!(cells(&table)[0][4].ends_with(" and more"), "{table}");
    let run = desk.run(&["ti", "get", "builtin", "-o", "json"]);
    assert!(run.err.contains("not all relations are shown"), "{run:#?}");
    assert_eq!(run.code, Some(0));
    let shown: serde_json::Value = serde_json::from_str(&run.out).unwrap();
    assert_eq!(shown["usedBy"].as_array().unwrap().len(), 25);
    assert_eq!(desk.json(&["ti", "get", "--type", "cap.type.many"])["items"].as_array().unwrap().len(), 70);
}
