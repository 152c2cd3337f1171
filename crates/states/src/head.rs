//! The head of a state: the one small document that every change swaps.
//!
//! It says who holds the lock, which version is current, where its bytes are and which uploads are under way. What is
//! reachable from the head is the state; everything else is garbage. Heads are JSON with a format number: a head of
//! another format is refused, never guessed at.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::bytes_text::{base64_text, hex_text};
use crate::codec::{self, Segment};
use crate::lock::{Lock, Released};

/// Formats 1 and 2 knew segments by their SHA-256 and packed less of what is old; they were never released.
pub const FORMAT: u32 = 3;
/// How many operations a head remembers, so that a writer who lost the answer still finds its own.
const OPERATIONS: usize = 16;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    pub format: u32,
    /// Counts the changes of this head.
    pub generation: u64,
    /// The random ids of the last changes, the newest last; no two heads have equal bytes.
    pub operations: Vec<Uuid>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lock: Option<Lock>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub released: Option<Released>,
    /// The number of the version that was made last; numbers are never used twice.
    pub last_version: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current: Option<Version>,
    /// Older versions, the newest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub recent: Vec<Version>,
    /// Still older versions, the newest page first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pages: Vec<Page>,
    /// Uploads that no version names: under way until their deadline, garbage after it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub uploads: Vec<Upload>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deleted: Option<Deleted>,
    /// What opens everything that is sealed of this state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seal: Option<StateKey>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moved: Option<Moved>,
}

/// The key of one state, wrapped by a named key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateKey {
    pub id: Uuid,
    pub wrapped: keys::Wrapped,
    /// The upload that holds a copy of this, for a head that vanished.
    pub copy: Uuid,
}

/// One version of a state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Version {
    pub number: u64,
    pub facts: Facts,
    /// The user who wrote it; `None` when another program did.
    pub by: Option<String>,
    pub at: Timestamp,
    pub body: Body,
}

/// What is known of a version without reading it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Facts {
    pub size: u64,
    #[serde(with = "hex_text")]
    pub sha256: [u8; 32],
    #[serde(with = "hex_text")]
    pub md5: [u8; 16],
    /// The hash of what was sent, where that was stored without its white space: it is how a replay is known.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "hex_text::optional")]
    pub sent: Option<[u8; 32]>,
    /// The digits as they were written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub serial: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lineage: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub terraform_version: Option<String>,
    /// Whether the client encrypted it.
    #[serde(default)]
    pub encrypted: bool,
}

/// Where the bytes of a version are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Body {
    /// In the head itself: the stored bytes of the segments, one after another.
    Inline {
        segments: Vec<Segment>,
        #[serde(with = "base64_text")]
        bytes: Vec<u8>,
        /// Whether those bytes are sealed, and the id under which.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        sealed: Option<Uuid>,
    },
    /// In the head itself: zstd with the bytes of a newer version, as they were sent, as its prefix.
    Difference {
        against: u64,
        #[serde(with = "base64_text")]
        bytes: Vec<u8>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        sealed: Option<Uuid>,
    },
    /// In the head itself, as a file that other programs read too.
    File {
        packing: Packing,
        #[serde(with = "base64_text")]
        bytes: Vec<u8>,
    },
    /// In chunks: the stored bytes of the segments, then a manifest of them at this offset. With a `base` some of them
    /// are stored as the difference to segments of that version, which is a newer one.
    Chunks {
        extent: Extent,
        manifest: u64,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        base: Option<u64>,
    },
    /// In chunks: a file that stood in the head until a newer version came, then a manifest.
    Spilled { packing: Packing, extent: Extent, manifest: u64 },
}

/// How a file is packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Packing {
    Plain,
    Gzip,
    /// Without the white space between tokens, which is Terraform's and is laid out again.
    Minified,
    GzipMinified,
}

/// The chunks of one upload, as one run of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Extent {
    pub upload: Uuid,
    /// The size of every chunk but the last, before it was sealed.
    pub chunk: u64,
    pub length: u64,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub sealed: bool,
}

/// Older versions in an upload of their own: a JSON list of [`Version`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Page {
    pub newest: u64,
    pub oldest: u64,
    pub newest_at: Timestamp,
    /// Bytes in the store of the versions that it lists.
    #[serde(default)]
    pub stored: u64,
    pub extent: Extent,
    /// Whether it lists versions that are not sealed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub clear: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Upload {
    pub id: Uuid,
    pub deadline: Timestamp,
}

/// Who deleted the state, and when; its versions stay until they are too old.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deleted {
    pub by: String,
    pub at: Timestamp,
}

/// Where the state went: nobody reads or writes it here any more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Moved {
    pub to: String,
    pub by: String,
    pub at: Timestamp,
}

impl Head {
    /// The head of a state that nobody has touched.
    pub fn new() -> Head {
        Head {
            format: FORMAT,
            generation: 0,
            operations: Vec::new(),
            lock: None,
            released: None,
            last_version: 0,
            current: None,
            recent: Vec::new(),
            pages: Vec::new(),
            uploads: Vec::new(),
            deleted: None,
            seal: None,
            moved: None,
        }
    }

    /// Makes it the next head after what it was, and returns the id by which that is found again.
    pub(crate) fn advance(&mut self) -> Uuid {
        let operation = Uuid::new_v4();
        self.generation += 1;
        self.operations.push(operation);
        let surplus = self.operations.len().saturating_sub(OPERATIONS);
        self.operations.drain(..surplus);
        operation
    }

    /// The id of the last change.
    pub fn operation(&self) -> Uuid {
        self.operations.last().copied().unwrap_or_default()
    }

    /// What a GET answers: the current version, unless the state is deleted.
    pub fn visible(&self) -> Option<&Version> {
        self.current.as_ref().filter(|_| self.deleted.is_none())
    }

    /// Whether it names any version; without one it is no more of a state than no head at all.
    pub(crate) fn has_versions(&self) -> bool {
        self.current.is_some() || !self.recent.is_empty() || !self.pages.is_empty()
    }

    /// Puts a version on top.
    pub(crate) fn push(&mut self, facts: Facts, body: Body, by: &str, at: Timestamp) -> u64 {
        self.last_version += 1;
        let number = self.last_version;
        let version = Version { number, facts, by: Some(by.to_owned()), at, body };
        if let Some(older) = self.current.replace(version) {
            self.recent.insert(0, older);
        }
        self.deleted = None;
        number
    }

    /// Bytes in the store, of all versions.
    pub fn stored(&self) -> u64 {
        let versions = self.current.iter().chain(&self.recent).map(|version| version.body.stored());
        versions.sum::<u64>() + self.pages.iter().map(|page| page.stored + page.extent.length).sum::<u64>()
    }

    /// How many bytes of older versions the head holds.
    pub(crate) fn inline_history(&self) -> usize {
        self.recent.iter().map(|version| version.body.inline_bytes()).sum()
    }
}

impl Default for Head {
    fn default() -> Head {
        Head::new()
    }
}

impl Page {
    /// Whether it, or what it lists, is not encrypted at rest.
    pub(crate) fn is_clear(&self) -> bool {
        self.clear || !self.extent.sealed
    }
}

impl Version {
    /// Whether it is encrypted at rest.
    pub(crate) fn is_sealed(&self) -> bool {
        match &self.body {
            Body::Inline { sealed, .. } | Body::Difference { sealed, .. } => sealed.is_some(),
            body => body.extent().is_some_and(|extent| extent.sealed),
        }
    }
}

impl Body {
    pub(crate) fn inline_bytes(&self) -> usize {
        match self {
            Body::Inline { bytes, .. } | Body::Difference { bytes, .. } | Body::File { bytes, .. } => bytes.len(),
            Body::Chunks { .. } | Body::Spilled { .. } => 0,
        }
    }

    pub(crate) fn upload(&self) -> Option<Uuid> {
        self.extent().map(|extent| extent.upload)
    }

    pub(crate) fn extent(&self) -> Option<&Extent> {
        match self {
            Body::Inline { .. } | Body::Difference { .. } | Body::File { .. } => None,
            Body::Chunks { extent, .. } | Body::Spilled { extent, .. } => Some(extent),
        }
    }

    /// Bytes in the store.
    pub fn stored(&self) -> u64 {
        self.extent().map_or(self.inline_bytes() as u64, |extent| extent.length)
    }
}

#[cfg(test)]
impl Facts {
    /// For tests to which facts do not matter.
    pub(crate) fn of_nothing() -> Facts {
        let (serial, lineage, terraform_version) = (None, None, None);
        Facts {
            size: 0,
            sha256: [0; 32],
            md5: [0; 16],
            sent: None,
            serial,
            lineage,
            terraform_version,
            encrypted: false,
        }
    }
}

impl From<&codec::Facts> for Facts {
    fn from(facts: &codec::Facts) -> Facts {
        Facts {
            size: facts.size,
            sha256: facts.sha256,
            md5: facts.md5,
            sent: None,
            serial: facts.serial.clone(),
            lineage: facts.lineage.clone(),
            terraform_version: facts.terraform_version.clone(),
            encrypted: facts.encrypted,
        }
    }
}
