//! Deleting any Role, ClusterRole, RoleBinding or ClusterRoleBinding counts within two seconds, without a restart: none of them
//! has a finalizer, so that their end is seen by its absence only.

use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use testbed::{Grant, Scope, eventually, role, rule, scale, subject};

use super::{Person, World, own, world};
use crate::server::PATIENCE;

const MAPS: &[&str] = &["one", "three", "two"];

/// A namespace with ConfigMaps, and somebody in it who sees none of them yet.
async fn start(world: World, what: &str) -> (String, Person) {
    let namespace = world.cluster.namespace(what).await;
    world.maps(&namespace, MAPS).await;
    let person = world.nobody(&namespace, "jane").await;
    person.sees(&own(&namespace), &[]).await;
    (namespace, person)
}

fn jane(namespace: &str) -> Vec<k8s_openapi::api::rbac::v1::Subject> {
    vec![subject::service_account(namespace, "jane")]
}

fn may_list() -> PolicyRule {
    rule(&["list"], &[""], &["configmaps"])
}

/// The name of the ClusterRole behind it, bound in one namespace.
async fn by_cluster_role(world: World, namespace: &str) -> (Grant, String) {
    let grant = world.cluster.grant(Scope::Cluster, &[subject::user("nobody-at-all")], &[may_list()]).await;
    let bound = world.cluster.bind(Scope::Namespace(namespace), role::cluster(&grant.role), &jane(namespace)).await;
    (bound, grant.role)
}

async fn told(what: &str, person: &Person, namespace: &str, expected: &[&str]) {
    let took = person.sees_soon(&own(namespace), expected).await;
    super::show(what, took);
}

#[tokio::test]
async fn a_deleted_role_binding_counts_and_counts_again_when_it_is_back() {
    let world = world().await;
    let (namespace, person) = start(world, "rolebinding").await;
    for round in 0..scale().of(2, 10) {
        let grant = world.cluster.grant(Scope::Namespace(&namespace), &jane(&namespace), &[may_list()]).await;
        person.sees(&own(&namespace), MAPS).await;
        world.cluster.remove_binding(&grant).await;
        told(&format!("RoleBinding deleted, round {round}"), &person, &namespace, &[]).await;
        // The same name again, at once: the end is an upsert.
        let bindings: Api<RoleBinding> = Api::namespaced(world.cluster.client(), &namespace);
        let binding = |subjects| RoleBinding {
            metadata: kube::core::ObjectMeta { name: Some(grant.binding.clone()), ..Default::default() },
            role_ref: role::namespaced(&grant.role),
            subjects: Some(subjects),
        };
        let create = PostParams::default();
        bindings.create(&create, &binding(jane(&namespace))).await.unwrap();
        bindings.delete(&grant.binding, &DeleteParams::default()).await.unwrap();
        bindings.create(&create, &binding(jane(&namespace))).await.unwrap();
        told("RoleBinding deleted and made again", &person, &namespace, MAPS).await;
        bindings.delete(&grant.binding, &DeleteParams::default()).await.unwrap();
        told("RoleBinding deleted at last", &person, &namespace, &[]).await;
    }
}

#[tokio::test]
async fn a_deleted_role_counts_and_so_does_one_that_lost_its_rules() {
    let world = world().await;
    let (namespace, person) = start(world, "role").await;
    let roles: Api<Role> = Api::namespaced(world.cluster.client(), &namespace);

    let grant = world.cluster.grant(Scope::Namespace(&namespace), &jane(&namespace), &[may_list()]).await;
    person.sees(&own(&namespace), MAPS).await;
    roles.patch(&grant.role, &PatchParams::default(), &Patch::Merge(json!({ "rules": [] }))).await.unwrap();
    told("Role without rules", &person, &namespace, &[]).await;
    roles.patch(&grant.role, &PatchParams::default(), &Patch::Merge(json!({ "rules": [may_list()] }))).await.unwrap();
    told("Role with rules again", &person, &namespace, MAPS).await;
    roles.delete(&grant.role, &DeleteParams::default()).await.unwrap();
    told("Role deleted, its binding dangles", &person, &namespace, &[]).await;

    // A binding that dangles spoils no other.
    let other = world.cluster.grant(Scope::Namespace(&namespace), &jane(&namespace), &[may_list()]).await;
    told("another binding beside one that dangles", &person, &namespace, MAPS).await;
    world.cluster.remove_binding(&other).await;
    told("and its end", &person, &namespace, &[]).await;
}

#[tokio::test]
async fn a_deleted_cluster_role_and_a_deleted_cluster_role_binding_count() {
    let world = world().await;
    let (namespace, person) = start(world, "clusterrole").await;
    let cluster_roles: Api<ClusterRole> = Api::all(world.cluster.client());
    let (bound, cluster_role) = by_cluster_role(world, &namespace).await;
    person.sees(&own(&namespace), MAPS).await;
    cluster_roles.delete(&cluster_role, &DeleteParams::default()).await.unwrap();
    told("ClusterRole deleted, bound in a namespace", &person, &namespace, &[]).await;
    world.cluster.remove_binding(&bound).await;

    let grant = world.cluster.grant(Scope::Cluster, &jane(&namespace), &[may_list()]).await;
    person.sees(&own(&namespace), MAPS).await;
    Api::<ClusterRoleBinding>::all(world.cluster.client())
        .delete(&grant.binding, &DeleteParams::default())
        .await
        .unwrap();
    told("ClusterRoleBinding deleted", &person, &namespace, &[]).await;

    let grant = world.cluster.grant(Scope::Cluster, &jane(&namespace), &[may_list()]).await;
    person.sees(&own(&namespace), MAPS).await;
    cluster_roles.delete(&grant.role, &DeleteParams::default()).await.unwrap();
    told("ClusterRole deleted, bound for the cluster", &person, &namespace, &[]).await;
}

#[tokio::test]
async fn grants_to_groups_to_everybody_and_by_name_end_as_soon() {
    let world = world().await;
    let (namespace, _) = start(world, "subjects").await;
    let scope = Scope::Namespace(&namespace);

    // A user by the token file of the API server: groups are hers and nobody else's.
    let user = world.cluster.static_token_user();
    let by_group = Person { server: world.server, token: user.token.clone() };
    let group = subject::group(&user.groups[0]);
    let robot = world.nobody(&namespace, "robot").await;
    let accounts = subject::group(&format!("system:serviceaccounts:{namespace}"));
    let everybody = subject::group("system:authenticated");
    let table = [
        ("a group", group, &by_group),
        ("a user", subject::user(&user.name), &by_group),
        ("a ServiceAccount", subject::service_account(&namespace, "robot"), &robot),
        ("all ServiceAccounts of the namespace", accounts, &robot),
        ("system:authenticated", everybody, &by_group),
    ];
    for (what, subject, person) in table {
        let grant = world.cluster.grant(scope, &[subject], &[may_list()]).await;
        person.sees(&own(&namespace), MAPS).await;
        world.cluster.remove_binding(&grant).await;
        told(what, person, &namespace, &[]).await;
    }

    let named = PolicyRule { resource_names: Some(vec!["two".to_owned()]), ..rule(&["get"], &[""], &["configmaps"]) };
    let grant = world.cluster.grant(scope, &[subject::service_account(&namespace, "robot")], &[named]).await;
    robot.sees(&own(&namespace), &["two"]).await;
    let roles: Api<Role> = Api::namespaced(world.cluster.client(), &namespace);
    let other = PolicyRule { resource_names: Some(vec!["one".to_owned()]), ..rule(&["get"], &[""], &["configmaps"]) };
    roles.patch(&grant.role, &PatchParams::default(), &Patch::Merge(json!({ "rules": [other] }))).await.unwrap();
    told("another name", &robot, &namespace, &["one"]).await;
    world.cluster.remove_binding(&grant).await;
    told("a name", &robot, &namespace, &[]).await;
}

#[tokio::test]
async fn an_aggregated_cluster_role_shrinks_when_a_part_of_it_goes() {
    let world = world().await;
    let (namespace, person) = start(world, "aggregated").await;
    let cluster_roles: Api<ClusterRole> = Api::all(world.cluster.client());
    let label = format!("aggregate-to-{namespace}");
    let whole: ClusterRole = serde_json::from_value(json!({
        "metadata": { "name": format!("{namespace}-whole") },
        "aggregationRule": { "clusterRoleSelectors": [{ "matchLabels": { &label: "true" } }] },
        "rules": [],
    }))
    .unwrap();
    let part: ClusterRole = serde_json::from_value(json!({
        "metadata": { "name": format!("{namespace}-part"), "labels": { &label: "true" } },
        "rules": [may_list()],
    }))
    .unwrap();
    cluster_roles.create(&PostParams::default(), &whole).await.unwrap();
    cluster_roles.create(&PostParams::default(), &part).await.unwrap();
    let name = format!("{namespace}-whole");
    world.cluster.bind(Scope::Namespace(&namespace), role::cluster(&name), &jane(&namespace)).await;
    // The controller-manager fills in the rules.
    person.sees(&own(&namespace), MAPS).await;
    cluster_roles.delete(&format!("{namespace}-part"), &DeleteParams::default()).await.unwrap();
    eventually(PATIENCE, || async {
        let rules = cluster_roles.get(&name).await.unwrap().rules.unwrap_or_default();
        rules.is_empty()
    })
    .await;
    told("a part of an aggregated ClusterRole deleted", &person, &namespace, &[]).await;
}

#[tokio::test]
async fn the_search_page_forgets_as_soon_as_the_answers_do() {
    let world = world().await;
    let (namespace, person) = start(world, "page").await;
    let grant = world.cluster.grant(Scope::Namespace(&namespace), &jane(&namespace), &[may_list()]).await;
    let path = format!("/explore?q=ns:{namespace}%20kind:ConfigMap");
    let page = || async { crate::server::answer(person.request("GET", &path)).await.1 };
    eventually(PATIENCE, || async {
        let page = page().await;
        MAPS.iter().all(|name| page.contains(&format!(">{name}</a>")))
    })
    .await;
    world.cluster.remove_binding(&grant).await;
    let start = std::time::Instant::now();
    eventually(PATIENCE, || async {
        let page = page().await;
        let shown: Vec<&&str> = MAPS.iter().filter(|name| page.contains(&format!(">{name}</a>"))).collect();
        // Other tests may show this one something for a moment, of theirs.
        let empty = page.contains("There is nothing that you may see.") || page.contains("Nothing matches.");
        if shown.is_empty() && empty { Ok(()) } else { Err(page) }
    })
    .await;
    let took = start.elapsed();
    super::show("the page", took);
    if scale().is_full() {
        assert!(took <= super::SOON, "{took:?}");
    }
    let facets: Value = person.get(&format!("/v1/facets?query=ns:{namespace}")).await.1;
    assert!(facets["facets"].as_array().unwrap().iter().all(|facet| facet["values"] == json!([])), "{facets}");
}
