//! Aliases: how the records of one request name one another.

use std::collections::HashSet;

use super::{names, texts};
use crate::Error;

/// An alias for every record: the given ones, each of them once, and made-up ones for the rest.
pub fn complete(given: &[Option<String>]) -> Result<Vec<String>, Error> {
    let mut taken: HashSet<&str> = HashSet::new();
    for alias in given.iter().flatten() {
        names::check_label("alias", alias)?;
        if !taken.insert(alias) {
            return Err(texts::duplicated_aliases());
        }
    }
    let mut made: HashSet<String> = HashSet::new();
    let mut complete = Vec::with_capacity(given.len());
    for alias in given {
        complete.push(match alias {
            Some(alias) => alias.clone(),
            None => loop {
                let alias = made_up();
                if !taken.contains(alias.as_str()) && made.insert(alias.clone()) {
                    break alias;
                }
            },
        });
    }
    Ok(complete)
}

/// Adjective, colour, animal, as the original makes them, and a number where it would run out of them.
fn made_up() -> String {
    let pick = |words: &[&'static str]| words[fastrand::usize(..words.len())];
    let number = fastrand::u32(..100_000);
    format!("{}_{}_{}_{number:05}", pick(ADJECTIVES), pick(COLOURS), pick(ANIMALS))
}

const ADJECTIVES: &[&str] = &[
    "able", "bold", "brave", "bright", "calm", "clever", "eager", "early", "fair", "fast", "fine", "firm", "fond",
    "fresh", "gentle", "glad", "good", "great", "happy", "kind", "late", "light", "lively", "loud", "merry", "mild",
    "neat", "nice", "noble", "proud", "quick", "quiet", "rare", "ready", "sharp", "shy", "silent", "slow", "smart",
    "steady", "strong", "swift", "tidy", "true", "warm", "wild", "wise", "young",
];
const COLOURS: &[&str] = &[
    "amber", "aqua", "azure", "beige", "black", "blue", "bronze", "brown", "coral", "crimson", "cyan", "gold", "green",
    "grey", "indigo", "ivory", "jade", "lime", "magenta", "maroon", "olive", "orange", "pink", "plum", "purple", "red",
    "rose", "ruby", "silver", "teal", "violet", "white", "yellow",
];
const ANIMALS: &[&str] = &[
    "badger", "bat", "bear", "beaver", "bee", "bison", "cat", "cod", "crane", "crow", "deer", "dog", "dove", "duck",
    "eagle", "eel", "elk", "falcon", "finch", "fox", "frog", "goat", "goose", "hare", "hawk", "heron", "horse", "lark",
    "lion", "lynx", "mole", "moose", "mouse", "otter", "owl", "ox", "perch", "pike", "raven", "robin", "seal", "sheep",
    "snail", "stork", "swan", "tiger", "toad", "trout", "wolf", "wren",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_record_gets_an_alias_and_no_two_get_the_same() {
        let mut given = vec![None; 2000];
        given[7] = Some("parent".to_owned());
        let aliases = complete(&given).unwrap();
        assert_eq!(aliases[7], "parent");
        assert_eq!(aliases.iter().collect::<HashSet<_>>().len(), 2000);
        assert_eq!(aliases[0].split('_').count(), 4, "{}", aliases[0]);
    }

    #[test]
    fn a_given_alias_is_there_once() {
        let twice = [Some("a".to_owned()), None, Some("a".to_owned())];
        let text = "Validation failed: Duplicated TypeInstance aliases. \
                    Please ensure that each TypeInstance alias is unique.";
        assert_eq!(complete(&twice).unwrap_err().to_string(), text);
    }
}
