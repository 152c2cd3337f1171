//! Old versions: a few stay in the head, the rest goes into pages, and what is too old goes for good.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use uuid::Uuid;

use super::State;
use super::change::Verdict;
use super::chunks::{Reader, Writer};
use super::manifest::{self, Kind, Manifest, Part, ended};
use super::shrink::is_settled;
use super::write::after;
use crate::Error;
use crate::failpoints::Step;
use crate::head::{Body, Head, Page, Upload, Version};

/// More than this many versions in a head, and all but the newest few of them go into a page. Every LOCK and UNLOCK reads and
/// writes them all: the fewer the better, but a page costs three writes and a place in the head itself.
const RECENT: usize = 20;

/// What was made for a head that cannot keep what is current as an old version; the head does not name it yet.
pub(super) enum Room {
    /// All its versions in a page.
    Page { page: Page, versions: Vec<Version> },
    /// The bytes of the current version in chunks.
    Spilled { version: Box<Version>, body: Body },
}

impl Room {
    pub(super) fn upload(&self) -> Uuid {
        match self {
            Room::Page { page, .. } => page.extent.upload,
            Room::Spilled { body, .. } => body.upload().unwrap_or_default(),
        }
    }
}

impl State {
    /// All versions, the newest first.
    pub async fn versions(&self) -> Result<Vec<Version>, Error> {
        let head = self.head().await?.ok_or(Error::NotFound)?;
        let (last, now) = (head.last_version, Timestamp::now());
        let mut versions = self.listed(head).await?;
        versions.retain(|version| version.number == last || !self.is_old(last, version.number, version.at, now));
        Ok(versions)
    }

    /// Those too that are to go.
    pub(super) async fn all_versions(&self) -> Result<Vec<Version>, Error> {
        self.listed(self.head().await?.ok_or(Error::NotFound)?).await
    }

    async fn listed(&self, head: Head) -> Result<Vec<Version>, Error> {
        let mut versions: Vec<Version> = head.current.into_iter().chain(head.recent).collect();
        for page in &head.pages {
            versions.extend(self.page(page).await?);
        }
        Ok(versions)
    }

    /// One version by its number.
    pub async fn version(&self, number: u64) -> Result<Version, Error> {
        let versions = self.versions().await?;
        versions.into_iter().find(|version| version.number == number).ok_or(Error::NoVersion)
    }

    pub(super) async fn page(&self, page: &Page) -> Result<Vec<Version>, Error> {
        let bytes = Reader::new(self.clone(), page.extent).range(0, page.extent.length).await?;
        manifest::read(&bytes, "a page of old versions")
    }

    /// Puts old versions into pages and drops pages that are too old, as far as it is due.
    pub(super) async fn tidy(&self) -> Result<(), Error> {
        let Some(head) = self.head().await? else { return Ok(()) };
        self.drop_pages(&head).await?;
        if !self.holds_many(&head) {
            return Ok(());
        }
        let settled = head.recent.iter().rev().take_while(|version| is_settled(&head, version)).count();
        let held = head.recent.len();
        let count = settled.min(held.div_ceil(2).max(held.saturating_sub(RECENT / 2)));
        if count == 0 { Ok(()) } else { self.put_away(&head.recent[head.recent.len() - count..]).await }
    }

    pub(super) fn needs_tidying(&self, head: &Head, now: Timestamp) -> bool {
        self.holds_many(head) || head.pages.iter().any(|page| self.is_old_page(head, page, now))
    }

    fn holds_many(&self, head: &Head) -> bool {
        head.recent.len() > RECENT || head.inline_history() > self.store.limits().inline_history
    }

    /// Moves these versions, the oldest of the head, into a page.
    async fn put_away(&self, old: &[Version]) -> Result<(), Error> {
        let listed = Box::pin(self.self_contained(old)).await?;
        let upload = self.name_upload().await?;
        let page = self.put_page(upload, &listed).await?;
        let moved = self.change(|head| {
            let named = head.uploads.iter().any(|named| named.id == upload.id);
            if !named || !head.recent.ends_with(old) {
                return Ok(Verdict::Keep(false));
            }
            head.recent.truncate(head.recent.len() - old.len());
            head.pages.insert(0, page.clone());
            head.uploads.retain(|named| named.id != upload.id);
            Ok(Verdict::Swap(true))
        });
        if !moved.await? {
            // Somebody else has put them away or dropped them.
            self.give_up(upload.id).await;
        }
        Ok(())
    }

    /// Makes room for a head that cannot keep the current version as an old one. The head does not name it yet:
    /// [`State::take_room`] does that.
    pub(super) async fn make_room(&self) -> Result<Room, Error> {
        let upload = self.name_upload().await?;
        let head = self.head().await?.ok_or(Error::NotFound)?;
        let room = if let Some(version) = head.current.clone().filter(|version| self.is_to_spill(version)) {
            self.spill(upload, version).await
        } else {
            let versions: Vec<Version> = head.current.into_iter().chain(head.recent).collect();
            self.put_page(upload, &versions).await.map(|page| Room::Page { page, versions })
        };
        if room.is_err() {
            self.give_up(upload.id).await;
        }
        room
    }

    /// Whether a version holds more bytes in the head than an old one should.
    fn is_to_spill(&self, version: &Version) -> bool {
        version.body.inline_bytes() > self.store.limits().inline_history / 2
    }

    /// Puts the bytes of a version that stand in the head into chunks.
    pub(super) async fn spill(&self, upload: Upload, version: Version) -> Result<Room, Error> {
        let (bytes, packing, parts) = match &version.body {
            Body::Inline { segments, bytes, sealed } => {
                let bytes = self.open_inline(bytes.clone().into(), *sealed).await?;
                (bytes, None, segments.iter().cloned().map(Part::Whole).collect())
            }
            Body::File { packing, bytes } => (bytes.clone().into(), Some(*packing), Vec::new()),
            _ => return Err(Error::Internal("a body that is in chunks already".to_owned())),
        };
        let mut writer = Writer::new(self, upload, self.cover(upload.id, None).await?);
        writer.write(&bytes).await?;
        let manifest = writer.position();
        let list = Manifest::of(&version, None, packing, parts);
        writer.write(&ended(&list, manifest, Kind::Version)?).await?;
        let extent = writer.finish().await?;
        let body = match packing {
            Some(packing) => Body::Spilled { packing, extent, manifest },
            None => Body::Chunks { extent, manifest, base: None },
        };
        Step::Spilled.hit();
        Ok(Room::Spilled { version: Box::new(version), body })
    }

    /// Lets the head name what was made for it, if it still holds the same versions. Tells whether there is room now.
    pub(super) fn take_room(&self, head: &mut Head, room: Option<&Room>) -> bool {
        let named = |head: &Head, room: &Room| head.uploads.iter().any(|named| named.id == room.upload());
        match room {
            Some(room @ Room::Page { page, versions })
                if named(head, room) && head.current.iter().chain(&head.recent).eq(versions) =>
            {
                head.current = None;
                head.recent.clear();
                head.pages.insert(0, page.clone());
                head.uploads.retain(|named| named.id != room.upload());
            }
            Some(room @ Room::Spilled { version, body })
                if named(head, room) && head.current.as_ref() == Some(&**version) =>
            {
                if let Some(current) = &mut head.current {
                    current.body = body.clone();
                }
                head.uploads.retain(|named| named.id != room.upload());
            }
            _ => {}
        }
        let current = head.current.as_ref();
        let bytes = current.map_or(0, |version| version.body.inline_bytes()) + head.inline_history();
        current.is_none_or(|version| !self.is_to_spill(version)) && bytes <= self.store.limits().inline_history_most
    }

    pub(super) async fn put_page(&self, upload: Upload, versions: &[Version]) -> Result<Page, Error> {
        let (Some(newest), Some(oldest)) = (versions.first(), versions.last()) else {
            return Err(Error::Internal("a page without versions".to_owned()));
        };
        let mut writer = Writer::new(self, upload, self.cover(upload.id, None).await?);
        writer.write(&ended(&versions, 0, Kind::Page)?).await?;
        let extent = writer.finish().await?;
        Step::PagePut.hit();
        let stored = versions.iter().filter_map(|version| version.body.extent()).map(|extent| extent.length).sum();
        let clear = versions.iter().any(|version| !version.is_sealed());
        Ok(Page { newest: newest.number, oldest: oldest.number, newest_at: newest.at, stored, extent, clear })
    }

    /// Lets go of versions in the head that are beyond the settings.
    pub(super) fn trim(&self, head: &mut Head, now: Timestamp) {
        let deadline = after(self.settings.times.linger);
        let (last, mut garbage) = (head.last_version, Vec::new());
        head.recent.retain(|version| {
            let old = self.is_old(last, version.number, version.at, now);
            garbage.extend(version.body.upload().filter(|_| old));
            !old
        });
        // Their chunks stay for a while, for those who read them.
        head.uploads.extend(garbage.into_iter().map(|id| Upload { id, deadline }));
    }

    /// Lets go of pages that hold nothing but versions beyond the settings.
    async fn drop_pages(&self, head: &Head) -> Result<(), Error> {
        let now = Timestamp::now();
        let pages: Vec<&Page> = head.pages.iter().filter(|page| self.is_old_page(head, page, now)).collect();
        if pages.is_empty() {
            return Ok(());
        }
        let mut garbage = BTreeSet::new();
        for page in &pages {
            garbage.insert(page.extent.upload);
            garbage.extend(self.page(page).await?.iter().filter_map(|version| version.body.upload()));
        }
        let deadline = after(self.settings.times.linger);
        self.change(|head| {
            let before = head.pages.len();
            head.pages.retain(|page| !pages.contains(&page));
            if head.pages.len() == before {
                return Ok(Verdict::Keep(()));
            }
            head.uploads.extend(garbage.iter().map(|&id| Upload { id, deadline }));
            Ok(Verdict::Swap(()))
        })
        .await
    }

    fn is_old_page(&self, head: &Head, page: &Page, now: Timestamp) -> bool {
        self.is_old(head.last_version, page.newest, page.newest_at, now)
    }

    fn is_old(&self, last_version: u64, number: u64, at: Timestamp, now: Timestamp) -> bool {
        let kept = u64::try_from(self.settings.versions.max(1)).unwrap_or(u64::MAX);
        let age = self.settings.version_age.and_then(|age| SignedDuration::try_from(age).ok());
        number.saturating_add(kept) <= last_version || age.is_some_and(|age| now.duration_since(at) > age)
    }

    /// Every upload that the head names, in whatever way.
    pub(super) async fn named(&self, head: &Head) -> Result<BTreeSet<Uuid>, Error> {
        let mut named: BTreeSet<Uuid> = head.uploads.iter().map(|upload| upload.id).collect();
        named.extend(head.seal.iter().map(|key| key.copy));
        named.extend(head.current.iter().chain(&head.recent).filter_map(|version| version.body.upload()));
        for page in &head.pages {
            named.insert(page.extent.upload);
            named.extend(self.page(page).await?.iter().filter_map(|version| version.body.upload()));
        }
        Ok(named)
    }
}
