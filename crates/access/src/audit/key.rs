//! The key of the log: 32 random bytes in a file of its own.
//!
//! Whoever has it can forge lines, so it is never printed, and its file should lie where the log's readers cannot
//! read it. It is created once; a log whose key is gone is refused, because its lines can no longer be checked.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use aws_lc_rs::{hmac, rand};
use zeroize::Zeroizing;

use super::line::unhex;
use crate::hex;

/// The key under which lines are chained.
pub struct Key {
    hmac: hmac::Key,
    id: String,
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Key").field("id", &self.id).finish_non_exhaustive()
    }
}

impl Key {
    /// Reads a key file: 64 hexadecimal digits. None if there is no such file.
    pub fn load(path: &Path) -> io::Result<Option<Key>> {
        let mut file = match File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        // Group access is left to the owner's choice: Kubernetes mounts Secrets with the pod's group.
        if file.metadata()?.mode() & 0o007 != 0 {
            return Err(io::Error::other("the key file is open to everybody: take that away with chmod o-rwx"));
        }
        let mut text = Zeroizing::new(Vec::with_capacity(128));
        Read::by_ref(&mut file).take(128).read_to_end(&mut text)?;
        let bytes = unhex(text.trim_ascii()).map(Zeroizing::new);
        let bytes = bytes.ok_or_else(|| io::Error::other("the key file does not hold 64 hexadecimal digits"))?;
        Ok(Some(Key::from_bytes(&bytes)))
    }

    /// Makes a new key and writes its file, which must not exist.
    pub(super) fn create(path: &Path) -> io::Result<Key> {
        let mut bytes = Zeroizing::new([0; 32]);
        rand::fill(&mut *bytes).map_err(|_| io::Error::other("the system gave no random bytes"))?;
        write_new(path, Zeroizing::new(hex(&*bytes)).as_bytes())?;
        Ok(Key::from_bytes(&bytes))
    }

    fn from_bytes(bytes: &[u8; 32]) -> Key {
        let hmac = hmac::Key::new(hmac::HMAC_SHA256, bytes);
        let tag = hmac::sign(&hmac, b"stateward audit key id");
        Key { hmac, id: hex(&tag.as_ref()[..8]) }
    }

    /// A name of the key that tells nothing about it; it stands in every `start` line.
    pub fn id(&self) -> &str {
        &self.id
    }

    pub(super) fn hmac(&self) -> &hmac::Key {
        &self.hmac
    }
}

/// Writes a small file that is either whole and on disk, or not there.
pub(super) fn write_new(path: &Path, content: &[u8]) -> io::Result<()> {
    let draft = path.with_added_extension("draft");
    let _ = fs::remove_file(&draft);
    let mut file = File::options().write(true).create_new(true).mode(0o600).open(&draft)?;
    file.write_all(content)?;
    file.sync_all()?;
    // A link, unlike a rename, never replaces what is there.
    fs::hard_link(&draft, path)?;
    fs::remove_file(&draft)?;
    path.parent().map_or(Ok(()), sync_directory)
}

/// Makes the names in a directory durable.
pub(super) fn sync_directory(directory: &Path) -> io::Result<()> {
    File::open(if directory.as_os_str().is_empty() { Path::new(".") } else { directory })?.sync_all()
}
