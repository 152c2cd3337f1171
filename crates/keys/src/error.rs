//! Why a key cannot be used, told apart by what somebody can do about it.
//!
//! Texts name the key, its version, files and settings. They never hold a key, a token, or anything that a key service
//! answered; names that come out of stored bytes are cut and cleaned before they get here.

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("there is no key named '{key}' here; add it to keys.files, keys.secrets or keys.transit")]
    UnknownKey { key: String },
    /// The version that wrapped something is not there any more.
    #[error(
        "the key '{key}' has no version '{version}', which sealed this; put that version back beside the newer ones"
    )]
    NoVersion { key: String, version: String },
    /// The authentication failed: nothing tells these reasons apart.
    #[error(
        "version '{version}' of the key '{key}' does not open this: it was sealed with another key or for another \
         place, or its bytes were changed; give the key the content back that it had, or restore the bytes from a back-up"
    )]
    WrongKey { key: String, version: String },
    /// A frame of a stream: the key was the right one, or its wrapping would have been refused.
    #[error(
        "the sealed bytes were changed, cut off or moved, or were sealed for another place; restore them from a back-up"
    )]
    Changed,
    /// Nothing was done; later it may work.
    #[error("the key '{key}' cannot be used at the moment: {reason}; try again later")]
    Unavailable { key: String, reason: String },
    /// It will not work before somebody changes something.
    #[error("the key '{key}' cannot be used: {reason}")]
    Refused { key: String, reason: String },
    /// The settings of a keyring make no sense.
    #[error("{0}")]
    Setup(String),
    /// A fault of this machine.
    #[error("failed to seal: {0}")]
    Internal(&'static str),
}

impl Error {
    pub(crate) fn unknown(key: &str) -> Error {
        Error::UnknownKey { key: shown(key) }
    }

    pub(crate) fn no_version(key: &str, version: &str) -> Error {
        Error::NoVersion { key: shown(key), version: shown(version) }
    }

    pub(crate) fn wrong_key(key: &str, version: &str) -> Error {
        Error::WrongKey { key: shown(key), version: shown(version) }
    }

    pub(crate) fn unavailable(key: &str, reason: impl Into<String>) -> Error {
        Error::Unavailable { key: shown(key), reason: reason.into() }
    }

    pub(crate) fn refused(key: &str, reason: impl Into<String>) -> Error {
        Error::Refused { key: shown(key), reason: reason.into() }
    }
}

/// Whoever can write to a store chooses the names in it: they may neither drive a terminal nor fill a log.
fn shown(name: &str) -> String {
    let clean = |letter: char| if letter.is_control() || letter == '\'' { '\u{fffd}' } else { letter };
    name.chars().take(64).map(clean).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_from_stored_bytes_is_cut_and_cleaned() {
        let error = Error::wrong_key(&"x".repeat(1000), "v1\u{1b}[31m\n");
        let text = error.to_string();
        assert!(text.contains("version 'v1\u{fffd}[31m\u{fffd}' of the key 'xxx") && text.len() < 400, "{text}");
    }
}
