//! A file, such as the state of Terraform's `local` backend.
//!
//! That backend locks the file itself with fcntl. So does this, shared, on the one descriptor that everything is read
//! with: closing any other one of the same file would end the lock. The kernel ends it with the process, however that
//! ends.

use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use futures::StreamExt as _;
use rustix::fs::{FlockOperation, fcntl_lock};
use serde_json::Value;

use super::super::pull::write_file;
use super::super::push::{self, Existing};
use super::super::spooled::Spooled;
use super::side::{Destination, Doing, Locking, Side, Source};
use crate::cli::failure::{Exit, Failure};
use crate::client::transfer::Pieces;
use crate::config::Environment;

pub struct FileSide<'e> {
    path: PathBuf,
    environment: &'e Environment,
    opened: Option<Arc<File>>,
}

impl<'e> FileSide<'e> {
    pub fn new(path: &Path, environment: &'e Environment) -> FileSide<'e> {
        // One name for one file, whatever the present directory is.
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        FileSide { path, environment, opened: None }
    }

    fn opened(&mut self) -> Result<Arc<File>, Failure> {
        if let Some(opened) = &self.opened {
            return Ok(opened.clone());
        }
        let opened = File::open(&self.path).map_err(|error| {
            let exit = if error.kind() == ErrorKind::NotFound { Exit::NotFound } else { Exit::Failed };
            Failure::new(exit, format!("failed to open {}: {error}", self.path.display()), "check the path")
        })?;
        Ok(self.opened.insert(Arc::new(opened)).clone())
    }

    /// The lock of whoever has it, from the note that Terraform leaves beside the file.
    fn holder(&self) -> Option<String> {
        let name = self.path.file_name()?.to_str()?;
        let note = self.path.with_file_name(format!(".{name}.lock.info"));
        crate::client::holder(&std::fs::read(note).ok()?)
    }
}

impl Side for FileSide<'_> {
    fn place(&self) -> String {
        format!("file://{}", self.path.display())
    }

    fn lock<'a>(&'a mut self, _info: &'a Value) -> Doing<'a, Locking> {
        Box::pin(async {
            if !self.path.exists() {
                return Ok(Locking::Impossible("there is no such file yet".to_owned()));
            }
            match fcntl_lock(self.opened()?, FlockOperation::NonBlockingLockShared) {
                Ok(()) => Ok(Locking::Locked),
                Err(rustix::io::Errno::ACCESS | rustix::io::Errno::AGAIN) => {
                    let holder = self.holder().unwrap_or_else(|| "locked by another process".to_owned());
                    let message = format!("{} is {holder}", self.path.display());
                    Err(Failure::new(Exit::Locked, message, "wait until it has ended").into())
                }
                Err(error) => Ok(Locking::Impossible(error.to_string())),
            }
        })
    }

    fn unlock<'a>(&'a mut self, _info: &'a Value) -> Doing<'a, ()> {
        self.opened = None;
        Box::pin(async { Ok(()) })
    }
}

impl Source for FileSide<'_> {
    fn open(&mut self) -> Doing<'_, Pieces> {
        Box::pin(async {
            let file = self.opened()?;
            Ok(pieces(file))
        })
    }
}

fn pieces(file: Arc<File>) -> Pieces {
    futures::stream::try_unfold((file, 0), |(file, offset)| async move {
        let reader = file.clone();
        let piece = tokio::task::spawn_blocking(move || {
            let mut piece = vec![0; 256 << 10];
            let length = reader.read_at(&mut piece, offset)?;
            piece.truncate(length);
            Ok::<_, std::io::Error>(Bytes::from(piece))
        });
        let piece = piece.await??;
        let next = offset + piece.len() as u64;
        Ok((!piece.is_empty()).then_some((piece, (file, next))))
    })
    .boxed()
}

impl Destination for FileSide<'_> {
    fn existing(&mut self) -> Doing<'_, Option<Existing>> {
        Box::pin(async {
            if !self.path.exists() {
                return Ok(None);
            }
            let there = Spooled::read(&self.place(), pieces(self.opened()?), self.environment).await?;
            Ok(Some(Existing::of(&there)))
        })
    }

    fn write<'a>(&'a mut self, _state: &'a Spooled, pieces: Pieces, _info: &'a Value) -> Doing<'a, ()> {
        Box::pin(write_file(&self.path, pieces))
    }

    fn read_back(&mut self) -> Doing<'_, Pieces> {
        Box::pin(push::open(&self.path))
    }
}
