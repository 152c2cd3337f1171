//! A value to compare with, in which `*` stands for anything.

/// Texts with anything between them: one text alone is compared as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    /// Never empty; the stars are between them.
    parts: Vec<String>,
}

impl Pattern {
    pub fn exact(text: impl Into<String>) -> Pattern {
        Pattern { parts: vec![text.into()] }
    }

    /// Of the texts between the stars.
    pub(super) fn of_parts(parts: Vec<String>) -> Pattern {
        debug_assert!(!parts.is_empty());
        Pattern { parts }
    }

    /// The whole text, if there is no star.
    pub fn as_exact(&self) -> Option<&str> {
        match &self.parts[..] {
            [text] => Some(text),
            _ => None,
        }
    }

    /// The text before a single star at the end.
    pub fn as_prefix(&self) -> Option<&str> {
        match &self.parts[..] {
            [text, end] if end.is_empty() => Some(text),
            _ => None,
        }
    }

    pub fn first(&self) -> &str {
        &self.parts[0]
    }

    /// The longest text that every match holds.
    pub fn longest(&self) -> &str {
        self.parts.iter().max_by_key(|part| part.len()).map_or("", String::as_str)
    }

    pub fn matches(&self, text: &str) -> bool {
        let [first, middle @ .., last] = &self.parts[..] else { return self.parts[0] == text };
        let Some(mut rest) = text.strip_prefix(first.as_str()) else { return false };
        for part in middle {
            // The first place is as good as any later one.
            let Some(at) = rest.find(part.as_str()) else { return false };
            rest = &rest[at + part.len()..];
        }
        rest.ends_with(last.as_str())
    }

    #[must_use]
    pub(crate) fn map(&self, change: impl Fn(&str) -> String) -> Pattern {
        Pattern { parts: self.parts.iter().map(|part| change(part)).collect() }
    }

    /// As one would write it, stars and all.
    pub fn text(&self) -> String {
        self.parts.join("*")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_stand_for_anything() {
        let table = [
            ("abc", "abc", true),
            ("abc", "abcd", false),
            ("ab*", "abcd", true),
            ("ab*", "xab", false),
            ("*cd", "abcd", true),
            ("*", "", true),
            ("*b*", "abc", true),
            ("a*a", "a", false),
            ("a*a", "aa", true),
            ("a*b*c", "aXbYc", true),
            ("a*b*c", "aXcYb", false),
            ("**", "x", true),
            ("a*ab", "aab", true),
            ("a*ab*b", "aab", false),
            ("*é*", "caféx", true),
        ];
        for (pattern, text, expected) in table {
            let pattern = Pattern::of_parts(pattern.split('*').map(str::to_owned).collect());
            assert_eq!(pattern.matches(text), expected, "{pattern:?} {text}");
        }
    }
}
