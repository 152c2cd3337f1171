//! The listener that speaks as the original ConfigMap backend does: every method, in every situation, for everybody.

use std::collections::BTreeMap;
use std::io::Read as _;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{ObjectMeta, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use testbed::{AUDIENCE, Cluster, Scope, rule, subject};

use crate::server::{Server, Start, answer, status};

const LOCK: &str = "tf-kubernetes-configmap-backend.jimmidyson.github.com/lock-";
pub(crate) const EVERYTHING: &[&str] = &["get", "list", "create", "update", "patch", "delete"];
const OLD: &str = "{\n  \"version\": 4,\n  \"serial\": 7\n}\n";
const NEW: &str = "{\n  \"version\": 4,\n  \"serial\": 8\n}\n";

/// A server beside the shared cluster, a token of somebody who may do everything to states in a fresh namespace.
pub(crate) async fn beside_cluster(prefix: &str, set: impl FnOnce(Start) -> Start) -> (Server, String, String) {
    let cluster = Cluster::shared().await;
    let delegator = cluster.service_account_with_auth_delegator().await;
    let (namespace, name) = {
        let mut parts = delegator.username.rsplit(':');
        let name = parts.next().expect("a name").to_owned();
        (parts.next().expect("a namespace").to_owned(), name)
    };
    let objects = rule(EVERYTHING, &[""], &["configmaps", "secrets"]);
    cluster.grant(Scope::Cluster, &[subject::service_account(&namespace, &name)], &[objects]).await;
    let start = Start::new().cluster(&delegator.kubeconfig).tls().flag("--access-audiences", AUDIENCE);
    let server = set(start).serve();
    let namespace = cluster.namespace(prefix).await;
    let token = somebody(cluster, &namespace, "full", EVERYTHING).await;
    (server, token, namespace)
}

async fn somebody(cluster: &Cluster, namespace: &str, name: &str, verbs: &[&str]) -> String {
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
    pub server: Server,
    url: String,
    pub token: String,
    namespace: String,
    maps: Api<ConfigMap>,
}

impl Rig {
    pub(crate) async fn new() -> Rig {
        let (server, token, namespace) =
            beside_cluster("compat", |start| start.flag("--states-compat-listen", "127.0.0.1:0")).await;
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
        let parts = |id: &str| {
            let pairs = [("id", id), ("operation", "apply"), ("info", ""), ("who", "them@host")];
            pairs.map(|(field, text)| (format!("{LOCK}{field}"), text.to_owned())).into()
        };
        let mut annotations: BTreeMap<String, String> = lock.map(parts).unwrap_or_default();
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

fn info(id: Option<&str>) -> String {
    match id {
        Some(id) => json!({"ID": id, "Operation": "apply", "Who": "me@host", "Created": "2026-11-16T05:59:16Z"}),
        None => json!({"Operation": "apply"}),
    }
    .to_string()
}

fn unpacked(map: &ConfigMap) -> String {
    let bytes = &map.binary_data.as_ref().unwrap()["tfstate"].0;
    let mut text = String::new();
    flate2::read::GzDecoder::new(bytes.as_slice()).read_to_string(&mut text).expect("gzip");
    text
}

#[tokio::test]
async fn every_method_in_every_situation_answers_as_the_original() {
    let rig = Rig::new().await;
    // Columns: missing, free, locked with the ID `held`; in each no ID, `held`, `other`.
    let table = [
        ("GET", "200 200 200 | 200 200 200 | 200 200 200"),
        ("POST", "200 423 423 | 200 423 423 | 423 200 423"),
        // A LOCK without an ID is a 400; the original takes it as a lock by nobody.
        ("LOCK", "400 200 200 | 400 200 200 | 400 200 423"),
        ("UNLOCK", "404 404 404 | 200 200 200 | 200 200 423"),
        ("DELETE", "404 404 404 | 200 423 423 | 423 200 423"),
        ("PUT", "404 404 404 | 404 404 404 | 404 404 404"),
        ("HEAD", "404 404 404 | 404 404 404 | 404 404 404"),
    ];
    for (method, expected) in table {
        let mut found = Vec::new();
        for situation in ["missing", "free", "locked"] {
            let mut row = Vec::new();
            for (number, id) in [None, Some("held"), Some("other")].into_iter().enumerate() {
                let name = format!("{}-{situation}-{number}", method.to_lowercase());
                match situation {
                    "missing" => {}
                    "free" => rig.original(&name, None).await,
                    _ => rig.original(&name, Some("held")).await,
                }
                row.push(one(&rig, method, situation, &name, id).await.to_string());
            }
            found.push(row.join(" "));
        }
        assert_eq!(found.join(" | "), expected, "{method}");
    }
}

/// Sends one request and looks at what became of the ConfigMap.
async fn one(rig: &Rig, method: &str, situation: &str, name: &str, id: Option<&str>) -> u16 {
    let query = id.filter(|_| matches!(method, "POST" | "DELETE")).map(|id| format!("?ID={id}")).unwrap_or_default();
    let body = match method {
        "POST" | "PUT" => NEW.to_owned(),
        "LOCK" => info(id),
        "UNLOCK" => id.map(|id| info(Some(id))).unwrap_or_default(),
        _ => String::new(),
    };
    let (status, text) = rig.send(method, &format!("{}{query}", rig.path(name)), &body).await;
    if status == 423 {
        let told: Value = serde_json::from_str(&text).unwrap();
        let expected = if situation == "locked" { "held" } else { "unlocked" };
        assert_eq!(told["ID"], expected, "{method} {name}");
    }
    if method == "GET" {
        assert_eq!(text, if situation == "missing" { "" } else { OLD });
    }
    let map = rig.maps.get_opt(name).await.unwrap();
    let Some(map) = map.filter(|_| status == 200 && method != "GET") else { return status };
    let annotations = map.metadata.annotations.clone().unwrap_or_default();
    if situation != "missing" {
        assert_eq!(annotations["theirs"], "kept", "{method} {name}");
        assert_eq!(map.binary_data.as_ref().unwrap()["other"].0, b"kept", "{method} {name}");
    }
    let lock_id = annotations.get(&format!("{LOCK}id")).map(String::as_str);
    match method {
        "POST" => assert_eq!(unpacked(&map), NEW),
        "LOCK" => {
            assert_eq!(lock_id, id);
            assert_eq!(annotations[&format!("{LOCK}operation")], "apply");
        }
        "UNLOCK" => assert!(!annotations.keys().any(|key| key.starts_with(LOCK)), "{annotations:?}"),
        "DELETE" => assert!(!map.binary_data.as_ref().unwrap().contains_key("tfstate"), "nobody finds it any more"),
        _ => {}
    }
    status
}

#[tokio::test]
async fn who_may_not_is_answered_as_the_original_answers() {
    let rig = Rig::new().await;
    let cluster = Cluster::shared().await;
    let nobody = somebody(cluster, &rig.namespace, "nobody", &[]).await;
    let reader = somebody(cluster, &rig.namespace, "reader", &["get"]).await;
    rig.original("app", None).await;
    let path = rig.path("app");
    for method in ["GET", "POST", "LOCK", "UNLOCK", "DELETE"] {
        let response = rig.request(method, &path).send().await.unwrap();
        assert_eq!(response.status().as_u16(), 401, "{method}");
        assert_eq!(response.headers()["www-authenticate"], "Basic realm=\"Terraform \"");
        assert_eq!(response.text().await.unwrap(), "");
        for token in ["garbage", nobody.as_str()] {
            let request = rig.request(method, &path).basic_auth("terraform", Some(token));
            assert_eq!(answer(request).await, (403, String::new()), "{method}");
        }
        let body = if method == "POST" { NEW.to_owned() } else { info(Some("a")) };
        let (status, text) = answer(rig.request(method, &path).basic_auth("x", Some(&reader)).body(body)).await;
        match method {
            "GET" => assert_eq!((status, text.as_str()), (200, OLD)),
            _ => assert_eq!((status, text.as_str()), (403, "configmaps \"app\" is forbidden: <nil>"), "{method}"),
        }
    }
    assert_eq!(status(rig.request("GET", "/").basic_auth("x", Some(&rig.token))).await, 404);
    assert_eq!(status(rig.request("GET", "/one").basic_auth("x", Some(&rig.token))).await, 404);
    assert_eq!(status(rig.request("GET", &format!("{path}/")).basic_auth("x", Some(&rig.token))).await, 404);
    assert_eq!(status(rig.request("GET", "/")).await, 401, "who comes first, where second");
    assert_eq!(status(rig.request("GET", &path).bearer_auth(&rig.token)).await, 200, "a bearer token is taken too");
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
    let none: BTreeMap<String, Option<String>> =
        ["id", "operation", "info", "who"].map(|field| (format!("{LOCK}{field}"), None)).into();
    let patch = json!({"metadata": {"annotations": none}});
    rig.maps.patch("shared", &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
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

#[tokio::test]
async fn a_state_in_chunks_makes_other_readers_fail() {
    let rig = Rig::new().await;
    let path = rig.path("large");
    let mut random = fastrand::Rng::with_seed(1);
    let ids: Vec<String> =
        (0..60_000).map(|_| format!("\"{:032x}{:032x}\"", random.u128(..), random.u128(..))).collect();
    let large = format!("{{\"version\": 4, \"serial\": 1, \"resources\": [{}]}}", ids.join(", "));
    assert_eq!(rig.send("POST", &path, &large).await.0, 200);
    let (status, text) = rig.send("GET", &path, "").await;
    assert!(status == 200 && text == large, "{status}");
    let map = rig.maps.get("large").await.unwrap();
    let file = &map.binary_data.unwrap()["tfstate"].0;
    assert!(file.len() < 200 && serde_json::from_slice::<Value>(file).is_err());
    assert_eq!(rig.send("POST", &path, NEW).await.0, 200);
    assert_eq!(rig.send("GET", &path, "").await, (200, NEW.to_owned()));
}
