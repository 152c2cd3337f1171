//! A read by key tells what the watch has not told yet; a read that fails tells nothing.

use std::time::Duration;

use http::{Method, StatusCode};
use kube::Api;
use kube::api::{ApiResource, DeleteParams, DynamicObject, PostParams};
use kube::core::GroupVersionKind;
use serde_json::{Value, json};
use testbed::faults::{Fault, Proxy, Rule};
use testbed::{Cluster, eventually, scale, seed};
use watch::{Error, Fetched, Key, Settings, Source, Why};

use crate::consumer::{Consumer, LIMIT, Manner, keys, known, quick};
use crate::mirror::Mirror;
use crate::objects::{Maps, proxied};

/// Watches fail, so that only fetches tell; lists of one by name are left alone.
fn deafen(proxy: &Proxy) {
    proxy.add(Rule::new(Fault::status(StatusCode::SERVICE_UNAVAILABLE)).path("watch=true"));
}

/// Of kinds with and without finalizers, namespaces and bodies: what makes one of them.
fn kinds() -> Vec<(&'static str, &'static str, &'static str, Value)> {
    let role = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"});
    let rbac = "rbac.authorization.k8s.io";
    vec![
        ("", "ConfigMap", "v1", json!({})),
        ("", "Secret", "v1", json!({})),
        ("", "ServiceAccount", "v1", json!({})),
        (rbac, "Role", "v1", json!({"rules": []})),
        (rbac, "RoleBinding", "v1", json!({"roleRef": role, "subjects": []})),
        (rbac, "ClusterRole", "v1", json!({"rules": []})),
        (rbac, "ClusterRoleBinding", "v1", json!({"roleRef": role, "subjects": []})),
        ("coordination.k8s.io", "Lease", "v1", json!({})),
        ("apps", "Deployment", "v1", deployment()),
    ]
}

fn deployment() -> Value {
    let labels = json!({"a": "b"});
    let spec = json!({"containers": [{"name": "c", "image": "i"}]});
    let template = json!({"metadata": {"labels": labels}, "spec": spec});
    json!({"spec": {"selector": {"matchLabels": labels}, "template": template}})
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_that_is_not_found_is_deleted_whatever_its_kind() {
    let cluster = Cluster::shared().await;
    let mut random = fastrand::Rng::with_seed(seed("watch fetch kinds"));
    for _ in 0..scale().of(1, 20) {
        let namespace = cluster.namespace("fetch").await;
        let each = kinds().into_iter().map(|kind| goes_unnoticed(cluster, &namespace, kind, random.fork()));
        futures::future::join_all(each).await;
    }
}

/// An object goes while only fetches tell, between others of the kind that come, change and are asked for.
async fn goes_unnoticed(
    cluster: &Cluster,
    namespace: &str,
    (group, kind, version, body): (&'static str, &'static str, &'static str, Value),
    mut random: fastrand::Rng,
) {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
    let scoped = !kind.starts_with("Cluster");
    let named = |name: &str| if scoped { name.to_owned() } else { format!("{namespace}-{name}") };
    let name = named("gone");
    let api: Api<DynamicObject> = if scoped {
        Api::namespaced_with(cluster.client(), namespace, &resource)
    } else {
        Api::all_with(cluster.client(), &resource)
    };
    let make = |name: String| {
        let object = DynamicObject::new(&name, &resource).data(body.clone());
        let api = api.clone();
        async move {
            let made = api.create(&PostParams::default(), &object).await;
            made.unwrap_or_else(|error| panic!("{kind}: {error}"))
        }
    };
    let key_of = |name: &str| Key::new(if scoped { namespace } else { "" }, name);
    let (made, key) = (make(name.clone()).await, key_of(&name));

    let (proxy, client) = proxied(cluster);
    deafen(&proxy);
    if random.bool() {
        let late = Fault::DelayAnswer(Duration::from_millis(random.u64(1..100)));
        proxy.add(Rule::new(late).path("metadata.name"));
    }
    let source =
        Source { namespace: scoped.then(|| namespace.to_owned()), ..Source::new("here", client, resource.clone()) };
    let (keys, mirror) = (keys().await, Mirror::default());
    let settings = Settings { watch: Duration::from_secs(3), ..quick() };
    let consumer = Consumer::start_as(&keys, source, &mirror, settings, Manner::Careful).await;
    eventually(LIMIT, || async { mirror.rows().contains_key(&key) }).await;
    if random.bool() {
        assert_eq!(consumer.handle.fetch(&key).await.unwrap(), Fetched::Present, "{kind}");
    }
    // Others come before, between and after: what is fetched of them says nothing of this one.
    let mut others = Vec::new();
    for step in 0..3 {
        if step == 1 {
            api.delete(&name, &DeleteParams::default()).await.unwrap();
            eventually(LIMIT, || async { api.get_opt(&name).await.unwrap().is_none() }).await;
        }
        for _ in 0..random.usize(..3) {
            let other = named(&format!("other-{}", others.len()));
            make(other.clone()).await;
            if random.bool() {
                assert_eq!(consumer.handle.fetch(&key_of(&other)).await.unwrap(), Fetched::Present, "{kind}");
            }
            others.push(other);
        }
        if step == 1 {
            assert!(mirror.rows().contains_key(&key), "{kind}: the watch tells nothing");
            assert_eq!(consumer.handle.fetch(&key).await.unwrap(), Fetched::Absent, "{kind}");
        }
    }
    eventually(LIMIT, || async { !mirror.rows().contains_key(&key) }).await;
    let told = mirror.seen().deleted.clone();
    assert_eq!(told.len(), 1, "{kind}");
    assert_eq!(told[0].1.as_ref().map(watch::Uid::as_str), made.metadata.uid.as_deref(), "{kind}");
    let minimal = watch::Deleted { key: key.clone(), uid: told[0].1.clone(), last: None }.minimal(&resource);
    assert_eq!(minimal.types.unwrap().kind, kind);

    // Nobody ever knew it: still a minimal deletion.
    let unknown = Key::new(&key.namespace, "never-was");
    assert_eq!(consumer.handle.fetch(&unknown).await.unwrap(), Fetched::Absent, "{kind}");
    eventually(LIMIT, || async { mirror.seen().deleted.last().is_some_and(|(last, _)| *last == unknown) }).await;
    assert_eq!(mirror.seen().deleted.last().unwrap().1, None);

    // The watch comes back and tells of the same end: nothing is resurrected, and nothing else is gone.
    proxy.clear();
    consumer.synced().await;
    let watches = consumer.handle.figures().watches;
    eventually(LIMIT, || async { consumer.handle.figures().watches > watches }).await;
    eventually(LIMIT, || async { others.iter().all(|other| mirror.rows().contains_key(&key_of(other))) }).await;
    assert!(!mirror.rows().contains_key(&key), "{kind}");
    mirror.nothing_is_wrong();
    if !scoped {
        // Whoever counts what is in the whole cluster is not to find these.
        for other in others {
            api.delete(&other, &DeleteParams::default()).await.unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn refusals_failures_and_silence_delete_nothing() {
    let cluster = Cluster::shared().await;
    let mut random = fastrand::Rng::with_seed(seed("watch fetch faults"));
    for _ in 0..scale().of(1, 20) {
        are_no_deletion(cluster, &mut random).await;
    }
}

/// Each fault, in any order, among changes of other objects.
async fn are_no_deletion(cluster: &Cluster, random: &mut fastrand::Rng) {
    let maps = Maps::new(cluster, "failures").await;
    maps.create("gone").await;
    let (proxy, client) = proxied(cluster);
    deafen(&proxy);
    let (keys, mirror) = (keys().await, Mirror::default());
    let settings = Settings { deadline: Duration::from_secs(2), ..quick() };
    let consumer = Consumer::start_as(&keys, maps.source(client), &mirror, settings, Manner::Careful).await;
    let key = Key::new(&maps.namespace, "gone");
    eventually(LIMIT, || async { mirror.rows().contains_key(&key) }).await;
    maps.delete("gone").await;
    let status = |code| Fault::status(StatusCode::from_u16(code).unwrap());
    let mut table = [
        (status(401), Why::Unauthorized),
        (status(403), Why::Forbidden),
        // A path that is not found is no object that is not found.
        (status(404), Why::NotServed),
        (status(410), Why::Failing),
        (status(422), Why::Refused),
        (Fault::too_many_requests(1), Why::Busy),
        (status(500), Why::Failing),
        (status(502), Why::Failing),
        (status(503), Why::Failing),
        (status(504), Why::Failing),
        (Fault::LoseRequest, Why::Unreachable),
        (Fault::LoseAnswer, Why::Unreachable),
        (Fault::DelayAnswer(Duration::from_secs(4)), Why::Unreachable),
        (Fault::DelayRequest(Duration::from_secs(4)), Why::Unreachable),
        // An answer that is none.
        (status(200), Why::Unreadable),
    ];
    random.shuffle(&mut table);
    for (fault, expected) in table {
        if random.bool() {
            maps.steps(random, 5, 3).await;
        }
        let shown = format!("{fault:?}");
        proxy.clear();
        deafen(&proxy);
        proxy.add(Rule::new(fault).method(Method::GET).path("metadata.name"));
        let fetched = consumer.handle.fetch(&key).await;
        assert!(matches!(fetched, Err(Error::Fetch(why)) if why == expected), "{shown}: {fetched:?}");
        assert!(mirror.rows().contains_key(&key) && mirror.seen().deleted.is_empty(), "{shown}");
    }
    proxy.clear();
    deafen(&proxy);
    assert_eq!(consumer.handle.fetch(&key).await.unwrap(), Fetched::Absent);
    eventually(LIMIT, || async { !mirror.rows().contains_key(&key) }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn fetches_among_changes_never_turn_the_order_around() {
    let cluster = Cluster::shared().await;
    let mut random = fastrand::Rng::with_seed(seed("watch fetch"));
    for _ in 0..scale().of(2, 20) {
        let maps = Maps::new(cluster, "race").await;
        // Watches and lists are late, so that fetches run ahead; or fetches are, so that they come too late.
        let (proxy, client) = proxied(cluster);
        let late = Fault::DelayAnswer(Duration::from_millis(random.u64(20..200)));
        proxy.add(Rule::new(late).path(if random.bool() { "watch=true" } else { "metadata.name" }));
        let (keys, mirror) = (keys().await, Mirror::default());
        let settings = Settings { watch: Duration::from_secs(1), grace: Duration::from_secs(5), ..quick() };
        let consumer = Consumer::start_as(&keys, maps.source(client), &mirror, settings, Manner::Careful).await;
        let fetching = async {
            for _ in 0..100 {
                let key = Key::new(&maps.namespace, &format!("many-{}", fastrand::u32(..6)));
                consumer.handle.fetch(&key).await.unwrap();
            }
        };
        let changing = maps.steps(&mut random, 6, 150);
        tokio::join!(fetching, changing);
        maps.mirrored(&mirror).await;
        eventually(LIMIT, || async { known(&keys).await == mirror.rows().len() as u64 }).await;
    }
}
