//! What keeps a record from being deleted: whatever uses it and stays.

use std::collections::{HashMap, HashSet};

/// A record and one that uses it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Usage {
    pub used: String,
    pub by: String,
}

/// What uses each record.
pub(crate) type Users<'a> = HashMap<&'a str, Vec<&'a str>>;

/// The records that use `id` and are not deleted together with it, each once, in order. A record that uses itself, or a
/// circle that goes as a whole, keeps nothing.
pub fn keepers<'a>(id: &str, going: &[String], usages: &'a [Usage]) -> Vec<&'a str> {
    let users = usages.iter().filter(|usage| usage.used == id && !going.contains(&usage.by));
    let mut users: Vec<&str> = users.map(|usage| usage.by.as_str()).collect();
    users.sort_unstable();
    users.dedup();
    users
}

/// Records that go together, in the steps in which they go: none before what uses it, so that what stays still has what it
/// uses. Those that use one another in a circle go one by one, in the order in which they were named.
pub(crate) fn steps(going: &[String], usages: &[Usage]) -> Vec<Vec<String>> {
    let users = users_among(going, usages);
    let all_users: HashMap<&str, HashSet<&str>> = going.iter().map(|id| (id.as_str(), reached(id, &users))).collect();
    let mut left: Vec<&str> = Vec::new();
    for id in going {
        if !left.contains(&id.as_str()) {
            left.push(id);
        }
    }
    let mut steps = Vec::new();
    while !left.is_empty() {
        let remaining: HashSet<&str> = left.iter().copied().collect();
        let others = |id: &str| all_users[id].iter().filter(|user| remaining.contains(*user)).copied();
        let mut step: Vec<&str> = left.iter().copied().filter(|id| others(id).next().is_none()).collect();
        if step.is_empty() {
            // The first of a circle that nothing outside of it uses.
            let circle = |id: &&str| others(id).all(|user| all_users[user].contains(id));
            step.extend(left.iter().copied().find(circle).or(left.first().copied()));
        }
        left.retain(|id| !step.contains(id));
        steps.push(step.into_iter().map(str::to_owned).collect());
    }
    steps
}

/// Which of the records that go use each of them, itself left out.
pub(crate) fn users_among<'a>(going: &'a [String], usages: &'a [Usage]) -> Users<'a> {
    let ids: HashSet<&str> = going.iter().map(String::as_str).collect();
    let mut users = Users::new();
    for usage in usages {
        if usage.used != usage.by && ids.contains(usage.used.as_str()) && ids.contains(usage.by.as_str()) {
            users.entry(&usage.used).or_default().push(&usage.by);
        }
    }
    users
}

/// Whoever uses a record, or uses what does.
pub(crate) fn reached<'a>(id: &'a str, users: &Users<'a>) -> HashSet<&'a str> {
    let (mut found, mut open) = (HashSet::new(), vec![id]);
    while let Some(id) = open.pop() {
        open.extend(users.get(id).into_iter().flatten().copied().filter(|user| found.insert(*user)));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_go_before_what_they_use_and_circles_one_by_one() {
        type Case<'a> = (&'a [&'a str], &'a [(&'a str, &'a str)], &'a [&'a [&'a str]]);
        let table: [Case<'_>; 6] = [
            (&["a", "b"], &[], &[&["a", "b"]]),
            // Each pair: what is used, and by what.
            (&["b", "a"], &[("b", "a")], &[&["a"], &["b"]]),
            (&["c", "b", "a", "x"], &[("b", "a"), ("c", "b"), ("x", "elsewhere")], &[&["a", "x"], &["b"], &["c"]]),
            (&["a", "a"], &[("a", "a")], &[&["a"]]),
            (&["c", "a", "b"], &[("a", "b"), ("b", "a"), ("c", "a")], &[&["a"], &["b"], &["c"]]),
            (&["a", "b", "u"], &[("a", "b"), ("b", "a"), ("a", "u")], &[&["u"], &["a"], &["b"]]),
        ];
        for (going, usages, expected) in table {
            let going: Vec<String> = going.iter().map(|id| (*id).to_owned()).collect();
            let usage = |(used, by): &(&str, &str)| Usage { used: (*used).to_owned(), by: (*by).to_owned() };
            let usages: Vec<Usage> = usages.iter().map(usage).collect();
            assert_eq!(steps(&going, &usages), expected, "{going:?} {usages:?}");
        }
    }

    #[test]
    fn only_users_that_stay_keep_a_record() {
        let usage = |used: &str, by: &str| Usage { used: used.to_owned(), by: by.to_owned() };
        let usages = [usage("a", "c"), usage("a", "b"), usage("a", "b"), usage("b", "a"), usage("d", "d")];
        let table: [(&str, &[&str], &[&str]); 5] = [
            ("a", &["a"], &["b", "c"]),
            ("a", &["a", "b"], &["c"]),
            ("a", &["a", "b", "c"], &[]),
            ("d", &["d"], &[]),
            ("c", &["c"], &[]),
        ];
        for (id, going, expected) in table {
            let going: Vec<String> = going.iter().map(|id| (*id).to_owned()).collect();
            assert_eq!(keepers(id, &going, &usages), expected, "{id} with {going:?}");
        }
    }
}
