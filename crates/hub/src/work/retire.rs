//! The end of a backend, also of one that never answers again.

use db::{Tx, params};

use super::left::LeftOutside;
use super::moving::Moved;
use crate::changes::{ChangeKind, Event};
use crate::hub::Hub;
use crate::journal::{delete_of_backend, drop_of_backend};
use crate::model::Record;
use crate::rules::texts;
use crate::store::{Deletion, OnBackendFailure, delete_record, rows};
use crate::{Error, Reason};

/// What becomes of the records of a backend that goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Retire {
    /// The id or name of the backend that they are moved to.
    MoveTo(String),
    /// They go with it, and their values stay outside.
    Orphan,
}

/// What became of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Retired {
    pub moved: Vec<Moved>,
    pub left: Vec<LeftOutside>,
}

impl Hub {
    /// Moves or gives up all records that a backend keeps, then deletes its own. Whoever locked them is not asked. What was
    /// moved stays so if the rest fails; it can be repeated.
    pub async fn retire(&self, backend: &str, how: Retire) -> Result<Retired, Error> {
        let unknown = || Error::refused(Reason::NotFound, format!("there is no storage backend \"{backend}\""));
        let backend = self.find(backend).await?.filter(|record| record.storage).ok_or_else(unknown)?;
        if backend.is_built_in() {
            return Err(texts::delete(&backend.id, &texts::Kept::BuiltIn));
        }
        let mut retired = Retired::default();
        match how {
            Retire::MoveTo(to) => {
                if self.find(&to).await?.is_some_and(|to| to.id == backend.id) {
                    return Err(Error::invalid("its records cannot be moved to itself; name another backend"));
                }
                for record in self.kept_by(&backend.id).await? {
                    let owner = record.lock.map(|lock| lock.owner);
                    retired.moved.extend(self.move_records(vec![record.id], &to, owner).await?);
                }
                // Old copies, where it does not answer: nobody will ask it again.
                retired.left = self.give_up_entries(&backend.id).await?;
            }
            Retire::Orphan => retired.left = self.give_up_records(&backend.id).await?,
        }
        let deletion = Deletion {
            ids: vec![backend.id],
            owner: backend.lock.map(|lock| lock.owner),
            on_backend_failure: OnBackendFailure::Orphan,
        };
        retired.left.extend(self.delete(deletion).await?);
        Ok(retired)
    }

    async fn kept_by(&self, backend: &str) -> Result<Vec<Record>, Error> {
        let backend = backend.to_owned();
        self.db().read(move |tx| kept_by(tx, &backend)).await
    }

    /// Removes what was begun at a backend that has no records any more, unless somebody is at it.
    async fn give_up_entries(&self, backend: &str) -> Result<Vec<LeftOutside>, Error> {
        let (backend, now) = (backend.to_owned(), self.now());
        let give_up = move |tx: &mut Tx<'_>| {
            let is_empty = kept_by(tx, &backend)?.is_empty();
            if is_empty { drop_of_backend(tx, &backend, now) } else { Ok(Vec::new()) }
        };
        let entries = self.db().write(give_up).await?;
        self.left_of(entries).await
    }

    /// Removes all records of a backend, with what was begun there.
    async fn give_up_records(&self, backend: &str) -> Result<Vec<LeftOutside>, Error> {
        let (backend, feed, now) = (backend.to_owned(), self.feed(), self.now());
        let unlocked = self.sealing().unlock().await?;
        let give_up = move |tx: &mut Tx<'_>| {
            let records = kept_by(tx, &backend)?;
            let mut left: Vec<LeftOutside> = Vec::with_capacity(records.len());
            for record in &records {
                // One that is damaged does not keep the backend.
                let context = match rows::latest_context(tx, record, &unlocked) {
                    Err(Error::Damaged { .. }) => None,
                    context => context?,
                };
                left.push(LeftOutside::of(record, context.as_ref(), None));
            }
            let entries = delete_of_backend(tx, &backend)?;
            for record in &records {
                delete_record(tx, &record.id)?;
            }
            let events: Vec<Event> = records.iter().map(|record| Event::of(record, ChangeKind::Deleted)).collect();
            feed.write(tx, now, &events)?;
            Ok((left, entries))
        };
        let (mut left, entries) = self.change(give_up).await?;
        left.iter().for_each(LeftOutside::log);
        for of_entry in self.left_of(entries).await? {
            // Of records that were never there or are elsewhere by now, and copies on their way to other backends.
            if !left.iter().any(|known| (&known.id, &known.backend) == (&of_entry.id, &of_entry.backend)) {
                left.push(of_entry);
            }
        }
        Ok(left)
    }
}

fn kept_by(tx: &mut Tx<'_>, backend: &str) -> Result<Vec<Record>, Error> {
    let sql = format!("{} WHERE r.backend = $1 ORDER BY r.place", rows::RECORDS);
    tx.query(&sql, params![backend])?.iter().map(rows::record).collect()
}
