//! Credentials of added clusters whose key is out of reach for a while.

use access::Source;
use explorer::service::{Crossing, Error, Rules};
use explorer::{Explorer, Index};
use testbed::{Cluster, eventually};

use super::maps::Maps;
use super::world::{LIMIT, Place, added, found, reader, report, second, somebody, synced};

#[tokio::test(flavor = "multi_thread")]
async fn credentials_whose_key_is_out_of_reach_are_tried_again_and_no_other_key_is_made() {
    let cluster = Cluster::shared().await;
    let maps = Maps::new(cluster, "leaf", "keys").await;
    maps.create_many(3).await;
    let place = Place::new();
    let open = || async { Explorer::open(place.options(&["v1/ConfigMap"]).await).await.unwrap() };
    let explorer = open().await;
    let rules = Rules { identity: Crossing::Shared, ..Rules::default() };
    explorer.add_cluster(added("leaf", &reader(cluster), rules.clone())).await.unwrap();
    synced(&explorer, "leaf", 1).await;
    let kept = explorer.read(Index::inventory).values().sum::<u64>();
    explorer.close().await;

    let (key, away) = (place.directory.join("clusters.key"), place.directory.join("away"));
    std::fs::rename(&key, &away).unwrap();
    let explorer = open().await;
    let told = report(&explorer, "leaf").unwrap();
    assert!(told.fault.as_ref().is_some_and(|fault| fault.contains("clusters.key is missing")), "{told:?}");
    let jane = somebody(Source::TokenReview, &format!("jane-{}", maps.namespace), &[]);
    let withheld = explorer.visibility(&jane).await.withheld();
    assert!(withheld.len() == 1 && !withheld[0].reason.contains("clusters.key"), "{withheld:?}: a path of the server");
    assert_eq!(explorer.read(Index::inventory).values().sum::<u64>(), kept, "rows stay");
    // Whoever adds another one now would seal it by a key that opens nothing else.
    let refused = explorer.add_cluster(added("other", &reader(second().await), rules)).await.unwrap_err();
    assert!(matches!(refused, Error::Seal(_)), "{refused}");
    assert!(!key.exists(), "a second key was made");

    std::fs::rename(&away, &key).unwrap();
    eventually(LIMIT, || async {
        let told = report(&explorer, "leaf").unwrap();
        if told.fault.is_none() && told.uid.is_some() { Ok(()) } else { Err(told) }
    })
    .await;
    synced(&explorer, "leaf", 1).await;
    let hers = found(&explorer, &jane, &format!("ns:{}", maps.namespace)).await;
    assert!(hers.is_empty(), "{hers:?}: she is somebody there, and may see nothing");
    maps.create("later").await;
    eventually(LIMIT, || async { explorer.read(Index::inventory).values().sum::<u64>() > kept }).await;
    explorer.close().await;
}
