//! How Types are found: by a pattern of paths, through the nodes that they are attached to.

use regex::{Regex, RegexBuilder};

/// The node of storage backends, in the spelling of the original and in that of the draft: they mean the same.
pub const STORAGE_NODES: [&str; 2] = ["cap.core.type.hub.storage", "cap.core.hub.storage"];

/// A path, or a regular expression for whole paths.
#[derive(Clone, Debug)]
pub enum PathPattern {
    Exact(String),
    Expression(Regex),
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it is neither a path nor a regular expression for paths, or is too large; use one such as cap.type.aws.*")]
pub struct PatternError;

const LARGEST: usize = 64 << 10;

impl PathPattern {
    pub fn parse(text: &str) -> Result<PathPattern, PatternError> {
        if text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_".contains(&byte)) {
            return Ok(PathPattern::Exact(text.to_owned()));
        }
        // The original takes a lone star for everything, which is no regular expression.
        let text = if text == "*" { ".*" } else { text };
        let built = RegexBuilder::new(&format!("^(?:{text})$")).size_limit(LARGEST).build();
        built.map(PathPattern::Expression).map_err(|_| PatternError)
    }

    pub fn matches(&self, path: &str) -> bool {
        match self {
            PathPattern::Exact(exact) => exact == path,
            PathPattern::Expression(expression) => expression.is_match(path),
        }
    }

    /// Whether it matches a path in any of its spellings.
    pub fn matches_node(&self, path: &str) -> bool {
        let below = |node: &str| path.strip_prefix(node).filter(|rest| rest.is_empty() || rest.starts_with('.'));
        match STORAGE_NODES.iter().find_map(|node| below(node)) {
            Some(rest) => STORAGE_NODES.iter().any(|node| self.matches(&format!("{node}{rest}"))),
            None => self.matches(path),
        }
    }
}

/// Whether records of such a Type are storage backends.
pub fn attaches_to_storage<'a>(path: &str, additional_refs: impl IntoIterator<Item = &'a str>) -> bool {
    let below = |node: &&str| path.strip_prefix(node).is_some_and(|rest| rest.starts_with('.'));
    STORAGE_NODES.iter().any(below) || additional_refs.into_iter().any(|node| STORAGE_NODES.contains(&node))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_whole_paths() {
        let table = [
            ("cap.type.a", "cap.type.a", true),
            ("cap.type.a", "cap-type-a", false),
            ("cap.type.a", "cap.type.ab", false),
            ("cap.type.*", "cap.type.a.b", true),
            ("cap.type.*", "cap.type", true),
            ("cap.type.*", "xcap.type.a", false),
            ("(cap.type.a|cap.type.b)", "cap.type.b", true),
            ("a|b", "ab", false),
            ("*", "anything", true),
        ];
        for (pattern, path, expected) in table {
            assert_eq!(PathPattern::parse(pattern).unwrap().matches(path), expected, "{pattern} on {path}");
        }
        for bad in ["(", "a{1000}{1000}", "[", "(?=a)"] {
            assert_eq!(PathPattern::parse(bad).unwrap_err(), PatternError, "{bad}");
        }
    }

    #[test]
    fn both_spellings_of_the_storage_node_are_one() {
        for pattern in ["cap.core.hub.storage.*", "cap.core.type.hub.storage.*", "cap.core.hub.storage"] {
            let pattern = PathPattern::parse(pattern).unwrap();
            assert!(STORAGE_NODES.iter().all(|node| pattern.matches_node(node)), "{pattern:?}");
            let is_expression = matches!(pattern, PathPattern::Expression(_));
            assert_eq!(pattern.matches_node("cap.core.type.hub.storage.redis"), is_expression, "{pattern:?}");
        }
        assert!(!PathPattern::parse("cap.core.type.platform.*").unwrap().matches_node(STORAGE_NODES[0]));
        assert!(attaches_to_storage("cap.core.type.hub.storage.redis", []));
        assert!(attaches_to_storage("cap.type.helm.storage", ["cap.core.hub.storage"]));
        assert!(!attaches_to_storage("cap.core.type.hub.storages", ["cap.core.type.platform"]));
    }
}
