//! A write: the body is already received, checked and compressed; here it becomes the current version.
//!
//! What fits goes into the head with one swap. Anything larger is an upload: the head names it first, with a deadline;
//! then come the chunks; then one swap makes them the current version. A crash leaves the old version or the new one,
//! and chunks that the sweeper finds.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use jiff::Timestamp;
use keys::Position;
use uuid::Uuid;

use super::State;
use super::chain::blocking;
use super::change::Verdict;
use super::chunks::Writer;
use super::difference;
use super::history::Room;
use super::locking::refused;
use super::manifest::{Kind, Manifest, Part, ended};
use crate::Error;
use crate::codec::Received;
use crate::failpoints::Step;
use crate::head::{Body, Facts, Head, Upload};
use crate::lock::{Decision, Wish};
use crate::store::StoreError;

/// How often room is made for one write.
const ROOMS: u32 = 10;

/// What a write did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// A version with this number.
    Version(u64),
    /// The state had these bytes already: a replay, or no change.
    Same,
}

impl State {
    /// Makes what was received the current version, if the caller's lock allows it.
    pub async fn write(&self, received: Received, id: Option<&str>, user: &str) -> Result<Written, Error> {
        let facts = Facts::from(&received.facts);
        let total: u64 = received.segments.iter().map(|segment| segment.stored).sum();
        let small = usize::try_from(total).is_ok_and(|total| total <= self.store.limits().inline);
        if small {
            let body = self.inline(&received, id, user).await?;
            match self.put_with_room(&facts, &body, id, user, None).await {
                // The store has its own way to count; chunks always fit.
                Err(Error::Store(StoreError::TooLarge(_))) => {}
                other => return other,
            }
        }
        self.write_chunks(received, &facts, id, user).await
    }

    /// A body for the head itself.
    async fn inline(&self, received: &Received, id: Option<&str>, user: &str) -> Result<Body, Error> {
        let (segments, bytes) = (received.segments.clone(), whole(received).await?);
        let sealed = Uuid::new_v4();
        let cover = self.cover(sealed, Some((Wish::Change(id), user))).await?;
        let bytes = cover.close(0, Position::Last, bytes)?.into();
        Ok(Body::Inline { segments, bytes, sealed: cover.is_sealed().then_some(sealed) })
    }

    async fn write_chunks(
        &self,
        received: Received,
        facts: &Facts,
        id: Option<&str>,
        user: &str,
    ) -> Result<Written, Error> {
        let upload = Upload { id: Uuid::new_v4(), deadline: after(self.settings.times.upload) };
        // Whoever may not write is told so before the bytes go anywhere.
        let number = self.change(|head| {
            let now = Timestamp::now();
            match self.decide(head, Wish::Change(id), user, now) {
                Decision::Proceed if is_same(head, facts) => Ok(self.renewed(head, now, None)),
                Decision::Proceed => {
                    head.uploads.push(upload);
                    self.renewed(head, now, ());
                    Ok(Verdict::Swap(Some(head.last_version + 1)))
                }
                other => Err(refused(&other, head)),
            }
        });
        let Some(number) = number.await? else { return Ok(Written::Same) };
        Step::UploadNamed.hit();
        let stored = self.upload(upload, received, facts, number, user).await;
        let written = match stored {
            Ok(body) => {
                Step::BeforeCommit.hit();
                let written = self.put_with_room(facts, &body, id, user, Some(upload)).await;
                Step::AfterCommit.hit();
                written
            }
            Err(error) => Err(error),
        };
        // Nobody can write with it any more: let the sweeper have it without waiting for the deadline. An unknown
        // outcome stays as it is.
        let unknown = matches!(written, Err(Error::Store(StoreError::Unknown(_))));
        if !matches!(written, Ok(Written::Version(_))) && !unknown {
            self.give_up(upload.id).await;
        }
        written
    }

    async fn upload(
        &self,
        upload: Upload,
        received: Received,
        facts: &Facts,
        number: u64,
        user: &str,
    ) -> Result<Body, Error> {
        let mut writer = Writer::new(self, upload, self.cover(upload.id, None).await?);
        for index in 0..received.segments.len() {
            writer.write(&stored(&received, index).await?).await?;
        }
        let (by, at) = (Some(user.to_owned()), Timestamp::now());
        let parts = received.segments.into_iter().map(Part::Whole).collect();
        let manifest = Manifest { number, facts: facts.clone(), by, at, base: None, packing: None, parts };
        let offset = writer.position();
        writer.write(&ended(&manifest, offset, Kind::Version)?).await?;
        Ok(Body::Chunks { extent: writer.finish().await?, manifest: offset, base: None })
    }

    /// Makes a version the current one. Where the head has no room for what was current until now, room is made first,
    /// and made anew when somebody else was faster.
    async fn put_with_room(
        &self,
        facts: &Facts,
        body: &Body,
        id: Option<&str>,
        user: &str,
        upload: Option<Upload>,
    ) -> Result<Written, Error> {
        let mut room: Option<Room> = None;
        for _attempt in 0..ROOMS {
            let written = self.put_on_top(facts, body, id, user, upload, room.as_ref()).await;
            if let Some(unused) = room.take().filter(|_| !matches!(written, Ok(Written::Version(_)))) {
                self.give_up(unused.upload()).await;
            }
            match written {
                Err(Error::NoRoom) => room = Some(self.make_room().await?),
                other => return other,
            }
        }
        Err(Error::Busy { attempts: ROOMS })
    }

    /// One swap that makes a version the current one.
    async fn put_on_top(
        &self,
        facts: &Facts,
        body: &Body,
        id: Option<&str>,
        user: &str,
        upload: Option<Upload>,
        room: Option<&Room>,
    ) -> Result<Written, Error> {
        let mut due = false;
        let written = self.change(|head| {
            let now = Timestamp::now();
            match self.decide(head, Wish::Change(id), user, now) {
                Decision::Proceed if is_same(head, facts) => Ok(self.renewed(head, now, Written::Same)),
                Decision::Proceed => {
                    if let Some(upload) = upload {
                        // The sweeper takes an upload out of the head before it takes the chunks.
                        let named = head.uploads.iter().any(|named| named.id == upload.id);
                        if !named || now > upload.deadline {
                            return Err(Error::UploadExpired);
                        }
                        head.uploads.retain(|named| named.id != upload.id);
                    }
                    if !self.take_room(head, room) {
                        return Err(Error::NoRoom);
                    }
                    // What was current until now is about to be stored as a small difference.
                    let replaced = head.current.as_ref().map_or(0, |version| version.body.stored());
                    difference::shrink(head);
                    let number = head.push(facts.clone(), body.clone(), user, now);
                    self.trim(head, now);
                    self.fits(head.stored() - replaced.min(head.stored()))?;
                    self.renewed(head, now, ());
                    due = self.needs_upkeep(head, now);
                    Ok(Verdict::Swap(Written::Version(number)))
                }
                other => Err(refused(&other, head)),
            }
        });
        let written = written.await?;
        if due {
            self.upkeep.want(self);
        }
        Ok(written)
    }

    /// Lets go of an upload that nobody can make a version of any more.
    pub(super) async fn give_up(&self, upload: Uuid) {
        let given_up = self.change(|head| {
            let before = head.uploads.len();
            head.uploads.retain(|named| named.id != upload);
            Ok(if head.uploads.len() < before { Verdict::Swap(true) } else { Verdict::Keep(false) })
        });
        // Chunks go only when it was this swap that took them out of the head: otherwise a version may name them.
        if matches!(given_up.await, Ok(true)) {
            // What cannot be deleted now is a stray for the sweeper.
            let _ = self.store.delete_chunks(&self.key, upload).await;
        }
    }
}

/// The same bytes as the current version: clients repeat a POST whose answer was lost.
fn is_same(head: &Head, facts: &Facts) -> bool {
    let same = |now: &Facts| now.sent == Some(facts.sha256) || now.sha256 == facts.sha256 && now.size == facts.size;
    head.visible().is_some_and(|version| same(&version.facts))
}

/// Now and that much later.
pub(super) fn after(time: Duration) -> Timestamp {
    Timestamp::now().checked_add(time).unwrap_or(Timestamp::MAX)
}

/// The stored bytes of one segment, read beside the runtime if they come from a file.
pub(super) async fn stored(received: &Received, index: usize) -> Result<Bytes, Error> {
    let bytes = match received.fetch(index) {
        Some(fetch) => blocking(fetch).await?,
        None => received.stored(index),
    };
    bytes.map_err(|error| Error::Internal(format!("failed to read the spool: {error}")))
}

pub(super) async fn whole(received: &Received) -> Result<Bytes, Error> {
    if received.segments.len() == 1 {
        return stored(received, 0).await;
    }
    let mut all = BytesMut::new();
    for index in 0..received.segments.len() {
        all.extend_from_slice(&stored(received, index).await?);
    }
    Ok(all.freeze())
}
