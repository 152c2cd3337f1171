//! Random questions that lie close to what is granted: taken from a binding and a rule, then bent in places.

use access::rbac::{Request, Who};
use fastrand::Rng;
use k8s_openapi::api::rbac::v1::{PolicyRule, RoleRef, Subject};

use super::world::{GROUPS, NAMES, PATHS, RESOURCES, SUBRESOURCES, VERBS, World, is_made, pick};

/// May they?
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Question {
    pub(super) who: Who,
    pub(super) ask: Ask,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Ask {
    Resource { verb: String, group: String, resource: String, subresource: String, namespace: String, name: String },
    Path { verb: String, path: String },
}

impl Ask {
    /// None for a path.
    pub(super) fn request(&self) -> Option<Request<'_>> {
        let Ask::Resource { verb, group, resource, subresource, namespace, name } = self else { return None };
        let subresource = (!subresource.is_empty()).then_some(subresource.as_str());
        Some(Request { verb, group, resource, subresource, namespace, name })
    }

    /// A request for namespaces as objects of the cluster. A review takes no account of where the path of a request
    /// would put it, so that these are made in earnest.
    pub(super) fn is_of_namespaces(&self) -> bool {
        matches!(self, Ask::Resource { resource, namespace, .. } if resource == "namespaces" && namespace.is_empty())
    }
}

/// Makes questions about one world.
#[derive(Debug)]
pub(super) struct Asker<'a> {
    pub(super) rng: Rng,
    pub(super) namespaces: &'a [String],
    bindings: Vec<(String, &'a RoleRef, &'a [Subject])>,
    roles: Vec<(&'a str, &'a str, &'a [PolicyRule])>,
}

impl<'a> Asker<'a> {
    /// About what is there now and, more rarely, what was there before.
    pub(super) fn new(rng: Rng, namespaces: &'a [String], now: &'a World, before: &'a World) -> Asker<'a> {
        let mut asker = Asker { rng, namespaces, bindings: Vec::new(), roles: Vec::new() };
        for (world, times) in [(now, 3), (before, 1)] {
            for _ in 0..times {
                asker.take(world);
            }
        }
        asker
    }

    fn take(&mut self, world: &'a World) {
        for binding in world.cluster_role_bindings.iter().filter(|binding| is_made(*binding)) {
            self.bindings.push((String::new(), &binding.role_ref, binding.subjects.as_deref().unwrap_or_default()));
        }
        for binding in world.role_bindings.iter().filter(|binding| is_made(*binding)) {
            let namespace = binding.metadata.namespace.clone().unwrap_or_default();
            self.bindings.push((namespace, &binding.role_ref, binding.subjects.as_deref().unwrap_or_default()));
        }
        for role in world.cluster_roles.iter().filter(|role| is_made(*role)) {
            let name = role.metadata.name.as_deref().unwrap_or_default();
            self.roles.push(("", name, role.rules.as_deref().unwrap_or_default()));
        }
        for role in &world.roles {
            let namespace = role.metadata.namespace.as_deref().unwrap_or_default();
            let name = role.metadata.name.as_deref().unwrap_or_default();
            self.roles.push((namespace, name, role.rules.as_deref().unwrap_or_default()));
        }
    }

    pub(super) fn question(&mut self) -> Question {
        // A role without rules leads to few questions that are close to anything.
        let mut binding = pick(&mut self.rng, &self.bindings);
        while self.rules(&binding.0, binding.1).is_empty() && self.rng.u8(..4) > 0 {
            binding = pick(&mut self.rng, &self.bindings);
        }
        let (binding_namespace, role, subjects) = binding;
        let subject = (!subjects.is_empty()).then(|| pick(&mut self.rng, subjects));
        let mut who = match &subject {
            Some(subject) => self.fitting(subject, &binding_namespace),
            None => self.anybody(),
        };
        let bend = self.rng.u8(..20);
        let rules = match bend {
            // Of a role with the same name in another place, or of any.
            0 | 1 => self.rules_of(|_, name| name == role.name),
            2 => self.rules_of(|_, _| true),
            _ => self.rules(&binding_namespace, role),
        };
        let mut ask = match rules.as_slice() {
            [] => self.anything(&binding_namespace),
            rules => {
                let rule = pick(&mut self.rng, rules);
                self.about(rule, &binding_namespace)
            }
        };
        match bend {
            3..8 => self.bend_who(&mut who, subject.as_ref()),
            8..11 => self.bend(&mut ask),
            11 | 12 => ask = self.own_namespace(&binding_namespace),
            _ => {}
        }
        if ask.is_of_namespaces() {
            self.make_askable(&mut who, &mut ask, &binding_namespace);
        }
        Question { who, ask }
    }

    /// The rules of a binding's role or, as long as nobody has gathered those, what they would be gathered from.
    fn rules(&self, binding_namespace: &str, role: &RoleRef) -> Vec<&'a PolicyRule> {
        let home = if role.kind == "Role" { binding_namespace } else { "" };
        let own = self.rules_of(|namespace, name| (namespace, name) == (home, role.name.as_str()));
        match role.name.strip_prefix("whole") {
            Some(whole) if own.is_empty() => self.rules_of(|_, name| {
                let part = name.strip_prefix("part").and_then(|number| number.parse::<usize>().ok());
                part.is_some_and(|part| (part % 4).to_string() == whole)
            }),
            _ => own,
        }
    }

    fn rules_of(&self, wanted: impl Fn(&str, &str) -> bool) -> Vec<&'a PolicyRule> {
        let roles = self.roles.iter().filter(|(namespace, name, _)| wanted(namespace, name));
        roles.flat_map(|(_, _, rules)| *rules).collect()
    }

    fn anybody(&mut self) -> Who {
        let groups = (0..self.rng.u8(..3)).map(|_| format!("group{}", self.rng.u8(..12))).collect();
        Who { user: format!("user{}", self.rng.u8(..24)), groups }
    }

    /// Somebody whom the subject means.
    fn fitting(&mut self, subject: &Subject, binding_namespace: &str) -> Who {
        let mut who = self.anybody();
        match subject.kind.as_str() {
            "User" if subject.name != "*" => who.user.clone_from(&subject.name),
            "Group" if subject.name != "*" => {
                who.groups.push(subject.name.clone());
                if let Some(of) = subject.name.strip_prefix("system:serviceaccounts") {
                    let namespace = of.strip_prefix(':').unwrap_or(binding_namespace);
                    who.user = format!("system:serviceaccount:{namespace}:robot{}", self.rng.u8(..4));
                }
            }
            "ServiceAccount" => {
                let namespace = subject.namespace.as_deref().unwrap_or(binding_namespace);
                who.user = format!("system:serviceaccount:{namespace}:{}", subject.name);
                if self.rng.bool() {
                    who.groups.push("system:serviceaccounts".to_owned());
                    who.groups.push(format!("system:serviceaccounts:{namespace}"));
                }
            }
            _ => {}
        }
        if self.rng.u8(..4) == 0 {
            who.groups.push("system:authenticated".to_owned());
        }
        who
    }

    fn bend_who(&mut self, who: &mut Who, subject: Option<&Subject>) {
        let (kind, name) = subject.map_or(("", ""), |subject| (&subject.kind, &subject.name));
        match (kind, self.rng.u8(..8)) {
            ("User", 0 | 1) => swap_case(&mut who.user),
            ("Group", 0 | 1) => who.groups.iter_mut().for_each(swap_case),
            // Users and groups are apart, even when they have the same name.
            ("User", 2 | 3) => (who.user, who.groups) = (self.anybody().user, vec![who.user.clone()]),
            ("Group", 2..=4) => (who.user, who.groups) = (name.to_owned(), Vec::new()),
            ("ServiceAccount", 0 | 1) => name.clone_into(&mut who.user),
            ("ServiceAccount", 2 | 3) => {
                who.user = format!("system:serviceaccount:{}:{name}", pick(&mut self.rng, self.namespaces));
            }
            ("User", 4) => "*".clone_into(&mut who.user),
            (_, 5) => who.groups.push("system:masters".to_owned()),
            (_, 6) => who.groups.clear(),
            // Nobody, but in groups.
            (_, 7) if !who.groups.is_empty() => who.user.clear(),
            _ => *who = self.anybody(),
        }
    }

    /// Something that the rule covers.
    fn about(&mut self, rule: &PolicyRule, binding_namespace: &str) -> Ask {
        let rng = &mut self.rng;
        let verb = match pick(rng, &rule.verbs).as_str() {
            "*" => pick(rng, VERBS).to_owned(),
            verb if rng.bool() => verb.to_lowercase(),
            verb => verb.to_owned(),
        };
        if let Some(paths) = &rule.non_resource_urls {
            let path = match pick(rng, paths).strip_suffix('*') {
                Some(prefix) if rng.u8(..3) > 0 => prefix.trim_end_matches('/').to_owned(),
                Some(prefix) if rng.bool() => format!("{prefix}a"),
                _ => pick(rng, PATHS).to_owned(),
            };
            return Ask::Path { verb, path };
        }
        let group = match pick(rng, rule.api_groups.as_deref().unwrap_or_default()).as_str() {
            "*" => pick(rng, GROUPS).to_owned(),
            group if rng.bool() => group.to_lowercase(),
            group => group.to_owned(),
        };
        let covered = pick(rng, rule.resources.as_deref().unwrap_or_default());
        let covered = if rng.bool() { covered.to_lowercase() } else { covered };
        let (resource, subresource) = covered.split_once('/').unwrap_or((&covered, ""));
        let resource = if resource == "*" { pick(rng, RESOURCES) } else { resource };
        let subresource = match (covered.as_str(), subresource) {
            ("*", _) if rng.bool() => pick(rng, SUBRESOURCES),
            (_, "*") if rng.u8(..4) > 0 => pick(rng, SUBRESOURCES),
            (_, subresource) => subresource,
        };
        let name = match &rule.resource_names {
            Some(names) => match pick(rng, names).as_str() {
                "*" if rng.u8(..4) > 0 => pick(rng, NAMES).to_owned(),
                name if rng.bool() => name.to_lowercase(),
                name => name.to_owned(),
            },
            None if rng.u8(..3) == 0 => String::new(),
            None => pick(rng, NAMES).to_owned(),
        };
        let (resource, subresource) = (resource.to_owned(), subresource.to_owned());
        let namespace = self.namespace(binding_namespace, &resource);
        Ask::Resource { verb, group, resource, subresource, namespace, name }
    }

    fn anything(&mut self, binding_namespace: &str) -> Ask {
        let rng = &mut self.rng;
        let resource = pick(rng, RESOURCES).to_owned();
        let (verb, group, name) = (pick(rng, VERBS), pick(rng, GROUPS), pick(rng, NAMES));
        let (verb, group, name) = (verb.to_owned(), group.to_owned(), name.to_owned());
        let namespace = self.namespace(binding_namespace, &resource);
        Ask::Resource { verb, group, resource, subresource: String::new(), namespace, name }
    }

    /// The object of the binding's namespace, which is read inside it and listed outside.
    fn own_namespace(&mut self, binding_namespace: &str) -> Ask {
        Ask::Resource {
            verb: pick(&mut self.rng, &["get", "delete", "list"]).to_owned(),
            group: String::new(),
            resource: "namespaces".to_owned(),
            subresource: String::new(),
            namespace: String::new(),
            name: binding_namespace.to_owned(),
        }
    }

    /// Mostly where the binding counts.
    fn namespace(&mut self, binding_namespace: &str, resource: &str) -> String {
        match self.rng.u8(..12) {
            _ if resource == "namespaces" && self.rng.u8(..4) > 0 => String::new(),
            0 => String::new(),
            1 => pick(&mut self.rng, self.namespaces),
            _ if binding_namespace.is_empty() && self.rng.bool() => pick(&mut self.rng, self.namespaces),
            _ => binding_namespace.to_owned(),
        }
    }

    fn bend(&mut self, ask: &mut Ask) {
        let rng = &mut self.rng;
        match ask {
            Ask::Path { verb, path } => match rng.u8(..3) {
                0 => pick(rng, VERBS).clone_into(verb),
                1 => pick(rng, PATHS).clone_into(path),
                _ => swap_case(path),
            },
            Ask::Resource { verb, group, resource, subresource, namespace, name } => match rng.u8(..13) {
                0 => pick(rng, VERBS).clone_into(verb),
                1 => pick(rng, GROUPS).clone_into(group),
                2 => pick(rng, RESOURCES).clone_into(resource),
                3..5 => subresource.clear(),
                5..7 => pick(rng, SUBRESOURCES).clone_into(subresource),
                7 => pick(rng, NAMES).clone_into(name),
                8 => name.clear(),
                9 => swap_case(pick_one(rng, [verb, group, resource, name])),
                11 => swap_case(name),
                10 => *namespace = pick(rng, self.namespaces),
                _ => {
                    *ask = Ask::Path { verb: verb.clone(), path: pick(rng, PATHS).to_owned() };
                }
            },
        }
    }

    /// Shapes a request for namespaces so that it can be made: with somebody to be, and as a real verb.
    fn make_askable(&mut self, who: &mut Who, ask: &mut Ask, binding_namespace: &str) {
        if who.user.is_empty() {
            who.user = self.anybody().user;
        }
        // The API server adds it to whoever is impersonated.
        if !who.groups.iter().any(|group| group == "system:authenticated") {
            who.groups.push("system:authenticated".to_owned());
        }
        let Ask::Resource { verb, group, subresource, name, .. } = ask else { return };
        group.clear();
        subresource.clear();
        if self.rng.u8(..4) > 0 && !self.namespaces.contains(name) {
            let own = !binding_namespace.is_empty() && self.rng.u8(..4) > 0;
            *name = if own { binding_namespace.to_owned() } else { pick(&mut self.rng, self.namespaces) };
        }
        let verbs: &[&str] = if name.is_empty() { &["list"] } else { &["get", "list", "delete"] };
        if !verbs.contains(&verb.as_str()) {
            pick(&mut self.rng, verbs).clone_into(verb);
        }
    }
}

fn pick_one<'a>(rng: &mut Rng, from: [&'a mut String; 4]) -> &'a mut String {
    let at = rng.usize(..from.len());
    from.into_iter().nth(at).expect("one of four")
}

/// The first letter in capitals, or not any more.
fn swap_case(text: &mut String) {
    let mut letters: Vec<char> = text.chars().collect();
    if let Some(first) = letters.iter_mut().find(|letter| letter.is_ascii_alphabetic()) {
        *first = if first.is_ascii_lowercase() { first.to_ascii_uppercase() } else { first.to_ascii_lowercase() };
    }
    *text = letters.into_iter().collect();
}
