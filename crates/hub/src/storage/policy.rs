//! Which backend a Type is meant for, where the request names none. Pure.

use crate::model::{Revision, TypeRef};

/// Records of such a Type are kept in this backend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyRule {
    /// A path, or `a.b.*` for all that begin so.
    pub path: String,
    /// `None`: any.
    pub revision: Option<Revision>,
    /// The id or the name of the backend's record.
    pub backend: String,
}

/// The backend of the most specific rule: the path itself before patterns, longer patterns before shorter ones, and at each
/// level one with a revision before one without.
pub(super) fn chosen<'a>(rules: &'a [PolicyRule], type_ref: &TypeRef) -> Option<&'a str> {
    let fitting = rules.iter().filter_map(|rule| Some((rank(rule, type_ref)?, rule)));
    // The first of equals, as they were written.
    let best = fitting.fold(None, |best: Option<(Rank, &PolicyRule)>, (rank, rule)| match best {
        Some((highest, _)) if highest >= rank => best,
        _ => Some((rank, rule)),
    });
    best.map(|(_rank, rule)| rule.backend.as_str())
}

/// Greater is more specific: whether it is the path itself, the length of what is given, whether the revision is given.
type Rank = (bool, usize, bool);

fn rank(rule: &PolicyRule, type_ref: &TypeRef) -> Option<Rank> {
    let path = type_ref.path.as_str();
    let given = match rule.path.strip_suffix('*') {
        None => (rule.path == path).then_some((true, path.len())),
        Some(prefix) => path.starts_with(prefix).then_some((false, prefix.len())),
    };
    let revision = rule.revision.as_ref().is_none_or(|revision| *revision == type_ref.revision);
    given.filter(|_| revision).map(|(is_path, length)| (is_path, length, rule.revision.is_some()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_specific_rule_wins() {
        let rule = |path: &str, revision: Option<&str>, backend: &str| PolicyRule {
            path: path.to_owned(),
            revision: revision.map(|revision| revision.parse().unwrap()),
            backend: backend.to_owned(),
        };
        let rules = [
            rule("*", None, "all"),
            rule("cap.type.*", Some("0.1.0"), "short with revision"),
            rule("cap.type.aws.*", None, "long"),
            rule("cap.type.aws.*", Some("0.2.0"), "long with revision"),
            rule("cap.type.aws.user", None, "path"),
            rule("cap.type.aws.user", Some("0.3.0"), "path with revision"),
            rule("cap.type.aws.user", Some("0.3.0"), "second of equals"),
        ];
        let table = [
            ("cap.type.aws.user", "0.3.0", Some("path with revision")),
            ("cap.type.aws.user", "0.2.0", Some("path")),
            ("cap.type.aws.role", "0.2.0", Some("long with revision")),
            ("cap.type.aws.role", "0.1.0", Some("long")),
            ("cap.type.gcp.role", "0.1.0", Some("short with revision")),
            ("cap.type.gcp.role", "0.2.0", Some("all")),
        ];
        for (path, revision, expected) in table {
            let type_ref = TypeRef { path: path.parse().unwrap(), revision: revision.parse().unwrap() };
            assert_eq!(chosen(&rules, &type_ref), expected, "{type_ref}");
        }
        let type_ref = TypeRef { path: "a.b".parse().unwrap(), revision: "0.1.0".parse().unwrap() };
        assert_eq!(chosen(&rules[1..], &type_ref), None);
    }
}
