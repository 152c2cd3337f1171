//! A collector that may not look any more keeps what it knows, says so, and uses no verb that it should not.

use testbed::{Cluster, Scope, eventually, rule, scale, seed, subject};
use watch::{Error, Health, Key, Why};

use crate::consumer::{Consumer, LIMIT, keys, known};
use crate::mirror::Mirror;
use crate::objects::Maps;

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_permission_deletes_nothing_and_what_went_is_told_when_it_is_back() {
    let cluster = Cluster::shared().await;
    let mut random = fastrand::Rng::with_seed(seed("watch permission"));
    let name = format!("collector-{}", random.u32(..));
    let user = cluster.user(&name, &[]);
    let rules = [rule(&["list", "watch", "get"], &[""], &["configmaps"])];
    for _ in 0..scale().of(2, 20) {
        let maps = Maps::new(cluster, "permission").await;
        maps.create_many(20).await;
        let (keys, mirror) = (keys().await, Mirror::default());
        let scope = Scope::Namespace(&maps.namespace);
        let grant = cluster.grant(scope, &[subject::user(&name)], &rules).await;
        let consumer = Consumer::start(&keys, maps.source(user.kubeconfig().plain_client()), &mirror).await;
        maps.mirrored(&mirror).await;
        consumer.synced().await;

        cluster.remove_binding(&grant).await;
        let forbidden = || async { matches!(consumer.health(), Health::Lost { why: Why::Forbidden, .. }) };
        eventually(LIMIT, forbidden).await;
        maps.steps(&mut random, 25, 30).await;
        maps.delete("many-3").await;
        let key = Key::new(&maps.namespace, "many-3");
        let fetched = consumer.handle.fetch(&key).await;
        assert!(matches!(fetched, Err(Error::Fetch(Why::Forbidden))), "{fetched:?}");
        assert_eq!((mirror.rows().len(), mirror.seen().deleted.len()), (21, 0), "rows stay");

        cluster.grant(scope, &[subject::user(&name)], &rules).await;
        maps.mirrored(&mirror).await;
        consumer.synced().await;
        eventually(LIMIT, || async { known(&keys).await == mirror.rows().len() as u64 }).await;
        assert!(!mirror.rows().contains_key(&key));
    }
    let verbs = cluster.verbs_used_by(&name).await;
    assert_eq!(verbs, ["list configmaps", "watch configmaps"]);
    let all = cluster.audit_events(|event| event.user == name).await;
    assert!(all.iter().all(|event| ["get", "list", "watch"].contains(&event.verb.as_str())), "also of no resource");
}
