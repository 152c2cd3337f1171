//! A text that must not be shown.

use std::fmt;

use serde::{Deserialize, Serialize, Serializer};

/// A text whose Debug, Display and Serialize hide it; [`Secret::expose`] is the only way to it.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Secret(String);

/// What is shown instead of a secret.
pub const HIDDEN: &str = "(set)";

impl Secret {
    pub fn new(text: impl Into<String>) -> Secret {
        Secret(text.into())
    }

    /// The text itself, for the one place that sends it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(HIDDEN)
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(HIDDEN)
    }
}

impl Serialize for Secret {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(HIDDEN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_hidden_however_it_is_written() {
        let secret = Secret::new("canary");
        let json = serde_json::to_string(&secret).unwrap();
        for shown in [format!("{secret}"), format!("{secret:?}"), format!("{:#?}", Some(&secret)), json] {
            assert!(shown.contains(HIDDEN) && !shown.contains("canary"), "{shown}");
        }
        assert_eq!(secret.expose(), "canary");
    }
}
