//! The Lease as a second witness, on a real API server.

use access::audit::{
    Fault, Head, LeaseError, Witness, lease_name, publish_head_to_lease, read_head_from_lease, verify,
};
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use testbed::Cluster;

use super::{Place, act, eventually, files, told};

#[tokio::test]
async fn a_head_in_a_lease_tells_that_log_and_database_were_rolled_back_together() {
    let cluster = Cluster::shared().await;
    let namespace = cluster.namespace("audit").await;
    let place = Place::new("lease");
    let audit = place.open().await;
    let client = cluster.client();
    let instance = audit.instance().to_owned();
    assert_eq!(read_head_from_lease(client.clone(), &namespace, &instance).await.unwrap(), None);
    for name in ["first", "second"] {
        let receipt = audit.commit(act(name)).await.unwrap();
        eventually("the head follows", || audit.head().n == receipt.n).await;
        publish_head_to_lease(client.clone(), &namespace, &instance, audit.head()).await.unwrap();
        let head = read_head_from_lease(client.clone(), &namespace, &instance).await.unwrap();
        assert_eq!(head, Some(audit.head()));
    }
    let lease = Api::<Lease>::namespaced(client.clone(), &namespace).get(&lease_name(&instance)).await.unwrap();
    assert_eq!(lease.spec.unwrap().holder_identity, Some(instance.clone()));
    // A log that ends before what the Lease remembers, or ends otherwise, does not lower it.
    let remembered = audit.head();
    let before = Head { n: remembered.n - 1, ..remembered };
    let other = Head { n: remembered.n, ..Head::NONE };
    for head in [before, other] {
        let refused = publish_head_to_lease(client.clone(), &namespace, &instance, head).await.unwrap_err();
        assert!(matches!(refused, LeaseError::Ahead { known, .. } if known == remembered.n), "{refused}");
        let head = read_head_from_lease(client.clone(), &namespace, &instance).await.unwrap();
        assert_eq!(head, Some(remembered));
    }
    audit.close().await;

    let head = read_head_from_lease(client, &namespace, &instance).await.unwrap().unwrap();
    let heads = [(Witness::Lease, head)];
    let report = verify(&place.directory(), &place.key(), &heads).unwrap();
    assert!(!report.tampered() && report.has(Fault::BeyondHead), "{}", told(&report));
    // Two lines less, and a database that would agree: the Lease remembers.
    let (name, content) = files(&place.directory()).remove(0);
    let kept: String = content.split_inclusive('\n').take(2).collect();
    std::fs::write(place.directory().join(name), kept).unwrap();
    let report = verify(&place.directory(), &place.key(), &heads).unwrap();
    assert!(report.tampered() && report.has(Fault::Truncated), "{}", told(&report));
}
