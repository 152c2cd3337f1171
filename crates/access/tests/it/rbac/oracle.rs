//! What the API server says.

use std::time::Duration;

use access::rbac::{RbacObject, Who};
use futures::{StreamExt, stream};
use http::Request;
use k8s_openapi::api::authorization::v1::{
    NonResourceAttributes, ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use kube::Client;
use kube::api::{Api, PostParams};
use testbed::{eventually, role, rule, subject};

use super::questions::{Ask, Question};
use super::world::{create, in_namespace, made};

/// Whether the API server lets them.
pub(super) async fn allows(client: &Client, question: &Question) -> bool {
    if question.ask.is_of_namespaces() {
        return lets_through(client, question).await;
    }
    let reviews: Api<SubjectAccessReview> = Api::all(client.clone());
    let review = SubjectAccessReview { spec: spec(question), ..SubjectAccessReview::default() };
    let answer = reviews.create(&PostParams::default(), &review).await.expect("review an access");
    answer.status.expect("a status").allowed
}

/// Its answers to all of them, in their order.
pub(super) async fn allows_all(client: &Client, questions: &[Question]) -> Vec<bool> {
    stream::iter(questions).map(|question| allows(client, question)).buffered(32).collect().await
}

/// Returns when the authorizer knows everything that was written before: it follows each kind in the order of writing,
/// so that a last object of each kind proves it. Those are returned.
pub(super) async fn catch_up(client: &Client, namespace: &str, marker: &str) -> [RbacObject; 4] {
    // Two users, so that each binding is seen by itself.
    let global_user = format!("{marker}-global");
    let rules = Some(vec![rule(&[marker], &["marker"], &["markers"])]);
    let of = |user: &str| Some(vec![subject::user(user)]);
    let metadata = || in_namespace(marker, namespace);
    let local_role = Role { metadata: metadata(), rules: rules.clone() };
    let global_role = ClusterRole { metadata: made(marker), rules, aggregation_rule: None };
    let local = RoleBinding { metadata: metadata(), role_ref: role::namespaced(marker), subjects: of(marker) };
    let global =
        ClusterRoleBinding { metadata: made(marker), role_ref: role::cluster(marker), subjects: of(&global_user) };
    let markers = [
        create(client, &local_role).await.into(),
        create(client, &global_role).await.into(),
        create(client, &local).await.into(),
        create(client, &global).await.into(),
    ];
    for (user, namespace) in [(marker, namespace), (&global_user, "")] {
        let ask = Ask::Resource {
            verb: marker.to_owned(),
            group: "marker".to_owned(),
            resource: "markers".to_owned(),
            subresource: String::new(),
            namespace: namespace.to_owned(),
            name: String::new(),
        };
        let question = Question { who: Who { user: user.to_owned(), groups: Vec::new() }, ask };
        eventually(Duration::from_mins(1), || allows(client, &question)).await;
    }
    markers
}

/// Makes the request as somebody else, in earnest but without effect: refused is 403, all else got through.
async fn lets_through(client: &Client, question: &Question) -> bool {
    let Ask::Resource { verb, name, .. } = &question.ask else { panic!("no request for namespaces: {question:?}") };
    let all = "/api/v1/namespaces";
    let request = match (verb.as_str(), name.as_str()) {
        ("list", "") => Request::get(all.to_owned()),
        ("list", name) => Request::get(format!("{all}?fieldSelector=metadata.name%3D{name}")),
        ("get", name) => Request::get(format!("{all}/{name}")),
        ("delete", name) => Request::delete(format!("{all}/{name}?dryRun=All")),
        (verb, _) => panic!("nobody makes requests to {verb} namespaces"),
    };
    let mut request = request.header("Impersonate-User", &question.who.user);
    for group in &question.who.groups {
        request = request.header("Impersonate-Group", group);
    }
    match client.request_text(request.body(Vec::new()).expect("a request")).await {
        Err(kube::Error::Api(status)) if status.code == 403 => false,
        Ok(_) => true,
        Err(kube::Error::Api(status)) if status.code == 404 => true,
        Err(error) => panic!("{question:?}: {error}"),
    }
}

fn spec(question: &Question) -> SubjectAccessReviewSpec {
    let Who { user, groups } = question.who.clone();
    let mut spec = SubjectAccessReviewSpec { user: Some(user), groups: Some(groups), ..Default::default() };
    match question.ask.clone() {
        Ask::Path { verb, path } => {
            spec.non_resource_attributes = Some(NonResourceAttributes { path: Some(path), verb: Some(verb) });
        }
        Ask::Resource { verb, group, resource, subresource, namespace, name } => {
            spec.resource_attributes = Some(ResourceAttributes {
                verb: Some(verb),
                group: Some(group),
                resource: Some(resource),
                subresource: Some(subresource),
                namespace: Some(namespace),
                name: Some(name),
                ..Default::default()
            });
        }
    }
    spec
}
