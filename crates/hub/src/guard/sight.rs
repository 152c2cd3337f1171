//! What was decided about one caller, each question asked once.
//!
//! Permissions on single names count too, but a name is a question of its own: long lists are decided by the namespace
//! first, and only so many names are asked for in one request.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use access::Action;
use access::http::{Caller, Problem};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use http::StatusCode;
use tokio::sync::OnceCell;

use super::GROUP;
use crate::model::Record;

#[derive(Debug)]
pub(super) struct Sight {
    caller: Caller,
    known: Mutex<HashMap<Action, Arc<OnceCell<bool>>>>,
    /// How many names may still be asked for.
    names: AtomicUsize,
}

/// What of a record is to be seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Metadata,
    /// Values and contexts.
    Value,
}

const NAMES_PER_REQUEST: usize = 256;
const QUESTIONS_AT_ONCE: usize = 8;

impl Sight {
    pub(super) fn new(caller: Caller) -> Sight {
        Sight { caller, known: Mutex::default(), names: AtomicUsize::new(NAMES_PER_REQUEST) }
    }

    /// A no is an answer; that nobody can tell is a failure.
    pub(super) async fn may(&self, action: Action) -> Result<bool, Problem> {
        let cell = {
            let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            known.entry(action.clone()).or_default().clone()
        };
        let ask = || async {
            match self.caller.may(&action).await {
                Ok(()) => Ok(true),
                Err(problem) if problem.status == StatusCode::FORBIDDEN => Ok(false),
                Err(problem) => Err(problem),
            }
        };
        cell.get_or_try_init(ask).await.copied()
    }

    /// Whether this one record may be seen.
    pub(super) async fn sees(&self, record: &Record, part: Part) -> Result<bool, Problem> {
        self.may(part.action().in_namespace(&record.namespace).named(record.called())).await
    }

    /// Which of these records may be seen, by their places in the list.
    pub(super) async fn which(&self, records: &[Record], part: Part) -> Result<Vec<bool>, Problem> {
        let mut by_namespace: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (index, record) in records.iter().enumerate() {
            by_namespace.entry(&record.namespace).or_default().push(index);
        }
        let mut seen = vec![false; records.len()];
        for (namespace, indices) in by_namespace {
            if indices.len() > 1 && self.may(part.action().in_namespace(namespace)).await? {
                indices.iter().for_each(|index| seen[*index] = true);
                continue;
            }
            let named = indices.into_iter().filter(|_| self.take_name());
            let named = named.map(|index| async move { Ok::<_, Problem>((index, self.sees(&records[index], part).await?)) });
            let named: Vec<_> = named.collect();
            let answers: Vec<(usize, bool)> =
                stream::iter(named).buffer_unordered(QUESTIONS_AT_ONCE).try_collect().await?;
            answers.into_iter().for_each(|(index, answer)| seen[index] = answer);
        }
        Ok(seen)
    }

    /// In which of these namespaces records may be listed; `None` is all there are and will be.
    pub(super) async fn namespaces(
        &self,
        resource: &'static str,
        all: &[String],
    ) -> Result<Option<Vec<String>>, Problem> {
        let list = || Action::on("list", GROUP, resource);
        if self.may(list()).await? {
            return Ok(None);
        }
        let asked = all.iter().map(|namespace| async move {
            let may = self.may(list().in_namespace(namespace)).await?;
            Ok::<_, Problem>(may.then(|| namespace.clone()))
        });
        let asked: Vec<_> = asked.collect();
        let allowed: Vec<Option<String>> = stream::iter(asked).buffered(QUESTIONS_AT_ONCE).try_collect().await?;
        Ok(Some(allowed.into_iter().flatten().collect()))
    }

    fn take_name(&self) -> bool {
        let less = |left: usize| left.checked_sub(1);
        self.names.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok()
    }
}

impl Part {
    fn action(self) -> Action {
        let get = Action::on("get", GROUP, "typeinstances");
        match self {
            Part::Metadata => get,
            Part::Value => get.subresource("value"),
        }
    }
}
