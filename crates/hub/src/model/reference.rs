//! How Types and attributes are named: a path of nodes and a revision.

use std::fmt;
use std::str::FromStr;

/// A path such as `cap.type.helm.storage`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodePath(String);

/// A semantic version such as `0.1.0`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Revision {
    text: String,
    numbers: [u64; 3],
}

/// Names a revision of a Type.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TypeRef {
    pub path: NodePath,
    pub revision: Revision,
}

/// Names a revision of an attribute.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AttributeRef {
    pub path: NodePath,
    pub revision: Revision,
}

/// Why a text names nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReferenceError {
    #[error(
        "a path is letters, digits, '-' and '_' in parts joined by dots, 512 characters at most, such as cap.type.x"
    )]
    Path,
    #[error("a revision is three numbers joined by dots, such as 0.1.0, 128 characters at most")]
    Revision,
}

const LONGEST_PATH: usize = 512;
const LONGEST_REVISION: usize = 128;

impl NodePath {
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The last part.
    pub fn name(&self) -> &str {
        self.0.rsplit('.').next().unwrap_or_default()
    }

    /// All parts but the last one.
    pub fn prefix(&self) -> &str {
        self.0.rsplit_once('.').map_or("", |(prefix, _name)| prefix)
    }
}

impl Revision {
    pub fn as_str(&self) -> &str {
        &self.text
    }

    pub(crate) fn numbers(&self) -> [u64; 3] {
        self.numbers
    }

    /// What follows the numbers and a hyphen.
    pub(crate) fn pre_release(&self) -> Option<&str> {
        self.text.split('+').next().and_then(|text| text.split_once('-')).map(|(_numbers, rest)| rest)
    }
}

impl FromStr for NodePath {
    type Err = ReferenceError;

    fn from_str(text: &str) -> Result<NodePath, ReferenceError> {
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        let good = text.len() <= LONGEST_PATH && text.split('.').all(|part| !part.is_empty() && part.bytes().all(fits));
        if good { Ok(NodePath(text.to_owned())) } else { Err(ReferenceError::Path) }
    }
}

impl FromStr for Revision {
    type Err = ReferenceError;

    fn from_str(text: &str) -> Result<Revision, ReferenceError> {
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || b".-+".contains(&byte);
        if text.len() > LONGEST_REVISION || !text.bytes().all(fits) {
            return Err(ReferenceError::Revision);
        }
        let core = text.split(['-', '+']).next().unwrap_or_default();
        let number = |part: &str| {
            let canonical = part == "0" || !part.starts_with('0') && part.bytes().all(|byte| byte.is_ascii_digit());
            part.parse().ok().filter(|_| canonical)
        };
        let numbers: Option<Vec<u64>> = core.split('.').map(number).collect();
        let numbers = numbers.and_then(|numbers| <[u64; 3]>::try_from(numbers).ok());
        let rest_is_there = !text.ends_with(['-', '+', '.']);
        match numbers {
            Some(numbers) if rest_is_there => Ok(Revision { text: text.to_owned(), numbers }),
            _ => Err(ReferenceError::Revision),
        }
    }
}

impl fmt::Display for NodePath {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}

impl fmt::Display for TypeRef {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}", self.path, self.revision)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_parts_joined_by_dots() {
        for good in ["cap.type.aws.secrets-manager.storage", "a", "A_1.b", &"a".repeat(512)] {
            assert_eq!(good.parse::<NodePath>().unwrap().as_str(), good);
        }
        for bad in ["", ".", "a.", ".a", "a..b", "a b", "a.*", "\u{e9}", "a/b", "a\0", &"a".repeat(513)] {
            assert_eq!(bad.parse::<NodePath>(), Err(ReferenceError::Path), "{bad}");
        }
        let path: NodePath = "cap.type.x".parse().unwrap();
        assert_eq!((path.prefix(), path.name()), ("cap.type", "x"));
    }

    #[test]
    fn revisions_are_semantic_versions() {
        for good in ["0.0.1", "10.20.30", "1.0.0-alpha.1", "1.0.0+build", "18446744073709551615.0.0"] {
            assert_eq!(good.parse::<Revision>().unwrap().as_str(), good);
        }
        for bad in ["", "1", "1.0", "1.0.0.0", "01.0.0", "1.0.x", "v1.0.0", "1.0.0-", "1.0.0+", "1.0.-1", "+1.0.0"] {
            assert_eq!(bad.parse::<Revision>(), Err(ReferenceError::Revision), "{bad}");
        }
        let revision: Revision = "1.0.0-rc.1+b".parse().unwrap();
        assert_eq!((revision.numbers(), revision.pre_release()), ([1, 0, 0], Some("rc.1")));
    }
}
