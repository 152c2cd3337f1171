//! What the collector does and keeps: it reads, and nothing of a Secret but its names.

use explorer::Explorer;
use explorer::query::Query;
use explorer::service::{Authorizer, Rules};
use serde_json::json;
use testbed::{Cluster, Scope, eventually, rule, subject};

use super::world::{HOME, LIMIT, Place, added, bytes, found, local, master, second, somebody, synced};
use access::Source;

const CANARY: &str = "canary7e1c";

/// In data, in an annotation and in what kubectl leaves behind.
fn manifest(kind: &str, namespace: &str) -> String {
    let metadata = json!({
        "name": "hidden", "namespace": namespace, "labels": {"shown": "label"},
        "annotations": {
            "copied.example.com/data": format!("{CANARY}annotation"),
            "kubectl.kubernetes.io/last-applied-configuration": format!("{CANARY}applied"),
        },
    });
    let data = if kind == "Secret" { "stringData" } else { "data" };
    json!({"apiVersion": "v1", "kind": kind, "metadata": metadata, data: {"password": format!("{CANARY}data")}})
        .to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn only_get_list_and_watch_are_used_and_nothing_of_a_secret_is_kept_but_its_names() {
    let cluster = Cluster::shared().await;
    let namespace = cluster.namespace("rights").await;
    let name = format!("collector-{namespace}");
    let user = cluster.user(&name, &[]);
    // No more than the documentation asks for.
    let verbs = ["get", "list", "watch"];
    let rules = [
        rule(&verbs, &[""], &["configmaps", "secrets", "namespaces"]),
        rule(&verbs, &["rbac.authorization.k8s.io"], &["roles", "rolebindings", "clusterroles", "clusterrolebindings"]),
    ];
    cluster.grant(Scope::Cluster, &[subject::user(&name)], &rules).await;
    for kind in ["Secret", "ConfigMap"] {
        cluster.apply(&manifest(kind, &namespace)).await;
    }
    let place = Place::new();
    let mut options = place.options(&["v1/ConfigMap", "v1/Secret"]).await;
    options.local = Some(local(user.kubeconfig()));
    let explorer = Explorer::open(options).await.unwrap();
    synced(&explorer, HOME, 2).await;

    let at = format!("{HOME}/{namespace}/hidden");
    let visibility = explorer.visibility(&master()).await;
    let query = Query::parse(&format!("ns:{namespace} name:hidden")).unwrap();
    let page = explorer.read(|index| index.query(&query, &visibility));
    assert_eq!(page.total, 2);
    for row in page.rows {
        let body = explorer.body(&row.row.key, &visibility).await.unwrap().unwrap();
        assert!(!body.contains("managedFields") && !body.contains(&format!("{CANARY}applied")), "{body}");
        assert_eq!(body.contains(CANARY), row.row.key.kind == "ConfigMap", "{body}");
        assert!(body.contains("label"), "{body}");
    }
    // The words of the ConfigMap are found, so that it would be seen if those of the Secret were there.
    for word in ["data", "annotation"] {
        assert_eq!(found(&explorer, &master(), &format!("kind:ConfigMap {CANARY}{word}")).await.len(), 1, "{word}");
        assert_eq!(found(&explorer, &master(), &format!("kind:Secret {CANARY}{word}")).await.len(), 0, "{word}");
    }
    assert_eq!(found(&explorer, &master(), &format!("{CANARY}applied")).await.len(), 0);
    assert!(found(&explorer, &master(), "kind:Secret hidden").await.contains(&at));
    explorer.close().await;
    assert!(
        !String::from_utf8_lossy(&bytes(&place.copy())).contains(CANARY),
        "heads are plain text and hold no canary"
    );
    let mode = std::os::unix::fs::MetadataExt::mode(&std::fs::metadata(place.copy()).unwrap()) & 0o777;
    assert_eq!(mode, 0o600);

    let all = cluster.audit_events(|event| event.user == name).await;
    let others: Vec<_> = all.iter().filter(|event| !verbs.contains(&event.verb.as_str())).collect();
    assert!(others.is_empty(), "{others:?}");
    let kinds = ["clusterrolebindings", "clusterroles", "configmaps", "namespaces", "rolebindings", "roles", "secrets"];
    let followed = ["list", "watch"].into_iter().flat_map(|verb| kinds.map(|kind| format!("{verb} {kind}")));
    let expected: Vec<String> = ["get namespaces".to_owned()].into_iter().chain(followed).collect();
    assert_eq!(cluster.verbs_used_by(&name).await, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_with_reviews_is_asked_by_reviews_and_nothing_else_beyond_reading() {
    let (home, leaf) = (Cluster::shared().await, second().await);
    let namespaces = [leaf.namespace("review").await, leaf.namespace("review").await];
    let name = format!("collector-{}", namespaces[0]);
    let user = leaf.user(&name, &[]);
    let rules = [
        rule(&["get", "list", "watch"], &[""], &["configmaps", "namespaces"]),
        rule(&["create"], &["authorization.k8s.io"], &["subjectaccessreviews"]),
    ];
    leaf.grant(Scope::Cluster, &[subject::user(&name)], &rules).await;
    for namespace in &namespaces {
        leaf.apply(&manifest("ConfigMap", namespace)).await;
    }
    let mut options = Place::new().options(&["v1/ConfigMap"]).await;
    options.local = Some(local(&super::world::reader(home)));
    options.settings.review_ttl = std::time::Duration::from_secs(1);
    let explorer = Explorer::open(options).await.unwrap();
    let rules =
        Rules { identity: explorer::service::Crossing::Shared, authorizer: Authorizer::Review, ..Rules::default() };
    explorer.add_cluster(added("leaf", user.kubeconfig(), rules)).await.unwrap();
    synced(&explorer, "leaf", 1).await;
    let jane = somebody(Source::TokenReview, &format!("jane-{name}"), &[]);
    let text = "cluster:leaf kind:ConfigMap name:hidden";
    assert_eq!(found(&explorer, &jane, text).await.len(), 0);
    let subjects = [subject::user(&jane.user)];
    let may = [rule(&["list"], &[""], &["configmaps"])];
    let grant = leaf.grant(Scope::Namespace(&namespaces[0]), &subjects, &may).await;
    let at = format!("leaf/{}/hidden", namespaces[0]);
    eventually(LIMIT, || async { found(&explorer, &jane, text).await.iter().eq([&at]) }).await;
    // A name alone grants no row here.
    let mut named = rule(&["list", "get"], &[""], &["configmaps"]);
    named.resource_names = Some(vec!["hidden".to_owned()]);
    leaf.bind_rules(Scope::Namespace(&namespaces[1]), &subjects, &[named]).await;
    leaf.remove_binding(&grant).await;
    eventually(LIMIT, || async { found(&explorer, &jane, text).await.is_empty() }).await;
    assert!(explorer.policy("leaf", |_| ()).is_err(), "there is no policy to explain");
    explorer.close().await;

    let verbs = leaf.verbs_used_by(&name).await;
    let expected = [
        "create subjectaccessreviews",
        "get namespaces",
        "list configmaps",
        "list namespaces",
        "watch configmaps",
        "watch namespaces",
    ];
    assert_eq!(verbs, expected);
}
