//! What keeps a record from being deleted: whatever uses it and stays.

/// A record and one that uses it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Usage {
    pub used: String,
    pub by: String,
}

/// The records that use `id` and are not deleted together with it, each once, in order. A record that uses itself, or a
/// circle that goes as a whole, keeps nothing.
pub fn keepers<'a>(id: &str, going: &[String], usages: &'a [Usage]) -> Vec<&'a str> {
    let users = usages.iter().filter(|usage| usage.used == id && !going.contains(&usage.by));
    let mut users: Vec<&str> = users.map(|usage| usage.by.as_str()).collect();
    users.sort_unstable();
    users.dedup();
    users
}

#[cfg(test)]
mod tests {
    use super::*;

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
