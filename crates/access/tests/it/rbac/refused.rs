//! What some clauses are about and the API server does not take: it cannot be asked, and those clauses are tables only.

use k8s_openapi::api::rbac::v1::{ClusterRoleBinding, RoleBinding, RoleRef, Subject};
use kube::Client;
use kube::api::PostParams;
use testbed::{role, subject};

use super::world::{Kept, in_namespace, made};

#[tokio::test]
async fn the_api_server_refuses_what_could_not_be_resolved() {
    let cluster = super::cluster().await;
    let client = cluster.client();
    let namespace = cluster.namespace("refused").await;
    let odd_group = Subject { api_group: Some("odd.example".to_owned()), ..subject::user("jane") };
    let odd_kind = Subject { kind: "Robot".to_owned(), ..subject::user("jane") };
    let homeless = Subject { namespace: None, ..subject::service_account("", "robot") };
    let odd_role = RoleRef { kind: "Roles".to_owned(), ..role::cluster("view") };
    let foreign_role = RoleRef { api_group: "odd.example".to_owned(), ..role::cluster("view") };
    let cases = [
        (role::cluster("view"), odd_group, true, true),
        (role::cluster("view"), odd_kind, true, true),
        (role::cluster("view"), homeless, false, true),
        (role::namespaced("view"), subject::user("jane"), false, true),
        (odd_role, subject::user("jane"), true, true),
        (foreign_role, subject::user("jane"), true, true),
        (role::cluster("view"), subject::user("jane"), false, false),
    ];
    for (role_ref, subject, locally, globally) in cases {
        let told = format!("{role_ref:?} for {subject:?}");
        let subjects = Some(vec![subject]);
        let metadata = in_namespace("trial", &namespace);
        let local = RoleBinding { metadata, role_ref: role_ref.clone(), subjects: subjects.clone() };
        assert_eq!(is_refused(&client, &local).await, locally, "RoleBinding: {told}");
        let global = ClusterRoleBinding { metadata: made("trial"), role_ref, subjects };
        assert_eq!(is_refused(&client, &global).await, globally, "ClusterRoleBinding: {told}");
    }
}

async fn is_refused(client: &Client, object: &impl Kept) -> bool {
    match object.home(client).create(&PostParams { dry_run: true, ..PostParams::default() }, object).await {
        Ok(_) => false,
        Err(kube::Error::Api(status)) if status.code == 422 => true,
        Err(error) => panic!("{object:?}: {error}"),
    }
}
