//! What backends know of records: values and locks, many at once, each with an answer of its own.
//!
//! Every backend is asked beside the others. One that answers nothing at all in time is not asked again for the rest of the
//! same list: a list takes one limit, however much of it is kept there. One that answers for the others is asked for the
//! rest, too, unless it fails too often.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

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
        self.values_by(wanted, within, ask).await
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
        self.values_by(wanted, within, ask).await
    }

    /// How many reads of values found the same one of the same reader under way.
    pub fn joined_reads(&self) -> usize {
        self.flights().joined()
    }

    async fn values_by<F, A>(
        &self,
        wanted: &[VersionId],
        within: Duration,
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
        for (id, value) in self.ask_all(outside, within, ask).await {
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
        for (id, holder) in self.ask_all(outside, within, ask).await {
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

    async fn ask_all<T, F, A>(
        &self,
        outside: HashMap<String, Vec<Asked>>,
        within: Duration,
        ask: F,
    ) -> Vec<(VersionId, Result<T, Error>)>
    where
        F: Fn(Arc<Backend>, Asked) -> A + Copy,
        A: Future<Output = (VersionId, Result<T, Trouble>)>,
    {
        let groups = outside.into_iter().map(|(id, asked)| async move {
            match self.backend(&id).await {
                Ok(backend) => ask_one(&backend, asked, within, ask).await,
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

/// What one backend has said during a list.
#[derive(Default)]
struct Heard {
    answers: usize,
    silences: usize,
    /// Why it is not asked any more.
    given_up: Option<Trouble>,
}

impl Heard {
    /// How a call ended that began when there were so many answers.
    fn note(&mut self, trouble: Option<&Trouble>, answers_before: usize, was_long: bool) {
        let is_silence = |trouble: &&Trouble| matches!(trouble.code, Code::DeadlineExceeded | Code::Unavailable);
        let Some(trouble) = trouble.filter(is_silence) else {
            self.answers += 1;
            return;
        };
        self.silences += 1;
        // A backend may say of one record alone that it is out of reach, and at once.
        let is_dead = was_long && self.answers == answers_before;
        if is_dead || self.silences >= AT_ONCE {
            self.given_up.get_or_insert_with(|| trouble.clone());
        }
    }
}

/// Asks one backend, until it is given up.
async fn ask_one<T, F, A>(
    backend: &Arc<Backend>,
    asked: Vec<Asked>,
    within: Duration,
    ask: F,
) -> Vec<(VersionId, Result<T, Error>)>
where
    F: Fn(Arc<Backend>, Asked) -> A + Copy,
    A: Future<Output = (VersionId, Result<T, Trouble>)>,
{
    let heard: Mutex<Heard> = Mutex::default();
    let answers = asked.into_iter().map(|asked| {
        let heard = &heard;
        async move {
            let (given_up, before) = {
                let heard = heard.lock().unwrap_or_else(PoisonError::into_inner);
                (heard.given_up.clone(), heard.answers)
            };
            if let Some(trouble) = given_up {
                return (asked.id, Err(trouble.error()));
            }
            let begun = Instant::now();
            let (id, answer) = ask(Arc::clone(backend), asked).await;
            let was_long = begun.elapsed() >= within / 2;
            heard.lock().unwrap_or_else(PoisonError::into_inner).note(answer.as_ref().err(), before, was_long);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backend_is_given_up_when_it_answers_nothing_or_fails_too_often() {
        let trouble = |code| Trouble::new(code, String::new());
        let (late, away, other) =
            (trouble(Code::DeadlineExceeded), trouble(Code::Unavailable), trouble(Code::NotFound));
        let mut heard = Heard::default();
        heard.note(Some(&late), 0, false);
        assert!(heard.given_up.is_none(), "it said so at once, of one record");
        heard.note(None, 0, false);
        heard.note(Some(&other), 0, true);
        heard.note(Some(&late), 0, true);
        assert!(heard.given_up.is_none() && heard.answers == 2, "it answered for others meanwhile");
        heard.note(Some(&late), 2, true);
        assert!(heard.given_up.is_some(), "it answered nothing meanwhile");
        let mut heard = Heard::default();
        for _ in 1..AT_ONCE {
            heard.note(Some(&away), 0, false);
        }
        assert!(heard.given_up.is_none());
        heard.note(Some(&away), 0, false);
        assert!(heard.given_up.is_some());
    }
}
