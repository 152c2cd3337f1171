//! A backend as the original has them: a file per record, its codes, and neither keys nor deadlines.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

use backends::{Answer, Code, Document, Driver, Failure, Mode, Target, Update};
use serde::{Deserialize, Serialize};

#[derive(Debug)]
pub(crate) struct Original {
    directory: PathBuf,
    /// Changes of one process come one after another.
    turn: Mutex<()>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Kept {
    pub(crate) versions: BTreeMap<u32, String>,
    pub(crate) locked_by: Option<String>,
}

impl Original {
    pub(crate) fn at(directory: &Path) -> Original {
        std::fs::create_dir_all(directory).unwrap();
        Original { directory: directory.to_owned(), turn: Mutex::new(()) }
    }

    pub(crate) fn kept(&self, id: &str) -> Option<Kept> {
        let text = std::fs::read_to_string(self.directory.join(id)).ok()?;
        Some(serde_json::from_str(&text).unwrap())
    }

    /// The ids of all records.
    pub(crate) fn ids(&self) -> Vec<String> {
        let files = std::fs::read_dir(&self.directory).unwrap();
        let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
        let mut ids: Vec<String> = names.filter(|name| !name.ends_with(".new")).collect();
        ids.sort_unstable();
        ids
    }

    /// Changes a record, whole or not at all.
    fn change(
        &self,
        id: &str,
        change: impl FnOnce(Option<Kept>) -> Result<Option<Kept>, (Code, &'static str)>,
    ) -> Result<(), Failure> {
        let _turn = self.turn.lock().unwrap();
        let changed = change(self.kept(id)).map_err(|(code, text)| Failure::new(code, text))?;
        let path = self.directory.join(id);
        match changed {
            None => std::fs::remove_file(path).unwrap(),
            Some(kept) => {
                let new = self.directory.join(format!("{id}.new"));
                std::fs::write(&new, serde_json::to_string(&kept).unwrap()).unwrap();
                std::fs::rename(new, path).unwrap();
            }
        }
        Ok(())
    }
}

fn text(value: Option<&Document>) -> String {
    value.map_or(String::new(), |value| String::from_utf8(value.0.to_vec()).unwrap())
}

const MISSING: (Code, &str) = (Code::NotFound, "it was not found");

impl Driver for Original {
    fn mode(&self) -> Mode {
        Mode::Value
    }

    fn get_value<'a>(&'a self, target: Target<'a>, version: u32) -> Answer<'a, Option<Document>> {
        Box::pin(async move {
            let value = self.kept(target.id).and_then(|kept| kept.versions.get(&version).cloned());
            let value = value.ok_or_else(|| Failure::new(Code::NotFound, "the version was not found"))?;
            Ok((!value.is_empty()).then(|| Document(value.into_bytes().into())))
        })
    }

    fn get_pre_create_value<'a>(&'a self, _target: Target<'a>) -> Answer<'a, Option<Document>> {
        Box::pin(async { Err(Failure::new(Code::Unimplemented, "it takes values")) })
    }

    fn on_create<'a>(&'a self, target: Target<'a>, value: Option<&'a Document>) -> Answer<'a, Option<Document>> {
        Box::pin(async move {
            self.change(target.id, |kept| match kept {
                Some(_) => Err((Code::AlreadyExists, "it is there already")),
                None => Ok(Some(Kept { versions: BTreeMap::from([(1, text(value))]), locked_by: None })),
            })?;
            Ok(None)
        })
    }

    fn on_update<'a>(&'a self, target: Target<'a>, update: Update<'a>) -> Answer<'a, Option<Document>> {
        Box::pin(async move {
            self.change(target.id, |kept| {
                let mut kept = kept.ok_or(MISSING)?;
                if kept.locked_by.is_some() && kept.locked_by.as_deref() != update.owner {
                    return Err((Code::FailedPrecondition, "it is locked"));
                }
                if kept.versions.insert(update.version, text(update.value)).is_some() {
                    return Err((Code::AlreadyExists, "the version is there already"));
                }
                Ok(Some(kept))
            })?;
            Ok(None)
        })
    }

    fn on_delete<'a>(&'a self, target: Target<'a>, owner: Option<&'a str>) -> Answer<'a, ()> {
        Box::pin(async move {
            self.change(target.id, |kept| {
                let kept = kept.ok_or(MISSING)?;
                if kept.locked_by.is_some() && kept.locked_by.as_deref() != owner {
                    return Err((Code::FailedPrecondition, "it is locked"));
                }
                Ok(None)
            })
        })
    }

    fn on_delete_revision<'a>(&'a self, target: Target<'a>, version: u32, _owner: Option<&'a str>) -> Answer<'a, ()> {
        Box::pin(async move {
            self.change(target.id, |kept| {
                let mut kept = kept.ok_or(MISSING)?;
                kept.versions.remove(&version).ok_or(MISSING)?;
                Ok(Some(kept))
            })
        })
    }

    fn get_locked_by<'a>(&'a self, target: Target<'a>) -> Answer<'a, Option<String>> {
        Box::pin(async move {
            let kept = self.kept(target.id).ok_or_else(|| Failure::new(Code::NotFound, "it was not found"))?;
            Ok(kept.locked_by)
        })
    }

    fn on_lock<'a>(&'a self, target: Target<'a>, owner: &'a str) -> Answer<'a, ()> {
        Box::pin(async move {
            self.change(target.id, |kept| {
                let kept = kept.ok_or(MISSING)?;
                if kept.locked_by.is_some() {
                    return Err((Code::FailedPrecondition, "it is locked already"));
                }
                Ok(Some(Kept { locked_by: Some(owner.to_owned()), ..kept }))
            })
        })
    }

    fn on_unlock<'a>(&'a self, target: Target<'a>) -> Answer<'a, ()> {
        Box::pin(
            async move { self.change(target.id, |kept| Ok(Some(Kept { locked_by: None, ..kept.ok_or(MISSING)? }))) },
        )
    }

    fn health(&self, _within: Duration) -> Answer<'_, ()> {
        Box::pin(async { Ok(()) })
    }
}
