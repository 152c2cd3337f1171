//! The search page as a browser meets it, without its script: signing in, searching, looking, acting.

use reqwest::redirect::Policy;
use reqwest::{Client, Response};
use testbed::{Scope, eventually, rule, subject};

use super::{Person, World, in_path, make_map, own, world};
use crate::server::{PATIENCE, Server};

/// A browser: it keeps cookies, and says where a form comes from.
struct Browser {
    server: &'static Server,
    client: Client,
    cookie: Option<String>,
}

impl Browser {
    fn new(server: &'static Server) -> Browser {
        let client = server.client_builder().redirect(Policy::none()).build().unwrap();
        Browser { server, client, cookie: None }
    }

    async fn get(&self, path: &str) -> (u16, String) {
        let mut request = self.server.request_by(&self.client, "GET", path);
        if let Some(cookie) = &self.cookie {
            request = request.header("Cookie", cookie);
        }
        let response = request.send().await.unwrap();
        (response.status().as_u16(), response.text().await.unwrap())
    }

    async fn post(&mut self, path: &str, form: &[(&str, &str)], site: &str) -> Response {
        let body: Vec<String> = form.iter().map(|(name, value)| format!("{name}={}", in_path(value))).collect();
        let mut request = self.server.request_by(&self.client, "POST", path).body(body.join("&"));
        request = request.header("Content-Type", "application/x-www-form-urlencoded").header("Sec-Fetch-Site", site);
        if let Some(cookie) = &self.cookie {
            request = request.header("Cookie", cookie);
        }
        let response = request.send().await.unwrap();
        if let Some(set) = response.headers().get("set-cookie") {
            self.cookie = set.to_str().unwrap().split(';').next().map(str::to_owned);
        }
        response
    }

    async fn sign_in(person: &Person) -> Browser {
        let mut browser = Browser::new(person.server);
        let form = [("token", person.token.as_str()), ("next", "/explore?q=x")];
        let response = browser.post("/explore/login", &form, "same-origin").await;
        assert_eq!(
            (response.status().as_u16(), &response.headers()["location"]),
            (303, &"/explore?q=x".parse().unwrap())
        );
        let cookie = response.headers()["set-cookie"].to_str().unwrap();
        for part in ["HttpOnly", "SameSite=Strict", "Secure", "Path=/explore"] {
            assert!(cookie.contains(part), "{cookie}");
        }
        assert!(!cookie.contains(&person.token), "as it is, it would be in the browser's files in clear");
        browser
    }
}

async fn start(what: &str) -> (World, String, Person) {
    let world = world().await;
    let namespace = world.cluster.namespace(what).await;
    let person = world.reader(&namespace, "jane", &[""], &["configmaps"]).await;
    (world, namespace, person)
}

#[tokio::test]
async fn whoever_is_not_signed_in_is_asked_to_and_comes_back() {
    let (_, _, person) = start("sign-in").await;
    let mut browser = Browser::new(person.server);
    let response = browser.client.get(format!("{}/explore?q=a%20b", person.server.url)).send().await.unwrap();
    assert_eq!(
        (response.status().as_u16(), &response.headers()["location"]),
        (303, &"/explore/login?next=%2Fexplore%3Fq%3Da%2520b".parse().unwrap())
    );
    let (status, page) = browser.get("/explore/login?next=https://evil.example/").await;
    assert!(status == 200 && page.contains("type=\"password\"") && page.contains("value=\"/explore\""), "{page}");
    let refused = browser.post("/explore/login", &[("token", "garbage-canary")], "same-origin").await;
    assert_eq!(refused.status().as_u16(), 401);
    assert!(!refused.text().await.unwrap().contains("garbage-canary"));
    let foreign = browser.post("/explore/login", &[("token", &person.token)], "cross-site").await;
    assert_eq!(foreign.status().as_u16(), 403, "nobody signs us in as somebody else");

    let mut browser = Browser::sign_in(&person).await;
    assert_eq!(browser.get("/explore").await.0, 200);
    // The cookie is for the page alone.
    assert_eq!(browser.get("/v1/facets").await.0, 401);
    let out = browser.post("/explore/logout", &[], "same-origin").await;
    assert_eq!(out.status().as_u16(), 303);
    assert_eq!(browser.get("/explore").await.0, 303);
}

#[tokio::test]
async fn the_page_shows_rows_facets_chips_pages_and_keeps_them_in_the_url() {
    let (world, namespace, person) = start("shows").await;
    for number in 0..30 {
        make_map(world.cluster, &namespace, &format!("map-{number:02}"), &[]).await;
    }
    eventually(PATIENCE, || async { person.total(&own(&namespace)).await == 30 }).await;
    let browser = Browser::sign_in(&person).await;
    let query = in_path(&own(&namespace));
    let (status, page) = browser.get(&format!("/explore?q={query}&sort=name&desc=1")).await;
    assert_eq!(status, 200);
    assert!(page.contains("30 objects") && page.contains(">map-29</a>") && !page.contains(">map-00</a>"), "{page}");
    // A facet with its count, the chip of a condition with its end, the direction in the header.
    assert!(page.contains(&format!(">{namespace}</a> <span class=\"n\">30</span>")), "{page}");
    assert!(
        page.contains("aria-label=\"Remove kind:ConfigMap\"") && page.contains("aria-sort=\"descending\""),
        "{page}"
    );
    let next = page.split("rel=\"next\" href=\"").nth(1).and_then(|rest| rest.split('"').next()).expect("a next page");
    let (_, second) = browser.get(&next.replace("&amp;", "&")).await;
    assert!(
        second.contains(">map-00</a>") && !second.contains(">map-29</a>") && second.contains("rel=\"first\""),
        "{second}"
    );
    let previous =
        second.split("rel=\"prev\" href=\"").nth(1).and_then(|rest| rest.split('"').next()).expect("a way back");
    let (_, first) = browser.get(&previous.replace("&amp;", "&")).await;
    assert!(
        first.contains(">map-29</a>") && first.contains(">map-05</a>") && !first.contains(">map-04</a>"),
        "{first}"
    );
    assert!(!first.contains("rel=\"prev\"") && first.contains("rel=\"next\""), "{first}");
    // A link of a facet leads to fewer rows, and one of a chip back.
    let (_, fault) = browser.get("/explore?q=status:no").await;
    assert!(fault.contains("at character 8") && fault.contains("value=\"status:no\""), "{fault}");
    // The script is one file of ours, and the page lets nothing else run.
    let response = browser.client.get(format!("{}/explore/login", person.server.url)).send().await.unwrap();
    let policy = response.headers()["content-security-policy"].to_str().unwrap().to_owned();
    assert!(
        policy.contains("default-src 'none'") && policy.contains("script-src 'self'") && !policy.contains("unsafe"),
        "{policy}"
    );
    assert!(!page.contains("onclick") && !page.contains("<script>") && !page.contains("style="), "nothing inline");
    assert!(!page.contains(&person.token));
    for asset in ["/explore/script.js", "/explore/style.css"] {
        assert_eq!(browser.get(asset).await.0, 200, "{asset}");
    }
    let (_, script) = browser.get("/explore/script.js").await;
    assert!(script.contains("\"ready\""), "what changed before the stream began is looked at too");
    for key in ["\"/\"", "\"j\"", "\"k\"", "\"[\"", "\"]\"", "\"?\""] {
        assert!(script.contains(key), "{key}");
    }
}

#[tokio::test]
async fn names_that_others_chose_never_become_markup() {
    let (world, namespace, person) = start("markup").await;
    let evil = "<script>alert(1)</script>\"'&";
    let object = serde_json::json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "name": "evil", "namespace": namespace, "annotations": { "note": evil } }, "data": { "text": evil },
    });
    world.cluster.apply(&object.to_string()).await;
    person.sees(&own(&namespace), &["evil"]).await;
    let browser = Browser::sign_in(&person).await;
    let id = in_path(&format!("local/{namespace}//v1/ConfigMap/evil"));
    for path in [
        format!("/explore/object?id={id}"),
        format!("/explore?q={}", in_path(evil)),
        format!("/explore/object?id={}", in_path(evil)),
    ] {
        let (_, page) = browser.get(&path).await;
        assert!(!page.contains("<script>alert"), "{path}: {page}");
    }
    let (_, page) = browser.get(&format!("/explore/object?id={id}")).await;
    assert!(page.contains("&lt;script&gt;alert(1)"), "the YAML is shown: {page}");
}

#[tokio::test]
async fn nothing_matches_and_nothing_to_see_are_told_apart() {
    let (world, namespace, person) = start("empty").await;
    make_map(world.cluster, &namespace, "map", &[]).await;
    person.sees(&own(&namespace), &["map"]).await;
    let browser = Browser::sign_in(&person).await;
    let (_, page) = browser.get("/explore?q=nothing-of-the-kind").await;
    assert!(page.contains("Nothing matches."), "{page}");
    let nobody = world.nobody(&namespace, "nobody").await;
    let browser = Browser::sign_in(&nobody).await;
    eventually(PATIENCE, || async {
        let (_, page) = browser.get("/explore?q=nothing-of-the-kind").await;
        if page.contains("There is nothing that you may see.") { Ok(()) } else { Err(page) }
    })
    .await;
}

#[tokio::test]
async fn an_object_page_has_yaml_relations_and_reasons_and_its_buttons_work_from_this_page_only() {
    let (world, namespace, person) = start("object-page").await;
    let group = "kustomize.toolkit.fluxcd.io";
    let object = serde_json::json!({
        "apiVersion": format!("{group}/v1"), "kind": "Kustomization", "metadata": { "name": "apps", "namespace": namespace },
        "spec": { "interval": "7m" },
        "status": { "inventory": { "entries": [{ "id": format!("{namespace}_made__ConfigMap"), "v": "v1" }] } },
    });
    world.cluster.apply(&object.to_string()).await;
    make_map(world.cluster, &namespace, "made", &[]).await;
    let account = [subject::service_account(&namespace, "jane")];
    let rules = [rule(&["get", "list", "patch"], &[group], &["kustomizations"])];
    let grant = world.cluster.grant(Scope::Namespace(&namespace), &account, &rules).await;
    person.sees(&format!("ns:{namespace} kind:ks"), &["apps"]).await;
    person.sees(&own(&namespace), &["made"]).await;
    let mut browser = Browser::sign_in(&person).await;
    let id = format!("local/{namespace}/{group}/v1/Kustomization/apps");
    let (status, page) = browser.get(&format!("/explore/object?id={}", in_path(&id))).await;
    assert_eq!(status, 200, "{page}");
    for part in ["interval: 7m", ">made</a>", &grant.binding, &grant.role, "Why you see this"] {
        assert!(page.contains(part), "{part}: {page}");
    }
    assert_eq!(browser.get(&format!("/explore/object?id={}", in_path("local/a/b/c/D/e"))).await.0, 404);
    let (_, rules) = browser.get("/explore/rules").await;
    assert!(rules.contains(&grant.binding) && rules.contains("local"), "{rules}");

    let form = [("action", "suspend"), ("id", id.as_str()), ("next", "/explore")];
    let foreign = browser.post("/explore/act", &form, "cross-site").await;
    assert_eq!(foreign.status().as_u16(), 403, "a form of another site changes nothing");
    assert_eq!(person.total(&format!("ns:{namespace} status:Suspended")).await, 0);
    let done = browser.post("/explore/act", &form, "same-origin").await;
    assert_eq!(done.status().as_u16(), 200);
    let page = done.text().await.unwrap();
    assert!(page.contains("suspend: 1 of 1 done"), "{page}");
    person.sees(&format!("ns:{namespace} status:Suspended"), &["apps"]).await;
    let none = browser.post("/explore/act", &[("action", "suspend")], "same-origin").await;
    assert!(none.status().as_u16() == 400 && none.text().await.unwrap().contains("no row is selected"));
}

#[tokio::test]
async fn a_browser_follows_changes_by_its_cookie() {
    let (_, _, person) = start("follows").await;
    let browser = Browser::sign_in(&person).await;
    let request = browser.server.request_by(&browser.client, "GET", "/explore/changes?query=kind:ConfigMap");
    assert_eq!(crate::server::status(request).await, 401);
    let request = browser.server.request_by(&browser.client, "GET", "/explore/changes?query=kind:ConfigMap");
    let mut response = request.header("Cookie", browser.cookie.clone().unwrap()).send().await.unwrap();
    assert_eq!(response.status().as_u16(), 200);
    let first = response.chunk().await.unwrap().unwrap();
    assert!(String::from_utf8_lossy(&first).contains("event: ready"), "{first:?}");
}
