//! Where compressed segments wait until the whole upload is known to be good: in memory while they are few, then in
//! a file that nobody can find or read.
//!
//! The doors are [`Spool::append`] and [`Spool::read`]. The file has no name from its birth (a crash leaves nothing),
//! mode 0600, and holds each record sealed with AES-256-GCM under a key that exists in this memory only.

use std::fmt;
use std::fs::{File, Permissions};
use std::io;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::PathBuf;

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use bytes::Bytes;
use zeroize::Zeroizing;

/// The directory for spool files.
#[derive(Clone, Debug)]
pub struct SpoolPlace(PathBuf);

impl SpoolPlace {
    pub fn new(directory: impl Into<PathBuf>) -> SpoolPlace {
        SpoolPlace(directory.into())
    }
}

pub(super) struct Spool {
    place: SpoolPlace,
    /// How many bytes may wait in memory.
    memory: usize,
    held: Held,
}

enum Held {
    Memory { records: Vec<Bytes>, bytes: usize },
    File(Sealed),
}

struct Sealed {
    file: File,
    key: LessSafeKey,
    /// Where each record ends.
    ends: Vec<u64>,
}

impl Spool {
    pub(super) fn new(place: SpoolPlace, memory: usize) -> Spool {
        Spool { place, memory, held: Held::Memory { records: Vec::new(), bytes: 0 } }
    }

    pub(super) fn append(&mut self, record: &[u8]) -> io::Result<()> {
        match &mut self.held {
            Held::Memory { records, bytes } if *bytes + record.len() <= self.memory => {
                *bytes += record.len();
                records.push(Bytes::copy_from_slice(record));
            }
            Held::Memory { records, .. } => {
                let mut sealed = Sealed::create(&self.place)?;
                for earlier in records {
                    sealed.append(std::mem::take(earlier).into())?;
                }
                sealed.append(record.to_vec())?;
                self.held = Held::File(sealed);
            }
            Held::File(sealed) => sealed.append(record.to_vec())?,
        }
        Ok(())
    }

    /// The record that was appended as number `index`.
    pub(super) fn read(&self, index: usize) -> io::Result<Bytes> {
        match &self.held {
            Held::Memory { records, .. } => records.get(index).cloned().ok_or_else(no_record),
            Held::File(sealed) => sealed.read(index).map(Bytes::from),
        }
    }

    /// Whether reading means to wait for a disk.
    pub(super) fn is_file(&self) -> bool {
        matches!(self.held, Held::File(_))
    }
}

impl Sealed {
    fn create(place: &SpoolPlace) -> io::Result<Sealed> {
        let file = tempfile::tempfile_in(&place.0)?;
        file.set_permissions(Permissions::from_mode(0o600))?;
        let mut bytes = Zeroizing::new([0; 32]);
        aws_lc_rs::rand::fill(bytes.as_mut()).map_err(io::Error::other)?;
        let key = UnboundKey::new(&AES_256_GCM, bytes.as_ref()).map_err(io::Error::other)?;
        Ok(Sealed { file, key: LessSafeKey::new(key), ends: Vec::new() })
    }

    fn append(&mut self, record: Vec<u8>) -> io::Result<()> {
        let (index, start) = (self.ends.len(), self.ends.last().copied().unwrap_or(0));
        let mut record = record;
        self.key.seal_in_place_append_tag(nonce(index), Aad::empty(), &mut record).map_err(io::Error::other)?;
        self.file.write_all_at(&record, start)?;
        self.ends.push(start + record.len() as u64);
        Ok(())
    }

    fn read(&self, index: usize) -> io::Result<Vec<u8>> {
        let end = *self.ends.get(index).ok_or_else(no_record)?;
        let start = if index == 0 { 0 } else { self.ends[index - 1] };
        let mut record = vec![0; usize::try_from(end - start).map_err(io::Error::other)?];
        self.file.read_exact_at(&mut record, start)?;
        let length = self.key.open_in_place(nonce(index), Aad::empty(), &mut record).map_err(io::Error::other)?.len();
        record.truncate(length);
        Ok(record)
    }
}

/// A key seals one spool, whose records have different numbers: no nonce is used twice, none can be exchanged.
fn nonce(index: usize) -> Nonce {
    let mut bytes = [0; NONCE_LEN];
    bytes[..8].copy_from_slice(&(index as u64).to_le_bytes());
    Nonce::assume_unique_for_key(bytes)
}

fn no_record() -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, "the spool has no such record")
}

impl fmt::Debug for Spool {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, records) = match &self.held {
            Held::Memory { records, .. } => ("memory", records.len()),
            Held::File(sealed) => ("file", sealed.ends.len()),
        };
        formatter.debug_struct("Spool").field("held", &kind).field("records", &records).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{FileExt, MetadataExt};

    use super::{Held, Spool, SpoolPlace};

    #[test]
    fn records_beyond_memory_go_to_a_nameless_private_file_and_come_back() {
        let directory = tempfile::tempdir().expect("a directory");
        let mut spool = Spool::new(SpoolPlace::new(directory.path()), 1000);
        let records: Vec<Vec<u8>> = (0..20).map(|number| vec![number; 100 * usize::from(number)]).collect();
        for record in &records {
            spool.append(record).expect("room");
        }
        for (index, record) in records.iter().enumerate() {
            assert_eq!(&spool.read(index).expect("readable"), record);
        }
        assert!(spool.read(20).is_err());

        let Held::File(sealed) = &spool.held else { panic!("20 kB are more than 1000 bytes") };
        assert_eq!(std::fs::read_dir(directory.path()).expect("a directory").count(), 0, "the file has a name");
        let metadata = sealed.file.metadata().expect("metadata");
        assert_eq!((metadata.mode() & 0o777, metadata.nlink()), (0o600, 0));
        let mut bytes = vec![0; usize::try_from(metadata.len()).expect("small")];
        sealed.file.read_exact_at(&mut bytes, 0).expect("readable");
        assert!(!bytes.windows(8).any(|window| window.iter().all(|byte| *byte == window[0])), "plain bytes on disk");
    }

    #[test]
    fn a_spool_file_that_somebody_changed_is_refused() {
        let mut spool = Spool::new(SpoolPlace::new(std::env::temp_dir()), 0);
        spool.append(b"one").expect("room");
        let Held::File(sealed) = &spool.held else { panic!("nothing may stay in memory") };
        sealed.file.write_all_at(b"x", 1).expect("writable");
        assert!(spool.read(0).is_err());
    }
}
