//! Somebody with few rights pages while objects come, change and go; totals and facets are those of a count by hand.

use std::collections::{BTreeMap, BTreeSet};

use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use testbed::{Scope, eventually, rule, scale, subject};

use super::{World, delete_map, facet, make_map, maps_of, world};
use crate::server::PATIENCE;

const ORDERS: [&str; 10] =
    ["name", "kind", "namespace", "cluster", "tenant", "status", "message", "category", "created", "age"];

/// Namespaces with ConfigMaps, and somebody who may see some of the namespaces.
struct Scene {
    world: World,
    person: super::Person,
    /// By namespace; all that stay as they are.
    stays: BTreeMap<String, BTreeSet<String>>,
    hidden: String,
    query: String,
}

async fn scene(what: &str, each: usize) -> Scene {
    let world = world().await;
    let home = world.cluster.namespace(&format!("{what}-home")).await;
    let person = world.nobody(&home, "jane").await;
    let hidden = world.cluster.namespace(&format!("{what}-hidden")).await;
    let mut stays = BTreeMap::new();
    for _ in 0..3 {
        let namespace = world.cluster.namespace(what).await;
        let account = [subject::service_account(&home, "jane")];
        world.cluster.grant(Scope::Namespace(&namespace), &account, &[rule(&["list"], &[""], &["configmaps"])]).await;
        let names: BTreeSet<String> = (0..each).map(|number| format!("stays-{number:03}")).collect();
        for name in &names {
            make_map(world.cluster, &namespace, name, &[("number", name)]).await;
        }
        stays.insert(namespace, names);
    }
    for number in 0..each {
        make_map(world.cluster, &hidden, &format!("stays-{number:03}"), &[]).await;
    }
    let query = format!("ns:/({}|{hidden})/ name:stays*", stays.keys().cloned().collect::<Vec<_>>().join("|"));
    let total = stays.values().map(BTreeSet::len).sum::<usize>() as u64;
    eventually(PATIENCE, || async { person.total(&query).await == total }).await;
    Scene { world, person, stays, hidden, query }
}

fn place(object: &Value) -> (String, String) {
    let text = |field: &str| object[field].as_str().unwrap().to_owned();
    (text("namespace"), text("name"))
}

#[tokio::test]
async fn every_row_that_stays_as_it_is_comes_once_in_every_order_while_others_change() {
    let Scene { world, person, stays, hidden, .. } = scene("paging", scale().of(8, 40)).await;
    let namespaces: Vec<String> = stays.keys().cloned().collect();
    let query = format!("ns:/({}|{hidden})/ kind:ConfigMap", namespaces.join("|"));
    let expected: BTreeSet<(String, String)> = stays
        .iter()
        .flat_map(|(namespace, names)| names.iter().map(move |name| (namespace.clone(), name.clone())))
        .collect();
    let mut made = 0;
    for order in ORDERS {
        for descending in [false, true] {
            let (mut seen, mut cursor): (Vec<(String, String)>, Value) = (Vec::new(), json!(""));
            for round in 0..1000 {
                let request = json!({
                    "query": query, "orderBy": order, "descending": descending, "limit": 5, "cursor": cursor, "unstructured": false,
                });
                let answer = person.ask(request).await;
                seen.extend(answer["objects"].as_array().unwrap().iter().map(place));
                if answer["cursor"].is_null() {
                    break;
                }
                assert!(round < 999, "paging has no end");
                cursor = answer["cursor"].clone();
                // Something comes, something goes, something changes that is not sorted by.
                let namespace = &namespaces[made % namespaces.len()];
                match made % 3 {
                    0 => make_map(world.cluster, namespace, &format!("passes-{made}"), &[]).await,
                    1 => delete_map(world.cluster, &namespaces[(made - 1) % 3], &format!("passes-{}", made - 1)).await,
                    _ => {
                        let patch = Patch::Merge(json!({ "data": { "number": format!("{made}") } }));
                        maps_of(world.cluster, namespace)
                            .patch("stays-000", &PatchParams::default(), &patch)
                            .await
                            .unwrap();
                    }
                }
                made += 1;
            }
            for row in &expected {
                let count = seen.iter().filter(|seen| *seen == row).count();
                assert_eq!(count, 1, "{row:?} by {order}, descending: {descending}");
            }
            assert!(seen.iter().all(|(namespace, _)| *namespace != hidden), "a hidden row came");
        }
    }
}

#[tokio::test]
async fn a_namespace_that_is_revoked_between_pages_does_not_come_any_more() {
    let scene = scene("revoked", 6).await;
    let Scene { world, person, stays, query, .. } = &scene;
    let revoked = stays.keys().last().unwrap();
    let request = |cursor: &Value| json!({ "query": query, "orderBy": "namespace", "limit": 4, "cursor": cursor, "unstructured": false });
    let first = person.ask(request(&json!(""))).await;
    let bindings: kube::Api<k8s_openapi::api::rbac::v1::RoleBinding> =
        kube::Api::namespaced(world.cluster.client(), revoked);
    for binding in bindings.list(&kube::api::ListParams::default()).await.unwrap() {
        let name = binding.metadata.name.unwrap();
        bindings.delete(&name, &kube::api::DeleteParams::default()).await.unwrap();
    }
    eventually(PATIENCE, || async { person.total(&format!("ns:{revoked}")).await == 0 }).await;
    let (mut cursor, mut seen) = (first["cursor"].clone(), Vec::new());
    while !cursor.is_null() {
        let answer = person.ask(request(&cursor)).await;
        seen.extend(answer["objects"].as_array().unwrap().iter().map(place));
        cursor = answer["cursor"].clone();
    }
    assert!(!seen.is_empty() && seen.iter().all(|(namespace, _)| namespace != revoked), "{seen:?}");
}

#[tokio::test]
async fn totals_and_facets_equal_a_count_by_hand() {
    let scene = scene("counts", scale().of(5, 50)).await;
    let Scene { person, stays, query, hidden, .. } = &scene;
    let answer = person.find(query).await;
    let by_hand: BTreeMap<String, u64> =
        stays.iter().map(|(namespace, names)| (namespace.clone(), names.len() as u64)).collect();
    assert_eq!(facet(&answer, "namespace"), by_hand);
    let all = by_hand.values().sum::<u64>();
    assert_eq!(facet(&answer, "kind"), BTreeMap::from([("ConfigMap".to_owned(), all)]));
    assert_eq!(facet(&answer, "status"), BTreeMap::from([("Unknown".to_owned(), all)]));
    assert_eq!(answer["total"], all);
    assert!(!answer.to_string().contains(hidden.as_str()), "{answer}");
    // As the cluster itself counts them for her.
    for namespace in stays.keys() {
        let listed = maps_of(scene.world.cluster, namespace).list(&kube::api::ListParams::default()).await.unwrap();
        let listed =
            listed.items.iter().filter(|map| map.metadata.name.as_deref().unwrap().starts_with("stays")).count();
        assert_eq!(by_hand[namespace], listed as u64);
    }
}
