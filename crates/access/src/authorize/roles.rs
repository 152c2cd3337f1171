//! The standalone authorizer: roles, granted per namespace pattern. Pure rules, no IO.
//!
//! A static token carries its grants; users and groups of certificates and front proxies get theirs from bindings in
//! the configuration. A grant on `*` is for every namespace and for what has none (lists over all namespaces, cluster
//! resources, paths); any other pattern is for namespaces only.
//!
//! Adding a role = one line in [`ROLES`] and one row in the table test.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use thiserror::Error;

use crate::action::Action;
use crate::identity::Identity;

/// A role: a name, what it is for, and what it allows.
#[derive(Clone, Copy)]
pub struct Role {
    pub name: &'static str,
    pub help: &'static str,
    allows: fn(&Action) -> bool,
}

/// Every role, the strongest first.
pub const ROLES: &[Role] = &[
    Role { name: "admin", help: "everything, tokens and forced unlocks included", allows: |_| true },
    Role {
        name: "editor",
        help: "read and change everything but tokens, storage backends, clusters, the hub's journal and other people's locks",
        allows: editor,
    },
    Role { name: "viewer", help: "read everything but tokens, values and sensitive outputs", allows: viewer },
    Role { name: "outputs", help: "read the outputs of states that are not sensitive", allows: outputs },
    Role { name: "monitor", help: "read /metrics and what is not ready", allows: monitor },
];

const READ: &[&str] = &["get", "list", "watch"];
const CHANGE: &[&str] = &["create", "update", "patch", "delete"];

fn editor(action: &Action) -> bool {
    match action {
        Action::NonResource { .. } => monitor(action),
        Action::Resource { verb, group, resource, .. } => {
            let own_rights = *group == TOKENS_GROUP;
            // They come with credentials for other systems, or leave things behind there.
            let outside = matches!(*resource, "storagebackends" | "clusters" | "journal") && !READ.contains(verb);
            (READ.contains(verb) || CHANGE.contains(verb)) && !own_rights && !outside
        }
    }
}

fn viewer(action: &Action) -> bool {
    match action {
        Action::NonResource { .. } => monitor(action),
        Action::Resource { verb, group, subresource, .. } => {
            let value = matches!(subresource, Some("value" | "sensitive-outputs"));
            READ.contains(verb) && *group != TOKENS_GROUP && !value
        }
    }
}

fn outputs(action: &Action) -> bool {
    matches!(action, Action::Resource { verb: "get", resource: "states", subresource: Some("outputs"), .. })
}

fn monitor(action: &Action) -> bool {
    matches!(action, Action::NonResource { verb: "get", .. })
}

/// The API group of `tokens`: who may manage tokens may become anybody.
pub(crate) const TOKENS_GROUP: &str = "access.stateward.dev";

impl fmt::Debug for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl PartialEq for Role {
    fn eq(&self, other: &Role) -> bool {
        self.name == other.name
    }
}

impl Eq for Role {}

/// A namespace pattern: `*` stands for any run of characters, everything else for itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern(String);

impl Pattern {
    pub fn matches(&self, namespace: &str) -> bool {
        let mut parts = self.0.split('*');
        let Some(mut rest) = parts.next().and_then(|first| namespace.strip_prefix(first)) else { return false };
        let mut parts = parts.peekable();
        if parts.peek().is_none() {
            return rest.is_empty();
        }
        while let Some(part) = parts.next() {
            if parts.peek().is_none() {
                return rest.ends_with(part);
            }
            match rest.find(part) {
                Some(at) => rest = &rest[at + part.len()..],
                None => return false,
            }
        }
        true
    }

    /// `*`, the only pattern that also covers what has no namespace.
    pub fn is_everything(&self) -> bool {
        self.0 == "*"
    }
}

impl FromStr for Pattern {
    type Err = GrantError;

    fn from_str(pattern: &str) -> Result<Pattern, GrantError> {
        let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-' || byte == b'*';
        if pattern.is_empty() || pattern.len() > 63 || !pattern.bytes().all(fits) {
            return Err(GrantError::Pattern(pattern.to_owned()));
        }
        Ok(Pattern(pattern.to_owned()))
    }
}

/// A role in the namespaces of a pattern, written `ROLE@PATTERN`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    pub role: Role,
    pub namespaces: Pattern,
}

impl Grant {
    pub fn allows(&self, action: &Action) -> bool {
        let covered = match action {
            Action::Resource { namespace: Some(namespace), .. } => self.namespaces.matches(namespace),
            Action::Resource { namespace: None, .. } | Action::NonResource { .. } => self.namespaces.is_everything(),
        };
        covered && (self.role.allows)(action)
    }
}

#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum GrantError {
    #[error("'{0}' is not of the form ROLE@NAMESPACE-PATTERN, for example viewer@team-*")]
    Form(String),
    #[error("'{role}' is not a role; the roles are {known}")]
    Role { role: String, known: String },
    #[error("'{0}' is not a namespace pattern: lower-case letters, digits, '-' and '*' only")]
    Pattern(String),
    #[error("'{0}' is not of the form user:NAME=ROLE@PATTERN or group:NAME=ROLE@PATTERN")]
    Binding(String),
}

impl FromStr for Grant {
    type Err = GrantError;

    fn from_str(text: &str) -> Result<Grant, GrantError> {
        let (role, pattern) = text.split_once('@').ok_or_else(|| GrantError::Form(text.to_owned()))?;
        let role = *ROLES.iter().find(|known| known.name == role).ok_or_else(|| GrantError::Role {
            role: role.to_owned(),
            known: ROLES.iter().map(|role| role.name).collect::<Vec<_>>().join(", "),
        })?;
        Ok(Grant { role, namespaces: pattern.parse()? })
    }
}

impl fmt::Display for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.role.name, self.namespaces.0)
    }
}

impl Serialize for Grant {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Grant {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Grant, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// Who a binding of the configuration is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    User(String),
    Group(String),
}

/// A grant to a user or a group, written `user:NAME=ROLE@PATTERN` or `group:NAME=ROLE@PATTERN`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binding {
    pub subject: Subject,
    pub grant: Grant,
}

impl FromStr for Binding {
    type Err = GrantError;

    fn from_str(text: &str) -> Result<Binding, GrantError> {
        let malformed = || GrantError::Binding(text.to_owned());
        let (subject, grant) = text.rsplit_once('=').ok_or_else(malformed)?;
        let (kind, name) = subject.split_once(':').filter(|(_, name)| !name.is_empty()).ok_or_else(malformed)?;
        let subject = match kind {
            "user" => Subject::User(name.to_owned()),
            "group" => Subject::Group(name.to_owned()),
            _ => return Err(malformed()),
        };
        Ok(Binding { subject, grant: grant.parse()? })
    }
}

/// The standalone decision: any grant of the token, or any binding of the user or one of their groups.
pub(crate) fn may(bindings: &[Binding], who: &Identity, action: &Action) -> bool {
    let bound = bindings.iter().filter(|binding| match &binding.subject {
        Subject::User(user) => *user == who.user,
        Subject::Group(group) => who.groups.contains(group),
    });
    who.grants.iter().chain(bound.map(|binding| &binding.grant)).any(|grant| grant.allows(action))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_whole_namespaces() {
        let cases = [
            ("*", "a", true),
            ("*", "", true),
            ("team-a", "team-a", true),
            ("team-a", "team-ab", false),
            ("team-a", "xteam-a", false),
            ("team-*", "team-", true),
            ("team-*", "team-a", true),
            ("team-*", "team", false),
            ("*-prod", "shop-prod", true),
            ("*-prod", "shop-prod-2", false),
            ("a*b*c", "abc", true),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "acb", false),
            ("a*a", "a", false),
            ("a**b", "ab", true),
        ];
        for (pattern, namespace, expected) in cases {
            assert_eq!(Pattern(pattern.to_owned()).matches(namespace), expected, "{pattern} on {namespace}");
        }
    }

    #[test]
    fn each_role_allows_what_its_row_says() {
        let states = |verb| Action::on(verb, "stateward.dev", "states").in_namespace("a");
        let actions: &[(&str, Action)] = &[
            ("get state", states("get").named("x")),
            ("list states", states("list")),
            ("update state", states("update").named("x")),
            ("delete state", states("delete").named("x")),
            ("force unlock", states("unlock").named("x")),
            ("outputs", states("get").subresource("outputs").named("x")),
            ("sensitive", states("get").subresource("sensitive-outputs").named("x")),
            ("value", Action::on("get", "hub.stateward.dev", "typeinstances").subresource("value").in_namespace("a")),
            ("backend", Action::on("create", "hub.stateward.dev", "storagebackends").in_namespace("a")),
            ("record", Action::on("list", "hub.stateward.dev", "typeinstances").in_namespace("a")),
            ("lock", Action::on("create", "hub.stateward.dev", "typeinstances").subresource("lock").in_namespace("a")),
            ("force", Action::on("force-unlock", "hub.stateward.dev", "typeinstances").subresource("lock").in_namespace("a")),
            ("orphan", Action::on("orphan", "hub.stateward.dev", "typeinstances").in_namespace("a")),
            ("journal", Action::on("list", "hub.stateward.dev", "journal")),
            ("abandon", Action::on("delete", "hub.stateward.dev", "journal").named("x")),
            ("type", Action::on("create", "hub.stateward.dev", "types").named("cap.type.x")),
            ("clusters", Action::on("list", "stateward.dev", "clusters")),
            ("add cluster", Action::on("create", "stateward.dev", "clusters").named("west")),
            ("tokens", Action::on("create", TOKENS_GROUP, "tokens")),
            ("all states", Action::on("list", "stateward.dev", "states")),
            ("metrics", Action::at("get", "/metrics")),
        ];
        // Columns as in `actions`.
        let table = [
            ("admin@*", "yyyyyyyyy yyyyyyy yyyyy"),
            ("editor@*", "yyyynyyyn yynnyny ynnyy"),
            ("viewer@*", "yynnnynnn ynnnynn ynnyy"),
            ("outputs@*", "nnnnnynnn nnnnnnn nnnnn"),
            ("monitor@*", "nnnnnnnnn nnnnnnn nnnny"),
            ("admin@a", "yyyyyyyyy yyyynnn nnnnn"),
            ("editor@a*", "yyyynyyyn yynnnnn nnnnn"),
            ("viewer@b", "nnnnnnnnn nnnnnnn nnnnn"),
        ];
        for (grant, row) in table {
            let row: String = row.split(' ').collect();
            let parsed: Grant = grant.parse().unwrap();
            for ((what, action), expected) in actions.iter().zip(row.chars()) {
                assert_eq!(parsed.allows(action), expected == 'y', "{grant}: {what}");
            }
            assert_eq!(row.len(), actions.len());
        }
        assert_eq!(ROLES.len(), 5, "a new role needs a row above");
    }

    #[test]
    fn nonsense_is_refused_with_the_cure() {
        for (text, fault) in [
            ("viewer", "ROLE@NAMESPACE-PATTERN"),
            ("root@*", "the roles are admin, editor"),
            ("viewer@", "not a namespace pattern"),
            ("viewer@Team", "not a namespace pattern"),
        ] {
            assert!(text.parse::<Grant>().unwrap_err().to_string().contains(fault), "{text}");
        }
        for text in ["viewer@*", "users:a=viewer@*", "user:=viewer@*", "user:a"] {
            assert!(text.parse::<Binding>().is_err(), "{text}");
        }
        let binding: Binding = "group:dev=team=viewer@a-*".parse().unwrap();
        assert_eq!(binding.subject, Subject::Group("dev=team".to_owned()));
        assert_eq!(binding.grant.to_string(), "viewer@a-*");
    }
}
