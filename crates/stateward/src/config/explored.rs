//! The lists of the explorer: which kinds are collected and kept, and who static tokens are.

use std::collections::BTreeMap;
use std::time::Duration;

use explorer::kinds::KindSpec;
use explorer::service::Person;

use super::settings::{Explorer, Settings};
use super::{Problem, units};

/// The kinds that are collected, with how long objects that are gone are still shown.
pub fn kinds(settings: &Explorer) -> Vec<KindSpec> {
    let mut kinds = match settings.kinds.as_slice() {
        [] => KindSpec::defaults(),
        named => named.iter().filter_map(|text| KindSpec::parse(text).ok()).collect(),
    };
    for (kind, group, time) in settings.retention.iter().filter_map(|text| retention(text)) {
        for spec in kinds.iter_mut().filter(|spec| is(spec, kind, group)) {
            spec.retention = Some(time).filter(|time| !time.is_zero());
        }
    }
    kinds
}

/// Who a static token is in the cluster that the server belongs to, by the token's user.
pub fn token_users(settings: &Explorer) -> BTreeMap<String, Person> {
    settings.token_users.iter().filter_map(|text| token_user(text)).collect()
}

/// Everything that is wrong with these lists.
pub fn problems(settings: &Settings) -> Vec<Problem> {
    let explorer = &settings.explorer;
    let mut problems = Vec::new();
    let mut wrong = |key: &str, fault: String, cure: &str| problems.push(Problem::new(key, fault, cure));
    for fault in explorer.kinds.iter().filter_map(|text| KindSpec::parse(text).err()) {
        wrong("explorer.kinds", fault.to_string(), "write each in one of these forms");
    }
    let collected = kinds(explorer);
    for text in &explorer.retention {
        match retention(text) {
            None => wrong("explorer.retention", format!("'{text}' is not KIND=TIME"), "write it as Event=24h"),
            Some((kind, group, _)) if !collected.iter().any(|spec| is(spec, kind, group)) => {
                wrong("explorer.retention", format!("'{kind}' is not collected"), "name one of explorer.kinds");
            }
            Some(_) => {}
        }
    }
    for text in explorer.token_users.iter().filter(|text| token_user(text).is_none()) {
        let fault = format!("'{text}' is not TOKEN-USER=USER[:GROUP...], or it names a system: user or group");
        wrong("explorer.token_users", fault, "write it as ci=jane:developers");
    }
    let unknown = explorer.row_verbs.iter().any(|verb| !matches!(verb.as_str(), "list" | "get"));
    if unknown || explorer.row_verbs.is_empty() {
        wrong("explorer.row_verbs", "has something else than list and get, or nothing".to_owned(), "write list,get");
    }
    if !access::http::is_dns_label(&explorer.cluster_name) {
        let fault = format!("'{}' is not a DNS label", explorer.cluster_name);
        wrong("explorer.cluster_name", fault, "use lower-case letters, digits and '-'");
    }
    problems
}

fn is(spec: &KindSpec, kind: &str, group: Option<&str>) -> bool {
    spec.kind == kind && group.is_none_or(|group| spec.group == group)
}

/// `KIND=TIME` or `KIND.GROUP=TIME`.
fn retention(text: &str) -> Option<(&str, Option<&str>, Duration)> {
    let (kind, time) = text.split_once('=')?;
    let (kind, time) = (kind.trim(), units::duration(time)?);
    let (kind, group) = kind.split_once('.').map_or((kind, None), |(kind, group)| (kind, Some(group)));
    (!kind.is_empty()).then_some((kind, group, time))
}

/// `TOKEN-USER=USER[:GROUP...]`. What only Kubernetes says of a caller is not given to a token.
fn token_user(text: &str) -> Option<(String, Person)> {
    let (token, person) = text.split_once('=')?;
    let mut names = person.split(':').map(str::trim);
    let user = names.next().filter(|user| !user.is_empty()).map(str::to_owned);
    let groups: Vec<String> = names.map(str::to_owned).collect();
    let system = text.contains("system:");
    let whole = !token.trim().is_empty() && groups.iter().all(|group| !group.is_empty());
    (whole && !system && (user.is_some() || !groups.is_empty()))
        .then(|| (token.trim().to_owned(), Person { user, groups }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_given_a_user_and_groups_but_never_those_of_the_system() {
        let person = |user: Option<&str>, groups: &[&str]| Person {
            user: user.map(str::to_owned),
            groups: groups.iter().map(|&group| group.to_owned()).collect(),
        };
        let table = [
            ("ci=jane", Some(("ci", person(Some("jane"), &[])))),
            ("ci=jane:dev:ops", Some(("ci", person(Some("jane"), &["dev", "ops"])))),
            ("ci=:dev", Some(("ci", person(None, &["dev"])))),
            ("ci=", None),
            ("ci", None),
            ("=jane", None),
            ("ci=jane:", None),
            ("ci=system:admin", None),
            ("ci=jane:system:masters", None),
        ];
        for (text, expected) in table {
            let expected = expected.map(|(token, person)| (token.to_owned(), person));
            assert_eq!(token_user(text), expected, "{text}");
        }
    }

    #[test]
    fn retention_is_by_kind_and_maybe_by_group() {
        let minute = Duration::from_mins(1);
        assert_eq!(retention("Event=1m"), Some(("Event", None, minute)));
        assert_eq!(
            retention("HelmRelease.helm.toolkit.fluxcd.io = 1m").map(|(kind, group, _)| (kind, group)),
            Some(("HelmRelease", Some("helm.toolkit.fluxcd.io")))
        );
        for bad in ["", "Event", "Event=", "Event=10", "=1m"] {
            assert_eq!(retention(bad), None, "{bad}");
        }
    }
}
