//! The explorer as its callers meet it: a real server beside a real cluster, another cluster added, everything by HTTP.

mod actions;
mod agent;
mod commands;
mod crossing;
mod follow;
mod leaks;
mod outages;
mod page;
mod paging;
mod query;
mod reasons;
mod revocation;
mod standalone;
mod statuses;
mod tenants;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use kube::core::ObjectMeta;
use reqwest::RequestBuilder;
use serde_json::{Value, json};
use testbed::{Cluster, Delegator, Kubeconfig, Scope, eventually, role, rule, scale, subject};
use tokio::sync::OnceCell;

use crate::server::{PATIENCE, Server, Start, answer};

/// What the servers of these tests collect.
pub(crate) const KINDS: &str = "v1/ConfigMap,v1/Namespace,v1/Event,HelmRelease.helm.toolkit.fluxcd.io,\
    Kustomization.kustomize.toolkit.fluxcd.io,GitRepository.source.toolkit.fluxcd.io,Gadget.explore.example";
/// How soon a revocation counts.
const SOON: Duration = Duration::from_secs(2);

/// A server, and the cluster that it belongs to.
#[derive(Clone, Copy)]
pub(crate) struct World {
    pub(crate) server: &'static Server,
    pub(crate) cluster: &'static Cluster,
}

/// Somebody with a token.
#[derive(Clone)]
pub(crate) struct Person {
    pub(crate) server: &'static Server,
    pub(crate) token: String,
}

/// The server that most of these tests share; it collects from the shared cluster.
pub(crate) async fn world() -> World {
    static SERVER: OnceCell<Server> = OnceCell::const_new();
    let cluster = Cluster::shared().await;
    let server = SERVER
        .get_or_init(|| async {
            definitions(cluster).await;
            beside(cluster).await.serve()
        })
        .await;
    World { server, cluster }
}

/// How a server beside a cluster is started.
pub(crate) async fn beside(cluster: &Cluster) -> Start {
    let collector = collector(cluster).await;
    Start::new().collecting(&collector, KINDS).tls()
}

/// An identity that may read everything, and ask who callers are.
pub(crate) async fn collector(cluster: &Cluster) -> Kubeconfig {
    let Delegator { username, namespace, kubeconfig } = cluster.service_account_with_auth_delegator().await;
    let name = username.rsplit(':').next().expect("a name");
    let everything = rule(&["get", "list", "watch"], &["*"], &["*"]);
    cluster.grant(Scope::Cluster, &[subject::service_account(&namespace, name)], &[everything]).await;
    kubeconfig
}

/// Kinds with conditions and with finalizers of their own, as those of Flux and of this test.
pub(crate) async fn definitions(cluster: &Cluster) {
    let kinds = [
        ("helm.toolkit.fluxcd.io", "v2", "HelmRelease", "helmreleases"),
        ("kustomize.toolkit.fluxcd.io", "v1", "Kustomization", "kustomizations"),
        ("source.toolkit.fluxcd.io", "v1", "GitRepository", "gitrepositories"),
        ("explore.example", "v1", "Gadget", "gadgets"),
    ];
    for (group, version, kind, plural) in kinds {
        let definition = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": { "name": format!("{plural}.{group}") },
            "spec": {
                "group": group, "scope": "Namespaced",
                "names": { "kind": kind, "plural": plural, "singular": kind.to_lowercase() },
                "versions": [{
                    "name": version, "served": true, "storage": true,
                    "schema": { "openAPIV3Schema": { "type": "object", "x-kubernetes-preserve-unknown-fields": true } },
                }],
            },
        });
        cluster.apply(&definition.to_string()).await;
    }
}

impl World {
    /// A ServiceAccount without any permission.
    pub(crate) async fn nobody(&self, namespace: &str, name: &str) -> Person {
        self.cluster.service_account(namespace, name).await;
        let token = self.cluster.token_request(namespace, name, &[], 3600).await;
        Person { server: self.server, token }
    }

    /// A ServiceAccount that may list and get these resources in its namespace.
    pub(crate) async fn reader(&self, namespace: &str, name: &str, groups: &[&str], resources: &[&str]) -> Person {
        let person = self.nobody(namespace, name).await;
        let account = [subject::service_account(namespace, name)];
        let rules = [rule(&["get", "list"], groups, resources)];
        self.cluster.grant(Scope::Namespace(namespace), &account, &rules).await;
        person
    }

    /// Somebody who sees everything of this cluster.
    pub(crate) async fn admin(&self) -> Person {
        let namespace = self.cluster.namespace("admin").await;
        let person = self.nobody(&namespace, "admin").await;
        let account = [subject::service_account(&namespace, "admin")];
        self.cluster.bind(Scope::Cluster, role::cluster("cluster-admin"), &account).await;
        eventually(PATIENCE, || async { person.total("kind:Namespace").await > 0 }).await;
        person
    }

    /// Makes ConfigMaps in a namespace.
    pub(crate) async fn maps(&self, namespace: &str, names: &[&str]) {
        for name in names {
            make_map(self.cluster, namespace, name, &[("text", name)]).await;
        }
    }
}

pub(crate) async fn make_map(cluster: &Cluster, namespace: &str, name: &str, data: &[(&str, &str)]) {
    let own = |text: &&str| (*text).to_owned();
    let data: BTreeMap<String, String> = data.iter().map(|(key, value)| (own(key), own(value))).collect();
    let metadata = ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
    let map = ConfigMap { metadata, data: Some(data), ..ConfigMap::default() };
    maps_of(cluster, namespace).create(&PostParams::default(), &map).await.expect("create a ConfigMap");
}

pub(crate) fn maps_of(cluster: &Cluster, namespace: &str) -> Api<ConfigMap> {
    Api::namespaced(cluster.client(), namespace)
}

pub(crate) async fn delete_map(cluster: &Cluster, namespace: &str, name: &str) {
    maps_of(cluster, namespace).delete(name, &DeleteParams::default()).await.expect("delete a ConfigMap");
}

/// Objects of a test's own making in its namespace: every namespace has a ConfigMap of the cluster's.
pub(crate) fn own(namespace: &str) -> String {
    format!("ns:\"{namespace}\" kind:ConfigMap -name:kube-root-ca.crt")
}

impl Person {
    pub(crate) fn request(&self, method: &str, path: &str) -> RequestBuilder {
        self.server.request(method, path).bearer_auth(&self.token)
    }

    pub(crate) async fn get(&self, path: &str) -> (u16, Value) {
        let (status, text) = answer(self.request("GET", path)).await;
        (status, serde_json::from_str(&text).unwrap_or(Value::String(text)))
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> (u16, Value) {
        let (status, text) = answer(self.request("POST", path).json(body)).await;
        (status, serde_json::from_str(&text).unwrap_or(Value::String(text)))
    }

    /// The answer to a question.
    pub(crate) async fn ask(&self, request: Value) -> Value {
        let (status, answer) = self.post("/v1/query", &request).await;
        assert_eq!(status, 200, "{request}: {answer}");
        answer
    }

    /// The answer to a question in the filter language, with facets and without bodies.
    pub(crate) async fn find(&self, query: &str) -> Value {
        self.ask(json!({ "query": query, "facets": true, "unstructured": false })).await
    }

    pub(crate) async fn total(&self, query: &str) -> u64 {
        self.find(query).await["total"].as_u64().expect("a total")
    }

    /// The names that a question finds, sorted.
    pub(crate) async fn names(&self, query: &str) -> Vec<String> {
        names(&self.find(query).await)
    }

    /// Waits until a question finds exactly these.
    pub(crate) async fn sees(&self, query: &str, expected: &[&str]) {
        eventually(PATIENCE, || async {
            let names = self.names(query).await;
            if names == expected { Ok(()) } else { Err(format!("{query} finds {names:?}, not {expected:?}")) }
        })
        .await;
    }

    /// Waits until a question finds exactly these, from now on at most for as long as a revocation may take. What counts is
    /// the whole answer: rows, total and facets.
    pub(crate) async fn sees_soon(&self, query: &str, expected: &[&str]) -> Duration {
        let start = Instant::now();
        eventually(PATIENCE, || async {
            let found = self.find(query).await;
            let whole = names(&found) == expected
                && found["total"] == expected.len()
                && counted(&found, "kind") == expected.len() as u64;
            if whole { Ok(()) } else { Err(format!("{query}: {found}")) }
        })
        .await;
        let took = start.elapsed();
        if scale().is_full() {
            assert!(took <= SOON, "{query} took {took:?}");
        }
        took
    }
}

/// How many objects the values of a facet have together.
pub(crate) fn counted(answer: &Value, field: &str) -> u64 {
    let facets = answer["facets"].as_array().expect("facets");
    let facet = facets.iter().find(|facet| facet["field"] == field).expect("the field");
    facet["counts"].as_array().expect("counts").iter().filter_map(Value::as_u64).sum()
}

/// The values of a facet with their counts.
pub(crate) fn facet(answer: &Value, field: &str) -> BTreeMap<String, u64> {
    let facets = answer["facets"].as_array().expect("facets");
    let facet = facets.iter().find(|facet| facet["field"] == field).expect("the field");
    let values =
        facet["values"].as_array().expect("values").iter().map(|value| value.as_str().expect("a text").to_owned());
    values.zip(facet["counts"].as_array().expect("counts").iter().filter_map(Value::as_u64)).collect()
}

pub(crate) fn names(answer: &Value) -> Vec<String> {
    let objects = answer["objects"].as_array().expect("objects").iter();
    let mut names: Vec<String> = objects.map(|object| object["name"].as_str().expect("a name").to_owned()).collect();
    names.sort();
    names
}

/// A figure for those who look.
#[expect(clippy::print_stdout, reason = "cargo keeps it for those who ask")]
pub(crate) fn show(what: &str, took: Duration) {
    println!("{what}: {took:?}");
}

/// An id as it stands in a path.
pub(crate) fn in_path(id: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    id.bytes().map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}
