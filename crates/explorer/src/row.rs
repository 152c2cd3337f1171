//! One object of one cluster as the index takes it in, and what identifies it.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::status::Status;

/// Which object. The version is no part of it: the same object can be read in several. Nor is the uid: an object that was
/// deleted and made again takes the place of the one before.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Key {
    pub cluster: String,
    /// Empty for objects of the whole cluster.
    pub namespace: String,
    /// Empty for the core group.
    pub group: String,
    pub kind: String,
    pub name: String,
}

/// How many bytes of a message a row has at most: rows are sorted by it, and cursors hold it. The body has it all.
const MESSAGE: usize = 4096;

/// An object with what is searched and shown of it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Row {
    #[serde(flatten)]
    pub key: Key,
    pub version: String,
    /// The plural, in small letters: what RBAC speaks of.
    pub resource: String,
    pub uid: String,
    pub status: Status,
    pub message: String,
    pub category: String,
    pub labels: Vec<(String, String)>,
    /// Milliseconds since 1970.
    pub created: Option<i64>,
    /// Set for an object that is gone and kept for a while.
    pub deleted_at: Option<i64>,
    pub terminating: bool,
    /// The namespace that it lived in is gone too: a namespace of the same name belongs to others.
    #[serde(default)]
    pub orphaned: bool,
    /// JSON. Kept on disk only; in memory there are its words.
    #[serde(skip)]
    pub body: String,
}

impl Key {
    /// `cluster/namespace/group/version/kind/name`, as the original has it.
    pub fn id(&self, version: &str) -> String {
        let Key { cluster, namespace, group, kind, name } = self;
        format!("{cluster}/{namespace}/{group}/{version}/{kind}/{name}")
    }

    /// What an id means. Only the name of a cluster can hold a slash, hence from the right.
    pub fn from_id(id: &str) -> Option<Key> {
        let mut parts = id.rsplitn(6, '/').map(str::to_owned);
        let (name, kind, _version) = (parts.next()?, parts.next()?, parts.next()?);
        let (group, namespace, cluster) = (parts.next()?, parts.next()?, parts.next()?);
        let whole = !name.is_empty() && !kind.is_empty() && !cluster.is_empty();
        whole.then_some(Key { cluster, namespace, group, kind, name })
    }
}

/// As much of a message as a row has.
pub(crate) fn message(mut text: String) -> String {
    text.truncate(text.floor_char_boundary(MESSAGE));
    text
}

impl Row {
    pub fn id(&self) -> String {
        self.key.id(&self.version)
    }
}

/// Without the body, which may be long and is nobody's business in a log.
impl fmt::Debug for Row {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Row").field("id", &self.id()).field("uid", &self.uid).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(cluster: &str, namespace: &str, group: &str) -> Key {
        let own = str::to_owned;
        Key {
            cluster: own(cluster),
            namespace: own(namespace),
            group: own(group),
            kind: own("Role"),
            name: own("system:x"),
        }
    }

    #[test]
    fn a_message_is_cut_between_two_letters() {
        assert_eq!(message("short".to_owned()), "short");
        assert_eq!(message("x".repeat(MESSAGE + 1)).len(), MESSAGE);
        let cut = message(format!("x{}", "ß".repeat(MESSAGE)));
        assert_eq!((cut.len(), cut.chars().next_back()), (MESSAGE - 1, Some('ß')));
    }

    #[test]
    fn an_id_leads_back_to_its_key_also_with_slashes_in_the_cluster() {
        for key in [key("local", "a", "g.io"), key("flux-system/leaf", "", ""), key("a/b/c", "n", "")] {
            assert_eq!(Key::from_id(&key.id("v1")), Some(key));
        }
        for bad in ["", "a/b", "/n/g/v1/Role/x", "c/n/g/v1//x", "c/n/g/v1/Role/"] {
            assert_eq!(Key::from_id(bad), None, "{bad}");
        }
    }
}
