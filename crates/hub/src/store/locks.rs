//! Locks, over a list of records all or none.

use db::{Tx, params};
use jiff::{SignedDuration, Timestamp};

use super::rows;
use crate::Error;
use crate::hub::Hub;
use crate::model::{Lock, Record};
use crate::rules::locks::{Standing, granted, standing};
use crate::rules::names;
use crate::rules::texts::{self, Fault};

impl Hub {
    /// Locks records for `owner`, or renews its locks. Without a lease they hold until they are released.
    pub async fn lock(&self, ids: Vec<String>, owner: String, lease: Option<SignedDuration>) -> Result<(), Error> {
        names::check_label("ownerID", &owner)?;
        if lease.is_some_and(|lease| !lease.is_positive()) {
            return Err(Error::invalid("expiresIn: it must be longer than nothing"));
        }
        let now = Timestamp::now();
        let lock = move |tx: &mut Tx<'_>| {
            let records = held(tx, &ids, &owner, now).map_err(|faults| faults.told(texts::lock))?;
            for record in &records {
                if let Some(lock) = granted(record.lock.as_ref(), &owner, lease, now) {
                    put(tx, &record.id, &lock)?;
                }
            }
            Ok(())
        };
        self.db().write(lock).await
    }

    /// Releases what `owner` holds; what nobody holds is released already.
    pub async fn unlock(&self, ids: Vec<String>, owner: String) -> Result<(), Error> {
        let now = Timestamp::now();
        let unlock = move |tx: &mut Tx<'_>| {
            let records = held(tx, &ids, &owner, now).map_err(|faults| faults.told(texts::unlock))?;
            records.iter().try_for_each(|record| release(tx, &record.id))
        };
        self.db().write(unlock).await
    }

    /// Releases records whoever holds them.
    pub async fn force_unlock(&self, ids: Vec<String>) -> Result<(), Error> {
        let unlock = move |tx: &mut Tx<'_>| {
            let (records, missing) = found(tx, &ids)?;
            if !missing.is_empty() {
                return Err(texts::unlock(&[Fault::not_found(&missing)]));
            }
            records.iter().try_for_each(|record| release(tx, &record.id))
        };
        self.db().write(unlock).await
    }
}

/// Why not all records are at the disposal of an owner.
enum NotHeld {
    Faults(Vec<Fault>),
    Failed(Error),
}

impl NotHeld {
    fn told(self, texts: fn(&[Fault]) -> Error) -> Error {
        match self {
            NotHeld::Faults(faults) => texts(&faults),
            NotHeld::Failed(error) => error,
        }
    }
}

/// The records, if all are there and none is held by somebody else.
fn held(tx: &mut Tx<'_>, ids: &[String], owner: &str, now: Timestamp) -> Result<Vec<Record>, NotHeld> {
    let (records, missing) = found(tx, ids).map_err(NotHeld::Failed)?;
    let foreign = |record: &&Record| standing(record.lock.as_ref(), Some(owner), now) == Standing::Stranger;
    let foreign: Vec<&str> = records.iter().filter(foreign).map(|record| record.id.as_str()).collect();
    // In the order in which they were named.
    let locked: Vec<String> = ids.iter().filter(|id| foreign.contains(&id.as_str())).cloned().collect();
    let mut faults = Vec::new();
    if !missing.is_empty() {
        faults.push(Fault::not_found(&missing));
    }
    if !locked.is_empty() {
        faults.push(Fault::locked(&locked));
    }
    if faults.is_empty() { Ok(records) } else { Err(NotHeld::Faults(faults)) }
}

fn found(tx: &mut Tx<'_>, ids: &[String]) -> Result<(Vec<Record>, Vec<String>), Error> {
    let records = rows::records(tx, ids)?;
    let missing = ids.iter().filter(|id| !records.iter().any(|record| record.id == **id)).cloned().collect();
    Ok((records, missing))
}

fn put(tx: &mut Tx<'_>, record: &str, lock: &Lock) -> Result<(), Error> {
    let Lock { owner, since, expires } = lock;
    tx.execute(
        "INSERT INTO hub_locks (record, owner, since, expires) VALUES ($1, $2, $3, $4) \
         ON CONFLICT (record) DO UPDATE SET owner = $2, since = $3, expires = $4",
        params![record, owner, since.as_microsecond(), expires.map(Timestamp::as_microsecond)],
    )?;
    Ok(())
}

fn release(tx: &mut Tx<'_>, record: &str) -> Result<(), Error> {
    tx.execute("DELETE FROM hub_locks WHERE record = $1", params![record])?;
    Ok(())
}
