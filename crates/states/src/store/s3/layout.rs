//! Where what stands in the bucket. No IO here.
//!
//! ```text
//! <prefix>/heads/<namespace>/<name>                          the head of a state
//! <prefix>/chunks/<namespace>/<name>/<upload>/<number>       a chunk
//! <prefix>/uploads/<namespace>/<name>/<upload>/<deadline>    empty: that there are chunks, and until when they are new
//! <prefix>/probe/...                                         what the check at the start leaves if it is killed
//! ```
//! A chunk is read by its upload and number alone, and a listing shows nothing but names: so the deadline of an upload is
//! the name of an object of its own, which is there before the first chunk and goes after the last. Namespaces and names
//! have no slash, whatever dots they have.

use jiff::Timestamp;
use object_store::path::{Path, PathPart};
use uuid::Uuid;

use crate::key::Key;
use crate::store::{ChunkId, Stray};

/// The names of this store's objects.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    prefix: Path,
}

impl Layout {
    /// `None` if the prefix cannot be the beginning of a name.
    pub(super) fn new(prefix: &str) -> Option<Layout> {
        Path::parse(prefix.trim_matches('/')).ok().map(|prefix| Layout { prefix })
    }

    pub(super) fn head(&self, key: &Key) -> Path {
        self.at(["heads", key.namespace(), key.name()])
    }

    /// What all heads of a namespace, or of all, begin with.
    pub(super) fn heads(&self, namespace: Option<&str>) -> Path {
        self.at(["heads"].into_iter().chain(namespace))
    }

    pub(super) fn chunk(&self, chunk: &ChunkId) -> Path {
        self.chunks(&chunk.key, chunk.upload).join(PathPart::from(chunk.number.to_string()))
    }

    pub(super) fn chunks(&self, key: &Key, upload: Uuid) -> Path {
        self.at(["chunks", key.namespace(), key.name(), &upload.to_string()])
    }

    /// The mark of an upload.
    pub(super) fn mark(&self, key: &Key, upload: Uuid, deadline: Timestamp) -> Path {
        self.marks_of(key, upload).join(PathPart::from(deadline.as_microsecond().to_string()))
    }

    pub(super) fn marks_of(&self, key: &Key, upload: Uuid) -> Path {
        self.at(["uploads", key.namespace(), key.name(), &upload.to_string()])
    }

    pub(super) fn marks(&self) -> Path {
        self.at(["uploads"])
    }

    pub(super) fn probe(&self, name: &str) -> Path {
        self.at(["probe", name])
    }

    /// The state whose head is there.
    pub(super) fn key(&self, head: &Path) -> Option<Key> {
        let heads = self.heads(None);
        let mut parts = head.prefix_match(&heads)?;
        let key = Key::new(parts.next()?.as_ref(), parts.next()?.as_ref()).ok()?;
        parts.next().is_none().then_some(key)
    }

    /// The upload whose mark is there.
    pub(super) fn stray(&self, mark: &Path) -> Option<Stray> {
        let marks = self.marks();
        let mut parts = mark.prefix_match(&marks)?;
        let key = Key::new(parts.next()?.as_ref(), parts.next()?.as_ref()).ok()?;
        let upload = parts.next()?.as_ref().parse().ok()?;
        let deadline = parts.next()?.as_ref().parse().ok()?;
        let deadline = Timestamp::from_microsecond(deadline).ok()?;
        parts.next().is_none().then_some(Stray { key, upload, deadline })
    }

    fn at<'a>(&self, parts: impl IntoIterator<Item = &'a str>) -> Path {
        parts.into_iter().fold(self.prefix.clone(), |path, part| path.join(PathPart::from(part)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_found_again_under_any_prefix() {
        let key = Key::new("team-a", "network.eu-1.prod").unwrap();
        let (upload, deadline) = (Uuid::new_v4(), Timestamp::from_microsecond(1_700_000_000_123_456).unwrap());
        for (prefix, begins) in [("", "heads/"), ("a", "a/heads/"), ("/a/b.c/", "a/b.c/heads/")] {
            let layout = Layout::new(prefix).unwrap();
            let head = layout.head(&key);
            assert_eq!(head.as_ref(), format!("{begins}team-a/network.eu-1.prod"));
            assert_eq!(layout.key(&head), Some(key.clone()));
            assert!(head.prefix_matches(&layout.heads(Some("team-a"))) && head.prefix_matches(&layout.heads(None)));
            assert!(!head.prefix_matches(&layout.heads(Some("team"))), "a namespace is a whole part of the name");
            let mark = layout.mark(&key, upload, deadline);
            assert_eq!(layout.stray(&mark), Some(Stray { key: key.clone(), upload, deadline }));
            let chunk = layout.chunk(&ChunkId { key: key.clone(), upload, number: 7 });
            assert!(chunk.prefix_matches(&layout.chunks(&key, upload)));
            assert_eq!((layout.key(&chunk), layout.stray(&chunk), layout.key(&mark)), (None, None, None));
        }
        assert!(Layout::new("a//b").is_none());
    }
}
