//! A key in a file: its text form, and making, rotating and listing one.
//!
//! One line per version, the newest last: an id, a space, and the base64 of 32 random bytes. Empty lines and lines that
//! begin with `#` say nothing. The file is for its owner alone, unless [`Sharing`] says that its place sees to that.

use std::fs::{self, File, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};

use aws_lc_rs::rand;
use zeroize::Zeroizing;

use crate::error::Error;
use crate::versions::{Version, Versions, is_version_id};

const SIZE_LIMIT: u64 = 256 * 1024;
const HEAD: &str = "# A key of stateward: one line per version, the newest last. Keep a copy in a safe place:\n\
                    # without it, what it sealed is lost. Remove a version only when nothing is sealed with it.\n";

/// Who may be able to read a key file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// Its owner alone; a file that others can read is refused.
    Private,
    /// Whoever its mode says: where it lies, such as in a volume of a Pod, nobody else comes.
    AsItsModeSays,
}

/// Why a key file cannot be used or made. Texts hold the path and the number of a line, never what it says.
#[derive(Debug, thiserror::Error)]
pub enum KeyFileError {
    #[error("failed to {doing} {}: {cause}", path.display())]
    Io { doing: &'static str, path: PathBuf, cause: io::Error },
    /// The draft is there: another rotation is under way, or died.
    #[error("{} is being changed by somebody else", path.display())]
    Busy { path: PathBuf, draft: PathBuf },
    #[error("{} {fault}", path.display())]
    Bad { path: PathBuf, fault: String },
}

/// Makes a key with one version, in a file that must not be there yet; returns the version's id.
pub fn create(path: &Path) -> Result<String, KeyFileError> {
    let version = fresh(path, 1)?;
    let draft = Draft::create(path, path)?;
    draft.write(&[HEAD.as_bytes(), line(&version).as_bytes()])?;
    // A link, unlike a rename, never replaces what is there: a key that is overwritten is lost for ever.
    fs::hard_link(&draft.path, path).map_err(failed("create", path))?;
    drop(draft);
    sync_directory(path)?;
    Ok(version.id)
}

/// Adds a version, which is the newest from now on; returns its id. The older ones stay.
pub fn rotate(path: &Path) -> Result<String, KeyFileError> {
    // The file itself and not a link to it, which the rename would replace.
    let target = fs::canonicalize(path).map_err(failed("find", path))?;
    // Made before the file is read: a draft is the lock of a rotation, and two at once would lose a version.
    let draft = Draft::create(&target, path)?;
    let (text, metadata) = text(path, Sharing::AsItsModeSays)?;
    let versions = parse(&text).map_err(|fault| bad(path, fault))?;
    let version = fresh(path, versions.ids().count() + 1)?;
    let newline: &[u8] = if text.ends_with(b"\n") { b"" } else { b"\n" };
    draft.write(&[&text, newline, line(&version).as_bytes()])?;
    chown(&draft.path, Some(metadata.uid()), Some(metadata.gid())).map_err(failed("keep the owner of", path))?;
    let mode = Permissions::from_mode(metadata.mode() & 0o777);
    fs::set_permissions(&draft.path, mode).map_err(failed("keep the mode of", path))?;
    draft.replace(&target)?;
    sync_directory(&target)?;
    Ok(version.id)
}

/// The ids of the versions, the newest last.
pub fn list(path: &Path) -> Result<Vec<String>, KeyFileError> {
    let (versions, _) = load(path, Sharing::AsItsModeSays)?;
    Ok(versions.ids().map(str::to_owned).collect())
}

/// Reads the file, with the facts by which a change of it is seen.
pub(crate) fn load(path: &Path, sharing: Sharing) -> Result<(Versions, fs::Metadata), KeyFileError> {
    let (text, metadata) = text(path, sharing)?;
    let versions = parse(&text).map_err(|fault| bad(path, fault))?;
    Ok((versions, metadata))
}

fn text(path: &Path, sharing: Sharing) -> Result<(Zeroizing<Vec<u8>>, fs::Metadata), KeyFileError> {
    let file = File::open(path).map_err(failed("read", path))?;
    let metadata = file.metadata().map_err(failed("read", path))?;
    if sharing == Sharing::Private && metadata.mode() & 0o077 != 0 {
        let fault = format!(
            "can be read by others than its owner (mode {:04o}): `chmod 0600` it, or set keys.shared_files where that is meant",
            metadata.mode() & 0o7777
        );
        return Err(bad(path, fault));
    }
    if metadata.len() > SIZE_LIMIT {
        return Err(bad(path, format!("is larger than {SIZE_LIMIT} bytes and hardly a key file")));
    }
    // As large as the file from the start, so that growing leaves no copies behind.
    let mut text = Zeroizing::new(Vec::with_capacity(usize::try_from(metadata.len()).unwrap_or(0) + 1));
    file.take(SIZE_LIMIT).read_to_end(&mut text).map_err(failed("read", path))?;
    Ok((text, metadata))
}

/// The error is the rest of a sentence that begins with the file.
fn parse(text: &[u8]) -> Result<Versions, String> {
    let mut all: Vec<Version> = Vec::new();
    for (index, line) in text.split(|byte| *byte == b'\n').enumerate() {
        let line = line.trim_ascii();
        if line.is_empty() || line.starts_with(b"#") {
            continue;
        }
        let number = index + 1;
        let space = line.iter().position(u8::is_ascii_whitespace);
        let (id, value) = line.split_at(space.ok_or(format!("line {number} is not 'VERSION BASE64'"))?);
        let id = std::str::from_utf8(id).ok().filter(|id| is_version_id(id));
        let id = id.ok_or(format!("line {number} begins with something that cannot be a version"))?;
        if all.iter().any(|version| version.id == id) {
            return Err(format!("line {number} has a version that an earlier line has, too"));
        }
        // Raw bytes would be taken for a line's end: base64 only.
        let value = value.trim_ascii();
        let version = Version::read(id, value).filter(|_| value.len() > 32);
        all.push(version.ok_or(format!("line {number} does not end with the base64 of 32 bytes"))?);
    }
    let newest = all.len().wrapping_sub(1);
    Versions::new(all, newest).ok_or_else(|| "holds no key: `stateward key new` makes one".to_owned())
}

/// Numbers order the versions for people; the random part tells keys apart that were made in two places.
fn fresh(path: &Path, number: usize) -> Result<Version, KeyFileError> {
    let random = |error: Error| bad(path, format!("cannot be made: {error}"));
    let mut suffix = [0; 3];
    rand::fill(&mut suffix).map_err(|_| random(Error::Internal("the system gave no random bytes")))?;
    let [one, two, three] = suffix;
    Version::random(format!("v{number}-{one:02x}{two:02x}{three:02x}")).map_err(random)
}

fn line(version: &Version) -> Zeroizing<String> {
    Zeroizing::new(format!("{} {}\n", version.id, version.base64().as_str()))
}

/// The next content of a file, beside it; gone when dropped, unless it was renamed.
struct Draft {
    path: PathBuf,
}

impl Draft {
    fn create(target: &Path, named: &Path) -> Result<Draft, KeyFileError> {
        let path = target.with_added_extension("draft");
        match File::options().write(true).create_new(true).mode(0o600).open(&path) {
            Ok(_) => Ok(Draft { path }),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                Err(KeyFileError::Busy { path: named.to_owned(), draft: path })
            }
            Err(error) => Err(failed("create", &path)(error)),
        }
    }

    fn write(&self, parts: &[&[u8]]) -> Result<(), KeyFileError> {
        let written = || {
            let mut file = File::options().write(true).open(&self.path)?;
            for part in parts {
                file.write_all(part)?;
            }
            file.sync_all()
        };
        written().map_err(failed("write", &self.path))
    }

    fn replace(self, target: &Path) -> Result<(), KeyFileError> {
        fs::rename(&self.path, target).map_err(failed("replace", target))?;
        // Its name is free for the next one's draft, which is not ours to remove.
        std::mem::forget(self);
        Ok(())
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

fn sync_directory(path: &Path) -> Result<(), KeyFileError> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let synced = File::open(directory).and_then(|directory| directory.sync_all());
    synced.map_err(failed("make durable", path))
}

fn failed(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> KeyFileError {
    let path = path.to_owned();
    move |cause| KeyFileError::Io { doing, path, cause }
}

fn bad(path: &Path, fault: impl Into<String>) -> KeyFileError {
    KeyFileError::Bad { path: path.to_owned(), fault: fault.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";

    #[test]
    fn the_last_line_is_the_newest_version() {
        let text = format!("# comment\n\n v1 {ONE}\r\nv2-ab.c_d\t{ONE}  \n");
        let versions = parse(text.as_bytes()).unwrap();
        assert_eq!(versions.ids().collect::<Vec<_>>(), ["v1", "v2-ab.c_d"]);
        assert_eq!(versions.newest(), "v2-ab.c_d");
    }

    #[test]
    fn a_line_that_is_no_key_is_named_by_its_number_and_never_repeated() {
        let table = [
            (String::new(), "holds no key"),
            ("# nothing\n".to_owned(), "holds no key"),
            (format!("v1 {ONE}\n{ONE}\n"), "line 2 is not"),
            (format!("v1 {ONE}\nv1 {ONE}\n"), "line 2 has a version"),
            (format!("v/1 {ONE}\n"), "line 1 begins"),
            (format!("{} {ONE}\n", "v".repeat(254)), "line 1 begins"),
            ("v1 canary\n".to_owned(), "line 1 does not end"),
            ("v1 Y2FuYXJ5\n".to_owned(), "line 1 does not end"),
            (format!("v1 {}\n", "a".repeat(32)), "line 1 does not end"),
            (format!("v1 {ONE} canary\n"), "line 1 does not end"),
        ];
        for (text, expected) in table {
            let fault = parse(text.as_bytes()).map(|versions| format!("{versions:?}")).unwrap_err();
            assert!(fault.starts_with(expected), "{text}: {fault}");
            assert!(!fault.contains("canary") && !fault.contains("Y2Fu"), "{fault}");
        }
    }
}
