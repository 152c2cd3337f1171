//! Random RBAC objects, random questions: the compiled answer must be the API server's, every time, and every clause of
//! the semantics must have decided some of them.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use access::rbac::{Policy, RbacObject, Request, Scope, Who};
use fastrand::Rng;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding, RoleRef};
use kube::api::{Api, DeleteParams};
use kube::{Client, ResourceExt};
use testbed::{Cluster, eventually, scale, seed};

use super::model::{CLAUSES, Clause, Model};
use super::oracle::{allows_all, catch_up};
use super::questions::{Ask, Asker, Question};
use super::world::{Kept, Maker, World, create, delete, is_made, pick, update};

#[tokio::test(flavor = "multi_thread")]
async fn compiled_rbac_decides_as_the_api_server_does() {
    let cluster = super::cluster().await;
    let client = cluster.client();
    let mut rng = Rng::with_seed(seed("rbac"));
    let started = Instant::now();
    let namespaces = namespaces(&cluster).await;
    // The group system:masters has a binding as well: without it, only the group's own right can let it through.
    let global: Api<ClusterRoleBinding> = Api::all(client.clone());
    global.delete("cluster-admin", &DeleteParams::default()).await.expect("delete a binding");

    let rounds = scale().of(4, 24);
    let mut tally = Tally::default();
    for round in 0..rounds {
        // Half of the rounds without anybody who gathers the rules of aggregated roles.
        if round == rounds / 2 {
            cluster.stop_controller_manager().await;
        }
        let gathering = round < rounds / 2;
        one_round(&client, &namespaces, rng.fork(), gathering, &mut tally).await;
    }
    cluster.start_controller_manager().await;

    tally.print(started.elapsed());
    assert!(tally.questions >= scale().of(4_000, 100_000), "only {} questions", tally.questions);
    assert_eq!(tally.differences, Vec::<String>::new());
    assert!(tally.allowed * 10 >= tally.questions * 3, "less than 30 % were allowed");
    let idle: Vec<_> = CLAUSES.iter().filter(|clause| tally.decided(**clause) < scale().of(1, 500)).collect();
    assert!(idle.is_empty(), "these decided too few questions: {idle:?}");
}

/// What came out.
#[derive(Debug, Default)]
struct Tally {
    questions: usize,
    allowed: usize,
    in_earnest: usize,
    decided: BTreeMap<Clause, usize>,
    differences: Vec<String>,
}

async fn one_round(client: &Client, namespaces: &[String], mut rng: Rng, gathering: bool, tally: &mut Tally) {
    World::clear(client).await;
    let mut maker = Maker { rng: rng.fork(), namespaces };
    maker.world().create(client).await;
    if gathering {
        eventually(Duration::from_mins(1), || async { World::list(client).await.is_aggregated() }).await;
    }
    let before = World::list(client).await;
    let mut policy = before.policy();
    edit(client, &mut maker, &before, &mut policy).await;
    for marker in catch_up(client, &namespaces[0], &format!("marker{}", rng.u32(..))).await {
        policy.upsert(marker);
    }
    let now = World::list(client).await;

    let mut asker = Asker::new(rng.fork(), namespaces, &now, &before);
    let questions: Vec<Question> = (0..scale().of(1_000, 6_000)).map(|_| asker.question()).collect();
    let answers = allows_all(client, &questions).await;
    let (model, fresh) = (Model::new(&now, &before), now.policy());
    for (question, answer) in questions.iter().zip(answers) {
        tally.compare(question, answer, &model, [&policy, &fresh]);
    }
    let stranger = fresh.grants(&Who { user: "stranger".to_owned(), groups: Vec::new() }, &["get", "list", "*"]);
    assert!(stranger.is_empty() && stranger.scope("", "pods") == Scope::Nothing, "to whom nothing is granted");
}

/// Changes some of what is there, in the cluster and in the policy: roles lose their rules or get others, bindings go or
/// come back to another role.
async fn edit(client: &Client, maker: &mut Maker<'_>, before: &World, policy: &mut Policy) {
    for role in before.roles.iter().filter(|role| is_made(*role)) {
        if let Some(rules) = other_rules(maker, true) {
            policy.upsert(update(client, &Role { rules, ..role.clone() }).await);
        }
    }
    // Not those that aggregated ones are gathered from: their rules would follow at a time of their own.
    let plain = |role: &&ClusterRole| is_made(*role) && role.name_any().starts_with("role");
    for role in before.cluster_roles.iter().filter(plain) {
        if let Some(rules) = other_rules(maker, false) {
            policy.upsert(update(client, &ClusterRole { rules, ..role.clone() }).await);
        }
    }
    edit_bindings(client, &mut maker.rng, &before.role_bindings, policy).await;
    edit_bindings(client, &mut maker.rng, &before.cluster_role_bindings, policy).await;
}

/// None: leave them as they are.
#[expect(clippy::option_option, reason = "the inner one is a field of Kubernetes")]
fn other_rules(maker: &mut Maker<'_>, namespaced: bool) -> Option<Option<Vec<PolicyRule>>> {
    match maker.rng.u8(..8) {
        0 => Some(None),
        1 | 2 => Some(Some(maker.rules(namespaced))),
        _ => None,
    }
}

async fn edit_bindings<B: Binding>(client: &Client, rng: &mut Rng, bindings: &[B], policy: &mut Policy) {
    for binding in bindings.iter().filter(|binding| is_made(*binding)) {
        match rng.u8(..12) {
            0 => {
                delete(client, binding).await;
                policy.remove(&binding.clone().into().key());
            }
            1 => {
                // The role of a binding cannot be changed: it is another binding of the same name.
                delete(client, binding).await;
                let mut again = binding.clone();
                *again.role_ref() = pick(rng, bindings).role_ref().clone();
                policy.upsert(create(client, &again).await);
            }
            _ => {}
        }
    }
}

trait Binding: Kept + Into<RbacObject> {
    fn role_ref(&mut self) -> &mut RoleRef;
}

impl Binding for RoleBinding {
    fn role_ref(&mut self) -> &mut RoleRef {
        &mut self.role_ref
    }
}

impl Binding for ClusterRoleBinding {
    fn role_ref(&mut self) -> &mut RoleRef {
        &mut self.role_ref
    }
}

impl Tally {
    /// The answer of the API server with those of the model, of both policies and of their compiled grants.
    fn compare(&mut self, question: &Question, answer: bool, model: &Model<'_>, policies: [&Policy; 2]) {
        let (modelled, deciding) = model.decide(question);
        let mut agree = modelled == answer;
        for policy in policies {
            agree &= decide(policy, question) == answer;
            agree &=
                question.ask.request().is_none_or(|request| compiled_agrees(policy, &question.who, request, answer));
        }
        self.questions += 1;
        self.allowed += usize::from(answer);
        self.in_earnest += usize::from(question.ask.is_of_namespaces());
        for clause in deciding {
            *self.decided.entry(clause).or_default() += 1;
        }
        if !agree {
            let policies = policies.map(|policy| decide(policy, question));
            let told = format!("the API server says {answer}, the model {modelled}, the policies {policies:?}");
            self.differences.push(format!("{told}: {question:?}"));
        }
    }

    fn decided(&self, clause: Clause) -> usize {
        self.decided.get(&clause).copied().unwrap_or_default()
    }

    fn print(&self, took: Duration) {
        let Tally { questions, allowed, in_earnest, differences, .. } = self;
        println!("{questions} questions ({in_earnest} by real requests) in {took:.0?}");
        println!("{allowed} allowed ({} %), {} differences", allowed * 100 / questions, differences.len());
        for clause in CLAUSES {
            println!("{:>7} decided by {clause:?}", self.decided(*clause));
        }
    }
}

fn decide(policy: &Policy, question: &Question) -> bool {
    match &question.ask {
        Ask::Path { verb, path } => policy.allows_path(&question.who, verb, path),
        Ask::Resource { .. } => question.ask.request().is_some_and(|request| policy.allows(&question.who, &request)),
    }
}

/// Whether compiled grants say the same, for the verb alone, beside another, and not without any.
fn compiled_agrees(policy: &Policy, who: &Who, request: Request<'_>, answer: bool) -> bool {
    let resource = match request.subresource {
        Some(subresource) => format!("{}/{subresource}", request.resource),
        None => request.resource.to_owned(),
    };
    let granted = |verbs: &[&str]| {
        policy.grants(who, verbs).scope(request.group, &resource).contains(request.namespace, request.name)
    };
    let other = if request.verb == "list" { "get" } else { "list" };
    let either = answer || policy.allows(who, &Request { verb: other, ..request });
    granted(&[request.verb]) == answer && granted(&[request.verb, other]) == either && !granted(&[])
}

async fn namespaces(cluster: &Cluster) -> Vec<String> {
    let mut namespaces = Vec::new();
    for _ in 0..4 {
        namespaces.push(cluster.namespace("rbac").await);
    }
    namespaces
}
