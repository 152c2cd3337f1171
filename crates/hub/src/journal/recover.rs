//! Taking over what others left open, now and again; and the end by hand, which is always possible.

use std::time::Instant;

use db::{Tx, params};
use futures::future::join_all;
use jiff::Timestamp;

use super::rows::{self, COLUMNS};
use super::{Intent, IntentKind, IntentState};
use crate::hub::Hub;
use crate::seal::Part;
use crate::work::LeftOutside;
use crate::{Error, Reason};

/// An entry of the journal, as an operator sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JournalEntry {
    pub id: String,
    pub kind: IntentKind,
    pub state: IntentState,
    pub record: String,
    pub backend: String,
    /// Where it is moved to.
    pub target: Option<String>,
    /// The versions that are concerned, the first and the last.
    pub versions: (u32, u32),
    pub since: Timestamp,
    /// When it is tried again, or taken over.
    pub next: Timestamp,
    pub attempts: u32,
    /// The gRPC code of the last failure.
    pub fault: Option<String>,
}

/// Entries that are taken over at a time.
const AT_ONCE: usize = 16;
/// Rounds of one recovery: what comes later is for the next.
const ROUNDS: usize = 64;

impl Hub {
    /// Looks after the journal, leases of locks, the feed of changes and the wrapping of the data keys for as long as it is
    /// polled: at once, then regularly. One process of many suffices, and several do no harm.
    pub async fn run(&self) {
        let times = &self.settings().times;
        let mut rewrapped: Option<Instant> = None;
        loop {
            if let Err(error) = self.tend().await {
                tracing::warn!(%error, "failed to look after the hub's journal; it is tried again");
            }
            if rewrapped.is_none_or(|at| at.elapsed() >= times.rewrap_every) {
                rewrapped = Some(Instant::now());
                self.follow_rotation().await;
            }
            tokio::time::sleep(times.recover_every).await;
        }
    }

    async fn follow_rotation(&self) {
        match self.rewrap().await {
            Ok(0) => {}
            Ok(count) => {
                tracing::info!(count, "data keys of the hub are wrapped by the newest version of their key now");
            }
            Err(error) => {
                tracing::warn!(%error, "failed to wrap the hub's data keys anew; it is tried again");
            }
        }
    }

    /// One round of [`Hub::run`]: takes over what has no owner any more, releases locks whose lease is over, and drops old
    /// changes from the feed.
    pub async fn tend(&self) -> Result<(), Error> {
        self.clock().set(self.db()).await?;
        self.recover().await?;
        self.release_expired_everywhere().await?;
        self.forget_changes().await
    }

    /// Settles every entry whose lease is over. Tells how many were taken.
    pub async fn recover(&self) -> Result<usize, Error> {
        let mut count = 0;
        for _round in 0..ROUNDS {
            let taken = self.take_over().await?;
            if taken.is_empty() {
                break;
            }
            count += taken.len();
            // Beside one another: a backend that does not answer keeps no other waiting.
            for settled in join_all(taken.into_iter().map(|intent| self.settle(intent))).await {
                settled?;
            }
        }
        Ok(count)
    }

    /// Ends the leases of all other processes: for whoever knows that none of them lives, because the database is its alone.
    /// What they began is undone or carried through at once. It is done once more as long as a last call of theirs may
    /// still land, which is counted from now on: they cannot have called after that. Tells how many entries there were.
    pub async fn inherit(&self) -> Result<u64, Error> {
        let (times, now, heir) = (&self.settings().times, self.now(), self.process().to_owned());
        let landed = now.checked_add(times.call + times.grace).unwrap_or(Timestamp::MAX);
        let end = move |tx: &mut Tx<'_>| {
            let (now, landed) = (now.as_microsecond(), landed.as_microsecond());
            let sql = "UPDATE hub_journal SET deadline = $1 WHERE owner <> $2 AND deadline > $1";
            tx.execute(sql, params![landed, &heir])?;
            let sql = "UPDATE hub_journal SET lease_until = $1 WHERE owner <> $2 AND lease_until > $1";
            tx.execute(sql, params![now, &heir])
        };
        Ok(self.db().write::<_, db::Error, _>(end).await?)
    }

    async fn take_over(&self) -> Result<Vec<Intent>, Error> {
        let now = self.now();
        let any = "SELECT 1 FROM hub_journal WHERE lease_until <= $1 LIMIT 1";
        if self.db().look_up(any, params![now.as_microsecond()]).await?.is_none() {
            return Ok(Vec::new());
        }
        let (owner, lease_until) = (self.process().to_owned(), self.settle_lease(now));
        let taken = self.db().write(move |tx| rows::take(tx, &owner, now, lease_until, AT_ONCE)).await?;
        self.opened(taken).await
    }

    fn settle_lease(&self, now: Timestamp) -> Timestamp {
        let times = &self.settings().times;
        now.checked_add(times.phase() + times.margin).unwrap_or(Timestamp::MAX)
    }

    /// Entries with their contexts open.
    async fn opened(&self, sealed: Vec<rows::Sealed>) -> Result<Vec<Intent>, Error> {
        let unlocked = self.sealing().unlock().await?;
        let open = |(mut intent, sealed): rows::Sealed| {
            let open = |sealed: Vec<u8>| unlocked.open(&intent.record, intent.last, Part::Intent, &sealed);
            intent.context = sealed.map(open).transpose()?;
            Ok(intent)
        };
        sealed.into_iter().map(open).collect()
    }

    /// What is open, the oldest first.
    pub async fn journal(&self) -> Result<Vec<JournalEntry>, Error> {
        let sql = format!("{COLUMNS} ORDER BY made_at, id");
        let read =
            move |tx: &mut Tx<'_>| tx.query(&sql, &[])?.iter().map(rows::read).collect::<Result<Vec<_>, Error>>();
        Ok(self.db().read(read).await?.into_iter().map(|(intent, _sealed)| entry(intent)).collect())
    }

    /// Tries an entry now. Tells what is left of it: nothing if it is over.
    pub async fn journal_retry(&self, id: &str) -> Result<Option<JournalEntry>, Error> {
        let now = self.now();
        let (wanted, owner, lease_until) = (id.to_owned(), self.process().to_owned(), self.settle_lease(now));
        let take = move |tx: &mut Tx<'_>| {
            let sql = format!("{COLUMNS} WHERE id = $1");
            let row = tx.query_opt(&sql, params![&wanted])?.ok_or_else(|| no_entry(&wanted))?;
            let (intent, _sealed) = rows::read(&row)?;
            if intent.state == IntentState::Called && intent.lease_until > now {
                let text = format!("the entry \"{wanted}\" is being worked on; try again after {}", intent.lease_until);
                return Err(Error::refused(Reason::Retry, text));
            }
            tx.execute("UPDATE hub_journal SET lease_until = 0 WHERE id = $1", params![&wanted])?;
            rows::take(tx, &owner, Timestamp::UNIX_EPOCH, lease_until, 1)
        };
        for intent in self.opened(self.db().write(take).await?).await? {
            self.settle(intent).await?;
        }
        Ok(self.journal().await?.into_iter().find(|entry| entry.id == id))
    }

    /// Removes an entry without calling anybody. What its backend may have of it stays there: that is what is told.
    pub async fn journal_abandon(&self, id: &str) -> Result<Vec<LeftOutside>, Error> {
        let wanted = id.to_owned();
        let remove = move |tx: &mut Tx<'_>| rows::delete_one(tx, &wanted)?.ok_or_else(|| no_entry(&wanted));
        let abandoned = self.db().write(remove).await?;
        self.left_of(vec![abandoned]).await
    }
}

fn no_entry(id: &str) -> Error {
    Error::refused(Reason::NotFound, format!("the journal has no entry \"{id}\""))
}

fn entry(intent: Intent) -> JournalEntry {
    let Intent { id, kind, state, record, backend, target, attempts, fault, .. } = intent;
    let (versions, since, next) = ((intent.first, intent.last), intent.made_at, intent.lease_until);
    JournalEntry { id, kind, state, record, backend, target, versions, since, next, attempts, fault }
}
