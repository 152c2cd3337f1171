//! A head that vanished, rebuilt from the chunks that are left of its state.
//!
//! Every complete upload says at its end what it is. What only the head knew is lost: locks, and versions so small that
//! they stood in the head itself. The sweeper leaves chunks without a head alone for a grace period; what it has begun to
//! delete is gone, whatever of it is still there.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use keys::Stream;
use uuid::Uuid;

use super::State;
use super::change::Verdict;
use super::chunks::Reader;
use super::locking::refused;
use super::loss::Mark;
use super::manifest::{self, Kind, Manifest, TRAILER, trailer};
use super::seal::key_in;
use crate::Error;
use crate::head::{Body, Extent, Head, StateKey, Version};
use crate::lock::{Decision, Wish};
use crate::store::ChunkId;

/// An upload that is complete: how to read it, and the document at its end.
type Ended = (Extent, Reader, Kind, u64);

impl State {
    /// Makes a new head of what is left, if the caller's lock allows it, and tells the number of its current version.
    pub async fn rebuild(&self, id: Option<&str>, user: &str) -> Result<u64, Error> {
        let head = self.head().await?.unwrap_or_default();
        if head.current.is_some() {
            return Err(Error::Internal("a head that is there is not rebuilt".to_owned()));
        }
        self.may_rebuild(&head, id, user)?;
        let strays = self.strays().await?;
        if strays.iter().any(|stray| Mark::Ending.is_on(stray)) {
            return Err(Error::NotFound);
        }
        let (marks, mut uploads): (BTreeSet<Uuid>, BTreeSet<Uuid>) =
            strays.into_iter().map(|stray| stray.upload).partition(|upload| Mark::of(*upload).is_some());
        // What somebody is writing now is no version yet.
        uploads.retain(|upload| head.uploads.iter().all(|named| named.id != *upload));
        let key = self.key_among(&uploads).await?;
        let mut found: BTreeMap<u64, Version> = BTreeMap::new();
        for upload in &uploads {
            for version in self.versions_in(*upload, key.as_ref()).await? {
                let there = version.body.upload().is_none_or(|upload| uploads.contains(&upload));
                let better = found.get(&version.number).is_none_or(|known| rank(&version) > rank(known));
                if there && better {
                    found.insert(version.number, version);
                }
            }
        }
        drop_without_base(&mut found);
        let mut versions = found.into_values().rev();
        let current = versions.next().ok_or(Error::NotFound)?;
        let recent: Vec<Version> = versions.collect();
        let rebuilt = self.change(|head| {
            if head.current.is_some() {
                return Err(Error::Internal("somebody wrote the state while it was rebuilt".to_owned()));
            }
            self.may_rebuild(head, id, user)?;
            head.last_version = head.last_version.max(current.number);
            head.current = Some(current.clone());
            head.recent.clone_from(&recent);
            head.seal = head.seal.take().or_else(|| key.clone());
            Ok(Verdict::Swap(current.number))
        });
        let number = rebuilt.await?;
        if !self.is_whole(&current, &recent).await? {
            self.take_back(&current).await?;
            return Err(Error::NotFound);
        }
        for mark in marks {
            // What cannot be deleted now is for the sweeper.
            let _ = self.store.delete_chunks(&self.key, mark).await;
        }
        Ok(number)
    }

    fn may_rebuild(&self, head: &Head, id: Option<&str>, user: &str) -> Result<(), Error> {
        match self.decide(head, Wish::Change(id), user, Timestamp::now()) {
            Decision::Proceed => Ok(()),
            other => Err(refused(&other, head)),
        }
    }

    /// Whether no sweeper was at its end when the head was back. One that saw the head deletes nothing; one that did not
    /// has left its mark until it was through.
    async fn is_whole(&self, current: &Version, recent: &[Version]) -> Result<bool, Error> {
        if self.strays().await?.iter().any(|stray| Mark::Ending.is_on(stray)) {
            return Ok(false);
        }
        let there: BTreeSet<Uuid> = self.strays().await?.into_iter().map(|stray| stray.upload).collect();
        let mut named = [current].into_iter().chain(recent).filter_map(|version| version.body.upload());
        Ok(named.all(|upload| there.contains(&upload)))
    }

    async fn take_back(&self, current: &Version) -> Result<(), Error> {
        self.change(|head| {
            if head.current.as_ref() != Some(current) {
                return Ok(Verdict::Keep(()));
            }
            head.current = None;
            head.recent.clear();
            Ok(Verdict::Swap(()))
        })
        .await
    }

    /// What a complete upload tells of versions; nothing if it is not complete.
    async fn versions_in(&self, upload: Uuid, key: Option<&StateKey>) -> Result<Vec<Version>, Error> {
        let Some((clear, chunks)) = self.measure(upload).await? else { return Ok(Vec::new()) };
        let mut opened = self.ended_as(clear, Reader::new(self.clone(), clear)).await?;
        if let (None, Some(key)) = (&opened, key) {
            let frame = Stream::OVERHEAD as u64;
            let (chunk, length) = (clear.chunk.saturating_sub(frame), clear.length.saturating_sub(frame * chunks));
            let sealed = Extent { chunk, length, sealed: true, ..clear };
            let reader = Reader::covered(self.clone(), sealed, self.cover_with(key, upload).await?);
            opened = match self.ended_as(sealed, reader).await {
                // Neither clear nor sealed with this key: an upload that broke off.
                Err(Error::Key(keys::Error::Changed)) => None,
                other => other?,
            };
        }
        let Some((extent, mut reader, kind, offset)) = opened else { return Ok(Vec::new()) };
        let bytes = reader.range(offset, extent.length.saturating_sub(offset)).await?;
        match kind {
            Kind::Key => Ok(Vec::new()),
            Kind::Page => manifest::read(&bytes, "a page of old versions"),
            Kind::Version => {
                let manifest: Manifest = manifest::read(&bytes, "the manifest of an upload")?;
                Ok(vec![version(manifest, extent, offset)])
            }
        }
    }

    /// What the last bytes of an upload say that it is.
    async fn ended_as(&self, extent: Extent, mut reader: Reader) -> Result<Option<Ended>, Error> {
        let Some(trailer_at) = extent.length.checked_sub(TRAILER as u64) else { return Ok(None) };
        let last = reader.range(trailer_at, TRAILER as u64).await?;
        Ok(trailer(&last).map(|(kind, offset)| (extent, reader, kind, offset)))
    }

    /// The newest copy of the state's key that can be opened here.
    async fn key_among(&self, uploads: &BTreeSet<Uuid>) -> Result<Option<StateKey>, Error> {
        let mut closed = None;
        for upload in uploads {
            let id = ChunkId { key: self.key.clone(), upload: *upload, number: 0 };
            let Some(key) = self.store.get_chunk(&id).await?.and_then(|bytes| key_in(&bytes)) else { continue };
            match self.cover_with(&key, *upload).await {
                Ok(_) => return Ok(Some(key)),
                Err(error) => closed = Some(error),
            }
        }
        closed.map_or(Ok(None), Err)
    }

    /// The chunks of an upload, and how many; `None` if the first is not there.
    async fn measure(&self, upload: Uuid) -> Result<Option<(Extent, u64)>, Error> {
        let (mut number, mut chunk, mut length) = (0, 0, 0);
        loop {
            let id = ChunkId { key: self.key.clone(), upload, number };
            let Some(bytes) = self.store.get_chunk(&id).await? else { break };
            if number == 0 {
                chunk = bytes.len() as u64;
            }
            length += bytes.len() as u64;
            number += 1;
        }
        Ok((number > 0).then_some((Extent { upload, chunk, length, sealed: false }, u64::from(number))))
    }
}

fn version(manifest: Manifest, extent: Extent, offset: u64) -> Version {
    let Manifest { number, facts, by, at, base, packing, .. } = manifest;
    let body = match packing {
        Some(packing) => Body::Spilled { packing, extent, manifest: offset },
        None => Body::Chunks { extent, manifest: offset, base },
    };
    Version { number, facts, by, at, body }
}

/// Of two accounts of a version the later one counts, and of one version in two forms the one that needs no other.
fn rank(version: &Version) -> (Timestamp, bool) {
    (version.at, base(version).is_none())
}

fn base(version: &Version) -> Option<u64> {
    match version.body {
        Body::Chunks { base, .. } => base,
        _ => None,
    }
}

/// Without what it is a difference to, a version is lost.
fn drop_without_base(versions: &mut BTreeMap<u64, Version>) {
    // Bases are newer: from the newest to the oldest, every base was looked at before.
    let mut kept: BTreeSet<u64> = BTreeSet::new();
    for (number, version) in versions.iter().rev() {
        if base(version).is_none_or(|base| kept.contains(&base)) {
            kept.insert(*number);
        }
    }
    versions.retain(|number, _| kept.contains(number));
}
