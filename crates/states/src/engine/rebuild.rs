//! A head that vanished, rebuilt from the chunks that are left of its state.
//!
//! Every complete upload says at its end what it is. What only the head knew is lost: locks, and versions so small that
//! they stood in the head itself. The sweeper leaves chunks without a head alone for a grace period.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use uuid::Uuid;

use super::State;
use super::change::Verdict;
use super::chunks::Reader;
use super::manifest::{self, Kind, Manifest, TRAILER, trailer};
use crate::Error;
use crate::head::{Body, Extent, Version};
use crate::store::ChunkId;

impl State {
    /// Makes a new head of what is left, and tells the number of its current version.
    pub async fn rebuild(&self) -> Result<u64, Error> {
        if self.head().await?.is_some_and(|head| head.current.is_some()) {
            return Err(Error::Internal("a head that is there is not rebuilt".to_owned()));
        }
        let all = self.store.uploads_before(Timestamp::MAX).await?;
        let uploads: BTreeSet<Uuid> =
            all.into_iter().filter(|stray| stray.key == self.key).map(|stray| stray.upload).collect();
        let mut found: BTreeMap<u64, Version> = BTreeMap::new();
        for upload in &uploads {
            for version in self.versions_in(*upload).await? {
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
        self.change(|head| {
            if head.current.is_some() {
                return Err(Error::Internal("somebody wrote the state while it was rebuilt".to_owned()));
            }
            head.last_version = head.last_version.max(current.number);
            head.current = Some(current.clone());
            head.recent.clone_from(&recent);
            Ok(Verdict::Swap(current.number))
        })
        .await
    }

    /// What a complete upload tells of versions; nothing if it is not complete.
    async fn versions_in(&self, upload: Uuid) -> Result<Vec<Version>, Error> {
        let Some(extent) = self.measure(upload).await? else { return Ok(Vec::new()) };
        let mut reader = Reader::new(self.clone(), extent);
        let trailer_at = extent.length.saturating_sub(TRAILER as u64);
        let last = reader.range(trailer_at, extent.length - trailer_at).await?;
        let Some((kind, offset)) = trailer(&last) else { return Ok(Vec::new()) };
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

    /// The chunks of an upload; `None` if the first is not there.
    async fn measure(&self, upload: Uuid) -> Result<Option<Extent>, Error> {
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
        Ok((number > 0).then_some(Extent { upload, chunk, length }))
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
