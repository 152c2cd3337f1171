//! Who somebody is in a cluster. Pure.
//!
//! An identity belongs to the authenticator that proved it. At home, in the cluster whose authenticator is the server's own, it
//! counts as it is; elsewhere only as far as the cluster's rules say, and never with a `system:` name. A static token was
//! proved by no cluster at all: it is whoever an administrator said, cluster by cluster.

use std::collections::BTreeMap;

use access::rbac::Who;
use access::{Identity, Source};

use super::error::Error;
use super::options::{Crossing, Mapping, Person, Principal, Rules};

/// Whose authenticator a cluster has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// The server's own.
    Home,
    Abroad,
}

const AUTHENTICATED: &str = "system:authenticated";

/// Who somebody is in a cluster with these rules; `None`: nobody.
pub(crate) fn who(identity: &Identity, standing: Standing, rules: &Rules) -> Option<Who> {
    match (identity.source, standing) {
        (Source::StaticToken, _) => rules.tokens.get(&identity.user).map(|person| of([person])),
        (_, Standing::Home) => Some(Who { user: identity.user.clone(), groups: identity.groups.clone() }),
        (_, Standing::Abroad) => cross(identity, &rules.identity),
    }
}

fn cross(identity: &Identity, crossing: &Crossing) -> Option<Who> {
    if is_system(&identity.user) {
        return None;
    }
    match crossing {
        Crossing::None => None,
        Crossing::Shared => {
            let person = Person { user: Some(identity.user.clone()), groups: identity.groups.clone() };
            Some(of([&person]))
        }
        Crossing::Map(mappings) => {
            let fits = |mapping: &&Mapping| match &mapping.from {
                Principal::User(user) => *user == identity.user,
                Principal::Group(group) => !is_system(group) && identity.groups.contains(group),
            };
            let people: Vec<&Person> = mappings.iter().filter(fits).map(|mapping| &mapping.person).collect();
            (!people.is_empty()).then(|| of(people))
        }
    }
}

/// All of these in one: the first user that is named, every group once. Without a user it is the empty one, which no binding
/// can name.
fn of<'a>(people: impl IntoIterator<Item = &'a Person>) -> Who {
    let mut who = Who { user: String::new(), groups: Vec::new() };
    for person in people {
        if let (true, Some(user)) = (who.user.is_empty(), &person.user) {
            who.user.clone_from(user);
        }
        let groups = person.groups.iter().filter(|group| !is_system(group));
        who.groups.extend(groups.cloned());
    }
    who.groups.push(AUTHENTICATED.to_owned());
    // In one order, so that the same person is the same key.
    who.groups.sort();
    who.groups.dedup();
    who
}

/// Refuses rules by which a `system:` name would cross, or by which nobody is meant.
pub(crate) fn check(rules: &Rules) -> Result<(), Error> {
    if let Crossing::Map(mappings) = &rules.identity {
        for (at, mapping) in mappings.iter().enumerate() {
            let field = format!("identity.map[{at}]");
            let (Principal::User(from) | Principal::Group(from)) = &mapping.from;
            check_name(&format!("{field}.from"), from)?;
            check_person(&format!("{field}.as"), &mapping.person)?;
        }
    }
    check_tokens("tokens", &rules.tokens)
}

pub(crate) fn check_tokens(field: &str, tokens: &BTreeMap<String, Person>) -> Result<(), Error> {
    tokens.iter().try_for_each(|(token, person)| check_person(&format!("{field}.{token}"), person))
}

fn check_person(field: &str, person: &Person) -> Result<(), Error> {
    if person.user.is_none() && person.groups.is_empty() {
        return Err(Error::invalid(field, "this is nobody: name a user or groups"));
    }
    if let Some(user) = &person.user {
        check_name(&format!("{field}.user"), user)?;
    }
    let mut groups = person.groups.iter().enumerate();
    groups.try_for_each(|(at, group)| check_name(&format!("{field}.groups[{at}]"), group))
}

fn check_name(field: &str, name: &str) -> Result<(), Error> {
    if name.is_empty() {
        return Err(Error::invalid(field, "the name is empty: write one"));
    }
    if is_system(name) {
        let fault = "names that begin with 'system:' never cross clusters: bind a group of your own in the cluster, and name that";
        return Err(Error::invalid(field, fault));
    }
    Ok(())
}

fn is_system(name: &str) -> bool {
    name.starts_with("system:")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn identity(source: Source, user: &str, groups: &[&str]) -> Identity {
        Identity {
            user: user.to_owned(),
            uid: None,
            groups: groups.iter().map(|&group| group.to_owned()).collect(),
            extra: BTreeMap::new(),
            source,
            grants: Arc::new([]),
        }
    }

    fn person(user: Option<&str>, groups: &[&str]) -> Person {
        Person { user: user.map(str::to_owned), groups: groups.iter().map(|&group| group.to_owned()).collect() }
    }

    fn rules(identity: Crossing) -> Rules {
        let tokens = BTreeMap::from([("ci".to_owned(), person(Some("robot"), &["builders"]))]);
        Rules { identity, tokens, ..Rules::default() }
    }

    /// Source, user, groups, whose authenticator, how it crosses; who that is.
    type Case<'a> = (Source, &'a str, &'a [&'a str], Standing, Crossing, Expected);
    type Expected = Option<(&'static str, &'static [&'static str])>;

    #[test]
    fn somebody_is_who_the_authenticator_and_the_rules_of_the_cluster_make_of_them() {
        let map = || {
            let to = |from, person| Mapping { from, person };
            Crossing::Map(vec![
                to(Principal::User("jane".to_owned()), person(Some("j.doe"), &["staff"])),
                to(Principal::Group("dev".to_owned()), person(None, &["developers"])),
                to(Principal::Group("dev".to_owned()), person(Some("late"), &["developers", "testers"])),
            ])
        };
        let (jane, robot) = (["dev", AUTHENTICATED], ["system:serviceaccounts", AUTHENTICATED]);
        let (home, abroad) = (Standing::Home, Standing::Abroad);
        let table: Vec<Case> = vec![
            (Source::TokenReview, "jane", &jane, home, Crossing::None, Some(("jane", &["dev", AUTHENTICATED]))),
            (
                Source::TokenReview,
                "system:serviceaccount:a:b",
                &robot,
                home,
                Crossing::None,
                Some(("system:serviceaccount:a:b", &["system:serviceaccounts", AUTHENTICATED])),
            ),
            (Source::TokenReview, "jane", &jane, abroad, Crossing::None, None),
            (Source::TokenReview, "jane", &jane, abroad, Crossing::Shared, Some(("jane", &["dev", AUTHENTICATED]))),
            (
                Source::Certificate,
                "jane",
                &["system:masters"],
                abroad,
                Crossing::Shared,
                Some(("jane", &[AUTHENTICATED])),
            ),
            (Source::TokenReview, "system:serviceaccount:a:b", &robot, abroad, Crossing::Shared, None),
            (Source::TokenReview, "system:serviceaccount:a:b", &["dev"], abroad, map(), None),
            (Source::TokenReview, "jane", &[], abroad, map(), Some(("j.doe", &["staff", AUTHENTICATED]))),
            (
                Source::TokenReview,
                "jane",
                &jane,
                abroad,
                map(),
                Some(("j.doe", &["developers", "staff", AUTHENTICATED, "testers"])),
            ),
            (
                Source::TokenReview,
                "jim",
                &jane,
                abroad,
                map(),
                Some(("late", &["developers", AUTHENTICATED, "testers"])),
            ),
            (Source::TokenReview, "jim", &["other"], abroad, map(), None),
            // A static token is what was said of it and nothing else, at home too.
            (Source::StaticToken, "ci", &jane, home, Crossing::None, Some(("robot", &["builders", AUTHENTICATED]))),
            (Source::StaticToken, "ci", &jane, abroad, Crossing::Shared, Some(("robot", &["builders", AUTHENTICATED]))),
            (Source::StaticToken, "jane", &jane, home, Crossing::None, None),
            (Source::StaticToken, "jane", &jane, abroad, Crossing::Shared, None),
            (Source::StaticToken, "jane", &jane, abroad, map(), None),
            // Nor is a user of the same name the token.
            (Source::TokenReview, "ci", &[], abroad, Crossing::None, None),
        ];
        for (source, user, groups, standing, crossing, expected) in table {
            let found = who(&identity(source, user, groups), standing, &rules(crossing.clone()));
            let found = found.as_ref().map(|who| (who.user.as_str(), who.groups.iter().map(String::as_str).collect()));
            let expected = expected.map(|(user, groups)| (user, groups.to_vec()));
            assert_eq!(found, expected, "{source:?} {user} {groups:?} {standing:?} {crossing:?}");
        }
    }

    #[test]
    fn rules_with_system_names_or_nobody_are_refused_by_field() {
        let map = |from, person| rules(Crossing::Map(vec![Mapping { from, person }]));
        let user = |name: &str| Principal::User(name.to_owned());
        let token = |person| Rules { tokens: BTreeMap::from([("ci".to_owned(), person)]), ..Rules::default() };
        let table = [
            (map(user("system:admin"), person(Some("a"), &[])), "identity.map[0].from: "),
            (map(user("jane"), person(Some("system:admin"), &[])), "identity.map[0].as.user: "),
            (map(user("jane"), person(None, &["a", "system:masters"])), "identity.map[0].as.groups[1]: "),
            (map(user("jane"), person(None, &[])), "identity.map[0].as: "),
            (map(user(""), person(Some("a"), &[])), "identity.map[0].from: "),
            (token(person(None, &["system:masters"])), "tokens.ci.groups[0]: "),
        ];
        for (rules, field) in table {
            let fault = check(&rules).unwrap_err().to_string();
            assert!(fault.starts_with(field), "{fault}");
        }
        check(&map(user("jane"), person(Some("a"), &["b"]))).unwrap();
    }
}
