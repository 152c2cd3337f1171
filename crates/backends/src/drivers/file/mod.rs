//! The driver `file`: a directory with a file per record, for development and tests.
//!
//! It is what the original has for tests: one field per version and one for the lock, the same answers to the same faults. A
//! file is whole or not there, whatever ends the process; changes of one record come one after the other, also those of
//! several processes on one directory. Values are not encrypted: the files are for this user alone, and that is all.

mod directory;
mod record;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::{Kind, Options, Setting};
use crate::{Answer, Code, Document, Driver, Error, Failure, Mode, Target, Update};
use directory::{Directory, Held};
use record::{Lock, Record, Version};

pub(super) const KIND: Kind = Kind {
    name: "file",
    about: "Values in a directory, a file per record, for development and tests",
    more: "It accepts a context with `provider: dotenv` or `provider: file`, or none. Values are not encrypted; the directory \
           and its files are readable for this user alone.",
    options: &[Setting {
        name: "directory",
        placeholder: "DIR",
        help: "Where the files are; made if it is not there",
        default: None,
    }],
    open: |options: &Options| {
        let directory = options.get("directory").map(PathBuf::from);
        let directory = directory
            .ok_or_else(|| Error::Setting { name: "directory", fault: "it is missing: name a directory".to_owned() })?;
        Ok(Arc::new(File::open(directory)?))
    },
};

/// The driver.
#[derive(Clone, Debug)]
pub struct File(Arc<Directory>);

impl File {
    /// Opens a directory; it is made, for this user alone, if it is not there.
    pub fn open(directory: impl Into<PathBuf>) -> Result<File, Error> {
        Ok(File(Arc::new(Directory::open(directory.into())?)))
    }

    /// Reads a record, as it is at one moment.
    async fn read<T: Send + 'static>(
        &self,
        target: Target<'_>,
        look: impl FnOnce(&str, Option<Record>) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        check_context(target.context)?;
        let (directory, id) = (self.0.clone(), target.id.to_owned());
        let reading = blocking(move || look(&id, directory.read(&id)?));
        within(target.within, reading).await
    }

    /// Changes a record, alone.
    async fn change<T: Send + 'static>(
        &self,
        target: Target<'_>,
        act: impl FnOnce(&Held<'_>, &str) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        check_context(target.context)?;
        let (directory, id, key) = (self.0.clone(), target.id.to_owned(), target.key.to_owned());
        let deadline = Instant::now() + target.within;
        let changing = blocking(move || act(&directory.hold(&id, deadline)?, &key));
        within(target.within, changing).await
    }
}

/// What began goes on when nobody waits for it any more: a change is whole or not there.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T, Failure> + Send + 'static) -> Result<T, Failure> {
    let ended = tokio::task::spawn_blocking(work).await;
    ended.unwrap_or_else(|_| Err(Failure::new(Code::Internal, "the work on the file broke off")))
}

async fn within<T>(time: Duration, work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let late = |_| Err(Failure::new(Code::DeadlineExceeded, format!("the disk has not answered within {time:?}")));
    tokio::time::timeout(time, work).await.unwrap_or_else(late)
}

/// A context may name the provider, as the original's test backend wants it.
fn check_context(context: Option<&Document>) -> Result<(), Failure> {
    let Some(Document(bytes)) = context else { return Ok(()) };
    let malformed = |fault: &str| Failure::new(Code::InvalidArgument, format!("context: {fault}"));
    let members = match serde_json::from_slice(bytes) {
        Ok(Value::Null) => return Ok(()),
        Ok(Value::Object(members)) => members,
        Ok(_) => return Err(malformed("it must be an object, such as {\"provider\":\"dotenv\"}")),
        Err(_) => return Err(malformed("it is not JSON")),
    };
    match members.get("provider") {
        None | Some(Value::Null) => Ok(()),
        Some(Value::String(name)) if ["", "dotenv", "file"].contains(&name.as_str()) => Ok(()),
        Some(Value::String(_)) => {
            let text = "context/provider: this backend has the providers dotenv and file only";
            Err(Failure::new(Code::FailedPrecondition, text))
        }
        Some(_) => Err(malformed("provider must be a string")),
    }
}

fn text_of(value: Option<&Document>) -> Result<String, Failure> {
    let bytes = value.map_or(&[][..], |value| &value.0);
    let text = std::str::from_utf8(bytes).ok();
    text.map(str::to_owned).ok_or_else(|| Failure::new(Code::InvalidArgument, "value: it is not UTF-8 text"))
}

fn not_found(id: &str) -> Failure {
    Failure::new(Code::NotFound, format!("TypeInstance \"{id}\" was not found"))
}

fn exists(id: &str, version: u32) -> Failure {
    Failure::new(Code::AlreadyExists, format!("TypeInstance \"{id}\" in revision {version} already exists"))
}

/// Whoever is not the owner of a lock must leave the record alone.
fn check_lock(id: &str, record: &Record, owner: Option<&str>) -> Result<(), Failure> {
    match &record.lock {
        Some(lock) if Some(lock.owner.as_str()) != owner => Err(locked(id)),
        _ => Ok(()),
    }
}

fn locked(id: &str) -> Failure {
    Failure::new(Code::FailedPrecondition, format!("TypeInstance \"{id}\" is locked"))
}

/// A repetition of what took place already.
fn is_again(key: &str, remembered: &str) -> bool {
    !key.is_empty() && key == remembered
}

impl Driver for File {
    fn mode(&self) -> Mode {
        Mode::Value
    }

    fn get_value<'a>(&'a self, target: Target<'a>, version: u32) -> Answer<'a, Option<Document>> {
        Box::pin(self.read(target, move |id, record| {
            let found = record.and_then(|mut record| record.versions.remove(&version));
            let missing = || {
                let text = format!("TypeInstance \"{id}\" in revision {version} was not found");
                Failure::new(Code::NotFound, text)
            };
            let value = found.ok_or_else(missing)?.value;
            Ok((!value.is_empty()).then(|| Document(value.into())))
        }))
    }

    fn get_pre_create_value<'a>(&'a self, _target: Target<'a>) -> Answer<'a, Option<Document>> {
        let failure = Failure::new(Code::Unimplemented, "a backend that takes values has none before");
        Box::pin(std::future::ready(Err(failure)))
    }

    fn on_create<'a>(&'a self, target: Target<'a>, value: Option<&'a Document>) -> Answer<'a, Option<Document>> {
        Box::pin(async move {
            let value = text_of(value)?;
            self.change(target, move |held, key| {
                let Some(record) = held.read()? else {
                    let first = Version { value, key: key.to_owned() };
                    held.write(&Record { versions: [(1, first)].into(), lock: None })?;
                    return Ok(None);
                };
                match record.versions.get(&1) {
                    Some(first) if is_again(key, &first.key) => Ok(None),
                    _ => Err(exists(held.id(), 1)),
                }
            })
            .await
        })
    }

    fn on_update<'a>(&'a self, target: Target<'a>, update: Update<'a>) -> Answer<'a, Option<Document>> {
        Box::pin(async move {
            let value = text_of(update.value)?;
            let (version, owner) = (update.version, update.owner.map(str::to_owned));
            self.change(target, move |held, key| {
                let mut record = held.read()?.ok_or_else(|| not_found(held.id()))?;
                let there = record.versions.get(&version);
                if there.is_some_and(|there| is_again(key, &there.key)) {
                    return Ok(None);
                }
                check_lock(held.id(), &record, owner.as_deref())?;
                if there.is_some() {
                    return Err(exists(held.id(), version));
                }
                record.versions.insert(version, Version { value, key: key.to_owned() });
                held.write(&record)?;
                Ok(None)
            })
            .await
        })
    }

    fn on_delete<'a>(&'a self, target: Target<'a>, owner: Option<&'a str>) -> Answer<'a, ()> {
        let owner = owner.map(str::to_owned);
        Box::pin(self.change(target, move |held, _key| {
            let record = held.read()?.ok_or_else(|| not_found(held.id()))?;
            check_lock(held.id(), &record, owner.as_deref())?;
            held.remove()
        }))
    }

    fn on_delete_revision<'a>(&'a self, target: Target<'a>, version: u32, owner: Option<&'a str>) -> Answer<'a, ()> {
        let owner = owner.map(str::to_owned);
        Box::pin(self.change(target, move |held, _key| {
            let mut record = held.read()?.ok_or_else(|| not_found(held.id()))?;
            check_lock(held.id(), &record, owner.as_deref())?;
            if record.versions.remove(&version).is_none() {
                let text = format!("TypeInstance \"{}\" in revision {version} was not found", held.id());
                return Err(Failure::new(Code::NotFound, text));
            }
            held.write(&record)
        }))
    }

    fn get_locked_by<'a>(&'a self, target: Target<'a>) -> Answer<'a, Option<String>> {
        Box::pin(self.read(target, |id, record| {
            let record = record.ok_or_else(|| not_found(id))?;
            Ok(record.lock.map(|lock| lock.owner))
        }))
    }

    fn on_lock<'a>(&'a self, target: Target<'a>, owner: &'a str) -> Answer<'a, ()> {
        let owner = owner.to_owned();
        Box::pin(self.change(target, move |held, key| {
            let mut record = held.read()?.ok_or_else(|| not_found(held.id()))?;
            if owner.is_empty() {
                return Err(Failure::new(Code::InvalidArgument, "locked_by: it is empty; name the owner"));
            }
            match record.lock {
                Some(lock) if is_again(key, &lock.key) => return Ok(()),
                Some(_) => return Err(locked(held.id())),
                None => record.lock = Some(Lock { owner, key: key.to_owned() }),
            }
            held.write(&record)
        }))
    }

    fn on_unlock<'a>(&'a self, target: Target<'a>) -> Answer<'a, ()> {
        Box::pin(self.change(target, |held, _key| {
            let mut record = held.read()?.ok_or_else(|| not_found(held.id()))?;
            match record.lock.take() {
                Some(_) => held.write(&record),
                None => Ok(()),
            }
        }))
    }

    fn health(&self, time: Duration) -> Answer<'_, ()> {
        let directory = self.0.clone();
        Box::pin(within(time, blocking(move || directory.check())))
    }
}
