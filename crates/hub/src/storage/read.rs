//! What backends know of records: values and locks, many at once, each with an answer of its own.
//!
//! Every backend is asked beside the others. One that does not answer in time is not asked again for the rest of the same
//! list: a list takes one limit, however much of it is kept there.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use backends::Code;
use db::{Tx, params};
use futures::future::join_all;
use futures::stream::{StreamExt as _, iter};

use super::{Backend, Call, Flight, Trouble};
use crate::hub::Hub;
use crate::model::{BUILT_IN, Lock, Record};
use crate::rules::locks::holds;
use crate::seal::{Part, Unlocked};
use crate::store::{VersionId, rows};
use crate::{Error, Json};

/// Calls of one backend at a time.
const AT_ONCE: usize = 16;
/// Versions per statement.
const CHUNK: usize = 250;

/// Who holds a record, by the hub and by its backend.
#[derive(Debug)]
pub struct LockedBy {
    /// The lock that holds now.
    pub hub: Option<Lock>,
    /// Of a record that is kept here: the same.
    pub backend: Result<Option<String>, Error>,
}

impl LockedBy {
    /// The backend's word, else the hub's.
    pub fn owner(&self) -> Option<&str> {
        match &self.backend {
            Ok(owner) => owner.as_deref(),
            Err(_) => self.hub.as_ref().map(|lock| lock.owner.as_str()),
        }
    }

    /// Whether the backend says something else than the hub.
    pub fn drifts(&self) -> bool {
        let hub = self.hub.as_ref().map(|lock| lock.owner.as_str());
        self.backend.as_ref().is_ok_and(|owner| owner.as_deref() != hub)
    }
}

/// A version in the database.
struct Kept {
    id: VersionId,
    backend: String,
    value: Option<Vec<u8>>,
    context: Option<Vec<u8>>,
    has_value: Option<bool>,
}

/// A version to ask a backend about.
struct Asked {
    id: VersionId,
    context: Option<Json>,
    has_value: Option<bool>,
}

impl Asked {
    fn about(kept: &Kept, unlocked: &Unlocked) -> Result<Asked, Error> {
        let open = |sealed: &Vec<u8>| unlocked.open(&kept.id.record, kept.id.number, Part::Context, sealed);
        let context = kept.context.as_ref().map(open).transpose()?;
        Ok(Asked { id: kept.id.clone(), context, has_value: kept.has_value })
    }
}

impl Hub {
    /// The values of these versions; those without one are left out. What cannot be read is an error of its own, so that
    /// neither a damaged document nor a dead backend hides another value.
    pub async fn values(&self, wanted: &[VersionId]) -> Result<HashMap<VersionId, Result<Json, Error>>, Error> {
        let within = self.settings().times.read;
        let ask = |backend: Arc<Backend>, asked: Asked| async move {
            let value = read(&backend, &asked, within).await;
            (asked.id, value)
        };
        self.values_by(wanted, ask).await
    }

    /// The same for somebody who may ask for the same in several requests: what is under way already is not asked for again.
    pub async fn values_for(
        &self,
        reader: &str,
        wanted: &[VersionId],
    ) -> Result<HashMap<VersionId, Result<Json, Error>>, Error> {
        let within = self.settings().times.read;
        let ask = |backend: Arc<Backend>, asked: Asked| async move {
            let id = asked.id.clone();
            let flight = Flight {
                reader: reader.to_owned(),
                backend: backend.id.clone(),
                described: backend.version,
                id: id.clone(),
            };
            let value = self.flights().join(flight, async move { read(&backend, &asked, within).await }).await;
            (id, value)
        };
        self.values_by(wanted, ask).await
    }

    /// How many reads of values found the same one of the same reader under way.
    pub fn joined_reads(&self) -> usize {
        self.flights().joined()
    }

    async fn values_by<F, A>(
        &self,
        wanted: &[VersionId],
        ask: F,
    ) -> Result<HashMap<VersionId, Result<Json, Error>>, Error>
    where
        F: Fn(Arc<Backend>, Asked) -> A + Copy,
        A: Future<Output = (VersionId, Result<Option<Json>, Trouble>)>,
    {
        let kept = self.kept(wanted).await?;
        if kept.is_empty() {
            return Ok(HashMap::new());
        }
        let unlocked = self.sealing().unlock().await?;
        let mut values = HashMap::with_capacity(kept.len());
        let mut outside: HashMap<String, Vec<Asked>> = HashMap::new();
        for kept in kept {
            if kept.backend == BUILT_IN {
                if let Some(sealed) = &kept.value {
                    let opened = unlocked.open(&kept.id.record, kept.id.number, Part::Value, sealed);
                    values.insert(kept.id, opened);
                }
            } else {
                match Asked::about(&kept, &unlocked) {
                    Ok(asked) => outside.entry(kept.backend).or_default().push(asked),
                    Err(error) => _ = values.insert(kept.id, Err(error)),
                }
            }
        }
        for (id, value) in self.ask_all(outside, ask).await {
            match value {
                Ok(Some(value)) => _ = values.insert(id, Ok(value)),
                Ok(None) => {}
                Err(error) => _ = values.insert(id, Err(error)),
            }
        }
        Ok(values)
    }

    /// Who holds these records, by their ids: the hub's word and that of their backends, which get a second for it.
    pub async fn locked_by(&self, records: &[Record]) -> Result<HashMap<String, LockedBy>, Error> {
        let now = self.now();
        let mut told: HashMap<String, LockedBy> = HashMap::with_capacity(records.len());
        for record in records {
            let hub = record.lock.clone().filter(|lock| holds(lock, now));
            let owner = hub.as_ref().map(|lock| lock.owner.clone());
            told.insert(record.id.clone(), LockedBy { hub, backend: Ok(owner) });
        }
        let outside = records.iter().filter(|record| !record.is_kept_here());
        let wanted: Vec<VersionId> =
            outside.map(|record| VersionId { record: record.id.clone(), number: record.latest }).collect();
        if wanted.is_empty() {
            return Ok(told);
        }
        let unlocked = self.sealing().unlock().await?;
        let mut outside: HashMap<String, Vec<Asked>> = HashMap::new();
        for kept in self.kept(&wanted).await? {
            match Asked::about(&kept, &unlocked) {
                Ok(asked) => outside.entry(kept.backend).or_default().push(asked),
                // One that is damaged hides no other's holder.
                Err(error) => {
                    if let Some(told) = told.get_mut(&kept.id.record) {
                        told.backend = Err(error);
                    }
                }
            }
        }
        let within = self.settings().times.lock_question;
        let ask = |backend: Arc<Backend>, asked: Asked| async move {
            let call = Call::reading(&asked.id.record, within);
            let holder = match backend.locked_by(&call, asked.context.as_ref()).await {
                // A backend that knows no locks leaves them to the hub.
                Err(trouble) if trouble.code == Code::Unimplemented => Ok(None),
                holder => holder.map(Some),
            };
            (asked.id, holder)
        };
        for (id, holder) in self.ask_all(outside, ask).await {
            let Some(told) = told.get_mut(&id.record) else { continue };
            match holder {
                Ok(Some(holder)) => told.backend = Ok(holder),
                Ok(None) => {}
                Err(error) => told.backend = Err(error),
            }
        }
        Ok(told)
    }

    /// The context of a record's newest version.
    pub(crate) async fn latest_context(&self, record: &Record) -> Result<Option<Json>, Error> {
        self.context(&record.id, record.latest).await
    }

    async fn ask_all<T, F, A>(&self, outside: HashMap<String, Vec<Asked>>, ask: F) -> Vec<(VersionId, Result<T, Error>)>
    where
        F: Fn(Arc<Backend>, Asked) -> A + Copy,
        A: Future<Output = (VersionId, Result<T, Trouble>)>,
    {
        let groups = outside.into_iter().map(|(id, asked)| async move {
            match self.backend(&id).await {
                Ok(backend) => ask_one(&backend, asked, ask).await,
                Err(error) => {
                    let text = error.to_string();
                    let refused = |asked: Asked| {
                        let Error::Refused { reason, .. } = &error else {
                            return (asked.id, Err(Error::damaged(format!("backend {id}"), text.clone())));
                        };
                        (asked.id, Err(Error::refused(*reason, text.clone())))
                    };
                    asked.into_iter().map(refused).collect()
                }
            }
        });
        join_all(groups).await.into_iter().flatten().collect()
    }

    async fn kept(&self, wanted: &[VersionId]) -> Result<Vec<Kept>, Error> {
        let wanted = wanted.to_vec();
        let read = move |tx: &mut Tx<'_>| {
            let mut kept = Vec::with_capacity(wanted.len());
            for wanted in wanted.chunks(CHUNK) {
                read_kept(tx, wanted, &mut kept)?;
            }
            Ok(kept)
        };
        self.db().read(read).await
    }
}

async fn read(backend: &Backend, asked: &Asked, within: Duration) -> Result<Option<Json>, Trouble> {
    let call = Call::reading(&asked.id.record, within);
    backend.kept_value(&call, asked.id.number, asked.context.as_ref(), asked.has_value).await
}

/// Asks one backend, until it does not answer.
async fn ask_one<T, F, A>(backend: &Arc<Backend>, asked: Vec<Asked>, ask: F) -> Vec<(VersionId, Result<T, Error>)>
where
    F: Fn(Arc<Backend>, Asked) -> A + Copy,
    A: Future<Output = (VersionId, Result<T, Trouble>)>,
{
    let silent: Mutex<Option<Trouble>> = Mutex::new(None);
    let answers = asked.into_iter().map(|asked| {
        let silent = &silent;
        async move {
            let before = silent.lock().unwrap_or_else(PoisonError::into_inner).clone();
            if let Some(trouble) = before {
                return (asked.id, Err(trouble.error()));
            }
            let (id, answer) = ask(Arc::clone(backend), asked).await;
            if let Err(trouble) = &answer
                && matches!(trouble.code, Code::DeadlineExceeded | Code::Unavailable)
            {
                *silent.lock().unwrap_or_else(PoisonError::into_inner) = Some(trouble.clone());
            }
            (id, answer.map_err(|trouble| trouble.error()))
        }
    });
    let answers: Vec<_> = answers.collect();
    iter(answers).buffer_unordered(AT_ONCE).collect().await
}

fn read_kept(tx: &mut Tx<'_>, wanted: &[VersionId], to: &mut Vec<Kept>) -> Result<(), Error> {
    let mut bound = Vec::with_capacity(2 * wanted.len() + 1);
    let mut pairs = Vec::with_capacity(wanted.len());
    for id in wanted {
        bound.extend_from_slice(params![&id.record, i64::from(id.number)]);
        pairs.push(format!("(v.record = ${} AND v.number = ${})", bound.len() - 1, bound.len()));
    }
    let sql = format!(
        "SELECT v.record, v.number, r.backend, v.value, v.context, v.has_value FROM hub_versions v \
         JOIN hub_records r ON r.id = v.record WHERE {}",
        pairs.join(" OR ")
    );
    for row in tx.query(&sql, &bound)? {
        let number = u32::try_from(row.get::<i64>(1)?).unwrap_or_default();
        let id = VersionId { record: row.get(0)?, number };
        let has_value = rows::has_value(&row, 5)?;
        to.push(Kept { id, backend: row.get(2)?, value: row.get(3)?, context: row.get(4)?, has_value });
    }
    Ok(())
}
