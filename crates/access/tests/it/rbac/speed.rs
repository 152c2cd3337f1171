//! How long compiling takes with as many RBAC objects as a large cluster has.

use std::time::{Duration, Instant};

use access::rbac::{Grants, Policy, Scope, Who};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use testbed::{role, rule, subject};

use super::world::{in_namespace, made};

const NAMESPACES: usize = 2_500;
const KINDS: usize = 100;

/// 10,000 objects: in each namespace two roles of the namespace's own with a binding for its team, and one ClusterRole
/// bound for one of 100 groups.
fn policy() -> Policy {
    let mut policy = Policy::new();
    for number in 0..NAMESPACES {
        let namespace = format!("team-{number}");
        let name = |name: &str| in_namespace(name, &namespace);
        // Of every tenth, rules that no other role has.
        let only = format!("kinds{}", if number % 10 == 0 { number } else { 0 });
        let rules = vec![rule(&["get", "list"], &["apps"], &["deployments", &only]), rule(&["*"], &[""], &["pods"])];
        policy.upsert(Role { metadata: name("edit"), rules: Some(rules) });
        let team = vec![subject::group(&format!("team-{number}"))];
        policy.upsert(RoleBinding { metadata: name("edit"), role_ref: role::namespaced("edit"), subjects: Some(team) });
        let group = vec![subject::group(&format!("group-{}", number % 100)), subject::user(&format!("user-{number}"))];
        policy.upsert(RoleBinding { metadata: name("view"), role_ref: role::cluster("view"), subjects: Some(group) });
        let everyone = subject::service_account(&namespace, "robot");
        policy.upsert(RoleBinding {
            metadata: name("robot"),
            role_ref: role::cluster("view"),
            subjects: Some(vec![everyone, subject::group("auditors")]),
        });
    }
    let kinds: Vec<String> = (0..KINDS).map(|kind| format!("kinds{kind}")).collect();
    let kinds: Vec<&str> = kinds.iter().map(String::as_str).collect();
    let view = vec![rule(&["get", "list", "watch"], &["apps", "batch"], &kinds), rule(&["get"], &[""], &["pods/log"])];
    policy.upsert(ClusterRole { metadata: made("view"), rules: Some(view), aggregation_rule: None });
    let everybody = Some(vec![subject::group("system:authenticated")]);
    policy.upsert(ClusterRoleBinding {
        metadata: made("basic"),
        role_ref: role::cluster("basic"),
        subjects: everybody,
    });
    policy
}

#[test]
fn ten_thousand_objects_compile_in_milliseconds() {
    let built = Instant::now();
    let policy = policy();
    println!("10,000 RBAC objects taken in {:.1?}", built.elapsed());
    let groups = ["system:authenticated", "team-7", "team-20", "group-3", "group-50"];
    let member = Who { user: "user-9".to_owned(), groups: groups.map(str::to_owned).into() };
    let auditor = Who { user: "user-9".to_owned(), groups: vec!["auditors".to_owned()] };
    // The build of tests is not optimized: an order of magnitude slower than the product.
    measure(&policy, "in 5 groups, bound in 52 namespaces", &member, 52, Duration::from_millis(50));
    measure(&policy, "bound in all namespaces", &auditor, NAMESPACES, Duration::from_millis(500));
}

fn measure(policy: &Policy, what: &str, who: &Who, namespaces: usize, limit: Duration) {
    let started = Instant::now();
    let grants = policy.grants(who, &["get", "list"]);
    let compiled = started.elapsed();
    let started = Instant::now();
    let scopes: Vec<Scope> = (0..KINDS).map(|kind| grants.scope("apps", &format!("kinds{kind}"))).collect();
    let asked = started.elapsed();
    println!("{what}: compiled in {compiled:.1?}, {KINDS} kinds asked in {asked:.1?}");
    assert_eq!(granted(&grants), namespaces, "{what}");
    assert!(scopes.iter().all(|scope| scope.contains("team-9", "any")), "{what}");
    if testbed::scale().is_full() {
        assert!(compiled < limit, "{what}: compiled in {compiled:?}");
        assert!(asked < limit * 4, "{what}: {KINDS} kinds asked in {asked:?}");
    }
}

fn granted(grants: &Grants) -> usize {
    match grants.scope("apps", "kinds0") {
        Scope::Some { namespaces, .. } => namespaces.len(),
        scope => panic!("{scope:?}"),
    }
}
