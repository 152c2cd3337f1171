//! A namespace that ends takes its objects, in whatever order, and nothing else.

use std::time::Duration;

use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use testbed::{Cluster, eventually, scale, seed};
use watch::{Key, Source};

use crate::consumer::{Consumer, keys, known};
use crate::mirror::Mirror;
use crate::objects::{Maps, admin};

#[tokio::test(flavor = "multi_thread")]
async fn a_namespace_that_is_deleted_takes_its_objects_and_no_others() {
    let cluster = Cluster::shared().await;
    let mut random = fastrand::Rng::with_seed(seed("watch namespace"));
    let (keys, mirror) = (keys().await, Mirror::default());
    let source = |maps: &Maps| {
        let names = format!("team={}", maps.namespace);
        Source { namespace: None, labels: Some(names), ..maps.source(admin(cluster)) }
    };
    for _ in 0..scale().of(2, 20) {
        let (stays, goes) = (Maps::new(cluster, "stays").await, Maps::new(cluster, "goes").await);
        for maps in [&stays, &goes] {
            maps.create_many(10).await;
            for number in 0..10 {
                let patch = serde_json::json!({"metadata": {"labels": {"team": stays.namespace}}});
                let patch = Patch::Merge(patch);
                maps.api.patch(&format!("many-{number}"), &PatchParams::default(), &patch).await.unwrap();
            }
        }
        let mut consumer = Consumer::start(&keys, source(&stays), &mirror).await;
        let limit = Duration::from_mins(3);
        eventually(limit, || async { mirror.rows().len() == 20 }).await;
        let namespaces: Api<Namespace> = Api::all(cluster.client());
        namespaces.delete(&goes.namespace, &DeleteParams::default()).await.unwrap();
        if random.bool() {
            consumer.stop().await;
            testbed::wait_until_gone(&namespaces, &goes.namespace, limit).await;
            consumer = Consumer::start(&keys, source(&stays), &mirror).await;
        }
        eventually(limit, || async { mirror.rows().len() == 10 }).await;
        assert!(mirror.rows().keys().all(|key: &Key| *key.namespace == stays.namespace));
        eventually(limit, || async { known(&keys).await == 10 }).await;
        consumer.stop().await;
        mirror.nothing_is_wrong();
    }
}
