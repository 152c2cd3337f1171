//! Clusters in which RBAC is not all that decides: a webhook before it allows, denies, has no opinion, or is down.

use std::time::{Duration, Instant};

use access::{Identity, Source};
use explorer::Explorer;
use explorer::service::{Authorizer, Crossing, KindState, Local, Rules};
use serde_json::Value;
use testbed::{Cluster, Direction, Failure, Opinion, Scope, Toxiproxy, Webhook, eventually, rule, subject};

use super::maps::Maps;
use super::world::{HOME, LIMIT, Place, added, finds, found, local, reader, second, somebody, state, synced};

/// What a question is about: verb, resource and namespace.
fn about(spec: &Value) -> (String, String, String) {
    let text = |field: &str| spec["resourceAttributes"][field].as_str().unwrap_or_default().to_owned();
    (text("verb"), text("resource"), text("namespace"))
}

fn judged(name: &str) -> Identity {
    somebody(Source::TokenReview, &format!("judged-{name}"), &["developers"])
}

/// An explorer with this cluster, decided by reviews or by RBAC.
async fn open(cluster: &Cluster, authorizer: Authorizer) -> Explorer {
    let mut options = Place::new().options(&["v1/ConfigMap", "v1/Namespace"]).await;
    options.settings.review_ttl = Duration::from_millis(200);
    let explorer = Explorer::open(options).await.unwrap();
    let rules = Rules { identity: Crossing::Shared, authorizer, ..Rules::default() };
    explorer.add_cluster(added("leaf", &reader(cluster), rules)).await.unwrap();
    synced(&explorer, "leaf", 2).await;
    explorer
}

/// Waits until somebody finds in these namespaces rows, and in no others of the two.
async fn sees(explorer: &Explorer, who: &Identity, maps: &[Maps; 2], expected: [bool; 2]) {
    eventually(LIMIT, || async {
        let mut seen = [false; 2];
        for (seen, maps) in seen.iter_mut().zip(maps) {
            *seen = !found(explorer, who, &format!("ns:{} kind:ConfigMap", maps.namespace)).await.is_empty();
        }
        let withheld = explorer.visibility(who).await.withheld();
        if seen == expected { Ok(()) } else { Err(format!("{seen:?} and not {expected:?}; {withheld:?}")) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_webhook_that_denies_hides_what_rbac_grants_and_one_that_allows_shows_what_it_does_not() {
    let webhook = Webhook::start(|_| Opinion::None);
    let cluster = Cluster::judged_by(&webhook, Failure::Deny).await;
    let maps = [Maps::new(&cluster, "leaf", "one").await, Maps::new(&cluster, "leaf", "two").await];
    for maps in &maps {
        maps.create("map").await;
    }
    let jane = judged("jane");
    let names = [maps[0].namespace.clone(), maps[1].namespace.clone()];
    let [one, two] = names.clone();
    let may = [rule(&["list", "get"], &[""], &["configmaps"])];
    cluster.grant(Scope::Cluster, &[subject::group("developers")], &may).await;
    let (explorer, by_rbac) = (open(&cluster, Authorizer::Review).await, open(&cluster, Authorizer::Rbac).await);
    // By no opinion RBAC decides, and so both ways come to the same.
    sees(&explorer, &jane, &maps, [true, true]).await;
    sees(&by_rbac, &jane, &maps, [true, true]).await;

    // It denies one namespace: the grant for the whole cluster does not help there.
    let denied = one.clone();
    webhook.decide(move |spec| if about(spec).2 == denied { Opinion::Deny } else { Opinion::None });
    sees(&explorer, &jane, &maps, [false, true]).await;
    // Facets, suggestions and totals are of the same rows.
    let sight = explorer.visibility(&jane).await;
    let field = explorer::query::Field::Namespace;
    let suggested = explorer.read(|index| index.suggest(&field, "", 1000, &sight));
    assert!(suggested.iter().any(|found| found.value == two) && suggested.iter().all(|found| found.value != one));
    // Compiled RBAC knows nothing of it: this is why such a cluster needs reviews.
    sees(&by_rbac, &jane, &maps, [true, true]).await;

    // It denies `get` and not `list`: rows without bodies, and no word of a body finds one.
    webhook.decide(|spec| if about(spec).0 == "get" { Opinion::Deny } else { Opinion::None });
    eventually(LIMIT, || async {
        let sight = explorer.visibility(&jane).await;
        let query = explorer::query::Query::parse(&format!("ns:{one} name:map")).unwrap();
        let rows = explorer.read(|index| index.query(&query, &sight)).rows;
        rows.len() == 1 && !rows[0].has_body && explorer.body(&rows[0].row.key, &sight).await.unwrap().is_none()
    })
    .await;
    assert!(found(&explorer, &jane, &format!("ns:{one} Object.data.n:0")).await.is_empty());

    // It allows somebody whom RBAC does not know, in one namespace, and cluster-scoped rows only where it says so.
    let nobody = somebody(Source::TokenReview, "judged-nobody", &[]);
    sees(&explorer, &nobody, &maps, [false, false]).await;
    let allowed = two.clone();
    webhook.decide(move |spec| {
        let (verb, resource, namespace) = about(spec);
        let shown = verb == "list" && resource == "configmaps" && namespace == allowed;
        if shown { Opinion::Allow } else { Opinion::None }
    });
    sees(&explorer, &nobody, &maps, [false, true]).await;
    assert!(found(&explorer, &nobody, "kind:Namespace").await.is_empty());
    webhook.decide(|spec| if about(spec).1 == "namespaces" { Opinion::Allow } else { Opinion::None });
    eventually(LIMIT, || async {
        let seen = found(&explorer, &nobody, "kind:Namespace").await;
        names.iter().all(|name| seen.contains(&format!("leaf//{name}")))
    })
    .await;
    sees(&explorer, &nobody, &maps, [false, false]).await;
    explorer.close().await;
    by_rbac.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_webhook_that_is_down_shows_nothing_where_its_failure_denies_and_is_back_by_itself() {
    let webhook = Webhook::start(|_| Opinion::Allow);
    let cluster = Cluster::judged_by(&webhook, Failure::Deny).await;
    let maps = [Maps::new(&cluster, "leaf", "one").await, Maps::new(&cluster, "leaf", "two").await];
    let explorer = open(&cluster, Authorizer::Review).await;
    let jane = judged("jane");
    sees(&explorer, &jane, &maps, [true, true]).await;
    assert!(explorer.visibility(&jane).await.withheld().is_empty());
    webhook.decide(|_| Opinion::Broken);
    sees(&explorer, &jane, &maps, [false, false]).await;
    // Nobody decided, and so it is not told as if there were nothing.
    let withheld = explorer.visibility(&jane).await.withheld();
    assert!(withheld.len() == 1 && withheld[0].cluster == "leaf", "{withheld:?}");
    webhook.decide(|_| Opinion::Allow);
    sees(&explorer, &jane, &maps, [true, true]).await;

    // The API server itself is away: nobody can be asked, and that is told.
    cluster.stop_api_server().await;
    eventually(LIMIT, || async {
        let withheld = explorer.visibility(&jane).await.withheld();
        if withheld.len() == 1 { Ok(()) } else { Err(format!("{withheld:?}")) }
    })
    .await;
    assert!(found(&explorer, &jane, "").await.is_empty());
    let kept = explorer.read(explorer::Index::inventory).values().sum::<u64>();
    assert!(kept > 0, "nothing is deleted by it");
    cluster.start_api_server().await;
    sees(&explorer, &jane, &maps, [true, true]).await;
    explorer.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_half_open_cluster_that_decides_by_itself_keeps_nobody_waiting() {
    let (home, leaf) = (Cluster::shared().await, second().await);
    let toxiproxy = Toxiproxy::start().unwrap();
    let proxy = toxiproxy.proxy(leaf.url().trim_start_matches("https://")).await.unwrap();
    let (here, there) = (Maps::new(home, HOME, "healthy").await, Maps::new(leaf, "leaf", "silent").await);
    let jane = judged(&here.namespace);
    let may = [rule(&["list", "get"], &[""], &["configmaps"])];
    for (cluster, maps) in [(home, &here), (leaf, &there)] {
        maps.create("map").await;
        cluster.grant(Scope::Namespace(&maps.namespace), &[subject::user(&jane.user)], &may).await;
    }
    let mut options = Place::new().options(&["v1/ConfigMap"]).await;
    options.settings.review_ttl = Duration::from_millis(200);
    options.local = Some(local(&reader(home)));
    let deadline = options.settings.deadline;
    let explorer = Explorer::open(options).await.unwrap();
    let rules = Rules { identity: Crossing::Shared, authorizer: Authorizer::Review, ..Rules::default() };
    let through = reader(leaf).with_server(&format!("https://{}", proxy.address));
    explorer.add_cluster(added("leaf", &through, rules)).await.unwrap();
    synced(&explorer, HOME, 1).await;
    synced(&explorer, "leaf", 1).await;
    let rows = [format!("{HOME}/{}/map", here.namespace), format!("leaf/{}/map", there.namespace)];
    finds(&explorer, &jane, "name:map", &rows).await;

    proxy.timeout(Direction::Upstream).await.unwrap();
    proxy.timeout(Direction::Downstream).await.unwrap();
    // Before anybody noticed, while somebody does, and long after.
    let (began, mut asked, mut waited, mut after) = (Instant::now(), 0, Duration::ZERO, 0);
    while after < 20 {
        let start = Instant::now();
        let visibility = explorer.visibility(&jane).await;
        let took = start.elapsed();
        assert!(took < deadline / 2, "a question took {took:?}");
        let withheld = visibility.withheld();
        assert!(withheld.iter().all(|withheld| withheld.cluster == "leaf"), "{withheld:?}");
        let healthy = found(&explorer, &jane, &format!("cluster:{HOME} name:map")).await;
        assert_eq!(healthy.into_iter().collect::<Vec<_>>(), rows[..1]);
        (asked, waited) = (asked + 1, waited + took);
        let is_stale = state(&explorer, "leaf", "ConfigMap") == Some(KindState::Stale);
        after += usize::from(is_stale && !withheld.is_empty());
        assert!(began.elapsed() < LIMIT, "it is not noticed: {withheld:?}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    println!("{asked} questions within {:?} waited {waited:?} in all", began.elapsed());
    assert!(waited < deadline * 2, "{asked} questions waited {waited:?}");
    assert!(rows_kept(&explorer, "leaf") > 0);
    proxy.heal().await.unwrap();
    finds(&explorer, &jane, "name:map", &rows).await;
    explorer.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kind_that_may_not_be_read_costs_no_call_per_question() {
    // Its own: a namespace that comes meanwhile would be a question that nobody answered yet.
    let cluster = &Cluster::own().await;
    let toxiproxy = Toxiproxy::start().unwrap();
    let proxy = toxiproxy.proxy(cluster.url().trim_start_matches("https://")).await.unwrap();
    let maps = Maps::new(cluster, "leaf", "forbidden").await;
    maps.create("map").await;
    let (jane, collector) = (judged(&maps.namespace), format!("collector-{}", maps.namespace));
    let may = [rule(&["list", "get"], &[""], &["configmaps"])];
    cluster.grant(Scope::Namespace(&maps.namespace), &[subject::user(&jane.user)], &may).await;
    // All but Services.
    let reviews = rule(&["create"], &["authorization.k8s.io"], &["subjectaccessreviews"]);
    let reads = rule(&["get", "list", "watch"], &[""], &["configmaps", "namespaces"]);
    let user = cluster.user(&collector, &[]);
    cluster.grant(Scope::Cluster, &[subject::user(&collector)], &[reads, reviews]).await;
    let mut options = Place::new().options(&["v1/ConfigMap", "v1/Service"]).await;
    options.settings.review_ttl = LIMIT;
    let explorer = Explorer::open(options).await.unwrap();
    let rules = Rules { identity: Crossing::Shared, authorizer: Authorizer::Review, ..Rules::default() };
    let through = user.kubeconfig().clone().with_server(&format!("https://{}", proxy.address));
    explorer.add_cluster(added("leaf", &through, rules)).await.unwrap();
    eventually(LIMIT, || async { state(&explorer, "leaf", "Service") == Some(KindState::Stale) }).await;
    let rows = [format!("leaf/{}/map", maps.namespace)];
    let text = format!("ns:{} name:map", maps.namespace);
    finds(&explorer, &jane, &text, &rows).await;
    // Whoever asked then would wait, and be told that nobody answers.
    proxy.timeout(Direction::Upstream).await.unwrap();
    for _ in 0..20 {
        assert_eq!(found(&explorer, &jane, &text).await.into_iter().collect::<Vec<_>>(), rows);
    }
    explorer.close().await;
}

/// How many rows there are of a cluster, whoever may see them.
fn rows_kept(explorer: &Explorer, cluster: &str) -> u64 {
    let inventory = explorer.read(explorer::Index::inventory);
    inventory.iter().filter(|(kept, _)| kept.cluster == cluster).map(|(_, rows)| rows).sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn authorizers_are_told_what_their_own_authenticator_knows_and_those_of_other_clusters_are_not() {
    // Only who has both is let in.
    let webhook = Webhook::start(|spec| {
        let known = spec["uid"] == "u-1" && spec["extra"]["example.com/tenant"][0] == "blue";
        if known { Opinion::Allow } else { Opinion::None }
    });
    let cluster = Cluster::judged_by(&webhook, Failure::Deny).await;
    let maps = Maps::new(&cluster, HOME, "told").await;
    maps.create("map").await;
    let mut options = Place::new().options(&["v1/ConfigMap"]).await;
    options.settings.review_ttl = Duration::from_millis(200);
    options.local = Some(Local { authorizer: Authorizer::Review, ..local(&reader(&cluster)) });
    let explorer = Explorer::open(options).await.unwrap();
    synced(&explorer, HOME, 1).await;
    let blue = |extra: &str, uid: &str| Identity {
        uid: Some(uid.to_owned()),
        extra: [("example.com/tenant".to_owned(), vec![extra.to_owned()])].into(),
        ..judged("jane")
    };
    let text = format!("ns:{} name:map", maps.namespace);
    finds(&explorer, &blue("blue", "u-1"), &text, &[format!("{HOME}/{}/map", maps.namespace)]).await;
    // The same name with another uid or tenant is not the same caller, whatever is remembered of the first.
    for other in [blue("red", "u-1"), blue("blue", "u-2"), judged("jane")] {
        assert!(found(&explorer, &other, &text).await.is_empty(), "{other:?}");
    }
    // Whom another authenticator proved has a name and groups here, and nothing else that this cluster would believe.
    let abroad = open(&cluster, Authorizer::Review).await;
    assert!(found(&abroad, &blue("blue", "u-1"), &text).await.is_empty());
    webhook
        .decide(|spec| if spec["uid"].is_null() && spec["extra"].is_null() { Opinion::Allow } else { Opinion::None });
    finds(&abroad, &blue("blue", "u-1"), &text, &[format!("leaf/{}/map", maps.namespace)]).await;
    explorer.close().await;
    abroad.close().await;
}
