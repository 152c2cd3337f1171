//! `/v1/debug/access-rules`: every rule that holds for the caller, cluster by cluster, for those who miss something.

use access::http::Problem;
use access::http::api::{self, Answer, Operation, Route, answer};
use access::rbac::{Bound, Means, RbacKind};
use axum::response::Response;
use axum::routing::get;
use schemars::{JsonSchema, SchemaGenerator};
use serde::Serialize;

use super::Http;
use super::answers::WithheldAnswer;
use super::asked::Asked;
use super::explain::{RbacAnswer, SubjectAnswer};

pub(super) const ROUTES: &[Route<Http>] = &[api::Route(
    || get(rules),
    Operation::new("GET", "/v1/debug/access-rules", "listAccessRules", "The rules of RBAC that hold for the caller")
        .needs("none: any authenticated caller, about themselves")
        .answers(Answer::Json(SchemaGenerator::subschema_for::<RulesAnswer>)),
)];

#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(super) struct RulesAnswer {
    pub(super) rules: Vec<RuleAnswer>,
    /// Clusters whose rules are not known now, or that other authorizers decide for.
    pub(super) withheld: Vec<WithheldAnswer>,
}

/// A rule that shows something: it has one of the verbs that do.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "AccessRule")]
pub(super) struct RuleAnswer {
    pub(super) cluster: String,
    /// Empty: in every namespace, and for objects of the whole cluster.
    pub(super) namespace: String,
    /// `group/resource`.
    pub(super) accessible_kinds: Vec<String>,
    /// Empty: of any name.
    pub(super) accessible_resource_names: Vec<String>,
    pub(super) verbs: Vec<String>,
    pub(super) subjects: Vec<SubjectAnswer>,
    /// Null for the group `system:masters`, which needs neither.
    pub(super) provided_by_role: Option<RbacAnswer>,
    pub(super) provided_by_binding: Option<RbacAnswer>,
}

async fn rules(asked: Asked) -> Result<Response, Problem> {
    asked.parameters(&[])?;
    Ok(answer(asked.rules()))
}

impl Asked {
    pub(super) fn rules(&self) -> RulesAnswer {
        let explorer = self.explorer();
        let verbs = &self.http.settings().row_verbs;
        let (mut rules, mut withheld) = (Vec::new(), Vec::new());
        for cluster in explorer.clusters().into_iter().map(|report| report.name) {
            let Some(who) = explorer.who_in(&cluster, self.identity()) else { continue };
            match explorer.policy(&cluster, |policy| policy.bound(&who)) {
                Ok(bound) => {
                    let telling = bound.into_iter().filter(|rule| shows(rule, verbs));
                    rules.extend(telling.map(|rule| RuleAnswer::of(&cluster, rule)));
                }
                Err(error) => withheld.push(WithheldAnswer { reason: error.to_string(), cluster }),
            }
        }
        RulesAnswer { rules, withheld }
    }
}

fn shows(rule: &Bound, verbs: &[String]) -> bool {
    rule.verbs.iter().any(|verb| matches!(&**verb, "*" | "get") || verbs.iter().any(|shown| **shown == **verb))
}

impl RuleAnswer {
    fn of(cluster: &str, rule: Bound) -> RuleAnswer {
        let Bound { by, subjects, verbs, groups, resources, names } = rule;
        let (binding, role) = match by {
            Means::Masters => (None, None),
            Means::Binding { binding, role, .. } => (Some(binding), Some(role)),
        };
        let within = binding.as_ref().filter(|binding| binding.kind == RbacKind::RoleBinding);
        let kinds = groups.iter().flat_map(|group| resources.iter().map(move |resource| format!("{group}/{resource}")));
        let texts = |list: Vec<std::sync::Arc<str>>| list.iter().map(ToString::to_string).collect();
        RuleAnswer {
            cluster: cluster.to_owned(),
            namespace: within.map(|binding| binding.namespace.clone()).unwrap_or_default(),
            accessible_kinds: kinds.collect(),
            accessible_resource_names: texts(names),
            verbs: texts(verbs),
            subjects: subjects.into_iter().map(Into::into).collect(),
            provided_by_role: role.map(Into::into),
            provided_by_binding: binding.map(Into::into),
        }
    }
}
