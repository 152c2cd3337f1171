//! The segments of a version, through the newer versions that some of them are stored as a difference to.
//!
//! The door is [`Chain`]. A difference is followed to a segment that is stored whole, then the way back: at any time it
//! holds the segment that it has and the one that it makes of it. Versions are stored in another way behind the backs of
//! their readers, and the bytes that they were before go. Their segments stay what they are, so that a reader who misses
//! something goes on with what the head names now.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::State;
use super::chunks::Reader;
use super::manifest::{self, Manifest, Part};
use crate::Error;
use crate::codec::{self, Damaged, Encoding, Segment};
use crate::head::{Body, Extent, Version};

/// Twice what is ever written: more is a circle or worse.
const LONGEST: usize = 64;

#[derive(Debug)]
pub(super) struct Chain {
    state: State,
    version: Version,
    /// How many segments it has.
    length: usize,
    /// The version itself first, then the ones that it is a difference to, as far as they were needed.
    links: Vec<Link>,
    /// Where versions are, read when the first of them is needed.
    versions: Option<BTreeMap<u64, Body>>,
}

#[derive(Debug)]
struct Link {
    number: u64,
    base: Option<u64>,
    reader: Reader,
    parts: Vec<Part>,
    /// Where the stored bytes of each part begin.
    starts: Vec<u64>,
}

impl Chain {
    pub(super) async fn open(state: State, version: &Version) -> Result<Chain, Error> {
        let first = Link::open(&state, version.number, &version.body).await?;
        Ok(Chain { state, version: version.clone(), length: first.parts.len(), links: vec![first], versions: None })
    }

    /// How many segments the version has.
    pub(super) fn len(&self) -> usize {
        self.length
    }

    /// What is known of a segment without its bytes.
    pub(super) async fn describe(&mut self, index: usize) -> Result<Segment, Error> {
        let (mut link, mut at) = (0, index);
        loop {
            match self.part(link, at).await? {
                Part::Whole(segment) | Part::Delta { segment, .. } => return Ok(segment),
                Part::Same(of) => (link, at) = (link + 1, of),
            }
        }
    }

    /// A segment and its bytes in their stored shape.
    pub(super) async fn shaped(&mut self, index: usize) -> Result<(Segment, Vec<u8>), Error> {
        loop {
            match self.shaped_now(index).await {
                // On the heap: it is large, and seldom.
                Err(Error::Damaged(what)) => Box::pin(self.begin_anew(what)).await?,
                shaped => return shaped,
            }
        }
    }

    /// Takes what the head names now in place of what is missing, if that is something else.
    async fn begin_anew(&mut self, what: String) -> Result<(), Error> {
        let stored = self.state.stored_anew(&self.version).await?;
        let versions = self.state.bodies().await?;
        let is_same = self.versions.as_ref().is_none_or(|known| *known == versions);
        if stored.is_none() && is_same {
            return Err(Error::Damaged(what));
        }
        if let Some(version) = stored {
            self.version = version;
        }
        self.links.clear();
        self.versions = Some(versions);
        Ok(())
    }

    async fn shaped_now(&mut self, index: usize) -> Result<(Segment, Vec<u8>), Error> {
        let (mut link, mut at) = (0, index);
        let mut differences: Vec<(usize, usize, Segment)> = Vec::new();
        let whole = loop {
            match self.part(link, at).await? {
                Part::Whole(segment) => break segment,
                Part::Same(of) => (link, at) = (link + 1, of),
                Part::Delta { segment, of } => {
                    differences.push((link, at, segment));
                    (link, at) = (link + 1, of);
                }
            }
        };
        let stored = self.stored(link, at).await?;
        let mut shaped = self.unpacked(whole.clone(), stored, None).await?;
        let mut segment = whole;
        while let Some((link, at, difference)) = differences.pop() {
            if difference.encoding != Encoding::ZstdDelta(segment.hash) {
                return Err(self.damaged("a difference to something else than its base has"));
            }
            let stored = self.stored(link, at).await?;
            shaped = self.unpacked(difference.clone(), stored, Some(shaped)).await?;
            segment = difference;
        }
        Ok((segment, shaped))
    }

    /// The bytes of a segment as they were sent.
    pub(super) async fn original(&mut self, index: usize) -> Result<Bytes, Error> {
        let (segment, shaped) = self.shaped(index).await?;
        let number = self.version.number;
        blocking(move || codec::original(&segment, shaped))
            .await?
            .map(Bytes::from)
            .map_err(|error| damaged(number, &error))
    }

    async fn part(&mut self, link: usize, at: usize) -> Result<Part, Error> {
        while link >= self.links.len() {
            self.follow().await?;
        }
        let part = self.links[link].parts.get(at).cloned();
        part.ok_or_else(|| self.damaged("a difference to a segment that its base does not have"))
    }

    /// Opens the version itself, or the next newer one of the chain.
    async fn follow(&mut self) -> Result<(), Error> {
        let Some(last) = self.links.last() else {
            let first = Link::open(&self.state, self.version.number, &self.version.body).await?;
            self.links.push(first);
            return Ok(());
        };
        let (number, Some(base)) = (last.number, last.base) else {
            return Err(self.damaged("a difference without a base"));
        };
        if base <= number || self.links.len() >= LONGEST {
            return Err(self.damaged("differences that lead nowhere"));
        }
        let versions = if let Some(versions) = &self.versions {
            versions
        } else {
            self.versions.insert(self.state.bodies().await?)
        };
        let body = versions.get(&base).ok_or(Error::NoVersion)?.clone();
        self.links.push(Link::open(&self.state, base, &body).await?);
        Ok(())
    }

    async fn stored(&mut self, link: usize, at: usize) -> Result<Bytes, Error> {
        let Link { reader, parts, starts, .. } = &mut self.links[link];
        let bytes = reader.range(starts[at], parts[at].stored()).await?;
        if link > 0 {
            // Only what is read from its beginning to its end asks for the same chunk again.
            reader.forget();
        }
        Ok(bytes)
    }

    async fn unpacked(&self, segment: Segment, stored: Bytes, base: Option<Vec<u8>>) -> Result<Vec<u8>, Error> {
        let unpacked = blocking(move || codec::unpack(&segment, &stored, base.as_deref())).await?;
        unpacked.map_err(|error| damaged(self.version.number, &error))
    }

    fn damaged(&self, what: &str) -> Error {
        Error::Damaged(format!("version {} has {what}", self.version.number))
    }
}

impl State {
    /// Where all versions are.
    async fn bodies(&self) -> Result<BTreeMap<u64, Body>, Error> {
        Ok(self.versions().await?.into_iter().map(|version| (version.number, version.body)).collect())
    }

    /// The same version where it is stored in another way by now, so that what it was before may be gone.
    pub(super) async fn stored_anew(&self, version: &Version) -> Result<Option<Version>, Error> {
        match self.version(version.number).await {
            Ok(now) => Ok(Some(now).filter(|now| now.facts == version.facts && now.body != version.body)),
            Err(Error::NoVersion | Error::NotFound) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

impl Link {
    async fn open(state: &State, number: u64, body: &Body) -> Result<Link, Error> {
        let Body::Chunks { extent, manifest, base } = body else {
            return Err(Error::Damaged(format!("version {number} is no base for a difference")));
        };
        let mut reader = Reader::new(state.clone(), *extent);
        let Manifest { parts, .. } = read_manifest(&mut reader, extent, *manifest, number).await?;
        let starts = parts.iter().scan(0, |at, part| {
            let start = *at;
            *at += part.stored();
            Some(start)
        });
        Ok(Link { number, base: *base, starts: starts.collect(), reader, parts })
    }
}

async fn read_manifest(reader: &mut Reader, extent: &Extent, at: u64, number: u64) -> Result<Manifest, Error> {
    let bytes = reader.range(at, extent.length.saturating_sub(at)).await?;
    manifest::read(&bytes, &format!("the manifest of version {number}"))
}

fn damaged(number: u64, error: &Damaged) -> Error {
    Error::Damaged(format!("version {number}: {error}"))
}

/// Work that is not done between other people's requests.
pub(super) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Error> {
    tokio::task::spawn_blocking(work).await.map_err(|error| Error::Internal(error.to_string()))
}
