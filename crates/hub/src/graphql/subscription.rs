//! What can be followed.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use async_graphql::{Context, Enum, ID, Result, SimpleObject, Subscription};
use futures::Stream;
use futures::stream::unfold;
use tokio::sync::watch;

use super::inputs::TypeInstanceFilter;
use super::instance::TypeInstance;
use super::scalars::{DateTime, Given};
use super::session::{Session, told};
use crate::guard::Guard;
use crate::{ChangeCursor, ChangeEvent, ChangeKind, Filter};

/// Who follows, as they were last vouched for; every event is decided anew.
pub(crate) type Followed = watch::Receiver<Guard>;

pub(super) struct Subscriptions;

/// What happened to a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum)]
enum TypeInstanceChangeKind {
    Created,
    Updated,
    Deleted,
    Locked,
    Unlocked,
}

#[derive(SimpleObject)]
pub(super) struct TypeInstanceChange {
    /// Goes into `after` to go on from here.
    cursor: String,
    kind: TypeInstanceChangeKind,
    id: ID,
    at: DateTime,
    /// As it is now; null once it is gone.
    type_instance: Option<TypeInstance>,
}

#[Subscription(name = "Subscription")]
impl Subscriptions {
    /// What becomes of records from now on, or from a cursor on, as far as the caller may watch them. Deletions are told
    /// whatever else than a namespace the filter asks for.
    async fn type_instance_changes(
        &self,
        context: &Context<'_>,
        #[graphql(default)] filter: Given<TypeInstanceFilter>,
        #[graphql(desc = "The cursor of a change")] after: Option<String>,
    ) -> Result<impl Stream<Item = Result<TypeInstanceChange>> + use<>> {
        let followed = context.data::<Followed>()?.clone();
        let session = context.data::<Session>()?;
        let filter = TypeInstanceFilter::read(filter.0).map_err(|error| told(error.into()))?;
        let hub = session.guard().hub().clone();
        let cursor = match after {
            Some(after) => after.parse().map_err(|error: crate::Error| told(error.into()))?,
            None => hub.changes_end().await.map_err(|error| told(error.into()))?,
        };
        let following = Following {
            guard: session.guard().clone(),
            asked: Instant::now(),
            followed,
            filter,
            cursor,
            changed: hub.changed(),
            session: session.clone(),
            waiting: VecDeque::new(),
            ended: false,
        };
        Ok(unfold(following, |mut following| async move {
            let change = following.next().await?;
            Some((change, following))
        }))
    }
}

struct Following {
    /// What was decided about the caller, and since when.
    guard: Guard,
    asked: Instant,
    followed: Followed,
    filter: Filter,
    cursor: ChangeCursor,
    changed: watch::Receiver<u64>,
    session: Session,
    waiting: VecDeque<ChangeEvent>,
    ended: bool,
}

/// Events that are read at a time.
const AT_ONCE: usize = 100;
/// Events that come together are decided together, for this long.
const DECIDED: Duration = Duration::from_millis(500);

impl Following {
    /// The next change; `None` at the end. After a failure nothing more comes.
    async fn next(&mut self) -> Option<Result<TypeInstanceChange>> {
        loop {
            if self.ended {
                return None;
            }
            match self.step().await {
                Ok(Some(change)) => return Some(Ok(change)),
                Ok(None) => {}
                Err(error) => {
                    self.ended = true;
                    return Some(Err(error));
                }
            }
        }
    }

    async fn step(&mut self) -> Result<Option<TypeInstanceChange>> {
        if self.followed.has_changed().is_ok_and(|changed| changed) || self.asked.elapsed() > DECIDED {
            self.guard = self.followed.borrow_and_update().anew();
            self.asked = Instant::now();
        }
        let guard = self.guard.clone();
        let Some(event) = self.waiting.pop_front() else {
            self.changed.borrow_and_update();
            let found = guard.hub().changes_after(Some(self.cursor), AT_ONCE).await;
            self.waiting.extend(found.map_err(|error| told(error.into()))?);
            if self.waiting.is_empty() {
                // Other processes' changes are found by looking.
                let poll = guard.hub().settings().times.poll;
                _ = tokio::time::timeout(poll, self.changed.changed()).await;
            }
            return Ok(None);
        };
        self.cursor = event.cursor;
        let Some(record) = guard.watched(&event, &self.filter).await.map_err(told)? else { return Ok(None) };
        let session = self.session.with(guard);
        let kind = match event.kind {
            ChangeKind::Created => TypeInstanceChangeKind::Created,
            ChangeKind::Updated => TypeInstanceChangeKind::Updated,
            ChangeKind::Deleted => TypeInstanceChangeKind::Deleted,
            ChangeKind::Locked => TypeInstanceChangeKind::Locked,
            ChangeKind::Unlocked => TypeInstanceChangeKind::Unlocked,
        };
        Ok(Some(TypeInstanceChange {
            cursor: event.cursor.to_string(),
            kind,
            id: ID(event.record),
            at: DateTime(event.at),
            type_instance: record.map(|record| TypeInstance::new(&session, record)),
        }))
    }
}
