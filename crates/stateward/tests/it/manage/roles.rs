//! Every route for every role of a standalone server.

use serde_json::{Value, json};

use super::{api, with_outputs};
use crate::server::{Start, status};
use crate::states::{User, info, user};

/// In which situation a state is when it is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Situation {
    Missing,
    /// Two versions, no lock.
    Free,
    /// Locked by somebody else, with the ID `held`.
    Locked,
    Deleted,
}

/// One request for each route, in a situation in which it succeeds for whoever may.
pub(super) struct Request {
    pub(super) method: &'static str,
    /// Behind the state's path.
    pub(super) rest: &'static str,
    pub(super) body: &'static str,
    pub(super) situation: Situation,
}

pub(super) const fn request(
    method: &'static str,
    rest: &'static str,
    body: &'static str,
    situation: Situation,
) -> Request {
    Request { method, rest, body, situation }
}

/// Brings a state into a situation.
pub(super) async fn prepare(full: &User<'_>, namespace: &str, name: &str, situation: Situation) {
    let path = format!("/state/{namespace}/{name}");
    if situation == Situation::Missing {
        return;
    }
    for serial in [1, 2] {
        assert_eq!(full.does("POST", &path, with_outputs(serial, "x")).await, 200);
    }
    match situation {
        Situation::Locked => assert_eq!(full.does("LOCK", &path, info("held")).await, 200),
        Situation::Deleted => assert_eq!(full.does("DELETE", &path, "").await, 200),
        Situation::Missing | Situation::Free => {}
    }
}

const A_STATE: &str = "{\"version\": 4, \"serial\": 3}";
const LOCK: &str = "{\"reason\": \"because\"}";
const MOVED: &str = "{\"to\": \"https://new.example/\", \"lock_id\": \"held\"}";

#[tokio::test]
async fn each_role_may_do_what_its_row_says() {
    use Situation::{Deleted, Free, Locked, Missing};
    // Columns: viewer, editor, admin, outputs, an editor of another namespace.
    let table = [
        (request("GET", "", "", Free), "yyynn"),
        (request("DELETE", "", "", Free), "nyynn"),
        (request("POST", "/restore", "", Deleted), "nyynn"),
        (request("GET", "/versions", "", Free), "yyynn"),
        (request("GET", "/versions/1/raw", "", Free), "yyynn"),
        (request("GET", "/raw", "", Free), "yyynn"),
        (request("PUT", "/raw", A_STATE, Free), "nyynn"),
        (request("PUT", "/raw", A_STATE, Missing), "nyynn"),
        (request("GET", "/diff", "", Free), "yyynn"),
        (request("POST", "/rollback", "{\"version\": 1}", Free), "nyynn"),
        (request("GET", "/outputs", "", Free), "yyyyn"),
        (request("GET", "/resources", "", Free), "yyynn"),
        (request("PUT", "/lock", LOCK, Free), "nyynn"),
        (request("PUT", "/lock", LOCK, Missing), "nyynn"),
        (request("DELETE", "/lock?ID=held", "", Free), "nyynn"),
        (request("DELETE", "/lock?ID=held", "", Locked), "nnynn"),
        (request("DELETE", "/lock?force=true", "", Locked), "nnynn"),
        (request("POST", "/moved", MOVED, Locked), "nyynn"),
    ];
    let server = Start::new().serve();
    let full = user(&server, "full", &["admin@*"]).await;
    let mut roles = Vec::new();
    for grant in ["viewer@team-a", "editor@team-a", "admin@team-a", "outputs@team-a", "editor@team-b"] {
        roles.push((grant, user(&server, &grant.replace('@', "-"), &[grant]).await));
    }
    for (row, (Request { method, rest, body, situation }, expected)) in table.into_iter().enumerate() {
        let mut found = String::new();
        for (column, (grant, user)) in roles.iter().enumerate() {
            let name = format!("s-{row}-{column}");
            prepare(&full, "team-a", &name, situation).await;
            let (status, text) = user.send(method, &api("team-a", &name, rest), body).await;
            assert!(matches!(status, 200 | 403), "{grant} {method} {rest} {situation:?}: {status} {text}");
            found.push(if status == 200 { 'y' } else { 'n' });
        }
        assert_eq!(found, expected, "{method} {rest} {situation:?}");
        let path = api("team-a", &format!("s-{row}-0"), rest);
        assert_eq!(status(server.request(method, &path).body(body)).await, 401, "{method} {rest}");
    }
    for path in ["/api/states/openapi.json", "/api/states", "/api/states/locks"] {
        assert_eq!(status(server.request("GET", path)).await, 401, "{path}");
        for (grant, user) in &roles {
            assert_eq!(user.does("GET", path, "").await, 200, "{grant} {path}");
        }
    }
}

#[tokio::test]
async fn sensitive_outputs_need_their_own_permission() {
    let server = Start::new().serve();
    let full = user(&server, "full", &["admin@*"]).await;
    prepare(&full, "team-a", "app", Situation::Free).await;
    for (grant, shown) in [("viewer@*", false), ("editor@*", true), ("outputs@*", false)] {
        let user = user(&server, &grant.replace(['@', '*'], "x"), &[grant]).await;
        let outputs = user.json(200, "GET", &api("team-a", "app", "/outputs"), "").await;
        let mut secret = json!({"name": "secret", "type": "string", "sensitive": true});
        if shown {
            secret["value"] = "secret-x".into();
        }
        let open = json!({"name": "open", "type": "string", "sensitive": false, "value": "open-x"});
        assert_eq!(outputs, json!({"items": [open, secret]}), "{grant}");
    }
}

#[tokio::test]
async fn lists_show_and_count_only_namespaces_that_the_caller_may_list() {
    let server = Start::new().serve();
    let full = user(&server, "full", &["admin@*"]).await;
    for (namespace, names) in [("team-a", ["one", "two"]), ("team-b", ["one", "three"]), ("ops", ["root", "zone"])] {
        for name in names {
            prepare(&full, namespace, name, Situation::Locked).await;
        }
    }
    prepare(&full, "team-a", "gone", Situation::Deleted).await;
    let names = |list: &Value| -> Vec<String> {
        let text = |item: &Value, field: &str| item[field].as_str().unwrap().to_owned();
        let items = list["items"].as_array().unwrap();
        items.iter().map(|item| format!("{}/{}", text(item, "namespace"), text(item, "name"))).collect()
    };
    let table: [(&str, &[&str]); 5] = [
        ("viewer@*", &["ops/root", "ops/zone", "team-a/one", "team-a/two", "team-b/one", "team-b/three"]),
        ("viewer@team-*", &["team-a/one", "team-a/two", "team-b/one", "team-b/three"]),
        ("editor@team-a", &["team-a/one", "team-a/two"]),
        ("outputs@*", &[]),
        ("viewer@elsewhere", &[]),
    ];
    for (grant, expected) in table {
        let user = user(&server, &grant.replace(['@', '*'], "x"), &[grant]).await;
        let list = user.json(200, "GET", "/api/states", "").await;
        assert_eq!(
            (names(&list), &list["total"]),
            (expected.iter().map(ToString::to_string).collect(), &json!(expected.len()))
        );
        let locks = user.json(200, "GET", "/api/states/locks", "").await;
        assert_eq!(names(&locks), expected, "{grant}");
        for namespace in ["team-a", "team-b", "ops"] {
            let within = expected.iter().filter(|state| state.starts_with(&format!("{namespace}/"))).count();
            for path in ["/api/states", "/api/states/locks"] {
                let path = format!("{path}?namespace={namespace}");
                if within == 0 {
                    assert_eq!(user.does("GET", &path, "").await, 403, "{grant} {path}");
                } else {
                    assert_eq!(names(&user.json(200, "GET", &path, "").await).len(), within, "{grant} {path}");
                }
            }
        }
    }
    // Pages, searches and deleted states, each with its count.
    let everything = full.json(200, "GET", "/api/states?deleted=true", "").await;
    assert_eq!(everything["total"], 7);
    let gone = everything["items"].as_array().unwrap().iter().find(|state| state["name"] == "gone").unwrap();
    assert_eq!(gone["deleted"]["by"], "full");
    let found = full.json(200, "GET", "/api/states?search=M-A/T", "").await;
    assert_eq!((names(&found), &found["total"]), (vec!["team-a/two".to_owned()], &json!(1)));
    let (mut paged, mut next) = (Vec::new(), String::new());
    loop {
        let page = full.json(200, "GET", &format!("/api/states?limit=4{next}"), "").await;
        assert_eq!(page["total"], 6);
        paged.extend(names(&page));
        let Some(token) = page["continue"].as_str() else { break };
        next = format!("&continue={token}");
    }
    assert_eq!(paged, ["ops/root", "ops/zone", "team-a/one", "team-a/two", "team-b/one", "team-b/three"]);
}
