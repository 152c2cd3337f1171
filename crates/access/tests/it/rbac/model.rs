//! The same semantics once more, slow and plain, with every clause breakable.
//!
//! A clause *decides* a question when breaking it changes the answer. A compiler that has it wrong in that way gives
//! the wrong answer there, and the comparison with the API server would tell.

use std::collections::HashMap;
use std::sync::LazyLock;

use access::rbac::Who;
use k8s_openapi::api::rbac::v1::{ClusterRole, PolicyRule, RoleRef, Subject};
use testbed::rule;

use super::questions::{Ask, Question};
use super::world::World;

macro_rules! clauses {
    ($($(#[doc = $doc:literal])+ $clause:ident,)+) => {
        /// Each with what happens when it is broken.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub(super) enum Clause { $($(#[doc = $doc])+ $clause,)+ }

        pub(super) const CLAUSES: &[Clause] = &[$(Clause::$clause),+];
    };
}

clauses! {
    /// The verb of a rule is not looked at.
    VerbCounts,
    /// `*` is a verb like others.
    VerbWildcard,
    /// The group of a rule is not looked at.
    GroupCounts,
    /// `*` is a group like others.
    GroupWildcard,
    /// A rule for the core group is one for every group.
    CoreGroupIsNotAll,
    /// The resource of a rule is not looked at.
    ResourceCounts,
    /// `*` is a resource like others.
    ResourceWildcard,
    /// `*` covers resources, not their subresources.
    ResourceWildcardCoversSubresources,
    /// `*/log` is a resource like others.
    SubresourceWildcard,
    /// `pods/*` covers every subresource of pods.
    SubresourcesOfOneIsNoWildcard,
    /// `pods` covers `pods/log`.
    ResourceIsNotItsSubresources,
    /// `pods/log` covers `pods`.
    SubresourceIsNotItsResource,
    /// resourceNames are not looked at.
    NamesCount,
    /// No resourceNames means no names.
    NoNamesMeansAllNames,
    /// `*` in resourceNames covers every name.
    StarIsAName,
    /// A collection is granted by resourceNames.
    NamesGrantNoCollection,
    /// Capitals in verbs, groups and resources do not count.
    RulesMindCapitals,
    /// Capitals in resourceNames do not count.
    NamesMindCapitals,
    /// Rules for paths grant resources.
    PathsAreNoResources,
    /// Rules for every resource grant paths.
    ResourcesAreNoPaths,
    /// `/logs/*` is a path like others.
    PathPrefix,
    /// `/logs/*` covers `/logs`.
    PathPrefixIsWhole,
    /// RoleBindings grant paths.
    PathsAreOfTheCluster,
    /// Capitals in users do not count.
    UsersMindCapitals,
    /// Capitals in groups do not count.
    GroupsMindCapitals,
    /// The user `*` is everybody.
    StarIsAUser,
    /// The group `*` is every group.
    StarIsAGroup,
    /// A group is also the user of that name.
    GroupsAreNoUsers,
    /// A user is also the group of that name.
    UsersAreNoGroups,
    /// A user with a namespace is one only in bindings of that namespace.
    UsersHaveNoNamespace,
    /// A ServiceAccount without a namespace is nobody.
    ServiceAccountOfTheBinding,
    /// A ServiceAccount is always of the binding's namespace.
    ServiceAccountOfItsNamespace,
    /// ClusterRoleBindings have no ServiceAccounts.
    ServiceAccountInClusterRoleBinding,
    /// A ServiceAccount is also the user of that name.
    ServiceAccountIsNoPlainUser,
    /// A ServiceAccount is nobody's user name.
    ServiceAccountByUserName,
    /// `system:authenticated` is no group.
    AuthenticatedIsAGroup,
    /// `system:serviceaccounts` is no group.
    ServiceAccountsIsAGroup,
    /// `system:serviceaccounts:NAMESPACE` is no group.
    ServiceAccountsOfNamespaceIsAGroup,
    /// `system:masters` needs bindings.
    MastersMayEverything,
    /// RoleBindings take Roles only.
    ClusterRoleInRoleBinding,
    /// A ClusterRole is granted everywhere also by a RoleBinding.
    ClusterRoleStaysInNamespace,
    /// The Role of a RoleBinding may be of any namespace.
    RoleOfTheNamespace,
    /// A Role and a ClusterRole of one name are the same.
    RoleKindsAreApart,
    /// A binding to a role that is not there hides everything else.
    DanglingIsIgnored,
    /// A role without rules grants everything.
    EmptyIsNothing,
    /// Aggregated ClusterRoles grant nothing.
    AggregatedRulesCount,
    /// Aggregated ClusterRoles grant what their selectors say.
    SelectorsDoNotCount,
    /// A namespace is read as an object of the cluster only.
    NamespaceIsReadInItself,
    /// A list of one namespace is taken in that namespace.
    NamespacesAreListedInCluster,
    /// RoleBindings count for objects of the cluster.
    RoleBindingNotForTheCluster,
    /// RoleBindings count in every namespace.
    RoleBindingInItsNamespace,
    /// ClusterRoleBindings count for objects of the cluster only.
    ClusterRoleBindingInNamespaces,
    /// Only the first binding that fits counts.
    EveryBindingCounts,
    /// Only the first subject counts.
    EverySubjectCounts,
    /// Only the first rule counts.
    EveryRuleCounts,
    /// A role keeps the rules that it had.
    EditedRolesForget,
    /// A binding that was deleted counts.
    DeletedBindingsForget,
}

/// A world, and the one before it.
#[derive(Debug)]
pub(super) struct Model<'a> {
    bindings: Vec<Bound<'a>>,
    roles: HashMap<(&'a str, &'a str), Vec<&'a PolicyRule>>,
    former_roles: HashMap<(&'a str, &'a str), Vec<&'a PolicyRule>>,
    cluster_roles: HashMap<&'a str, &'a ClusterRole>,
}

#[derive(Clone, Copy, Debug)]
struct Bound<'a> {
    namespace: &'a str,
    role: &'a RoleRef,
    subjects: &'a [Subject],
    /// Not there any more.
    deleted: bool,
}

static EVERYTHING: LazyLock<PolicyRule> = LazyLock::new(|| rule(&["*"], &["*"], &["*"]));

impl<'a> Model<'a> {
    pub(super) fn new(now: &'a World, before: &'a World) -> Model<'a> {
        let mut bindings = bindings(now);
        let key = |bound: &Bound<'_>| (bound.namespace.to_owned(), bound.role.clone(), bound.subjects.to_vec());
        let there: Vec<_> = bindings.iter().map(key).collect();
        let former = bindings_of_former(before, |bound| !there.contains(&key(bound)));
        bindings.extend(former);
        let cluster_roles = now.cluster_roles.iter().map(|role| (text(role.metadata.name.as_ref()), role)).collect();
        Model { bindings, roles: roles(now), former_roles: roles(before), cluster_roles }
    }

    /// The answer, and every clause that decides it.
    pub(super) fn decide(&self, question: &Question) -> (bool, Vec<Clause>) {
        // Whoever is meant by any reading of any subject: the rest is the same for all.
        let close: Vec<Bound<'_>> =
            self.bindings.iter().filter(|bound| is_close(bound, &question.who)).copied().collect();
        let answer = self.allows(&close, question, None);
        let decides = |clause: &&Clause| self.allows(&close, question, Some(**clause)) != answer;
        (answer, CLAUSES.iter().filter(decides).copied().collect())
    }

    fn allows(&self, bindings: &[Bound<'_>], question: &Question, broken: Option<Clause>) -> bool {
        let is = |clause| broken == Some(clause);
        let Question { who, ask } = question;
        if who.groups.iter().any(|group| group == "system:masters") && !is(Clause::MastersMayEverything) {
            return true;
        }
        let mut allowed = false;
        for bound in bindings {
            if bound.deleted && !is(Clause::DeletedBindingsForget) || !counts(bound, ask, broken) {
                continue;
            }
            let subjects = if is(Clause::EverySubjectCounts) { &bound.subjects[..1] } else { bound.subjects };
            if !subjects.iter().any(|subject| fits(subject, who, bound.namespace, broken)) {
                continue;
            }
            match self.resolve(bound, broken) {
                None if is(Clause::DanglingIsIgnored) => return false,
                None => {}
                Some(mut rules) => {
                    if is(Clause::EveryRuleCounts) {
                        rules.truncate(1);
                    }
                    allowed |= rules.iter().any(|rule| covers(rule, ask, broken));
                }
            }
            if is(Clause::EveryBindingCounts) {
                return allowed;
            }
        }
        allowed
    }

    /// None for a role that is not there.
    fn resolve(&self, bound: &Bound<'_>, broken: Option<Clause>) -> Option<Vec<&'a PolicyRule>> {
        let is = |clause| broken == Some(clause);
        let name = bound.role.name.as_str();
        let of_cluster = bound.role.kind == "ClusterRole";
        if of_cluster && !bound.namespace.is_empty() && is(Clause::ClusterRoleInRoleBinding) {
            return None;
        }
        let key = (if of_cluster { "" } else { bound.namespace }, name);
        let mut found = self.roles.get(&key).cloned();
        let mut others = Vec::new();
        if is(Clause::RoleOfTheNamespace) && !of_cluster {
            others.extend(self.roles.iter().filter(|(key, _)| key.1 == name && !key.0.is_empty()));
        }
        if is(Clause::RoleKindsAreApart) {
            others.extend(self.roles.get_key_value(&(if of_cluster { bound.namespace } else { "" }, name)));
        }
        if is(Clause::EditedRolesForget) {
            others.extend(self.former_roles.get_key_value(&key));
        }
        let whole = self.cluster_roles.get(name).filter(|role| of_cluster && role.aggregation_rule.is_some());
        if is(Clause::SelectorsDoNotCount)
            && let Some(whole) = whole
        {
            let parts = self.cluster_roles.values().filter(|part| gathers(whole, part));
            let parts = parts.map(|part| ("", text(part.metadata.name.as_ref())));
            others.extend(parts.filter_map(|part| self.roles.get_key_value(&part)));
        }
        for (_, rules) in others {
            found.get_or_insert_default().extend(rules);
        }
        let mut rules = found?;
        if is(Clause::AggregatedRulesCount) && whole.is_some() {
            rules.clear();
        }
        if is(Clause::EmptyIsNothing) && rules.is_empty() {
            rules.push(&EVERYTHING);
        }
        Some(rules)
    }
}

/// Whether the binding is about the place of the question.
fn counts(bound: &Bound<'_>, ask: &Ask, broken: Option<Clause>) -> bool {
    let is = |clause| broken == Some(clause);
    let Ask::Resource { verb, resource, namespace, name, .. } = ask else {
        return bound.namespace.is_empty() || is(Clause::PathsAreOfTheCluster);
    };
    let of_namespaces = resource == "namespaces" && namespace.is_empty();
    let read_inside = match verb.as_str() {
        "list" | "watch" => is(Clause::NamespacesAreListedInCluster),
        _ => !is(Clause::NamespaceIsReadInItself),
    };
    let place = if of_namespaces && read_inside { name } else { namespace };
    if bound.namespace.is_empty() {
        return place.is_empty() || !is(Clause::ClusterRoleBindingInNamespaces);
    }
    bound.namespace == place
        || place.is_empty() && is(Clause::RoleBindingNotForTheCluster)
        || !place.is_empty() && is(Clause::RoleBindingInItsNamespace)
        || bound.role.kind == "ClusterRole" && is(Clause::ClusterRoleStaysInNamespace)
}

fn fits(subject: &Subject, who: &Who, binding_namespace: &str, broken: Option<Clause>) -> bool {
    let is = |clause| broken == Some(clause);
    let (name, user) = (subject.name.as_str(), who.user.as_str());
    let namespace = subject.namespace.as_deref().unwrap_or_default();
    let in_group = || {
        who.groups.iter().any(|group| {
            let dropped = match group.as_str() {
                "system:authenticated" => is(Clause::AuthenticatedIsAGroup),
                "system:serviceaccounts" => is(Clause::ServiceAccountsIsAGroup),
                group => group.starts_with("system:serviceaccounts:") && is(Clause::ServiceAccountsOfNamespaceIsAGroup),
            };
            !dropped
                && (group == name
                    || is(Clause::GroupsMindCapitals) && group.eq_ignore_ascii_case(name)
                    || is(Clause::StarIsAGroup) && name == "*")
        })
    };
    match subject.kind.as_str() {
        "User" => {
            let same = user == name
                || is(Clause::UsersMindCapitals) && user.eq_ignore_ascii_case(name)
                || is(Clause::StarIsAUser) && name == "*";
            let elsewhere = !namespace.is_empty() && namespace != binding_namespace;
            let robot = user.starts_with("system:serviceaccount:");
            same && !(elsewhere && is(Clause::UsersHaveNoNamespace)) && !(robot && is(Clause::ServiceAccountByUserName))
                || is(Clause::UsersAreNoGroups) && in_group()
        }
        "Group" => in_group() || is(Clause::GroupsAreNoUsers) && user == name,
        "ServiceAccount" => {
            let home = match (namespace, binding_namespace) {
                ("", _) if is(Clause::ServiceAccountOfTheBinding) => "",
                (_, "") if is(Clause::ServiceAccountInClusterRoleBinding) => "",
                ("", binding) => binding,
                (_, binding) if is(Clause::ServiceAccountOfItsNamespace) && !binding.is_empty() => binding,
                (own, _) => own,
            };
            !home.is_empty() && *user == format!("system:serviceaccount:{home}:{name}")
                || is(Clause::ServiceAccountIsNoPlainUser) && user == name
        }
        kind => panic!("the API server took a subject of kind {kind}"),
    }
}

fn covers(rule: &PolicyRule, ask: &Ask, broken: Option<Clause>) -> bool {
    let is = |clause| broken == Some(clause);
    let list = |items: &'_ Option<Vec<String>>| items.clone().unwrap_or_default();
    let same = |a: &str, b: &str| a == b || is(Clause::RulesMindCapitals) && a.eq_ignore_ascii_case(b);
    let has_verb = |verb: &str| {
        let any = |known: &String| same(known, verb) || known == "*" && !is(Clause::VerbWildcard);
        is(Clause::VerbCounts) || rule.verbs.iter().any(any)
    };
    let paths = list(&rule.non_resource_urls);
    match ask {
        Ask::Path { verb, path } => {
            let any = |known: &String| {
                let prefix = known.strip_suffix('*').filter(|_| !is(Clause::PathPrefix));
                known == path
                    || prefix.is_some_and(|prefix| path.starts_with(prefix))
                    || is(Clause::PathPrefixIsWhole) && known.strip_suffix("/*") == Some(path)
            };
            let resources = is(Clause::ResourcesAreNoPaths) && list(&rule.resources).iter().any(|known| known == "*");
            has_verb(verb) && (resources || paths.iter().any(any))
        }
        Ask::Resource { verb, .. } if !paths.is_empty() => is(Clause::PathsAreNoResources) && has_verb(verb),
        Ask::Resource { verb, group, resource, subresource, name, .. } => {
            let any_group = |known: &String| {
                same(known, group)
                    || known == "*" && !is(Clause::GroupWildcard)
                    || known.is_empty() && is(Clause::CoreGroupIsNotAll)
            };
            let combined = if subresource.is_empty() { resource.clone() } else { format!("{resource}/{subresource}") };
            let any_resource = |known: &String| {
                let sub = !subresource.is_empty();
                let wildcard = !(is(Clause::ResourceWildcard) || sub && is(Clause::ResourceWildcardCoversSubresources));
                same(known, &combined)
                    || known == "*" && wildcard
                    || sub && *known == format!("*/{subresource}") && !is(Clause::SubresourceWildcard)
                    || sub && *known == format!("{resource}/*") && is(Clause::SubresourcesOfOneIsNoWildcard)
                    || sub && known == resource && is(Clause::ResourceIsNotItsSubresources)
                    || !sub
                        && is(Clause::SubresourceIsNotItsResource)
                        && known.split_once('/').is_some_and(|(parent, _)| parent == resource)
            };
            let names = list(&rule.resource_names);
            let any_name = |known: &String| {
                known == name
                    || is(Clause::NamesMindCapitals) && known.eq_ignore_ascii_case(name)
                    || is(Clause::StarIsAName) && known == "*"
                    || is(Clause::NamesGrantNoCollection) && name.is_empty()
            };
            has_verb(verb)
                && (is(Clause::GroupCounts) || list(&rule.api_groups).iter().any(any_group))
                && (is(Clause::ResourceCounts) || list(&rule.resources).iter().any(any_resource))
                && (is(Clause::NamesCount)
                    || names.iter().any(any_name)
                    || names.is_empty() && !is(Clause::NoNamesMeansAllNames))
        }
    }
}

fn is_close(bound: &Bound<'_>, who: &Who) -> bool {
    bound.subjects.iter().any(|subject| {
        let robot = who.user.rsplit_once(':').is_some_and(|(_, name)| name == subject.name);
        let mut names = who.groups.iter().chain([&who.user]);
        subject.name == "*" || robot || names.any(|name| name.eq_ignore_ascii_case(&subject.name))
    })
}

fn gathers(whole: &ClusterRole, part: &ClusterRole) -> bool {
    let selectors = whole.aggregation_rule.as_ref().and_then(|rule| rule.cluster_role_selectors.as_deref());
    selectors.unwrap_or_default().iter().filter_map(|selector| selector.match_labels.as_ref()).any(|wanted| {
        let labels = part.metadata.labels.as_ref();
        wanted.iter().all(|(key, value)| labels.and_then(|labels| labels.get(key)) == Some(value))
    })
}

fn bindings(world: &World) -> Vec<Bound<'_>> {
    let global = world.cluster_role_bindings.iter().map(|binding| Bound {
        namespace: "",
        role: &binding.role_ref,
        subjects: binding.subjects.as_deref().unwrap_or_default(),
        deleted: false,
    });
    let local = world.role_bindings.iter().map(|binding| Bound {
        namespace: text(binding.metadata.namespace.as_ref()),
        role: &binding.role_ref,
        subjects: binding.subjects.as_deref().unwrap_or_default(),
        deleted: false,
    });
    global.chain(local).collect()
}

fn bindings_of_former(world: &World, gone: impl Fn(&Bound<'_>) -> bool) -> Vec<Bound<'_>> {
    let former = bindings(world).into_iter().filter(gone);
    former.map(|bound| Bound { deleted: true, ..bound }).collect()
}

/// By namespace, which is empty for ClusterRoles, and name.
fn roles(world: &World) -> HashMap<(&str, &str), Vec<&PolicyRule>> {
    let global = world.cluster_roles.iter().map(|role| (("", text(role.metadata.name.as_ref())), &role.rules));
    let local = world
        .roles
        .iter()
        .map(|role| ((text(role.metadata.namespace.as_ref()), text(role.metadata.name.as_ref())), &role.rules));
    global.chain(local).map(|(key, rules)| (key, rules.iter().flatten().collect())).collect()
}

fn text(value: Option<&String>) -> &str {
    value.map_or("", String::as_str)
}
