//! The check at the start: whether the bucket keeps concurrent conditional puts apart.
//!
//! A store that takes `If-Match` and `If-None-Match` and does not mind them would let two clients hold one lock. So an
//! object is created and then updated by many at once; each time exactly one must win, and what it wrote must be there.

use std::time::Duration;

use bytes::Bytes;
use futures::future::join_all;
use object_store::path::Path;
use object_store::{ObjectStoreExt as _, PutMode, UpdateVersion};
use uuid::Uuid;

use super::{S3Store, Unfit, call};
use crate::store::StoreError;

/// How many try at once.
const RIVALS: usize = 32;
/// Servers that let rivals wait for each other need seconds for so many.
const PATIENCE: Duration = Duration::from_mins(1);
/// How often it is begun anew when answers were lost.
const ROUNDS: usize = 3;

impl S3Store {
    pub(super) async fn probe(&self) -> Result<(), Unfit> {
        // A wrong address is told sooner than by rivals who wait for each other.
        self.reachable().await.map_err(|reason| self.unreachable(reason))?;
        let mut round = 1;
        loop {
            let probe = self.layout.probe(&Uuid::new_v4().to_string());
            let tried = self.try_conditions(&probe).await;
            let removed = call::repeatedly(self.deadline, || self.bucket.delete(&probe)).await;
            match (tried, removed) {
                (Err(Unfit::Unreachable { reason: StoreError::Unknown(_) | StoreError::Unavailable(_), .. }), _)
                    if round < ROUNDS =>
                {
                    round += 1;
                }
                (Ok(()), Err(source)) => return Err(self.unreachable(source)),
                (tried, _) => return tried,
            }
        }
    }

    async fn try_conditions(&self, probe: &Path) -> Result<(), Unfit> {
        let tag = self.rivals(probe, "If-None-Match", || PutMode::Create).await?;
        let update = || PutMode::Update(UpdateVersion { e_tag: Some(tag.clone()), version: None });
        self.rivals(probe, "If-Match", update).await.map(drop)
    }

    /// Many puts with the same condition: one wins. Returns the tag of what it wrote.
    async fn rivals(&self, probe: &Path, header: &'static str, mode: impl Fn() -> PutMode) -> Result<String, Unfit> {
        let texts: Vec<String> = (0..RIVALS).map(|_| Uuid::new_v4().to_string()).collect();
        let puts = texts.iter().map(|text| self.put_within(PATIENCE, probe, Bytes::from(text.clone()), mode()));
        let mut winners = Vec::new();
        for (text, put) in texts.iter().zip(join_all(puts).await) {
            match put {
                Ok(_) => winners.push(text),
                Err(StoreError::Conflict) => {}
                Err(source) => return Err(self.unreachable(source)),
            }
        }
        let there = self.get(probe).await.map_err(|source| self.unreachable(source))?;
        match (winners.as_slice(), there) {
            ([winner], Some((bytes, tag))) if bytes == winner.as_bytes() => Ok(tag),
            _ => Err(Unfit::Conditions { bucket: self.name.clone(), header, winners: winners.len(), rivals: RIVALS }),
        }
    }

    fn unreachable(&self, reason: StoreError) -> Unfit {
        Unfit::Unreachable { bucket: self.name.clone(), reason }
    }
}
