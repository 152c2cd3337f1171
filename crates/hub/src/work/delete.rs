//! The end of records.

use std::collections::HashSet;

use super::calls::{Others, Outcome, call_all};
use super::left::LeftOutside;
use crate::failpoints::Step;
use crate::hub::Hub;
use crate::journal::{Fate, Intent, Operation, Sealed};
use crate::model::Record;
use crate::rules::deletion::{Users, reached, steps, users_among};
use crate::rules::texts::{self, Kept};
use crate::seal::Part;
use crate::storage::{Destination, Landed, Trouble};
use crate::store::{Deletion, Going, Leaving, OnBackendFailure};
use crate::{Error, Reason};

impl Hub {
    /// Deletes records with all their versions and values. What one of them uses may go with it. All or none of them, unless
    /// a backend refuses: then those go whose values are gone, and nothing that something uses which stays. Tells what stays
    /// outside.
    pub async fn delete(&self, deletion: Deletion) -> Result<Vec<LeftOutside>, Error> {
        let records = self.records(&deletion.ids).await?;
        let is_outside = records.iter().any(|record| !record.is_kept_here());
        let (unlocked, now, feed) = (self.sealing().unlock().await?, self.now(), self.feed());
        let going = Going { deletion, unlocked, now, left: self.left_now(), feed };
        if !is_outside {
            let stuck = self.change(move |tx| going.carry_out(tx)).await?;
            return self.left_of(stuck).await;
        }
        if going.deletion.on_backend_failure == OnBackendFailure::Fail {
            let failed = |faults: &[texts::Fault]| {
                let first = faults.first().map(|fault| (fault.reason, fault.text.clone()));
                let (reason, text) = first.unwrap_or((Reason::Backend, String::new()));
                Error::refused(reason, format!("failed to delete TypeInstances: {text}"))
            };
            self.release_expired(records).await.map_err(|unreleased| unreleased.told(failed))?;
        }
        let hub = self.clone();
        self.to_the_end(async move { hub.delete_outside(going).await }).await
    }

    async fn delete_outside(&self, going: Going) -> Result<Vec<LeftOutside>, Error> {
        let operation = Operation::begin(self);
        let reserve = {
            let (going, operation) = (going.clone(), operation.clone());
            self.db().write(move |tx| going.reserve(tx, &operation))
        };
        let Leaving { begun, stuck, usages } = reserve.await?;
        Step::DeleteReserved.hit();
        let ids: Vec<String> = begun.iter().map(|(record, _intent)| record.id.clone()).collect();
        let users = users_among(&ids, &usages);
        let orphan = going.deletion.on_backend_failure == OnBackendFailure::Orphan;
        let others = if orphan { Users::new() } else { users.clone() };
        let outcomes = self.call_for(&operation, &begun, &steps(&ids, &usages), &others).await?;
        let failed: Vec<(&Record, Trouble)> =
            outcomes.iter().filter_map(|outcome| Some((&begun[outcome.index].0, trouble(outcome)?))).collect();
        let stays = !orphan && !failed.is_empty();
        // Whoever uses what is gone goes, too.
        let gone = outcomes.iter().filter(|outcome| matches!(outcome.done, Some(Ok(()))));
        let gone = gone.map(|outcome| &begun[outcome.index].0).filter(|record| !record.is_kept_here());
        let bereft = all_users(gone.map(|record| record.id.as_str()), &users);
        let fate = |outcome: &Outcome<()>| {
            let (record, intent) = begun[outcome.index].clone();
            let fate = match &outcome.done {
                _ if orphan => None,
                Some(Err(trouble)) if trouble.landed == Landed::Perhaps => Some(Fate::Forward),
                Some(Err(_)) | None => Some(Fate::Nothing),
                // Nothing is lost yet of what is kept here.
                Some(Ok(())) if stays && record.is_kept_here() && !bereft.contains(record.id.as_str()) => {
                    Some(Fate::Nothing)
                }
                Some(Ok(())) => None,
            };
            (record, intent, fate)
        };
        let fates: Vec<_> = outcomes.iter().map(fate).collect();
        Step::DeleteBeforeCommit.hit();
        let going = Going { left: self.left_now(), ..going };
        self.change(move |tx| going.commit(tx, &fates)).await?;
        Step::DeleteCommitted.hit();
        if let (true, Some((record, trouble))) = (stays, failed.first()) {
            let kept = match trouble.landed {
                Landed::No => Kept::Backend(trouble.text.clone()),
                Landed::Perhaps => Kept::BackendLater(trouble.text.clone()),
            };
            return Err(texts::delete(&record.id, &kept));
        }
        let mut left = self.left_of(stuck).await?;
        for (record, trouble) in failed {
            let intent = begun.iter().map(|(_record, intent)| intent).find(|intent| intent.record == record.id);
            let context = intent.and_then(|intent| intent.context.as_ref());
            let of_record = LeftOutside::of(record, context, Some(trouble.text));
            of_record.log();
            left.push(of_record);
        }
        Ok(left)
    }

    /// Calls the backends, users before what they use: what a record uses that stays is not asked to go.
    async fn call_for(
        &self,
        operation: &Operation,
        begun: &[(Record, Intent)],
        steps: &[Vec<String>],
        users: &Users<'_>,
    ) -> Result<Vec<Outcome<()>>, Error> {
        let intents: Vec<(usize, Intent)> =
            begun.iter().enumerate().map(|(index, (_record, intent))| (index, intent.clone())).collect();
        let places = self.places_of(&intents).await?;
        let calling = operation.calling();
        let (mut outcomes, mut staying): (Vec<Outcome<()>>, HashSet<String>) = (Vec::new(), HashSet::new());
        for step in steps {
            let used = |intent: &Intent| {
                users.get(intent.record.as_str()).is_some_and(|users| users.iter().any(|user| staying.contains(*user)))
            };
            let (kept, free): (Vec<_>, Vec<_>) = intents
                .iter()
                .filter(|(_, intent)| step.contains(&intent.record))
                .cloned()
                .partition(|(_, one)| used(one));
            let called = call_all(&free, Others::GoOn, |_index, intent| {
                let (calling, place) = (&calling, places.get(&intent.backend));
                async move {
                    let Some(place) = place else { return Ok(()) };
                    let Destination::External(backend) = place.clone()? else { return Ok(()) };
                    let (context, holder) = (intent.context.as_ref(), intent.holder.as_deref());
                    let done = backend.delete(&calling.call(intent, intent.last), context, holder).await;
                    Step::DeleteCalled.hit();
                    done
                }
            });
            let mut of_step = called.await;
            of_step.extend(kept.into_iter().map(|(index, intent)| Outcome { index, intent, done: None }));
            let stays = of_step.iter().filter(|outcome| !matches!(outcome.done, Some(Ok(()))));
            staying.extend(stays.map(|outcome| outcome.intent.record.clone()));
            outcomes.append(&mut of_step);
        }
        outcomes.sort_by_key(|outcome| outcome.index);
        Ok(outcomes)
    }

    /// What entries that are no more leave at backends.
    pub(crate) async fn left_of(&self, entries: Vec<Sealed>) -> Result<Vec<LeftOutside>, Error> {
        if entries.is_empty() {
            return Ok(Vec::new());
        }
        let unlocked = self.sealing().unlock().await?;
        let of_entry = |(mut intent, sealed): Sealed| {
            // One that is damaged is still told of, without its keys.
            intent.context =
                sealed.and_then(|sealed| unlocked.open(&intent.record, intent.last, Part::Intent, &sealed).ok());
            LeftOutside::of_entry(&intent)
        };
        let left: Vec<LeftOutside> = entries.into_iter().filter_map(of_entry).collect();
        left.iter().for_each(LeftOutside::log);
        Ok(left)
    }
}

/// Whoever uses these records, or uses what does.
fn all_users<'a>(ids: impl Iterator<Item = &'a str>, users: &Users<'a>) -> HashSet<&'a str> {
    ids.flat_map(|id| reached(id, users)).collect()
}

fn trouble(outcome: &Outcome<()>) -> Option<Trouble> {
    outcome.done.as_ref()?.as_ref().err().cloned()
}
