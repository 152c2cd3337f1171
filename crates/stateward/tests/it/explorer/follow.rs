//! Server-sent events: what changed, what is gone, going on after a break, and the end of those whose identity ended.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::ServiceAccount;
use kube::Api;
use kube::api::{ApiResource, DeleteParams, DynamicObject, PostParams};
use kube::core::GroupVersionKind;
use reqwest::Response;
use serde_json::{Value, json};
use testbed::{Scope, Toxiproxy, eventually, rule, scale, subject};
use tokio::time::timeout;

use super::{KINDS, Person, World, beside, collector, delete_map, in_path, make_map, maps_of, own, world};
use crate::server::{PATIENCE, Start};

/// One event as it came.
#[derive(Clone, Debug)]
struct Event {
    kind: String,
    id: String,
    data: Value,
}

/// A stream that is being read.
struct Stream {
    response: Response,
    bytes: Vec<u8>,
    waiting: VecDeque<Event>,
}

impl Stream {
    async fn open(person: &Person, query: &str, last: Option<&str>) -> Stream {
        let request =
            person.request("GET", &format!("/v1/changes?query={}", in_path(query))).timeout(Duration::from_mins(10));
        let request = match last {
            Some(id) => request.header("Last-Event-ID", id),
            None => request,
        };
        let response = request.send().await.unwrap();
        assert_eq!(response.status().as_u16(), 200);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Stream { response, bytes: Vec::new(), waiting: VecDeque::new() }
    }

    /// The next event; `None` at the end of the stream.
    async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.waiting.pop_front() {
                return Some(event);
            }
            let chunk = timeout(PATIENCE, self.response.chunk()).await.expect("an event in time").ok().flatten()?;
            self.bytes.extend_from_slice(&chunk);
            while let Some(end) = self.bytes.windows(2).position(|pair| pair == b"\n\n") {
                let text = String::from_utf8(self.bytes.drain(..end + 2).collect()).unwrap();
                let field = |name: &str| {
                    text.lines()
                        .find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
                        .unwrap_or_default()
                        .to_owned()
                };
                if !field("event").is_empty() {
                    let data = serde_json::from_str(&field("data")).unwrap();
                    self.waiting.push_back(Event { kind: field("event"), id: field("id"), data });
                }
            }
        }
    }

    /// Reads on until there is one of this kind about this name.
    async fn until(&mut self, kind: &str, name: &str) -> Event {
        loop {
            let event = self.next().await.unwrap_or_else(|| panic!("the stream ended before {kind} {name}"));
            if event.kind == kind && (name.is_empty() || event.data["name"] == name) {
                return event;
            }
        }
    }
}

async fn start(world: World, what: &str) -> (String, Person, testbed::Grant) {
    let namespace = world.cluster.namespace(what).await;
    let person = world.nobody(&namespace, "jane").await;
    let account = [subject::service_account(&namespace, "jane")];
    let rules = [rule(&["list"], &[""], &["configmaps"])];
    let grant = world.cluster.grant(Scope::Namespace(&namespace), &account, &rules).await;
    make_map(world.cluster, &namespace, "first", &[]).await;
    person.sees(&own(&namespace), &["first"]).await;
    (namespace, person, grant)
}

#[tokio::test]
async fn what_comes_changes_and_goes_is_told_and_hidden_things_are_not() {
    let world = world().await;
    let (namespace, person, _) = start(world, "told").await;
    let hidden = world.cluster.namespace("told-hidden").await;
    let mut stream = Stream::open(&person, "kind:ConfigMap", None).await;
    assert_eq!(stream.next().await.unwrap().kind, "ready");
    make_map(world.cluster, &hidden, "secret", &[]).await;
    make_map(world.cluster, &namespace, "second", &[("text", "body-canary")]).await;
    let told = stream.until("changed", "second").await;
    assert_eq!((&told.data["namespace"], &told.data["cluster"]), (&json!(namespace), &json!("local")));
    assert!(!told.data.to_string().contains("body-canary"), "bodies are not told");
    delete_map(world.cluster, &hidden, "secret").await;
    let label = json!({ "metadata": { "labels": { "changed": "yes" } } });
    let patch = kube::api::Patch::Merge(label);
    maps_of(world.cluster, &namespace).patch("second", &kube::api::PatchParams::default(), &patch).await.unwrap();
    assert_eq!(stream.until("changed", "second").await.data["labels"]["changed"], "yes");
    delete_map(world.cluster, &namespace, "second").await;
    let gone = stream.until("gone", "second").await;
    assert_eq!(gone.data["id"], format!("local/{namespace}//v1/ConfigMap/second"));
    // Everything before it has come: nothing of the other namespace was among it.
    make_map(world.cluster, &namespace, "last", &[]).await;
    loop {
        let event = stream.next().await.unwrap();
        assert_eq!(event.data["namespace"], namespace.as_str(), "{event:?}");
        if event.data["name"] == "last" {
            break;
        }
    }
}

#[tokio::test]
async fn a_filter_is_followed_and_what_leaves_it_is_gone() {
    let world = world().await;
    let (namespace, person, _) = start(world, "filter").await;
    let mut stream = Stream::open(&person, &format!("{} label.show=yes", own(&namespace)), None).await;
    assert_eq!(stream.next().await.unwrap().kind, "ready");
    let label = |value: Option<&str>| kube::api::Patch::Merge(json!({ "metadata": { "labels": { "show": value } } }));
    let maps = maps_of(world.cluster, &namespace);
    maps.patch("first", &kube::api::PatchParams::default(), &label(Some("yes"))).await.unwrap();
    stream.until("changed", "first").await;
    maps.patch("first", &kube::api::PatchParams::default(), &label(None)).await.unwrap();
    stream.until("gone", "first").await;
}

#[tokio::test]
async fn revoked_rows_are_gone_within_two_seconds_and_granted_ones_are_told() {
    let world = world().await;
    let (namespace, person, grant) = start(world, "revoked").await;
    let mut stream = Stream::open(&person, &own(&namespace), None).await;
    assert_eq!(stream.next().await.unwrap().kind, "ready");
    world.cluster.remove_binding(&grant).await;
    let removed = Instant::now();
    stream.until("gone", "first").await;
    let took = removed.elapsed();
    super::show("gone", took);
    if scale().is_full() {
        assert!(took <= super::SOON, "{took:?}");
    }
    let account = [subject::service_account(&namespace, "jane")];
    world.cluster.bind(Scope::Namespace(&namespace), testbed::role::namespaced(&grant.role), &account).await;
    stream.until("changed", "first").await;
}

#[tokio::test]
async fn a_broken_stream_goes_on_where_it_was_for_its_owner_and_nobody_else() {
    let world = world().await;
    let (namespace, person, _) = start(world, "resume").await;
    let query = own(&namespace);
    let mut stream = Stream::open(&person, &query, None).await;
    let ready = stream.next().await.unwrap();
    make_map(world.cluster, &namespace, "second", &[]).await;
    let second = stream.until("changed", "second").await;
    drop(stream);
    delete_map(world.cluster, &namespace, "second").await;
    make_map(world.cluster, &namespace, "third", &[]).await;
    person.sees(&query, &["first", "third"]).await;

    // What happened meanwhile comes, and what was told before the break does not.
    let mut stream = eventually(PATIENCE, || async {
        let mut stream = Stream::open(&person, &query, Some(&second.id)).await;
        // The server may not have noticed the break yet.
        let first = stream.next().await.unwrap();
        if first.kind == "reset" {
            return None;
        }
        stream.waiting.push_front(first);
        Some(stream)
    })
    .await;
    let mut told = [stream.next().await.unwrap(), stream.next().await.unwrap()];
    told.sort_by(|one, other| one.kind.cmp(&other.kind));
    let told: Vec<(&str, &Value)> = told.iter().map(|event| (event.kind.as_str(), &event.data["name"])).collect();
    assert_eq!(told, [("changed", &json!("third")), ("gone", &json!("second"))]);
    drop(stream);

    // Whoever is somebody else, asks for something else, or comes with an id that means nothing reads all again.
    let other = world.reader(&namespace, "jim", &[""], &["configmaps"]).await;
    other.sees(&query, &["first", "third"]).await;
    assert_eq!(Stream::open(&other, &query, Some(&ready.id)).await.next().await.unwrap().kind, "reset");
    assert_eq!(Stream::open(&person, "kind:Pod", Some(&ready.id)).await.next().await.unwrap().kind, "reset");
    assert_eq!(Stream::open(&person, &query, Some("nonsense")).await.next().await.unwrap().kind, "ready");
    let unknown = format!("{}.7", uuid::Uuid::new_v4().simple());
    assert_eq!(Stream::open(&person, &query, Some(&unknown)).await.next().await.unwrap().kind, "reset");
}

// The end of a connection needs its client, while this test waits for the process.
#[tokio::test(flavor = "multi_thread")]
async fn a_stream_ends_with_the_identity_and_with_the_server() {
    let world = world().await;
    let (namespace, person, _) = start(world, "ends").await;
    let mut stream = Stream::open(&person, &own(&namespace), None).await;
    assert_eq!(stream.next().await.unwrap().kind, "ready");
    let accounts: Api<ServiceAccount> = Api::namespaced(world.cluster.client(), &namespace);
    accounts.delete("jane", &DeleteParams::default()).await.unwrap();
    let end = stream.until("end", "").await;
    assert!(end.data["reason"].as_str().unwrap().contains("credentials"), "{end:?}");
    assert!(stream.next().await.is_none(), "and then nothing");

    let cluster = world.cluster;
    let mut server = beside(cluster).await.serve();
    let jim = world.reader(&namespace, "jim", &[""], &["configmaps"]).await;
    let request = server.request("GET", "/v1/changes").bearer_auth(&jim.token);
    let mut response = request.send().await.unwrap();
    assert_eq!(response.status().as_u16(), 200);
    response.chunk().await.unwrap();
    let stopped = Instant::now();
    server.process.signal(rustix::process::Signal::TERM);
    assert!(server.process.wait(PATIENCE).unwrap().success(), "{}", server.process.log());
    if scale().is_full() {
        let took = stopped.elapsed();
        assert!(took < Duration::from_secs(18), "those who follow hold the server up: {took:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_ends_because_nobody_can_vouch_for_its_caller_says_so() {
    let cluster = world().await.cluster;
    let toxiproxy = Toxiproxy::start().unwrap();
    let proxy = toxiproxy.proxy(cluster.url().trim_start_matches("https://")).await.unwrap();
    let kubeconfig = collector(cluster).await.with_server(&format!("https://{}", proxy.address));
    let server: &'static crate::server::Server =
        Box::leak(Box::new(Start::new().collecting(&kubeconfig, KINDS).tls().serve()));
    let world = World { server, cluster };
    let (namespace, person, _) = start(world, "unvouched").await;
    let mut stream = Stream::open(&person, &own(&namespace), None).await;
    assert_eq!(stream.next().await.unwrap().kind, "ready");
    proxy.cut().await.unwrap();
    let end = stream.until("end", "").await;
    let reason = end.data["reason"].as_str().unwrap();
    assert!(reason.contains("nobody can tell now"), "{reason}");
    proxy.heal().await.unwrap();
    eventually(PATIENCE, || async { person.get("/v1/facets").await.0 == 200 }).await;
}

#[tokio::test]
async fn more_than_can_be_told_at_once_is_a_reset() {
    let world = world().await;
    let namespace = world.cluster.namespace("many").await;
    // One more than is told in one go.
    let maps: Vec<String> = (0..1001).map(|number| format!("many-{number:04}")).collect();
    for maps in maps.chunks(50) {
        futures::future::join_all(maps.iter().map(|name| make_map(world.cluster, &namespace, name, &[]))).await;
    }
    let admin = world.admin().await;
    eventually(PATIENCE, || async { admin.total(&own(&namespace)).await == 1001 }).await;
    let person = world.nobody(&namespace, "jane").await;
    let mut stream = Stream::open(&person, &own(&namespace), None).await;
    assert_eq!(stream.next().await.unwrap().kind, "ready");
    let account = [subject::service_account(&namespace, "jane")];
    let rules = [rule(&["list"], &[""], &["configmaps"])];
    let grant = world.cluster.grant(Scope::Namespace(&namespace), &account, &rules).await;
    assert_eq!(stream.next().await.unwrap().kind, "reset");
    // From then on it is told row by row again.
    make_map(world.cluster, &namespace, "later", &[]).await;
    stream.until("changed", "later").await;
    world.cluster.remove_binding(&grant).await;
    assert_eq!(stream.until("reset", "").await.data, json!({}));
}

#[tokio::test]
async fn no_more_follow_than_the_setting_says() {
    let cluster = world().await.cluster;
    let start = beside(cluster).await.flag("--explorer-followers", "1");
    let server: &'static crate::server::Server = Box::leak(Box::new(start.serve()));
    let world = World { server, cluster };
    let (namespace, person, _) = self::start(world, "followers").await;
    let mut stream = Stream::open(&person, &own(&namespace), None).await;
    assert_eq!(stream.next().await.unwrap().kind, "ready");
    let (status, text) = person.get("/v1/changes").await;
    assert_eq!(status, 429, "{text}");
    drop(stream);
    eventually(PATIENCE, || async {
        let response = person.request("GET", "/v1/changes").send().await.unwrap();
        response.status().as_u16() == 200
    })
    .await;
}

#[tokio::test]
async fn what_waits_for_a_slow_reader_is_not_told_to_whoever_lost_it_meanwhile() {
    let world = world().await;
    let namespace = world.cluster.namespace("slow").await;
    let person = world.nobody(&namespace, "jane").await;
    let admin = world.admin().await;
    // More than fits between a server and a client that reads nothing: half a megabyte of labels each.
    let (count, prefix) = (80, ["p"; 4].map(|letter| letter.repeat(60)).join("."));
    let label = |number: usize| (format!("{prefix}/label-{number:04}-{}", "n".repeat(50)), json!("v".repeat(63)));
    let labels: serde_json::Map<String, Value> = (0..1_300).map(label).collect();
    let kind = ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk("explore.example", "v1", "Gadget"), "gadgets");
    let gadgets: Api<DynamicObject> = Api::namespaced_with(world.cluster.client(), &namespace, &kind);
    for number in 0..count {
        let metadata = json!({ "name": format!("gadget-{number}"), "labels": labels });
        let gadget = json!({ "apiVersion": "explore.example/v1", "kind": "Gadget", "metadata": metadata });
        let gadget: DynamicObject = serde_json::from_value(gadget).unwrap();
        gadgets.create(&PostParams::default(), &gadget).await.unwrap();
    }
    let query = format!("ns:\"{namespace}\" kind:Gadget");
    eventually(PATIENCE, || async { total(&admin, &query).await == count }).await;
    let mut stream = Stream::open(&person, &query, None).await;
    assert_eq!(stream.next().await.unwrap().kind, "ready");

    // All rows are told at once, and then the reader reads nothing.
    let rules = [rule(&["list"], &["explore.example"], &["gadgets"])];
    let account = [subject::service_account(&namespace, "jane")];
    let grant = world.cluster.grant(Scope::Namespace(&namespace), &account, &rules).await;
    eventually(PATIENCE, || async { total(&person, &query).await == count }).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    world.cluster.remove_binding(&grant).await;
    eventually(PATIENCE, || async { total(&person, &query).await == 0 }).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let (mut told, mut gone) = (0, std::collections::BTreeSet::new());
    while gone.len() < usize::try_from(count).unwrap() {
        let event = stream.next().await.expect("the stream goes on");
        match event.kind.as_str() {
            "changed" => told += 1,
            "gone" => drop(gone.insert(event.data["name"].as_str().unwrap().to_owned())),
            other => panic!("{other}"),
        }
    }
    // Some were on their way already.
    assert!(told < count / 2, "{told} of {count} rows were told");
}

/// How many rows there are, without reading them.
async fn total(person: &Person, query: &str) -> u64 {
    let answer = person.ask(json!({ "query": query, "limit": 1, "unstructured": false })).await;
    answer["total"].as_u64().unwrap()
}
