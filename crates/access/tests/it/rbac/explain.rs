//! Reasons and subjects that are told to people, checked by taking them away.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use access::rbac::{Means, Policy, RbacKey, RbacObject, Reason, Subject, Who};
use fastrand::Rng;
use k8s_openapi::api::rbac::v1 as rbac;
use kube::Client;
use testbed::{eventually, scale, seed};

use super::oracle::{allows, allows_all, catch_up};
use super::questions::{Ask, Asker, Question};
use super::world::{Maker, World, create, delete, is_made, update};

/// Everything that can be taken away and put back, by its key.
type Objects = BTreeMap<RbacKey, RbacObject>;

#[tokio::test(flavor = "multi_thread")]
async fn what_explains_a_grant_is_all_that_grants_it() {
    let cluster = super::cluster().await;
    let client = cluster.client();
    let namespaces = [cluster.namespace("why").await, cluster.namespace("why").await];
    let mut rng = Rng::with_seed(seed("rbac-explain"));
    let (world, policy) = fresh(&client, &namespaces, &mut rng).await;
    let objects = objects(&world);

    let mut asker = Asker::new(rng.fork(), &namespaces, &world, &world);
    let (mut by_one, mut by_many, mut by_rule, mut denied) = (0, 0, 0, 0);
    let wanted = scale().of(8, 100);
    let mut asked = 0;
    while by_one < wanted || by_many < wanted || by_rule < wanted || denied < wanted {
        asked += 1;
        assert!(
            asked <= MOST_ASKED,
            "{MOST_ASKED} questions were explained {by_one} times by one binding, {by_many} by several, {by_rule} by one \
             rule, {denied} by none, and each was wanted {wanted} times: is there a way of each in this world?"
        );
        let question = asker.question();
        let Some(request) = question.ask.request() else { continue };
        let reasons = policy.explain(&question.who, &request);
        if reasons.iter().any(|reason| reason.by == Means::Masters) {
            continue;
        }
        let mut bindings: Vec<RbacKey> = reasons.iter().map(|reason| means(reason).0).collect();
        bindings.dedup();
        match bindings.as_slice() {
            [] => {
                assert!(!allows(&client, &question).await, "allowed for no reason: {question:?}");
                denied += 1;
            }
            [only] if by_one < wanted => {
                assert!(allows(&client, &question).await, "not allowed by {only}: {question:?}");
                remove(&client, &objects[only]).await;
                eventually(LIMIT, || async { !allows(&client, &question).await }).await;
                put_back(&client, &objects[only]).await;
                eventually(LIMIT, || allows(&client, &question)).await;
                by_one += 1;
            }
            [_] if by_rule < wanted && reasons.len() == 1 => {
                let (_, role, rule) = means(&reasons[0]);
                let Some(without) = without_rule(&objects[&role], rule) else { continue };
                overwrite(&client, &without).await;
                eventually(LIMIT, || async { !allows(&client, &question).await }).await;
                overwrite(&client, &objects[&role]).await;
                eventually(LIMIT, || allows(&client, &question)).await;
                by_rule += 1;
            }
            [last, others @ ..] if !others.is_empty() && by_many < wanted => {
                // Each would do alone, and together they are all.
                for other in others {
                    remove(&client, &objects[other]).await;
                }
                catch_up(&client, &namespaces[0], &format!("still{by_many}")).await;
                assert!(allows(&client, &question).await, "{last} alone does not do: {question:?}");
                remove(&client, &objects[last]).await;
                eventually(LIMIT, || async { !allows(&client, &question).await }).await;
                for binding in &bindings {
                    put_back(&client, &objects[binding]).await;
                }
                catch_up(&client, &namespaces[0], &format!("again{by_many}")).await;
                by_many += 1;
            }
            _ => {}
        }
    }
    println!("explained: {by_one} by one binding, {by_many} by several, {by_rule} by one rule, {denied} by none");
    World::clear(&client).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_can_names_everybody_who_can_and_nobody_else() {
    let cluster = super::cluster().await;
    let client = cluster.client();
    let namespaces = [cluster.namespace("who").await, cluster.namespace("who").await];
    let mut rng = Rng::with_seed(seed("rbac-who-can"));
    let (world, policy) = fresh(&client, &namespaces, &mut rng).await;
    let everybody = everybody(&world);

    let mut asker = Asker::new(rng.fork(), &namespaces, &world, &world);
    let (mut named, mut others) = (0, 0);
    for _ in 0..scale().of(12, 200) {
        let ask = loop {
            let ask = asker.question().ask;
            // A group alone cannot make the requests that those need.
            if !ask.is_of_namespaces() && matches!(ask, Ask::Resource { .. }) {
                break ask;
            }
        };
        let reasons = policy.who_can(&ask.request().expect("a resource"));
        let can: Vec<Subject> = reasons.into_iter().map(|reason| reason.subject).collect();
        assert!(can.contains(&Subject::Group { name: "system:masters".to_owned() }));
        let questions = |subjects: Vec<&Subject>| -> Vec<Question> {
            subjects.into_iter().map(|subject| Question { who: alone(subject), ask: ask.clone() }).collect()
        };
        let named_ones = questions(can.iter().collect());
        // Two subjects may be the same user: a ServiceAccount, and the user of its name.
        let users: Vec<Who> = can.iter().map(alone).collect();
        let mut rest: Vec<&Subject> = everybody.iter().filter(|subject| !users.contains(&alone(subject))).collect();
        rng.shuffle(&mut rest);
        rest.truncate(12);
        let other_ones = questions(rest);
        for (question, allowed) in named_ones.iter().zip(allows_all(&client, &named_ones).await) {
            assert!(allowed, "named, and may not: {question:?}");
        }
        for (question, allowed) in other_ones.iter().zip(allows_all(&client, &other_ones).await) {
            assert!(!allowed, "not named, and may: {question:?}");
        }
        named += named_ones.len();
        others += other_ones.len();
    }
    println!("who can: {named} named subjects may, {others} others may not");
    World::clear(&client).await;
}

const LIMIT: Duration = Duration::from_mins(1);
/// Many more than it takes to meet every way.
const MOST_ASKED: u32 = 1_000_000;

/// A random world that the API server's authorizer knows, and nothing of earlier ones.
async fn fresh(client: &Client, namespaces: &[String], rng: &mut Rng) -> (World, Policy) {
    World::clear(client).await;
    Maker { rng: rng.fork(), namespaces }.world().create(client).await;
    eventually(LIMIT, || async { World::list(client).await.is_aggregated() }).await;
    catch_up(client, &namespaces[0], "fresh").await;
    let world = World::list(client).await;
    let policy = world.policy();
    (world, policy)
}

fn objects(world: &World) -> Objects {
    let World { roles, cluster_roles, role_bindings, cluster_role_bindings } = world.clone();
    let roles = roles.into_iter().map(RbacObject::from).chain(cluster_roles.into_iter().map(RbacObject::from));
    let bindings = role_bindings.into_iter().map(RbacObject::from);
    let bindings = bindings.chain(cluster_role_bindings.into_iter().map(RbacObject::from));
    roles.chain(bindings).map(|object| (object.key(), object)).collect()
}

fn means(reason: &Reason) -> (RbacKey, RbacKey, usize) {
    match &reason.by {
        Means::Binding { binding, role, rule } => (binding.clone(), role.clone(), *rule),
        Means::Masters => panic!("nobody here is a master"),
    }
}

async fn remove(client: &Client, object: &RbacObject) {
    match object {
        RbacObject::RoleBinding(binding) => delete(client, binding).await,
        RbacObject::ClusterRoleBinding(binding) => delete(client, binding).await,
        object => panic!("only bindings are removed: {object:?}"),
    }
}

async fn put_back(client: &Client, object: &RbacObject) {
    match object {
        RbacObject::RoleBinding(binding) => drop(create(client, binding).await),
        RbacObject::ClusterRoleBinding(binding) => drop(create(client, binding).await),
        object => panic!("only bindings are put back: {object:?}"),
    }
}

async fn overwrite(client: &Client, object: &RbacObject) {
    match object {
        RbacObject::Role(role) => drop(update(client, role).await),
        RbacObject::ClusterRole(role) => drop(update(client, role).await),
        object => panic!("only roles are overwritten: {object:?}"),
    }
}

/// None for roles that are not ours, and for those whose rules the cluster fills in again.
fn without_rule(role: &RbacObject, rule: usize) -> Option<RbacObject> {
    let mut role = role.clone();
    let rules = match &mut role {
        RbacObject::Role(role) if is_made(role) => role.rules.as_mut()?,
        RbacObject::ClusterRole(role) if is_made(role) && role.aggregation_rule.is_none() => role.rules.as_mut()?,
        _ => return None,
    };
    rules.remove(rule);
    Some(role)
}

/// Every subject of every binding that a test made, each once.
fn everybody(world: &World) -> Vec<Subject> {
    let local = world.role_bindings.iter().filter(|binding| is_made(*binding));
    let local = local.map(|binding| (binding.metadata.namespace.clone().unwrap_or_default(), &binding.subjects));
    let global = world.cluster_role_bindings.iter().filter(|binding| is_made(*binding));
    let global = global.map(|binding| (String::new(), &binding.subjects));
    let read = |(home, subjects): (String, &Option<Vec<rbac::Subject>>)| -> Vec<Subject> {
        let subject = |rbac::Subject { kind, name, namespace, .. }: rbac::Subject| match kind.as_str() {
            "User" => Subject::User { name },
            "Group" => Subject::Group { name },
            _ => Subject::ServiceAccount { namespace: namespace.unwrap_or_else(|| home.clone()), name },
        };
        subjects.clone().unwrap_or_default().into_iter().map(subject).collect()
    };
    local.chain(global).flat_map(read).collect::<BTreeSet<_>>().into_iter().collect()
}

/// Somebody who is this subject and nothing else.
fn alone(subject: &Subject) -> Who {
    match subject {
        Subject::User { name } => Who { user: name.clone(), groups: Vec::new() },
        Subject::Group { name } => Who { user: "nobody".to_owned(), groups: vec![name.clone()] },
        Subject::ServiceAccount { namespace, name } => {
            Who { user: format!("system:serviceaccount:{namespace}:{name}"), groups: Vec::new() }
        }
    }
}
