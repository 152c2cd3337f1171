//! Older versions made smaller: each is stored as the difference to a newer one.
//!
//! What is due is decided by [`next_job`], pure; [`State::shrink`] does it. The current version is always whole. A
//! version is the difference to the next newer one, and every tenth (an anchor), as soon as there are ten newer ones, to
//! the next anchor: so the way from the oldest of a hundred versions to the current one has some thirty steps, and not a
//! hundred, and nothing but the current version is whole. Nothing depends on an older version, so that the oldest can
//! always go.

use std::collections::BTreeSet;
use std::io::Cursor;

use uuid::Uuid;

use super::State;
use super::chain::{Chain, blocking};
use super::change::Verdict;
use super::chunks::Writer;
use super::manifest::{Kind, Manifest, Part, ended};
use super::write::{after, stored};
use crate::Error;
use crate::codec::{self, Received, Receiver, Segment, SpoolPlace, align};
use crate::failpoints::Step;
use crate::head::{Body, Head, Upload, Version};
use crate::packing;

/// How many versions there are from one anchor to the next.
pub(super) const GROUP: u64 = 10;
/// Where more versions are kept than the anchors reach, one in so many stays whole: a chain is never longer than
/// 9 steps to an anchor, 12 anchors, and 10 steps to the current version.
const ROOT: u64 = 12 * GROUP;

/// A version that is to be stored in another way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Job {
    number: u64,
    /// What it becomes a difference to; `None`: it stays whole.
    base: Option<u64>,
}

/// What is to be done next, the oldest first; `kept` is how many versions are kept.
fn next_job(head: &Head, kept: usize, given_up: &BTreeSet<u64>) -> Option<Job> {
    let versions: Vec<&Version> = head.current.iter().chain(&head.recent).collect();
    let segmented = |version: &Version| matches!(version.body, Body::Chunks { .. });
    let is_root = |number: u64| kept as u64 > ROOT + GROUP && number.is_multiple_of(ROOT);
    let job = |pair: &[&Version]| {
        let [newer, version] = pair else { return None };
        let number = version.number;
        let next = Some(newer.number).filter(|_| segmented(newer) && !is_root(number));
        let base = match &version.body {
            Body::Inline { .. } | Body::Difference { .. } | Body::File { .. } => return None,
            Body::Spilled { .. } => next,
            Body::Chunks { base: None, .. } => Some(next?),
            Body::Chunks { base: Some(base), .. } => {
                let anchor = number + GROUP;
                let there = versions.iter().any(|other| other.number == anchor && segmented(other));
                Some(anchor).filter(|_| number.is_multiple_of(GROUP) && there && *base < anchor)
            }
        };
        let due = base.is_some() || matches!(version.body, Body::Spilled { .. });
        (due && !given_up.contains(&number)).then_some(Job { number, base })
    };
    versions.windows(2).rev().find_map(job)
}

/// Whether there is something to do.
pub(super) fn is_due(head: &Head, kept: usize) -> bool {
    next_job(head, kept, &BTreeSet::new()).is_some()
}

/// Whether a version will not be stored in another way any more, once [`State::shrink`] is through.
pub(super) fn is_settled(head: &Head, version: &Version) -> bool {
    version.body.inline_bytes() > 0 || version.number < head.last_version / GROUP * GROUP
}

/// What becomes of the chunks that a version was stored in before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Before {
    /// They stay for a while.
    Lingers,
    /// At once, so that a state takes no more room than its versions do: who is reading them goes on in the new ones.
    Goes,
}

/// The segments of a version, wherever they come from.
enum Source {
    Chain(Box<Chain>),
    /// Of a file that was cut into segments only now.
    Received(Received),
}

impl State {
    /// Stores old versions as differences, as far as it is due.
    pub(super) async fn shrink(&self) -> Result<(), Error> {
        let mut given_up = BTreeSet::new();
        loop {
            let Some(head) = self.head().await? else { return Ok(()) };
            let Some(job) = next_job(&head, self.settings.versions, &given_up) else { return Ok(()) };
            match self.store_anew(&head, job).await {
                Ok(()) => {}
                // What is no state cannot be cut into segments; a version can be dropped while it is worked on.
                Err(Error::BadState(_) | Error::NoVersion | Error::Damaged(_)) => drop(given_up.insert(job.number)),
                Err(error) => return Err(error),
            }
        }
    }

    async fn store_anew(&self, head: &Head, Job { number, base }: Job) -> Result<(), Error> {
        let find = |number| head.current.iter().chain(&head.recent).find(|version| version.number == number);
        let version = find(number).ok_or(Error::NoVersion)?;
        let mut source = self.source(version).await?;
        let newer = match base {
            Some(base) => Some(Chain::open(self.clone(), find(base).ok_or(Error::NoVersion)?).await?),
            None => None,
        };
        let upload = self.name_upload().await?;
        let stored = self.put_anew(upload, version, &mut source, newer, base).await;
        let body = match stored {
            Ok(body) => body,
            Err(error) => {
                self.give_up(upload.id).await;
                return Err(error);
            }
        };
        Step::SmallerPut.hit();
        if !self.exchange(version, &body, Before::Goes).await? {
            self.give_up(upload.id).await;
        }
        Ok(())
    }

    async fn source(&self, version: &Version) -> Result<Source, Error> {
        let Body::Spilled { packing, .. } = version.body else {
            return Ok(Source::Chain(Box::new(Chain::open(self.clone(), version).await?)));
        };
        let bytes = self.spilled(&version.body).await?;
        let (limits, place) = (self.settings.codec.clone(), SpoolPlace::new(self.settings.spool.clone()));
        let received = blocking(move || {
            let mut receiver = Receiver::new(limits, place);
            let mut file = packing::reader(packing, Cursor::new(bytes));
            match std::io::copy(&mut file, &mut receiver) {
                Ok(_) => receiver.finish(None).map_err(Error::from),
                Err(error) => Err(error
                    .downcast::<codec::BadState>()
                    .map_or_else(|error| Error::Damaged(error.to_string()), Error::BadState)),
            }
        });
        received.await?.map(Source::Received)
    }

    async fn put_anew(
        &self,
        upload: Upload,
        version: &Version,
        source: &mut Source,
        mut newer: Option<Chain>,
        base: Option<u64>,
    ) -> Result<Body, Error> {
        let older = source.segments().await?;
        let others = match &mut newer {
            Some(newer) => segments(newer).await?,
            None => Vec::new(),
        };
        let mut writer = Writer::new(self, upload, self.cover(upload.id, None).await?);
        let mut parts = Vec::new();
        for (index, (segment, of)) in older.iter().zip(align(&older, &others)).enumerate() {
            let (part, bytes) = match (of, &mut newer) {
                (Some(of), Some(_)) if others[of].hash == segment.hash => (Part::Same(of), Vec::new()),
                (Some(of), Some(newer)) => difference(source.shaped(index).await?, newer.shaped(of).await?, of).await?,
                _ => whole(source.shaped(index).await?).await?,
            };
            writer.write(&bytes).await?;
            parts.push(part);
        }
        let manifest = writer.position();
        writer.write(&ended(&Manifest::of(version, base, None, parts), manifest, Kind::Version)?).await?;
        Ok(Body::Chunks { extent: writer.finish().await?, manifest, base })
    }

    /// Lets the head name the new body, if the version still is what was read.
    pub(super) async fn exchange(&self, version: &Version, body: &Body, before: Before) -> Result<bool, Error> {
        let (deadline, upload) = (after(self.settings.times.linger), body.upload());
        let exchanged = self.change(|head| {
            // The sweeper takes an upload out of the head before it takes the chunks.
            let named = upload.is_none_or(|id| head.uploads.iter().any(|named| named.id == id));
            let found = head.current.iter_mut().chain(&mut head.recent).find(|found| *found == version);
            let (Some(found), true) = (found, named) else { return Ok(Verdict::Keep(false)) };
            let old = std::mem::replace(&mut found.body, body.clone());
            head.uploads.retain(|named| Some(named.id) != upload);
            if before == Before::Lingers {
                head.uploads.extend(old.upload().map(|id| Upload { id, deadline }));
            }
            Ok(Verdict::Swap(true))
        });
        let exchanged = exchanged.await?;
        if let (true, Before::Goes, Some(old)) = (exchanged, before, version.body.upload()) {
            Step::LargerUnnamed.hit();
            // What cannot be deleted now is a stray for the sweeper.
            let _ = self.store.delete_chunks(&self.key, old).await;
        }
        Ok(exchanged)
    }

    /// Announces an upload in the head, so that the sweeper leaves its chunks alone.
    pub(super) async fn name_upload(&self) -> Result<Upload, Error> {
        let upload = Upload { id: Uuid::new_v4(), deadline: after(self.settings.times.upload) };
        self.change(|head| {
            head.uploads.push(upload);
            Ok(Verdict::Swap(()))
        })
        .await?;
        Ok(upload)
    }
}

impl Source {
    async fn segments(&mut self) -> Result<Vec<Segment>, Error> {
        match self {
            Source::Chain(chain) => segments(chain).await,
            Source::Received(received) => Ok(received.segments.clone()),
        }
    }

    async fn shaped(&mut self, index: usize) -> Result<(Segment, Vec<u8>), Error> {
        match self {
            Source::Chain(chain) => chain.shaped(index).await,
            Source::Received(received) => {
                let bytes = stored(received, index).await?;
                let segment = received.segments[index].clone();
                let unpacked = blocking(move || codec::unpack(&segment, &bytes, None).map(|shaped| (segment, shaped)));
                unpacked.await?.map_err(|error| Error::Internal(format!("the spool: {error}")))
            }
        }
    }
}

async fn segments(chain: &mut Chain) -> Result<Vec<Segment>, Error> {
    let mut segments = Vec::new();
    for index in 0..chain.len() {
        segments.push(chain.describe(index).await?);
    }
    Ok(segments)
}

type Shaped = (Segment, Vec<u8>);

async fn difference((older, text): Shaped, (newer, base): Shaped, of: usize) -> Result<(Part, Vec<u8>), Error> {
    let packed = blocking(move || {
        let smaller = codec::delta(&older, &text, &newer, &base);
        smaller.map(|(segment, bytes)| (Part::Delta { segment, of }, bytes)).or_else(|| packed(&older, &text))
    });
    packed.await?.ok_or_else(not_packed)
}

async fn whole((segment, text): Shaped) -> Result<(Part, Vec<u8>), Error> {
    blocking(move || packed(&segment, &text)).await?.ok_or_else(not_packed)
}

fn packed(segment: &Segment, text: &[u8]) -> Option<(Part, Vec<u8>)> {
    codec::whole(segment, text).map(|(segment, bytes)| (Part::Whole(segment), bytes))
}

fn not_packed() -> Error {
    Error::Internal("failed to compress a segment".to_owned())
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use crate::head::{Extent, Facts};

    fn version(number: u64, base: Option<u64>) -> Version {
        let extent = Extent { upload: Uuid::from_u128(u128::from(number)), chunk: 1, length: 1, sealed: false };
        let facts = Facts { size: 1, ..Facts::of_nothing() };
        let body = Body::Chunks { extent, manifest: 0, base };
        Version { number, facts, by: None, at: Timestamp::UNIX_EPOCH, body }
    }

    /// Plays a history in which everything due is done after each write.
    fn play(count: u64, kept: usize) -> Vec<(u64, Option<u64>)> {
        let mut head = Head::new();
        for number in 1..=count {
            head.last_version = number;
            if let Some(older) = head.current.replace(version(number, None)) {
                head.recent.insert(0, older);
            }
            while let Some(Job { number, base }) = next_job(&head, kept, &BTreeSet::new()) {
                let found = head.recent.iter_mut().find(|version| version.number == number).expect("an old version");
                *found = version(number, base);
            }
        }
        let base = |version: &Version| match version.body {
            Body::Chunks { base, .. } => base,
            _ => None,
        };
        head.current.iter().chain(&head.recent).map(|version| (version.number, base(version))).collect()
    }

    fn steps(versions: &[(u64, Option<u64>)], number: u64) -> usize {
        let (_, base) = versions.iter().find(|(found, _)| *found == number).expect("a version that is there");
        base.map_or(0, |base| 1 + steps(versions, base))
    }

    #[test]
    fn of_a_hundred_versions_only_the_current_is_whole_and_no_chain_is_longer_than_32() {
        for count in [1, 2, 9, 10, 11, 20, 21, 99, 100, 101, 119, 130] {
            let versions = play(count, 100);
            let whole: Vec<u64> =
                versions.iter().filter(|(_, base)| base.is_none()).map(|(number, _)| *number).collect();
            assert_eq!(whole, [count], "of {count}");
            let longest = versions.iter().map(|(number, _)| steps(&versions, *number)).max();
            assert!(longest <= Some(32), "{longest:?} of {count}");
        }
    }

    #[test]
    fn of_more_versions_than_anchors_reach_a_few_stay_whole() {
        let versions = play(1000, 1000);
        let longest = versions.iter().map(|(number, _)| steps(&versions, *number)).max();
        assert!(longest <= Some(32), "{longest:?}");
        assert!(versions.iter().filter(|(_, base)| base.is_none()).count() <= 10);
    }

    #[test]
    fn what_is_settled_never_changes_again() {
        let mut head = Head::new();
        head.last_version = 37;
        assert!(is_settled(&head, &version(29, Some(30))));
        assert!(!is_settled(&head, &version(30, Some(31))));
    }
}
