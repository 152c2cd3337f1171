//! The end of records.

use db::{Tx, params};
use jiff::Timestamp;

use super::rows;
use crate::Error;
use crate::hub::Hub;
use crate::rules::deletion::keepers;
use crate::rules::locks::{Standing, standing};
use crate::rules::texts::{self, Kept};

/// Records to be deleted together.
#[derive(Clone, Debug)]
pub struct Deletion {
    pub ids: Vec<String>,
    /// Who deletes them, where they are locked.
    pub owner: Option<String>,
}

const TABLES: [&str; 5] = [
    "DELETE FROM hub_records WHERE id = $1",
    "DELETE FROM hub_versions WHERE record = $1",
    "DELETE FROM hub_attributes WHERE record = $1",
    "DELETE FROM hub_locks WHERE record = $1",
    "DELETE FROM hub_relations WHERE source = $1",
];

impl Hub {
    /// Deletes records with all their versions, all or none. What one of them uses may go with it.
    pub async fn delete(&self, deletion: Deletion) -> Result<(), Error> {
        let now = Timestamp::now();
        self.db().write(move |tx| carry_out(tx, &deletion, now)).await
    }
}

fn carry_out(tx: &mut Tx<'_>, deletion: &Deletion, now: Timestamp) -> Result<(), Error> {
    let records = rows::records(tx, &deletion.ids)?;
    let usages = rows::usages(tx, &deletion.ids)?;
    for id in &deletion.ids {
        let Some(record) = records.iter().find(|record| record.id == *id) else {
            return Err(texts::delete(id, &Kept::NotFound));
        };
        if record.is_built_in() {
            return Err(texts::delete(id, &Kept::BuiltIn));
        }
        if standing(record.lock.as_ref(), deletion.owner.as_deref(), now) == Standing::Stranger {
            return Err(texts::delete(id, &Kept::Locked));
        }
        let users: Vec<String> = keepers(id, &deletion.ids, &usages).into_iter().map(str::to_owned).collect();
        if !users.is_empty() {
            return Err(texts::delete(id, &Kept::UsedBy(users)));
        }
    }
    for id in &deletion.ids {
        for sql in TABLES {
            tx.execute(sql, params![id])?;
        }
        // Only those that went with it, and itself, are left here.
        tx.execute("DELETE FROM hub_relations WHERE target = $1", params![id])?;
    }
    Ok(())
}
