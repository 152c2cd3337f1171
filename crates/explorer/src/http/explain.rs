//! Why may I see this, and who else can: the bindings and rules behind a row.

use ::http::StatusCode;
use access::http::Problem;
use access::http::api::{self, Answer, Input, Operation, Route, answer};
use access::rbac::{Means, RbacKey, Reason, Request, Who};
use axum::response::Response;
use axum::routing::get;
use kube::api::ApiResource;
use schemars::{JsonSchema, SchemaGenerator};
use serde::Serialize;

use super::Http;
use super::asked::{Asked, Named};
use super::problem::{no_cluster, problem};
use crate::query::kind_of;
use crate::service::{Authorizer, Explorer};

const OBJECT: Input =
    Input::text("object", "KIND/NAMESPACE/NAME, or KIND/NAME for objects of the whole cluster").needed();
const CLUSTER: Input = Input::text("cluster", "The cluster; left out, the one that the server belongs to");
const WHO_CAN_SEE: &[Input] = &[OBJECT, CLUSTER];

pub(super) const ROUTES: &[Route<Http>] = &[
    api::Route(
        || get(explain),
        Operation::new(
            "GET",
            "/v1/explain/{id}",
            "explain",
            "Why the caller sees an object: bindings and rules; the id is percent-encoded",
        )
        .needs("list or get on the object")
        .answers(Answer::Json(SchemaGenerator::subschema_for::<ExplainAnswer>))
        .fails(&[404]),
    ),
    api::Route(
        || get(who_can_see),
        Operation::new("GET", "/v1/who-can-see", "whoCanSee", "Every subject that may see an object, and why")
            .needs("list on roles, clusterroles, rolebindings and clusterrolebindings of that cluster")
            .query(WHO_CAN_SEE)
            .answers(Answer::Json(SchemaGenerator::subschema_for::<WhoAnswer>))
            .fails(&[404, 409]),
    ),
];

#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct ExplainAnswer {
    pub(super) id: String,
    /// The caller, as the cluster knows them.
    pub(super) user: String,
    pub(super) groups: Vec<String>,
    /// What decides in that cluster: `rbac`, or `review` for its own authorizers, which give no reasons.
    pub(super) authorizer: &'static str,
    pub(super) reasons: Vec<ReasonAnswer>,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct WhoAnswer {
    pub(super) cluster: String,
    pub(super) api_group: String,
    pub(super) kind: String,
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) reasons: Vec<ReasonAnswer>,
}

/// One of the ways by which something is granted; each would do alone.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Reason")]
pub(super) struct ReasonAnswer {
    /// `list` and `get` show the row, `get` the body too.
    pub(super) verb: String,
    pub(super) subject: SubjectAnswer,
    /// Null for the group `system:masters`, which needs none.
    pub(super) binding: Option<RbacAnswer>,
    pub(super) role: Option<RbacAnswer>,
    /// Which of the role's rules, counted from 0.
    pub(super) rule: Option<usize>,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "Subject")]
pub(super) struct SubjectAnswer {
    /// User, Group or ServiceAccount.
    pub(super) kind: &'static str,
    /// Of a ServiceAccount, else empty.
    pub(super) namespace: String,
    pub(super) name: String,
}

/// A Role, ClusterRole or one of their bindings.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "RbacObject")]
pub(super) struct RbacAnswer {
    pub(super) kind: String,
    pub(super) namespace: String,
    pub(super) name: String,
}

async fn explain(named: Named) -> Result<Response, Problem> {
    named.asked.parameters(&[])?;
    Ok(answer(named.explain()?))
}

impl Named {
    /// Why the caller sees this row, verb by verb.
    pub(super) fn explain(&self) -> Result<ExplainAnswer, Problem> {
        let explorer = self.asked.explorer();
        let Who { user, groups } =
            explorer.who_in(&self.key.cluster, self.asked.identity()).ok_or_else(super::problem::no_object)?;
        let (authorizer, reasons) = match authorizer(explorer, &self.key.cluster) {
            Authorizer::Review => ("review", Vec::new()),
            Authorizer::Rbac => {
                let who = Who { user: user.clone(), groups: groups.clone() };
                let of = |request: &Request<'_>| {
                    explorer.policy(&self.key.cluster, |policy| policy.explain(&who, request)).map_err(problem)
                };
                let place = Place {
                    group: &self.key.group,
                    resource: &self.found.row.resource,
                    // What is left of a namespace that is gone is granted for the whole cluster or not at all.
                    namespace: if self.found.row.orphaned { "" } else { &self.key.namespace },
                    name: &self.key.name,
                };
                ("rbac", place.reasons(&self.asked.http.settings().row_verbs, of)?)
            }
        };
        Ok(ExplainAnswer { id: self.found.id.clone(), user, groups, authorizer, reasons })
    }
}

async fn who_can_see(asked: Asked) -> Result<Response, Problem> {
    let mut parameters = asked.parameters(WHO_CAN_SEE)?;
    let object = parameters.text(OBJECT.name);
    let wanted = object.as_deref().and_then(Wanted::read).ok_or_else(|| {
        Problem::bad_request("the parameter 'object' is not KIND/[NAMESPACE/]NAME", "write HelmRelease/apps/podinfo")
    })?;
    let cluster = asked.cluster(parameters.text(CLUSTER.name))?;
    let explorer = asked.explorer();
    let who = explorer.who_in(&cluster, asked.identity()).ok_or_else(no_cluster)?;
    if authorizer(explorer, &cluster) == Authorizer::Review {
        let message = "in that cluster other authorizers decide beside RBAC, and none of them tells who may";
        return Err(Problem::new(StatusCode::CONFLICT, message, "ask for one user: `kubectl auth can-i --as`"));
    }
    let (group, resource) = wanted.resource(explorer, &cluster)?;
    if let Some(namespaced) = explorer.is_namespaced(&cluster, &group, &resource.kind) {
        wanted.check_scope(namespaced)?;
    }
    let resource = resource.plural;
    // The answer names subjects, bindings and roles: it is for those who may read them all.
    let readable = explorer.policy(&cluster, |policy| {
        RBAC.iter().all(|resource| {
            let namespace = if matches!(*resource, "roles" | "rolebindings") { wanted.namespace } else { "" };
            let (group, verb) = ("rbac.authorization.k8s.io", "list");
            policy.allows(&who, &Request { verb, group, resource, subresource: None, namespace, name: "" })
        })
    });
    if !readable.map_err(problem)? {
        let message = "you may not list the roles and bindings of that cluster, in which the answer is";
        let hint = format!("ask for a role with the verb 'list' on {} there", RBAC.join(", "));
        return Err(Problem::new(StatusCode::FORBIDDEN, message, hint));
    }
    let place = Place { group: &group, resource: &resource, namespace: wanted.namespace, name: wanted.name };
    let of = |request: &Request<'_>| explorer.policy(&cluster, |policy| policy.who_can(request)).map_err(problem);
    let reasons = place.reasons(&asked.http.settings().row_verbs, of)?;
    let (namespace, name) = (wanted.namespace.to_owned(), wanted.name.to_owned());
    Ok(answer(WhoAnswer { cluster, api_group: group, kind: wanted.kind.to_owned(), namespace, name, reasons }))
}

const RBAC: [&str; 4] = ["roles", "clusterroles", "rolebindings", "clusterrolebindings"];

/// What a question about an object is about, without the verb.
struct Place<'a> {
    group: &'a str,
    resource: &'a str,
    namespace: &'a str,
    name: &'a str,
}

impl Place<'_> {
    /// The answers for each verb that shows the row, and for the one that shows the body.
    fn reasons(
        &self,
        row_verbs: &[String],
        of: impl Fn(&Request<'_>) -> Result<Vec<Reason>, Problem>,
    ) -> Result<Vec<ReasonAnswer>, Problem> {
        let mut verbs: Vec<&str> = row_verbs.iter().map(String::as_str).collect();
        if !verbs.contains(&"get") {
            verbs.push("get");
        }
        let mut reasons = Vec::new();
        for verb in verbs {
            let Place { group, resource, namespace, name } = *self;
            let found = of(&Request { verb, group, resource, subresource: None, namespace, name })?;
            reasons.extend(found.into_iter().map(|reason| ReasonAnswer::of(verb, reason)));
        }
        Ok(reasons)
    }
}

/// An object as people name it; it need not exist.
#[derive(Debug, PartialEq, Eq)]
struct Wanted<'a> {
    kind: &'a str,
    group: Option<&'a str>,
    namespace: &'a str,
    name: &'a str,
}

impl<'a> Wanted<'a> {
    fn read(text: &'a str) -> Option<Wanted<'a>> {
        let parts: Vec<&str> = text.split('/').collect();
        let (kind, namespace, name) = match parts[..] {
            [kind, name] => (kind, "", name),
            [kind, namespace, name] => (kind, namespace, name),
            _ => return None,
        };
        let (kind, group) = kind.split_once('.').map_or((kind, None), |(kind, group)| (kind, Some(group)));
        let whole = !kind.is_empty() && !name.is_empty() && (parts.len() == 2 || !namespace.is_empty());
        whole.then_some(Wanted { kind: kind_of(kind), group, namespace, name })
    }

    /// A kind has objects in namespaces or in none: of an object that cannot exist nothing is to be told.
    fn check_scope(&self, namespaced: bool) -> Result<(), Problem> {
        match (namespaced, self.namespace.is_empty()) {
            (true, true) => Err(Problem::bad_request(
                "the parameter 'object' has no namespace, and objects of its kind live in one",
                "write KIND/NAMESPACE/NAME",
            )),
            (false, false) => Err(Problem::bad_request(
                "the parameter 'object' has a namespace, and objects of its kind live in none",
                "write KIND/NAME",
            )),
            (true, false) | (false, true) => Ok(()),
        }
    }

    /// Group and resource of the kind, as that cluster has it.
    fn resource(&self, explorer: &Explorer, cluster: &str) -> Result<(String, ApiResource), Problem> {
        let is_it = |group: &str, kind: &str| {
            kind.eq_ignore_ascii_case(self.kind) && self.group.is_none_or(|wanted| wanted == group)
        };
        let specs: Vec<_> = explorer.kinds().iter().filter(|spec| is_it(&spec.group, &spec.kind)).collect();
        let found: Vec<(String, ApiResource)> = specs
            .iter()
            .filter_map(|spec| explorer.resource(cluster, &spec.group, &spec.kind))
            .map(|resource| (resource.group.clone(), resource))
            .collect();
        match found.as_slice() {
            [one] => Ok(one.clone()),
            [] => Err(Problem::bad_request(
                "the parameter 'object' names a kind that is not collected in that cluster",
                "GET /v1/clusters lists the kinds; explorer.kinds names what is collected",
            )),
            several => {
                let groups: Vec<&str> = several.iter().map(|(group, _)| group.as_str()).collect();
                let hint = format!("write KIND.GROUP, with one of the groups {}", groups.join(", "));
                Err(Problem::bad_request("the parameter 'object' names a kind that several groups have", hint))
            }
        }
    }
}

impl ReasonAnswer {
    fn of(verb: &str, Reason { subject, by }: Reason) -> ReasonAnswer {
        let (binding, role, rule) = match by {
            Means::Masters => (None, None, None),
            Means::Binding { binding, role, rule } => (Some(binding.into()), Some(role.into()), Some(rule)),
        };
        ReasonAnswer { verb: verb.to_owned(), subject: subject.into(), binding, role, rule }
    }
}

impl From<access::rbac::Subject> for SubjectAnswer {
    fn from(subject: access::rbac::Subject) -> SubjectAnswer {
        use access::rbac::Subject::{Group, ServiceAccount, User};
        match subject {
            User { name } => SubjectAnswer { kind: "User", namespace: String::new(), name },
            Group { name } => SubjectAnswer { kind: "Group", namespace: String::new(), name },
            ServiceAccount { namespace, name } => SubjectAnswer { kind: "ServiceAccount", namespace, name },
        }
    }
}

impl From<RbacKey> for RbacAnswer {
    fn from(RbacKey { kind, namespace, name }: RbacKey) -> RbacAnswer {
        RbacAnswer { kind: format!("{kind:?}"), namespace, name }
    }
}

/// What decides in a cluster.
pub(super) fn authorizer(explorer: &Explorer, cluster: &str) -> Authorizer {
    let report = explorer.clusters().into_iter().find(|report| report.name == cluster);
    report.map_or(Authorizer::Rbac, |report| report.authorizer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_that_cannot_exist_is_refused_with_the_way_to_name_one() {
        let hint = |text: &str, namespaced: bool| {
            Wanted::read(text).unwrap().check_scope(namespaced).err().map(|problem| problem.hint)
        };
        assert_eq!(hint("HelmRelease/a/web", true), None);
        assert_eq!(hint("Namespace/a", false), None);
        assert!(hint("HelmRelease/web", true).is_some_and(|hint| hint.contains("KIND/NAMESPACE/NAME")));
        assert!(hint("Namespace/a/a", false).is_some_and(|hint| hint.contains("KIND/NAME")));
    }

    #[test]
    fn an_object_is_named_with_or_without_namespace_and_group() {
        let wanted = |kind, group, namespace, name| Some(Wanted { kind, group, namespace, name });
        let table = [
            ("HelmRelease/apps/web", wanted("HelmRelease", None, "apps", "web")),
            ("hr/apps/web", wanted("HelmRelease", None, "apps", "web")),
            ("Deployment.apps/a/web", wanted("Deployment", Some("apps"), "a", "web")),
            ("Namespace/a", wanted("Namespace", None, "", "a")),
            ("HelmRelease", None),
            ("HelmRelease//web", None),
            ("/a/web", None),
            ("HelmRelease/a/", None),
            ("a/b/c/d", None),
            ("", None),
        ];
        for (text, expected) in table {
            assert_eq!(Wanted::read(text), expected, "{text}");
        }
    }
}
