//! What the API tells of states: values of attributes and of what is sensitive are never among it.

use serde_json::{Value, json};

use super::{api, with_outputs};
use crate::server::Start;
use crate::states::{a_state, info, user};

const PATH: &str = "/state/team-a/app";

#[tokio::test]
async fn a_state_is_described_from_its_first_lock_to_its_end() {
    let server = Start::new().serve();
    let ann = user(&server, "ann", &["editor@*"]).await;
    let show = api("team-a", "app", "");
    assert_eq!(ann.does("GET", &show, "").await, 404);
    assert_eq!(ann.does("LOCK", PATH, info("a")).await, 200);
    let locked = ann.json(200, "GET", &show, "").await;
    assert_eq!((&locked["version"], &locked["versions"], &locked["size"]), (&Value::Null, &json!(0), &Value::Null));
    let lock = &locked["lock"];
    for (field, expected) in [
        ("id", "a"),
        ("operation", "apply"),
        ("who", "me@host"),
        ("created", "2026-11-16T05:59:16.123456789Z"),
        ("version", "1"),
        ("user", "ann"),
    ] {
        assert_eq!(lock[field], expected, "{lock}");
    }
    assert_eq!((&lock["info"], &lock["expired"]), (&Value::Null, &json!(false)));

    let body = with_outputs(7, "x");
    assert_eq!(ann.does("POST", &format!("{PATH}?ID=a"), body.clone()).await, 200);
    assert_eq!(ann.does("UNLOCK", PATH, info("a")).await, 200);
    let shown = ann.json(200, "GET", &show, "").await;
    for (field, expected) in [
        ("namespace", json!("team-a")),
        ("name", json!("app")),
        ("store", json!("sqlite")),
        ("version", json!(1)),
        ("serial", json!("7")),
        ("lineage", json!("l")),
        ("terraform_version", json!("1.12.1")),
        ("size", json!(body.len())),
        ("encrypted_by_client", json!(false)),
        ("sealed", json!(false)),
        ("updated_by", json!("ann")),
        ("versions", json!(1)),
        ("lock", Value::Null),
        ("deleted", Value::Null),
        ("moved", Value::Null),
    ] {
        assert_eq!(shown[field], expected, "{field}");
    }
    assert_eq!(shown["sha256"].as_str().unwrap().len(), 64);
    assert!(shown["updated_at"].as_str().unwrap().parse::<jiff::Timestamp>().is_ok());

    let deleted = ann.json(200, "DELETE", &show, "").await;
    assert_eq!((&deleted["deleted"]["by"], &deleted["version"]), (&json!("ann"), &json!(1)));
    assert_eq!(ann.does("GET", PATH, "").await, 404);
    assert_eq!(ann.does("GET", &api("team-a", "app", "/raw"), "").await, 404);
    assert_eq!(ann.send("GET", &api("team-a", "app", "/versions/1/raw"), "").await, (200, body.clone()));
    let restored = ann.json(200, "POST", &api("team-a", "app", "/restore"), "").await;
    assert_eq!(restored["deleted"], Value::Null);
    assert_eq!(ann.send("GET", PATH, "").await, (200, body));
}

#[tokio::test]
async fn versions_are_listed_read_and_returned_to() {
    let server = Start::new().serve();
    let ann = user(&server, "ann", &["editor@*"]).await;
    let bob = user(&server, "bob", &["editor@*"]).await;
    assert_eq!(ann.json(200, "PUT", &api("team-a", "app", "/raw"), &a_state(1)).await, json!({"version": 1}));
    assert_eq!(ann.json(200, "PUT", &api("team-a", "app", "/raw"), &a_state(1)).await, json!({"version": null}));
    assert_eq!(bob.does("POST", PATH, a_state(5)).await, 200);
    let versions = ann.json(200, "GET", &api("team-a", "app", "/versions"), "").await;
    let rows: Vec<Value> = versions["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|version| {
            json!([version["version"], version["serial"], version["written_by"], version["current"], version["size"]])
        })
        .collect();
    let size = a_state(1).len();
    assert_eq!(rows, [json!([2, "5", "bob", true, size]), json!([1, "1", "ann", false, size])]);

    let response =
        server.request("GET", &api("team-a", "app", "/versions/1/raw")).bearer_auth(&ann.token).send().await.unwrap();
    let md5 = response.headers()["content-md5"].to_str().unwrap().to_owned();
    assert_eq!(response.headers()["content-length"], size.to_string().as_str());
    let body = response.bytes().await.unwrap();
    assert_eq!(body, a_state(1));
    let expected = <md5::Md5 as md5::Digest>::digest(&body);
    assert_eq!(base64::Engine::encode(&base64::prelude::BASE64_STANDARD, expected), md5);

    let rolled = ann.json(200, "POST", &api("team-a", "app", "/rollback"), "{\"version\": 1}").await;
    assert_eq!(rolled, json!({"version": 3, "serial": "6"}));
    assert_eq!(ann.send("GET", PATH, "").await.1, a_state(6), "nothing but the serial is new");
    assert_eq!(ann.does("LOCK", PATH, info("a")).await, 200);
    let (status, told) = bob.send("POST", &api("team-a", "app", "/rollback"), "{\"version\": 2}").await;
    assert_eq!((status, told), (423, info("a")));
    let with_lock = "{\"version\": 2, \"lock_id\": \"a\"}";
    let rolled = ann.json(200, "POST", &api("team-a", "app", "/rollback"), with_lock).await;
    assert_eq!(rolled, json!({"version": 4, "serial": "7"}));
}

#[tokio::test]
async fn a_diff_names_what_changed_and_shows_no_value_but_those_of_open_outputs() {
    let server = Start::new().variable("STATEWARD_LOG_LEVEL", "trace").serve();
    let ann = user(&server, "ann", &["admin@*"]).await;
    let state = |serial: u64, value: &str, extra: Option<&str>| {
        let thing = |name: &str, value: &str| {
            json!({
                "mode": "managed", "type": "x_thing", "name": name, "provider": "provider[\"example.com/a/x\"]",
                "instances": [{
                    "attributes": {
                        "id": format!("id-{name}"), "password": format!("canary-marked-{value}"),
                        "list": [{"note": format!("canary-bare-{value}")}],
                    },
                    "sensitive_attributes": [[{"type": "get_attr", "value": "password"}]],
                    "private": format!("canary-private-{value}"),
                }],
            })
        };
        let mut resources = vec![thing("kept", value)];
        resources.extend(extra.map(|name| thing(name, value)));
        json!({
            "version": 4, "serial": serial, "lineage": "l",
            "outputs": {
                "open": {"value": {"n": value}, "type": ["object", {"n": "string"}]},
                "same": {"value": 1.5, "type": "number"},
                "shut": {"value": format!("canary-output-{value}"), "type": "string", "sensitive": true},
                "closing": {"value": format!("canary-closing-{value}"), "type": "string", "sensitive": serial > 1},
            },
            "resources": resources,
        })
        .to_string()
    };
    assert_eq!(ann.does("POST", PATH, state(1, "one", Some("old"))).await, 200);
    let diff = api("team-a", "app", "/diff");
    assert_eq!(ann.does("GET", &diff, "").await, 404, "there is nothing before the first");
    assert_eq!(ann.does("POST", PATH, state(2, "two", Some("new"))).await, 200);
    let paths = json!(["attributes.list[0].note", "attributes.password", "private"]);
    let expected = json!({
        "from": 1, "to": 2,
        "resources": [
            {"address": "x_thing.kept", "change": "changed", "paths": paths},
            {"address": "x_thing.new", "change": "added", "paths": null},
            {"address": "x_thing.old", "change": "removed", "paths": null},
        ],
        "outputs": [
            {"name": "closing", "change": "changed", "sensitive": true},
            {"name": "open", "change": "changed", "sensitive": false, "before": {"n": "one"}, "after": {"n": "two"}},
            {"name": "shut", "change": "changed", "sensitive": true},
        ],
    });
    assert_eq!(ann.json(200, "GET", &diff, "").await, expected);
    assert_eq!(ann.json(200, "GET", &format!("{diff}?from=1&to=2"), "").await, expected);
    let same = ann.json(200, "GET", &format!("{diff}?from=2&to=2"), "").await;
    assert_eq!(same, json!({"from": 2, "to": 2, "resources": [], "outputs": []}));

    let resources = api("team-a", "app", "/resources");
    let row = |name: &str| {
        json!({
            "address": format!("x_thing.{name}"), "type": "x_thing", "provider": "example.com/a/x", "id": format!("id-{name}"),
        })
    };
    let all = ann.json(200, "GET", &resources, "").await;
    assert_eq!(all, json!({"items": [row("kept"), row("new")], "continue": null, "total": 2}));
    let found = ann.json(200, "GET", &format!("{resources}?search=ID-NEW"), "").await;
    assert_eq!(found, json!({"items": [row("new")], "continue": null, "total": 1}));
    let first = ann.json(200, "GET", &format!("{resources}?limit=1"), "").await;
    assert_eq!((&first["items"], &first["total"]), (&json!([row("kept")]), &json!(2)));
    // Somebody writes in between: the next page is still of the same version.
    assert_eq!(ann.does("POST", PATH, state(3, "three", None)).await, 200);
    let token = first["continue"].as_str().unwrap();
    let second = ann.json(200, "GET", &format!("{resources}?limit=1&continue={token}"), "").await;
    assert_eq!(second, json!({"items": [row("new")], "continue": null, "total": 2}));

    // A search for a value of an attribute finds nothing, so that it cannot be guessed letter by letter.
    let guessed = ann.json(200, "GET", &format!("{resources}?search=canary"), "").await;
    assert_eq!(guessed["total"], 0);
    let paths = [
        diff.clone(),
        format!("{diff}?from=1"),
        format!("{diff}?from=3&to=1"),
        resources,
        api("team-a", "app", ""),
        api("team-a", "app", "/versions"),
        "/api/states".to_owned(),
    ];
    for path in paths {
        let (status, text) = ann.send("GET", &path, "").await;
        assert_eq!(status, 200, "{path}: {text}");
        assert!(!text.contains("canary"), "{path}: {text}");
    }
    assert_eq!(ann.does("POST", &api("team-a", "app", "/rollback"), "{\"version\": 1}").await, 200);
    let log = server.process.log();
    assert_eq!(log.lines().find(|line| line.contains("canary")), None, "the log");
    assert!(log.contains("/api/states/{namespace}/{name}/diff"), "the log says what happened");
}

#[tokio::test]
async fn bad_input_is_told_which_field_is_wrong_and_changes_nothing() {
    let server = Start::new().serve();
    let ann = user(&server, "ann", &["admin@*"]).await;
    assert_eq!(ann.does("POST", PATH, a_state(1)).await, 200);
    let long = format!("{{\"reason\": \"{}\"}}", "x".repeat(5000));
    let cases = [
        ("GET", "/api/states?limit=x", "", 400, "'limit'"),
        ("GET", "/api/states?limit=0", "", 400, "'limit'"),
        ("GET", "/api/states?limit=1001", "", 400, "'limit'"),
        ("GET", "/api/states?deleted=maybe", "", 400, "'deleted'"),
        ("GET", "/api/states?namespace=Team_A", "", 400, "'namespace'"),
        ("GET", "/api/states?continue=canary", "", 400, "'continue'"),
        ("GET", "/api/states?limit=1&limit=2", "", 400, "'limit'"),
        ("GET", "/api/states?canary=1", "", 400, "namespace, search, deleted, limit, continue"),
        ("GET", "/api/states/locks?search=x", "", 400, "the parameters are namespace"),
        ("GET", "/api/states/Team/app", "", 400, "namespace"),
        ("GET", "/api/states/team-a/a_b", "", 400, "name"),
        ("GET", "/api/states/team-a/app?store=canary", "", 400, "the stores of this server are sqlite"),
        ("GET", "/api/states/team-a/app?ID=x", "", 400, "the parameters are store"),
        ("GET", "/api/states/team-a/app/versions/x/raw", "", 400, "version"),
        ("GET", "/api/states/team-a/app/versions/99/raw", "", 404, "version"),
        ("GET", "/api/states/team-a/app/diff?from=-1", "", 400, "'from'"),
        ("GET", "/api/states/team-a/app/diff?to=1.5", "", 400, "'to'"),
        ("GET", "/api/states/team-a/app/diff?from=1&to=99", "", 404, "version"),
        ("GET", "/api/states/team-a/app/resources?continue=1", "", 400, "'continue'"),
        ("POST", "/api/states/team-a/app/rollback", "", 400, "version, lock_id"),
        ("POST", "/api/states/team-a/app/rollback", "[]", 400, "not a JSON object"),
        ("POST", "/api/states/team-a/app/rollback", "{}", 400, "'version'"),
        ("POST", "/api/states/team-a/app/rollback", "{\"version\": \"1\"}", 400, "'version'"),
        ("POST", "/api/states/team-a/app/rollback", "{\"version\": -1}", 400, "'version'"),
        ("POST", "/api/states/team-a/app/rollback", "{\"version\": 1, \"canary\": 1}", 400, "version, lock_id"),
        ("POST", "/api/states/team-a/app/rollback", "{\"version\": 1, \"lock_id\": 7}", 400, "'lock_id'"),
        ("POST", "/api/states/team-a/app/rollback", "{\"version\": 99}", 404, "version"),
        ("PUT", "/api/states/team-a/app/lock", "{}", 400, "'reason'"),
        ("PUT", "/api/states/team-a/app/lock", "{\"reason\": \"\"}", 400, "'reason'"),
        ("PUT", "/api/states/team-a/app/lock", "{\"reason\": \"a\\nb\"}", 400, "'reason'"),
        ("PUT", "/api/states/team-a/app/lock", &long, 400, "'reason'"),
        ("PUT", "/api/states/team-a/app/lock", "{\"reason\": \"a\", \"id\": \"\"}", 400, "'id'"),
        ("PUT", "/api/states/team-a/app/lock", "{\"reason\": \"a\", \"id\": \"a\\nb\"}", 400, "'id'"),
        ("DELETE", "/api/states/team-a/app/lock", "", 400, "'ID'"),
        ("DELETE", "/api/states/team-a/app/lock?force=1", "", 400, "'force'"),
        ("POST", "/api/states/team-a/app/moved", "{\"to\": \"there\"}", 400, "'lock_id'"),
        ("POST", "/api/states/team-a/app/moved", "{\"lock_id\": \"a\"}", 400, "'to'"),
        ("POST", "/api/states/team-a/app/moved", "{\"to\": \"https://a:canary@b/\", \"lock_id\": \"a\"}", 400, "'to'"),
        ("PUT", "/api/states/team-a/app/raw", "canary", 400, "JSON"),
        ("POST", "/api/states/team-a/none/restore", "", 404, "no such state"),
        ("DELETE", "/api/states/team-a/none", "", 404, "no such state"),
        ("PATCH", "/api/states/team-a/app", "", 405, "method"),
        ("GET", "/api/states/team-a/app/nothing", "", 404, "path"),
    ];
    for (method, path, body, expected, words) in cases {
        let (status, text) = ann.send(method, path, body).await;
        assert_eq!(status, expected, "{method} {path} {body}: {text}");
        assert!(text.contains(words) && !text.contains("canary"), "{method} {path} {body}: {text}");
        let told: Value = serde_json::from_str(&text).unwrap();
        assert!(told["error"]["hint"].as_str().is_some_and(|hint| !hint.is_empty()), "{text}");
    }
    let shown = ann.json(200, "GET", &api("team-a", "app", ""), "").await;
    assert_eq!((&shown["version"], &shown["lock"], &shown["moved"]), (&json!(1), &Value::Null, &Value::Null));
}
