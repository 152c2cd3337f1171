//! The listener that speaks as the original ConfigMap backend does: every method, in every situation, for everybody.

use std::collections::BTreeMap;
use std::io::Read as _;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{ObjectMeta, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use testbed::{AUDIENCE, Cluster, Delegator, Kubeconfig, Scope, rule, subject};

use crate::backend::EVERYTHING;
use crate::original::{LOCK, Original, annotations};
use crate::server::{Server, Start, answer, status};

pub(crate) const OLD: &str = "{\n  \"version\": 4,\n  \"serial\": 7\n}\n";
pub(crate) const NEW: &str = "{\n  \"version\": 4,\n  \"serial\": 8\n}\n";

/// A server beside the shared cluster, a token of somebody who may do everything to states in a fresh namespace.
pub(crate) async fn beside_cluster(prefix: &str, set: impl FnOnce(Start) -> Start) -> (Server, String, String) {
    beside_cluster_as(&server_account().await, prefix, set).await
}

/// The same, for a server with this identity.
async fn beside_cluster_as(
    account: &Kubeconfig,
    prefix: &str,
    set: impl FnOnce(Start) -> Start,
) -> (Server, String, String) {
    let start = Start::new().cluster(account).tls().flag("--access-audiences", AUDIENCE);
    let server = set(start).serve();
    let cluster = Cluster::shared().await;
    let namespace = cluster.namespace(prefix).await;
    let token = somebody(cluster, &namespace, "full", EVERYTHING).await;
    (server, token, namespace)
}

/// An identity for a server that keeps states in the shared cluster.
pub(crate) async fn server_account() -> Kubeconfig {
    account_that_may(EVERYTHING).await
}

async fn account_that_may(verbs: &[&str]) -> Kubeconfig {
    let cluster = Cluster::shared().await;
    let Delegator { username, namespace, kubeconfig } = cluster.service_account_with_auth_delegator().await;
    let name = username.rsplit(':').next().expect("a name");
    let objects = rule(verbs, &[""], &["configmaps", "secrets"]);
    let leases = rule(verbs, &["coordination.k8s.io"], &["leases"]);
    cluster.grant(Scope::Cluster, &[subject::service_account(&namespace, name)], &[objects, leases]).await;
    kubeconfig
}

pub(crate) async fn somebody(cluster: &Cluster, namespace: &str, name: &str, verbs: &[&str]) -> String {
    cluster.service_account(namespace, name).await;
    if !verbs.is_empty() {
        let rules = [
            rule(verbs, &[""], &["configmaps", "secrets"]),
            rule(verbs, &["stateward.dev"], &["states"]),
            rule(&["unlock"], &["stateward.dev"], &["states"]),
        ];
        cluster.grant(Scope::Namespace(namespace), &[subject::service_account(namespace, name)], &rules).await;
    }
    cluster.token_request(namespace, name, &[AUDIENCE], 3600).await
}

/// The listener, its namespace, and the ConfigMaps behind it.
pub(crate) struct Rig {
    pub(crate) server: Server,
    pub(crate) url: String,
    pub(crate) token: String,
    pub(crate) namespace: String,
    pub(crate) maps: Api<ConfigMap>,
}

impl Rig {
    pub(crate) async fn new() -> Rig {
        Rig::with(&server_account().await, |start| start).await
    }

    /// With a server of this identity, and more flags.
    async fn with(account: &Kubeconfig, more: impl FnOnce(Start) -> Start) -> Rig {
        let set = |start: Start| {
            more(start.flag("--states-compat-listen", "127.0.0.1:0").flag("--states-routes", "*=configmap"))
        };
        let (server, token, namespace) = beside_cluster_as(account, "compat", set).await;
        let log = server.process.log();
        let url = log.lines().find_map(|line| line.strip_prefix("States in ConfigMaps are at "));
        let url = url.expect("a line with the address").trim_end_matches('/').to_owned();
        let maps = Api::namespaced(Cluster::shared().await.client(), &namespace);
        Rig { server, url, token, namespace, maps }
    }

    fn request(&self, method: &str, path: &str) -> reqwest::RequestBuilder {
        let method = reqwest::Method::from_bytes(method.as_bytes()).unwrap();
        self.server.client().request(method, format!("{}{path}", self.url))
    }

    pub(crate) async fn send(&self, method: &str, path: &str, body: &str) -> (u16, String) {
        answer(self.request(method, path).basic_auth("terraform", Some(&self.token)).body(body.to_owned())).await
    }

    /// A ConfigMap as the original writes it.
    async fn original(&self, name: &str, lock: Option<&str>) {
        let mut annotations: BTreeMap<String, String> = lock.map(annotations).unwrap_or_default();
        annotations.insert("theirs".to_owned(), "kept".to_owned());
        let metadata = ObjectMeta { name: Some(name.to_owned()), annotations: Some(annotations), ..Default::default() };
        let data = [("tfstate", OLD), ("other", "kept")];
        let data = data.map(|(key, text)| (key.to_owned(), ByteString(text.as_bytes().to_vec()))).into();
        let map = ConfigMap { metadata, binary_data: Some(data), ..ConfigMap::default() };
        self.maps.create(&PostParams::default(), &map).await.expect("create a ConfigMap");
    }

    pub(crate) fn path(&self, name: &str) -> String {
        format!("/{}/{name}", self.namespace)
    }
}

pub(crate) fn info(id: Option<&str>) -> String {
    match id {
        Some(id) => json!({"ID": id, "Operation": "apply", "Who": "me@host", "Created": "2026-11-16T05:59:16Z"}),
        None => json!({"Operation": "apply"}),
    }
    .to_string()
}

pub(crate) fn gunzip(bytes: &[u8]) -> String {
    let mut text = String::new();
    flate2::read::GzDecoder::new(bytes).read_to_string(&mut text).expect("gzip");
    text
}

/// Where we differ from the original on purpose; the letters stand in the table.
const DEVIATIONS: &[(char, &str)] = &[
    ('a', "a LOCK without an ID would be a lock that nobody can let go of: it is a 400"),
    ('b', "bad input is told before permissions are asked"),
    ('c', "a 423 about a state that nobody holds has an ID, because newer clients need one"),
    ('d', "a 423 has the whole LockInfo of a holder who locked here, not four fields of it"),
    ('e', "DELETE keeps the state for a restore, where other programs find none"),
    ('f', "a LOCK with the ID that is held is a repetition, and does not write over what its holder told of itself"),
];

/// Ours, the original's status behind a slash where it differs, and the letter of the reason.
/// Columns: missing | unlocked | locked by the caller | locked by another program; in each no ID, the right one (of the
/// lock, if there is one), a wrong one. First for somebody who may do everything, then for one who may only read.
const TABLE: &[(&str, &str, &str)] = &[
    (
        "GET",
        "200 200 200 | 200 200 200 | 200 200 200 | 200 200 200",
        "200 200 200 | 200 200 200 | 200 200 200 | 200 200 200",
    ),
    (
        "POST",
        "200 423c 423c | 200 423c 423c | 423d 200 423d | 423 200 423",
        "403 403 403 | 403 403 403 | 403 403 403 | 403 403 403",
    ),
    (
        "LOCK",
        "400/200a 200 200 | 400/200a 200 200 | 400/423a 200 423d | 400/423a 200f 423",
        "400/403b 403 403 | 400/403b 403 403 | 400/403b 403 403 | 400/403b 403 403",
    ),
    (
        "UNLOCK",
        "404 404 404 | 200 200 200 | 200 200 423d | 200 200 423",
        "404 404 404 | 403 403 403 | 403 403 403 | 403 403 403",
    ),
    (
        "DELETE",
        "404 404 404 | 200e 423c 423c | 423d 200e 423d | 423 200e 423",
        "404 404 404 | 403 403 403 | 403 403 403 | 403 403 403",
    ),
    ("PUT", NO_METHOD, NO_METHOD),
    ("HEAD", NO_METHOD, NO_METHOD),
    ("OPTIONS", NO_METHOD, NO_METHOD),
    ("PATCH", NO_METHOD, NO_METHOD),
];
const NO_METHOD: &str = "404 404 404 | 404 404 404 | 404 404 404 | 404 404 404";

#[derive(Clone, Copy, Debug, PartialEq)]
enum Situation {
    Missing,
    Unlocked,
    Mine,
    Other,
}

const SITUATIONS: [Situation; 4] = [Situation::Missing, Situation::Unlocked, Situation::Mine, Situation::Other];
const IDS: [Option<&str>; 3] = [None, Some("held"), Some("wrong")];

/// One expected answer.
struct Cell {
    status: u16,
    reason: Option<char>,
}

fn cells(row: &str) -> Vec<Cell> {
    let read = |text: &str| {
        let (status, reason) = text.trim_end().split_at(text.trim_end_matches(char::is_alphabetic).len());
        let (ours, original) = status.split_once('/').unwrap_or((status, status));
        assert!(ours == original || !reason.is_empty(), "{text}: every other status has a reason");
        Cell { status: ours.parse().unwrap(), reason: reason.chars().next() }
    };
    row.split(" | ").flat_map(|situation| situation.split(' ').map(read)).collect()
}

#[tokio::test]
async fn every_method_in_every_situation_for_everybody_is_answered_as_the_original_answers() {
    let rig = Rig::new().await;
    let cluster = Cluster::shared().await;
    let nobody = somebody(cluster, &rig.namespace, "nobody", &[]).await;
    let reader = somebody(cluster, &rig.namespace, "reader", &["get"]).await;
    let mut reasons = std::collections::BTreeSet::new();
    for (method, full, read_only) in TABLE {
        let (full, read_only) = (cells(full), cells(read_only));
        reasons.extend(full.iter().chain(&read_only).filter_map(|cell| cell.reason));
        let places = SITUATIONS.iter().flat_map(|situation| IDS.map(|id| (*situation, id)));
        for ((situation, id), (full, read_only)) in places.zip(full.iter().zip(&read_only)) {
            let case = Case::prepare(&rig, method, situation, id).await;
            let before = rig.maps.get_opt(&case.name).await.unwrap();
            let (told, text, challenge) = case.send(None).await;
            let expected = (401, String::new(), Some("Basic realm=\"Terraform \"".to_owned()));
            assert_eq!((told, text, challenge), expected, "{case:?}");
            for token in ["garbage", nobody.as_str()] {
                assert_eq!(case.send(Some(token)).await, (403, String::new(), None), "{case:?}");
            }
            let (told, text, _) = case.send(Some(&reader)).await;
            assert_eq!(told, read_only.status, "read only: {case:?}");
            match told {
                403 => assert_eq!(text, format!("configmaps \"{}\" is forbidden: <nil>", case.name)),
                200 => case.check(&rig, full, &text).await,
                404 => assert_eq!(text, ""),
                _ => {}
            }
            assert_eq!(rig.maps.get_opt(&case.name).await.unwrap(), before, "nothing was done: {case:?}");
            let (told, text, _) = case.send(Some(&rig.token)).await;
            assert_eq!(told, full.status, "{case:?}: {text}");
            case.check(&rig, full, &text).await;
            if told >= 400 {
                assert_eq!(rig.maps.get_opt(&case.name).await.unwrap(), before, "nothing was done: {case:?}");
            }
        }
    }
    assert!(reasons.iter().eq(DEVIATIONS.iter().map(|(letter, _)| letter)), "{reasons:?} is not {DEVIATIONS:?}");
}

/// One request about one state.
struct Case<'a> {
    rig: &'a Rig,
    method: &'static str,
    situation: Situation,
    id: Option<&'static str>,
    name: String,
}

impl std::fmt::Debug for Case<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{} of a state that is {:?}, with the ID {:?}", self.method, self.situation, self.id)
    }
}

impl<'a> Case<'a> {
    async fn prepare(rig: &'a Rig, method: &'static str, situation: Situation, id: Option<&'static str>) -> Case<'a> {
        let name = format!("{method}-{situation:?}-{}", id.unwrap_or("none")).to_lowercase();
        match situation {
            Situation::Missing => {}
            Situation::Unlocked => rig.original(&name, None).await,
            Situation::Mine => {
                rig.original(&name, None).await;
                assert_eq!(rig.send("LOCK", &rig.path(&name), &info(Some("held"))).await.0, 200);
            }
            Situation::Other => rig.original(&name, Some("held")).await,
        }
        Case { rig, method, situation, id, name }
    }

    /// Status, text and challenge of the answer.
    async fn send(&self, token: Option<&str>) -> (u16, String, Option<String>) {
        let query = self.id.filter(|_| matches!(self.method, "POST" | "DELETE")).map(|id| format!("?ID={id}"));
        let path = format!("{}{}", self.rig.path(&self.name), query.unwrap_or_default());
        let body = match self.method {
            "POST" | "PUT" => NEW.to_owned(),
            "LOCK" => info(self.id),
            "UNLOCK" => self.id.map(|id| info(Some(id))).unwrap_or_default(),
            _ => String::new(),
        };
        let mut request = self.rig.request(self.method, &path).body(body);
        if let Some(token) = token {
            request = request.basic_auth("terraform", Some(token));
        }
        let response = request.send().await.expect("an answer");
        let challenge = response.headers().get("www-authenticate").map(|value| value.to_str().unwrap().to_owned());
        (response.status().as_u16(), response.text().await.expect("a text"), challenge)
    }

    /// Looks at the body of an answer, and at what became of the ConfigMap.
    async fn check(&self, rig: &Rig, cell: &Cell, text: &str) {
        if cell.status == 423 {
            let told: Value = serde_json::from_str(text).unwrap();
            match cell.reason {
                Some('c') => assert_eq!(told["ID"], "unlocked", "{self:?}"),
                Some('d') => assert_eq!(text, info(Some("held")), "{self:?}"),
                _ => {
                    let four = json!({"ID": "held", "Operation": "apply", "Info": "", "Who": "them@host"});
                    assert_eq!(told, four, "{self:?}");
                }
            }
            return;
        }
        if self.method == "GET" {
            assert_eq!(text, if self.situation == Situation::Missing { "" } else { OLD }, "{self:?}");
        }
        if cell.status != 200 || self.method == "GET" {
            return;
        }
        assert_eq!(text, "", "{self:?}");
        let map = rig.maps.get(&self.name).await.unwrap();
        let annotations = map.metadata.annotations.clone().unwrap_or_default();
        let data = map.binary_data.clone().unwrap_or_default();
        if self.situation != Situation::Missing {
            assert_eq!(annotations["theirs"], "kept", "{self:?}");
            assert_eq!(data["other"].0, b"kept", "{self:?}");
        }
        let lock = |field: &str| annotations.get(&format!("{LOCK}{field}")).map(String::as_str);
        let was_locked = matches!(self.situation, Situation::Mine | Situation::Other);
        match self.method {
            "POST" => {
                assert_eq!(gunzip(&data["tfstate"].0), NEW, "{self:?}");
                assert_eq!(lock("id"), Some("held").filter(|_| was_locked), "the lock stays: {self:?}");
            }
            "LOCK" => {
                let who = if cell.reason == Some('f') { "them@host" } else { "me@host" };
                let expected = [self.id, Some("apply"), Some(""), Some(who)];
                assert_eq!(["id", "operation", "info", "who"].map(lock), expected, "{self:?}");
            }
            "UNLOCK" => assert!(!annotations.keys().any(|key| key.starts_with(LOCK)), "{self:?}: {annotations:?}"),
            _ => {
                assert!(!data.contains_key("tfstate"), "nobody finds it any more: {self:?}");
                assert!(!annotations.keys().any(|key| key.starts_with(LOCK)), "{self:?}: {annotations:?}");
            }
        }
    }
}

#[tokio::test]
async fn paths_bearers_and_groups_count_as_they_should() {
    let rig = Rig::new().await;
    let cluster = Cluster::shared().await;
    rig.original("app", None).await;
    let path = rig.path("app");
    for missing in ["/", "/one", &format!("{path}/"), &format!("{path}/three")] {
        assert_eq!(status(rig.request("GET", missing)).await, 401, "who comes first, where second: {missing}");
        assert_eq!(status(rig.request("GET", missing).basic_auth("x", Some(&rig.token))).await, 404, "{missing}");
    }
    assert_eq!(status(rig.request("GET", &path).bearer_auth(&rig.token)).await, 200, "a bearer token is taken too");
    assert_eq!(status(rig.request("GET", &path).bearer_auth("garbage")).await, 403);
    // What cannot be read is no credentials at all: clients that negotiate are to try another scheme.
    for unreadable in ["Negotiate YWJj", "Digest username=\"x\"", "Basic !!!", "Basic YWJj", "Basic", "Bearer "] {
        for method in ["GET", "POST", "LOCK", "UNLOCK", "DELETE", "PUT"] {
            let response = rig.request(method, &path).header("Authorization", unreadable).send().await.unwrap();
            let challenge = response.headers().get("www-authenticate").map(|value| value.to_str().unwrap().to_owned());
            let told = (response.status().as_u16(), challenge.as_deref());
            assert_eq!(told, (401, Some("Basic realm=\"Terraform \"")), "{method} {unreadable}");
        }
    }
    // The original takes any name for one of a state that is not there.
    for bad in [format!("/{}/App", rig.namespace), "/Team/app".to_owned(), format!("/{}/a%20b", rig.namespace)] {
        for method in ["GET", "LOCK"] {
            let (told, text) = rig.send(method, &bad, &info(Some("a"))).await;
            assert!(told == 400 && text.contains("hint"), "{method} {bad}: {told} {text}");
        }
    }
    // The original asks without groups, so that nobody may anything by one.
    cluster.service_account(&rig.namespace, "member").await;
    let group = subject::group(&format!("system:serviceaccounts:{}", rig.namespace));
    cluster.grant(Scope::Namespace(&rig.namespace), &[group], &[rule(&["get"], &[""], &["configmaps"])]).await;
    let member = cluster.token_request(&rig.namespace, "member", &[AUDIENCE], 3600).await;
    assert_eq!(status(rig.request("GET", &path).basic_auth("x", Some(&member))).await, 200);
}

#[tokio::test]
async fn bad_bodies_are_told_once_and_change_nothing() {
    let rig = Rig::new().await;
    rig.original("app", Some("held")).await;
    let path = rig.path("app");
    let before = rig.maps.get("app").await.unwrap();
    // The original answers 500, which clients repeat, or stores whatever it gets.
    for (method, query, body, original) in [
        ("LOCK", "", "", 500),
        ("LOCK", "", "not json", 500),
        ("LOCK", "", r#"{"ID":""}"#, 423),
        ("UNLOCK", "", "not json", 500),
        ("UNLOCK", "", "{}", 423),
        ("POST", "?ID=held", "", 200),
        ("POST", "?ID=held", "not json", 200),
        ("POST", "?ID=held", "{\"version\": 4", 200),
    ] {
        let (status, text) = rig.send(method, &format!("{path}{query}"), body).await;
        assert_eq!(status, 400, "{method} {body:?}, to which the original answers {original}: {text}");
        assert!(text.contains("hint"), "{text}");
    }
    assert_eq!(rig.maps.get("app").await.unwrap(), before);
}

#[tokio::test]
async fn what_delete_left_is_nothing_and_can_be_made_anew() {
    let rig = Rig::new().await;
    let path = rig.path("gone");
    assert_eq!(rig.send("LOCK", &path, &info(Some("a"))).await.0, 200);
    assert_eq!(rig.send("DELETE", &format!("{path}?ID=a"), "").await.0, 200, "a lock without a state");
    assert_eq!(rig.send("LOCK", &path, &info(Some("a"))).await.0, 200);
    assert_eq!(rig.send("POST", &format!("{path}?ID=a"), OLD).await.0, 200);
    assert_eq!(rig.send("DELETE", &format!("{path}?ID=a"), "").await.0, 200);
    assert_eq!(rig.send("GET", &path, "").await, (200, String::new()));
    assert_eq!(rig.send("UNLOCK", &path, &info(Some("a"))).await.0, 404);
    assert_eq!(rig.send("DELETE", &path, "").await.0, 404);
    assert_eq!(rig.send("LOCK", &path, &info(Some("b"))).await.0, 200, "the lock went with the state");
    assert_eq!(rig.send("POST", &format!("{path}?ID=b"), NEW).await.0, 200);
    assert_eq!(rig.send("UNLOCK", &path, &info(Some("b"))).await.0, 200);
    assert_eq!(rig.send("GET", &path, "").await, (200, NEW.to_owned()));
}

#[tokio::test]
async fn what_other_programs_write_counts() {
    let rig = Rig::new().await;
    let path = rig.path("shared");
    assert_eq!(rig.send("LOCK", &path, &info(Some("a"))).await.0, 200);
    assert_eq!(rig.send("POST", &format!("{path}?ID=a"), NEW).await.0, 200);
    // The whole LockInfo comes back, not only the four fields of the annotations.
    assert_eq!(rig.send("LOCK", &path, &info(Some("b"))).await, (423, info(Some("a"))));

    // Somebody frees the lock with kubectl.
    let annotations = ["id", "operation", "info", "who"].map(|field| format!("{LOCK}{field}-"));
    let mut arguments = vec!["annotate", "configmap", "shared", "--namespace", &rig.namespace];
    arguments.extend(annotations.iter().map(String::as_str));
    let output = Cluster::shared().await.kubectl(arguments).await;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let (status, told) = rig.send("POST", &format!("{path}?ID=a"), OLD).await;
    assert_eq!(status, 423, "its holder is displaced");
    assert!(told.contains("another program"), "{told}");
    assert_eq!(rig.send("LOCK", &path, &info(Some("b"))).await.0, 200);

    // The original writes the state and takes the lock: both count, and nothing of ours is mixed in.
    let map = json!({
        "metadata": {"annotations": {format!("{LOCK}id"): "theirs", format!("{LOCK}who"): "them@host"}},
        "binaryData": {"tfstate": ByteString(OLD.as_bytes().to_vec())},
    });
    rig.maps.patch("shared", &PatchParams::default(), &Patch::Merge(&map)).await.unwrap();
    assert_eq!(rig.send("GET", &path, "").await, (200, OLD.to_owned()));
    let (status, told) = rig.send("LOCK", &path, &info(Some("c"))).await;
    let told: Value = serde_json::from_str(&told).unwrap();
    assert_eq!((status, &told["ID"], &told["Who"]), (423, &json!("theirs"), &json!("them@host")));
    assert_eq!(rig.send("POST", &format!("{path}?ID=b"), NEW).await.0, 423);
    assert_eq!(rig.send("POST", &format!("{path}?ID=theirs"), NEW).await.0, 200);
    assert_eq!(rig.send("GET", &path, "").await, (200, NEW.to_owned()));
    assert_eq!(rig.send("UNLOCK", &path, &info(Some("theirs"))).await.0, 200);
}

#[tokio::test]
async fn large_gzip_and_even_junk_of_the_original_is_read_and_replaced() {
    let rig = Rig::new().await;
    let mut random = fastrand::Rng::with_seed(2);
    let ids: Vec<String> = (0..18_000).map(|_| format!("\"{:064x}\"", random.u128(..))).collect();
    let large = format!("{{\"version\": 4, \"serial\": 1, \"resources\": [{}]}}", ids.join(", "));
    let mut packed = Vec::new();
    let mut encoder = flate2::read::GzEncoder::new(large.as_bytes(), flate2::Compression::best());
    encoder.read_to_end(&mut packed).unwrap();
    assert!((200_000..1_000_000).contains(&packed.len()), "more than the annotations of an object: {}", packed.len());
    for (name, file, content) in [("large", packed, large), ("junk", b"not json".to_vec(), "not json".to_owned())] {
        let metadata = ObjectMeta { name: Some(name.to_owned()), ..Default::default() };
        let data = Some([("tfstate".to_owned(), ByteString(file))].into());
        let map = ConfigMap { metadata, binary_data: data, ..ConfigMap::default() };
        rig.maps.create(&PostParams::default(), &map).await.unwrap();
        let path = rig.path(name);
        let read = async || rig.send("GET", &path, "").await;
        assert!(read().await == (200, content.clone()), "{name}");
        assert_eq!(rig.send("LOCK", &path, &info(Some("a"))).await.0, 200, "{name}");
        assert!(read().await == (200, content), "{name}");
        assert_eq!(rig.send("POST", &format!("{path}?ID=a"), NEW).await.0, 200, "{name}");
        assert_eq!(read().await, (200, NEW.to_owned()), "{name}");
        assert_eq!(rig.send("UNLOCK", &path, &info(Some("a"))).await.0, 200, "{name}");
    }
}

/// A state that does not fit one object, however it is packed.
fn incompressible() -> String {
    let mut random = fastrand::Rng::with_seed(1);
    let ids: Vec<String> =
        (0..60_000).map(|_| format!("\"{:032x}{:032x}\"", random.u128(..), random.u128(..))).collect();
    format!("{{\"version\": 4, \"serial\": 1, \"resources\": [{}]}}", ids.join(", "))
}

#[tokio::test]
async fn a_state_in_chunks_makes_other_readers_fail() {
    let rig = Rig::new().await;
    let (path, large) = (rig.path("large"), incompressible());
    assert_eq!(rig.send("POST", &path, &large).await.0, 200);
    let (status, text) = rig.send("GET", &path, "").await;
    assert!(status == 200 && text == large, "{status}");
    for compress in [true, false] {
        let original = Original { maps: rig.maps.clone(), compress, minify: false };
        let (status, file) = original.get("large").await;
        assert!(status == 500 || !file.is_empty() && serde_json::from_slice::<Value>(&file).is_err(), "{status}");
        // It locks the state all the same, and that counts.
        assert_eq!(original.lock("large", "theirs").await, 200);
        assert_eq!(rig.send("LOCK", &path, &info(Some("ours"))).await.0, 423);
        let (status, text) = rig.send("GET", &path, "").await;
        assert!(status == 200 && text == large, "{status}");
        assert_eq!(original.unlock("large", Some("theirs")).await, 200);
    }
    // What it writes over the chunks is the state from then on.
    let original = Original { maps: rig.maps.clone(), compress: false, minify: false };
    assert_eq!(original.post("large", None, OLD).await, 200);
    assert_eq!(rig.send("GET", &path, "").await, (200, OLD.to_owned()));
    assert_eq!(rig.send("POST", &path, &large).await.0, 200);
    assert_eq!(rig.send("POST", &path, NEW).await.0, 200);
    assert_eq!(rig.send("GET", &path, "").await, (200, NEW.to_owned()));
}

/// Whoever takes away all annotations to free a lock takes ours, too.
#[tokio::test]
async fn a_state_in_chunks_without_our_annotation_is_neither_lost_nor_mistaken_for_a_state() {
    let rig = Rig::new().await;
    let (path, large) = (rig.path("bare"), incompressible());
    assert_eq!(rig.send("POST", &path, &large).await.0, 200);
    let kubectl = async |arguments: &[&str]| {
        let arguments = [arguments, &["--namespace", &rig.namespace]].concat();
        let output = Cluster::shared().await.kubectl(arguments).await;
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    kubectl(&["annotate", "configmap", "bare", "stateward.dev/state-head-"]).await;
    for (method, body) in [("GET", String::new()), ("LOCK", info(Some("a"))), ("POST", NEW.to_owned())] {
        assert_eq!(rig.send(method, &path, &body).await.0, 500, "{method}");
    }
    kubectl(&["delete", "configmap", "bare"]).await;
    let restore = format!("/api/states{path}/restore?store=configmap");
    let restored = answer(rig.server.request("POST", &restore).bearer_auth(&rig.token)).await;
    assert_eq!(restored.0, 200, "{}", restored.1);
    let (status, text) = rig.send("GET", &path, "").await;
    assert!(status == 200 && text == large, "{status}");
}

#[tokio::test]
async fn where_nobody_may_break_locks_an_unlock_without_an_id_is_refused() {
    let rig = Rig::with(&server_account().await, |start| start.switch("--states-forced-unlock=false")).await;
    let path = rig.path("app");
    assert_eq!(rig.send("LOCK", &path, &info(Some("a"))).await.0, 200);
    let (status, text) = rig.send("UNLOCK", &path, "").await;
    assert!(status == 403 && text.contains("states.forced_unlock"), "{status} {text}");
    assert_eq!(rig.send("LOCK", &path, &info(Some("b"))).await.0, 423, "it is still locked");
    assert_eq!(rig.send("UNLOCK", &path, &info(Some("a"))).await.0, 200, "the ID is all that the original asks for");
    assert_eq!(rig.send("UNLOCK", &path, "").await.0, 200, "nothing is broken");
}

#[tokio::test]
async fn a_lock_that_is_broken_is_on_record_as_such() {
    let rig = Rig::new().await;
    let path = rig.path("app");
    for (body, verb) in [(info(Some("a")), "update"), (String::new(), "unlock")] {
        assert_eq!(rig.send("LOCK", &path, &info(Some("a"))).await.0, 200);
        assert_eq!(rig.send("UNLOCK", &path, &body).await.0, 200);
        let log = std::fs::read_to_string(rig.server.data.join("audit/audit.log")).unwrap();
        let last: Vec<Value> = log.lines().rev().take(2).map(|line| serde_json::from_str(line).unwrap()).collect();
        assert!(last.iter().all(|line| line.to_string().contains(&format!("\"{verb}\""))), "{verb}: {last:?}");
    }
}

#[tokio::test]
async fn what_the_api_server_refuses_is_no_lock_of_somebody() {
    let rig = Rig::new().await;
    // Somebody who may do everything everywhere, also where nothing is.
    let cluster = Cluster::shared().await;
    cluster.service_account(&rig.namespace, "anywhere").await;
    let anywhere = [subject::service_account(&rig.namespace, "anywhere")];
    cluster.grant(Scope::Cluster, &anywhere, &[rule(EVERYTHING, &[""], &["configmaps"])]).await;
    let token = cluster.token_request(&rig.namespace, "anywhere", &[AUDIENCE], 3600).await;
    let reads_only = Rig::with(&account_that_may(&["get", "list"]).await, |start| start).await;
    for (method, body) in [("LOCK", info(Some("a"))), ("POST", NEW.to_owned())] {
        let request = rig.request(method, "/nowhere-at-all/app").basic_auth("x", Some(&token)).body(body.clone());
        let told = answer(request).await;
        assert_eq!(told, (404, "namespaces \"nowhere-at-all\" not found".to_owned()), "{method}: as the original");
        let request = rig.server.request(method, "/state/nowhere-at-all/app").bearer_auth(&token).body(body.clone());
        let (status, text) = answer(request).await;
        assert!(status == 404 && text.contains("no namespace 'nowhere-at-all'"), "{method}: {status} {text}");

        let (status, text) = reads_only.send(method, &reads_only.path("app"), &body).await;
        assert!(status == 403 && text.contains("cannot create resource"), "{method}: {status} {text}");
        let main = format!("/state{}", reads_only.path("app"));
        let request = reads_only.server.request(method, &main).bearer_auth(&reads_only.token).body(body);
        let (status, text) = answer(request).await;
        assert!(status == 424 && text.contains("this server lacks a right"), "{method}: {status} {text}");
    }
}
