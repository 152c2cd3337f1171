//! One rule of a role, clause by clause: it allows what its verbs, groups, resources and names all cover.
//!
//! Everything is compared as written, capitals included. `*` is a wildcard only where a clause below says so.

use std::sync::Arc;

use k8s_openapi::api::rbac::v1::PolicyRule;

use super::request::Request;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Rule {
    pub(super) verbs: List,
    pub(super) groups: List,
    pub(super) resources: List,
    pub(super) names: List,
    paths: List,
}

type List = Box<[Arc<str>]>;

/// The rules of a role, in their order; roles with the same rules share them.
pub(super) type Rules = Arc<[Rule]>;

impl Rule {
    pub(super) fn allows(&self, request: &Request<'_>) -> bool {
        self.has_verb(request.verb)
            && self.covers(request.group, request.resource, request.subresource())
            && self.names(request.name)
    }

    /// A path that is no resource: only verbs and paths of the rule count.
    pub(super) fn allows_path(&self, verb: &str, path: &str) -> bool {
        self.has_verb(verb)
            && self.paths.iter().any(|allowed| {
                let prefix = allowed.ends_with('*').then(|| allowed.trim_end_matches('*'));
                &**allowed == path || prefix.is_some_and(|prefix| path.starts_with(prefix))
            })
    }

    pub(super) fn has_verb(&self, verb: &str) -> bool {
        has_or_any(&self.verbs, verb)
    }

    /// Whether the rule is about this resource, in whatever namespace and under whatever name.
    pub(super) fn covers(&self, group: &str, resource: &str, subresource: &str) -> bool {
        has_or_any(&self.groups, group) && self.resources.iter().any(|covered| covers(covered, resource, subresource))
    }

    /// Rules about paths alone are about no resource.
    pub(super) fn is_about_resources(&self) -> bool {
        !self.resources.is_empty()
    }

    /// The names that the rule is limited to; none if it is not.
    pub(super) fn only_names(&self) -> Option<&[Arc<str>]> {
        (!self.names.is_empty()).then_some(&*self.names)
    }

    /// `*` is an ordinary name here, and a request without a name is not one for every name.
    fn names(&self, name: &str) -> bool {
        self.only_names().is_none_or(|names| has(names, name))
    }
}

/// `*` covers every resource and subresource, `*/log` the subresource of every resource. `pods` does not cover
/// `pods/log`, nor the other way round, and `pods/*` is no wildcard.
fn covers(covered: &str, resource: &str, subresource: &str) -> bool {
    if covered == "*" {
        return true;
    }
    if subresource.is_empty() {
        return covered == resource;
    }
    let of = |parent: &str| covered.strip_prefix(parent).and_then(|rest| rest.strip_prefix('/')) == Some(subresource);
    of(resource) || of("*")
}

fn has_or_any(list: &[Arc<str>], wanted: &str) -> bool {
    has(list, "*") || has(list, wanted)
}

fn has(list: &[Arc<str>], wanted: &str) -> bool {
    list.iter().any(|item| **item == *wanted)
}

impl From<PolicyRule> for Rule {
    fn from(rule: PolicyRule) -> Rule {
        let list = |items: Option<Vec<String>>| items.unwrap_or_default().into_iter().map(Arc::from).collect();
        Rule {
            verbs: list(Some(rule.verbs)),
            groups: list(rule.api_groups),
            resources: list(rule.resources),
            names: list(rule.resource_names),
            paths: list(rule.non_resource_urls),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(verbs: &str, groups: &str, resources: &str, names: &str) -> Rule {
        let list = |text: &str| (text != "-").then(|| text.split(',').map(str::to_owned).collect());
        Rule::from(PolicyRule {
            verbs: list(verbs).unwrap_or_default(),
            api_groups: list(groups),
            resources: list(resources),
            resource_names: list(names),
            non_resource_urls: None,
        })
    }

    #[test]
    fn every_part_of_a_rule_must_cover_the_request() {
        // The rule: verbs, groups, resources, names; "-" is an empty list, "" an empty word.
        // The request: verb, group, resource[/subresource], name.
        let cases = [
            (("get", "", "pods", "-"), ("get", "", "pods", "x"), true),
            (("get,list", "apps,", "pods,nodes", "-"), ("list", "", "nodes", ""), true),
            // Verbs.
            (("get", "", "pods", "-"), ("list", "", "pods", "x"), false),
            (("*", "", "pods", "-"), ("anything", "", "pods", "x"), true),
            (("GET", "", "pods", "-"), ("get", "", "pods", "x"), false),
            (("get", "", "pods", "-"), ("*", "", "pods", "x"), false),
            (("-", "", "pods", "-"), ("get", "", "pods", "x"), false),
            // Groups: the core group is the empty word, not every group.
            (("get", "", "pods", "-"), ("get", "apps", "pods", "x"), false),
            (("get", "apps", "pods", "-"), ("get", "", "pods", "x"), false),
            (("get", "*", "pods", "-"), ("get", "apps", "pods", "x"), true),
            (("get", "*", "pods", "-"), ("get", "", "pods", "x"), true),
            (("get", "Apps", "pods", "-"), ("get", "apps", "pods", "x"), false),
            (("get", "-", "pods", "-"), ("get", "", "pods", "x"), false),
            // Resources and subresources.
            (("get", "", "*", "-"), ("get", "", "pods", "x"), true),
            (("get", "", "*", "-"), ("get", "", "pods/log", "x"), true),
            (("get", "", "pods", "-"), ("get", "", "pods/log", "x"), false),
            (("get", "", "pods/log", "-"), ("get", "", "pods/log", "x"), true),
            (("get", "", "pods/log", "-"), ("get", "", "pods", "x"), false),
            (("get", "", "pods/log", "-"), ("get", "", "pods/logs", "x"), false),
            (("get", "", "pods/log", "-"), ("get", "", "pod/log", "x"), false),
            (("get", "", "*/log", "-"), ("get", "", "pods/log", "x"), true),
            (("get", "", "*/log", "-"), ("get", "", "pods/status", "x"), false),
            (("get", "", "*/log", "-"), ("get", "", "log", "x"), false),
            (("get", "", "*/log", "-"), ("get", "", "pods", "x"), false),
            (("get", "", "pods/*", "-"), ("get", "", "pods/log", "x"), false),
            (("get", "", "pods/*", "-"), ("get", "", "pods", "x"), false),
            (("get", "", "pods/*", "-"), ("get", "", "pods/*", "x"), true),
            (("get", "", "*/*", "-"), ("get", "", "pods/log", "x"), false),
            (("get", "", "Pods", "-"), ("get", "", "pods", "x"), false),
            (("get", "", "-", "-"), ("get", "", "pods", "x"), false),
            // Names.
            (("get", "", "pods", "-"), ("get", "", "pods", ""), true),
            (("get", "", "pods", "x,y"), ("get", "", "pods", "y"), true),
            (("get", "", "pods", "x,y"), ("get", "", "pods", "z"), false),
            (("get", "", "pods", "X"), ("get", "", "pods", "x"), false),
            (("list", "", "pods", "x"), ("list", "", "pods", ""), false),
            (("get", "", "pods", "*"), ("get", "", "pods", "x"), false),
            (("get", "", "pods", "*"), ("get", "", "pods", "*"), true),
            (("get", "", "pods", ""), ("get", "", "pods", ""), true),
            (("get", "", "pods", ""), ("get", "", "pods", "x"), false),
        ];
        for ((verbs, groups, resources, names), (verb, group, resource, name), expected) in cases {
            let (resource, subresource) = match resource.split_once('/') {
                Some((resource, subresource)) => (resource, Some(subresource)),
                None => (resource, None),
            };
            let request = Request { verb, group, resource, subresource, namespace: "", name };
            let rule = rule(verbs, groups, resources, names);
            assert_eq!(rule.allows(&request), expected, "{rule:?} on {request:?}");
        }
    }

    #[test]
    fn paths_are_whole_or_prefixes_and_apart_from_resources() {
        // verbs and paths of the rule, verb and path of the request
        let cases = [
            ("get", "/metrics", "get", "/metrics", true),
            ("get", "/metrics", "post", "/metrics", false),
            ("*", "/metrics", "post", "/metrics", true),
            ("get", "/metrics", "get", "/metrics/", false),
            ("get", "/metrics/*", "get", "/metrics/a", true),
            ("get", "/metrics/*", "get", "/metrics/", true),
            ("get", "/metrics/*", "get", "/metrics", false),
            ("get", "/metrics*", "get", "/metricsandmore", true),
            ("get", "/metrics**", "get", "/metricsandmore", true),
            ("get", "/*/a", "get", "/b/a", false),
            ("get", "*", "get", "/anything", true),
            ("get", "/Metrics", "get", "/metrics", false),
        ];
        let of = |verbs: &str, paths: &str| {
            Rule::from(PolicyRule {
                verbs: vec![verbs.to_owned()],
                non_resource_urls: Some(vec![paths.to_owned()]),
                ..PolicyRule::default()
            })
        };
        for (verbs, paths, verb, path, expected) in cases {
            assert_eq!(of(verbs, paths).allows_path(verb, path), expected, "{verbs} {paths} on {verb} {path}");
        }
        let pods = Request { verb: "get", group: "", resource: "pods", subresource: None, namespace: "", name: "" };
        assert!(!of("*", "*").allows(&pods), "a rule for paths is none for resources");
        assert!(!rule("*", "*", "*", "-").allows_path("get", "/metrics"), "nor the other way round");
    }
}
