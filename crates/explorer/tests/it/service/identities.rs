//! Who somebody of one cluster is in another.

use std::collections::BTreeMap;

use access::{Identity, Source};
use explorer::Explorer;
use explorer::service::{Crossing, Mapping, Person, Principal, Rules};
use testbed::{Cluster, Scope, eventually, rule, subject};

use super::maps::Maps;
use super::world::{HOME, LIMIT, Place, added, found, local, reader, second, somebody, synced};

#[tokio::test(flavor = "multi_thread")]
async fn an_identity_counts_elsewhere_only_as_the_rules_of_that_cluster_say() {
    let (home, leaf) = (Cluster::shared().await, second().await);
    let here = Maps::new(home, HOME, "identity").await;
    let there = Maps::new(leaf, "leaf", "identity").await;
    here.create("one").await;
    there.create("one").await;
    let account = format!("system:serviceaccount:{}:robot", here.namespace);
    // Everybody who is named may read everywhere, in both clusters: only who they are there decides.
    let subjects = [
        subject::user("jane"),
        subject::user("j.doe"),
        subject::user("robot"),
        subject::group("dev"),
        subject::group("developers"),
        subject::service_account(&here.namespace, "robot"),
        subject::group("system:serviceaccounts"),
        subject::group("system:cluster-readers"),
    ];
    let rules = [rule(&["list"], &[""], &["configmaps"])];
    for cluster in [home, leaf] {
        cluster.grant(Scope::Cluster, &subjects, &rules).await;
    }
    let mut options = Place::new().options(&["v1/ConfigMap"]).await;
    let person = |user: Option<&str>, groups: &[&str]| Person {
        user: user.map(str::to_owned),
        groups: groups.iter().map(|&group| group.to_owned()).collect(),
    };
    let tokens = BTreeMap::from([("ci".to_owned(), person(Some("robot"), &[]))]);
    let mut own = local(&reader(home));
    own.tokens.clone_from(&tokens);
    options.local = Some(own);
    let explorer = Explorer::open(options).await.unwrap();

    let nobody = somebody(Source::TokenReview, "nobody", &[]);
    let jane = somebody(Source::TokenReview, "jane", &[]);
    let developer = somebody(Source::TokenReview, "jim", &["dev"]);
    let robot = somebody(Source::TokenReview, &account, &["system:serviceaccounts"]);
    let reads_all = somebody(Source::Certificate, "jo", &["system:cluster-readers"]);
    let token = somebody(Source::StaticToken, "ci", &[]);
    let other_token = somebody(Source::StaticToken, "jane", &["dev"]);
    let map = Crossing::Map(vec![
        Mapping { from: Principal::User("jane".to_owned()), person: person(Some("j.doe"), &[]) },
        Mapping { from: Principal::Group("dev".to_owned()), person: person(None, &["developers"]) },
    ]);
    // Who sees the rows of the other cluster; at home the rules of the other change nothing.
    let table: [(Crossing, &[&Identity], &[&Identity]); 3] = [
        (Crossing::None, &[&token], &[&jane, &developer, &robot, &reads_all, &nobody, &other_token]),
        (Crossing::Shared, &[&jane, &developer, &token], &[&robot, &reads_all, &nobody, &other_token]),
        (map, &[&jane, &developer, &token], &[&robot, &reads_all, &nobody, &other_token]),
    ];
    let sees = |identity: &Identity, maps: &Maps| {
        let (explorer, identity, maps) = (explorer.clone(), identity.clone(), maps.clone());
        async move {
            let text = format!("cluster:{} ns:{} name:one", maps.cluster, maps.namespace);
            found(&explorer, &identity, &text).await.len() == 1
        }
    };
    for (identity, in_it, out_of_it) in table {
        let rules = Rules { identity: identity.clone(), tokens: tokens.clone(), ..Rules::default() };
        explorer.add_cluster(added("leaf", &reader(leaf), rules)).await.unwrap();
        synced(&explorer, "leaf", 1).await;
        for who in in_it {
            eventually(LIMIT, || sees(who, &there)).await;
        }
        for who in out_of_it {
            assert!(!sees(who, &there).await, "{identity:?}: {who:?}");
        }
        for who in [&jane, &developer, &robot, &reads_all, &token] {
            eventually(LIMIT, || sees(who, &here)).await;
        }
        for who in [&nobody, &other_token] {
            assert!(!sees(who, &here).await, "{who:?}");
        }
    }
    assert_eq!(explorer.who_in("leaf", &jane).unwrap().user, "j.doe");
    assert_eq!(explorer.who_in("leaf", &robot), None);
    explorer.close().await;
}
