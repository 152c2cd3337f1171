//! The door: what a hub stands on. What it does is in `store`, one file per thing.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use db::{Db, Tx};
use jiff::Timestamp;
use keys::Keyring;

use crate::Error;
use crate::model::TypeRef;
use crate::rules::names;
use crate::seal::Sealing;
use crate::store::{Known, ensure_built_in};

/// How a hub behaves.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The namespace of records that name none, and of the built-in one.
    pub namespace: String,
    /// The named key that seals values and contexts.
    pub encryption_key: String,
    /// Whether records must be of Types that are known here.
    pub require_types: bool,
}

/// Typed records in a database. Clones share it.
#[derive(Clone)]
pub struct Hub(Arc<Inner>);

struct Inner {
    db: Db,
    sealing: Sealing,
    settings: Settings,
    /// By Type: a revision never changes.
    schemas: Mutex<HashMap<TypeRef, Known>>,
}

/// More schemas than this are not remembered.
const SCHEMAS: usize = 512;

impl Hub {
    /// Opens the hub in a database that has [`crate::MIGRATIONS`]. Makes its first data key and the built-in record where they
    /// are missing.
    pub async fn open(db: Db, keyring: Keyring, settings: Settings) -> Result<Hub, Error> {
        names::check_namespace(&settings.namespace)?;
        let sealing = Sealing::new(db.clone(), keyring, settings.encryption_key.clone());
        sealing.ensure().await?;
        let (unlocked, namespace, now) = (sealing.unlock().await?, settings.namespace.clone(), Timestamp::now());
        db.write(move |tx: &mut Tx<'_>| ensure_built_in(tx, &namespace, now, &unlocked)).await?;
        Ok(Hub(Arc::new(Inner { db, sealing, settings, schemas: Mutex::default() })))
    }

    /// Wraps the hub's data keys by the newest version of the named key; tells how many were under an older one.
    pub async fn rewrap(&self) -> Result<usize, Error> {
        self.0.sealing.rewrap().await
    }

    pub fn settings(&self) -> &Settings {
        &self.0.settings
    }

    pub(crate) fn db(&self) -> &Db {
        &self.0.db
    }

    pub(crate) fn sealing(&self) -> &Sealing {
        &self.0.sealing
    }

    pub(crate) fn remembered_schema(&self, reference: &TypeRef) -> Option<Known> {
        self.0.schemas.lock().unwrap_or_else(PoisonError::into_inner).get(reference).cloned()
    }

    pub(crate) fn remember_schema(&self, reference: &TypeRef, known: &Known) {
        let mut schemas = self.0.schemas.lock().unwrap_or_else(PoisonError::into_inner);
        if schemas.len() >= SCHEMAS {
            schemas.clear();
        }
        schemas.insert(reference.clone(), known.clone());
    }
}

impl fmt::Debug for Hub {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Hub").field("settings", &self.0.settings).finish_non_exhaustive()
    }
}
