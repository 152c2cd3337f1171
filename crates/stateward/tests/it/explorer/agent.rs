//! What the collector does at the API server, as its audit log has it.

use testbed::{Scope, rule, subject};

use super::{KINDS, World, own, world};
use crate::server::{Server, Start};

#[tokio::test]
async fn what_is_collected_goes_by_the_name_of_the_collector_and_is_only_read() {
    let cluster = world().await.cluster;
    let collector = cluster.service_account_with_auth_delegator().await;
    let account = subject::service_account(&collector.namespace, collector.username.rsplit(':').next().unwrap());
    let everything = rule(&["get", "list", "watch"], &["*"], &["*"]);
    cluster.grant(Scope::Cluster, &[account], &[everything]).await;
    let start = Start::new().collecting(&collector.kubeconfig, KINDS).tls();
    let server: &'static Server = Box::leak(Box::new(start.serve()));
    let world = World { server, cluster };
    let namespace = cluster.namespace("agent").await;
    world.maps(&namespace, &["one"]).await;
    let person = world.reader(&namespace, "jane", &[""], &["configmaps"]).await;
    person.sees(&own(&namespace), &["one"]).await;

    let asked = cluster.audit_events(|event| event.user == collector.username).await;
    let (collected, beside): (Vec<_>, Vec<_>) =
        asked.into_iter().partition(|event| event.agent == concat!("stateward-collector/", env!("CARGO_PKG_VERSION")));
    let reads = |event: &testbed::AuditEvent| ["get", "list", "watch"].contains(&event.verb.as_str());
    let others: Vec<_> = collected.iter().filter(|event| !reads(event)).collect();
    assert!(others.is_empty(), "{others:?}");
    for resource in ["configmaps", "helmreleases", "namespaces", "rolebindings", "secrets"] {
        let watched = collected.iter().any(|event| event.resource == resource && event.verb == "watch");
        assert!(watched, "{resource} is not followed by that name");
    }
    // The reviews of callers are there, and nothing that follows.
    assert!(beside.iter().any(testbed::AuditEvent::is_token_review), "{beside:?}");
    let followed: Vec<_> = beside.iter().filter(|event| ["list", "watch"].contains(&event.verb.as_str())).collect();
    assert!(followed.is_empty(), "{followed:?}");
}
