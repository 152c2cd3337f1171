//! Old versions: a few stay in the head, the rest goes into pages, and what is too old goes for good.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use uuid::Uuid;

use super::State;
use super::change::Verdict;
use super::chunks::{Reader, Writer};
use super::write::after;
use crate::Error;
use crate::failpoints::Step;
use crate::head::{Head, Page, Upload, Version};

/// More than this many versions in a head, and the older half of them goes into a page.
const RECENT: usize = 16;

/// A page that the head does not name yet, and what it holds.
pub(super) struct Room {
    page: Page,
    versions: Vec<Version>,
}

impl Room {
    pub(super) fn upload(&self) -> Uuid {
        self.page.extent.upload
    }
}

impl State {
    /// All versions, the newest first.
    pub async fn versions(&self) -> Result<Vec<Version>, Error> {
        let head = self.head().await?.ok_or(Error::NotFound)?;
        let mut versions: Vec<Version> = head.current.into_iter().chain(head.recent).collect();
        for page in &head.pages {
            versions.extend(self.page(page).await?);
        }
        Ok(versions)
    }

    /// One version by its number.
    pub async fn version(&self, number: u64) -> Result<Version, Error> {
        let head = self.head().await?.ok_or(Error::NotFound)?;
        let here = head.current.into_iter().chain(head.recent).find(|version| version.number == number);
        if let Some(version) = here {
            return Ok(version);
        }
        let page = head.pages.iter().find(|page| (page.oldest..=page.newest).contains(&number));
        let versions = self.page(page.ok_or(Error::NoVersion)?).await?;
        versions.into_iter().find(|version| version.number == number).ok_or(Error::NoVersion)
    }

    async fn page(&self, page: &Page) -> Result<Vec<Version>, Error> {
        let bytes = Reader::new(self.clone(), page.extent).range(0, page.extent.length).await?;
        serde_json::from_slice(&bytes).map_err(|error| Error::Damaged(format!("a page of old versions: {error}")))
    }

    /// Puts old versions into pages and drops pages that are too old, as far as it is due.
    pub(super) async fn tidy(&self) -> Result<(), Error> {
        let Some(head) = self.head().await? else { return Ok(()) };
        self.drop_pages(&head).await?;
        let many = head.recent.len() > RECENT || head.inline_history() > self.store.limits().inline_history;
        if many { self.put_away(&head.recent[head.recent.len() / 2..]).await } else { Ok(()) }
    }

    /// Moves these versions, the oldest of the head, into a page.
    async fn put_away(&self, old: &[Version]) -> Result<(), Error> {
        let upload = self.new_upload();
        self.change(|head| {
            head.uploads.push(upload);
            Ok(Verdict::Swap(()))
        })
        .await?;
        let page = self.put_page(upload, old).await?;
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

    /// Puts all versions of the head, the current one included, into a page, for a head that has no room for the
    /// current one as an old one. The head does not name the page yet: [`State::take_room`] does that.
    pub(super) async fn make_room(&self) -> Result<Room, Error> {
        let upload = self.new_upload();
        let versions = self.change(|head| {
            head.uploads.push(upload);
            Ok(Verdict::Swap(head.current.iter().chain(&head.recent).cloned().collect::<Vec<_>>()))
        });
        let versions = versions.await?;
        let page = self.put_page(upload, &versions).await?;
        Ok(Room { page, versions })
    }

    /// Lets the head name the page, if it still holds the same versions. Tells whether there is room now.
    pub(super) fn take_room(&self, head: &mut Head, room: Option<&Room>) -> bool {
        if let Some(Room { page, versions }) = room
            && head.current.iter().chain(&head.recent).eq(versions)
            && head.uploads.iter().any(|named| named.id == page.extent.upload)
        {
            head.current = None;
            head.recent.clear();
            head.uploads.retain(|named| named.id != page.extent.upload);
            head.pages.insert(0, page.clone());
        }
        let current = head.current.as_ref().map_or(0, |version| version.body.inline_bytes());
        current + head.inline_history() <= self.store.limits().inline_history_most
    }

    fn new_upload(&self) -> Upload {
        Upload { id: Uuid::new_v4(), deadline: after(self.settings.times.upload) }
    }

    async fn put_page(&self, upload: Upload, versions: &[Version]) -> Result<Page, Error> {
        let (Some(newest), Some(oldest)) = (versions.first(), versions.last()) else {
            return Err(Error::Internal("a page without versions".to_owned()));
        };
        let mut writer = Writer::new(self, upload);
        let text = serde_json::to_vec(versions).map_err(|error| Error::Internal(error.to_string()))?;
        writer.write(&text).await?;
        let extent = writer.finish().await?;
        Step::PagePut.hit();
        Ok(Page { newest: newest.number, oldest: oldest.number, newest_at: newest.at, extent })
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
        let is_old = |page: &&Page| self.is_old(head.last_version, page.newest, page.newest_at, now);
        let pages: Vec<&Page> = head.pages.iter().filter(is_old).collect();
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

    fn is_old(&self, last_version: u64, number: u64, at: Timestamp, now: Timestamp) -> bool {
        let kept = u64::try_from(self.settings.versions.max(1)).unwrap_or(u64::MAX);
        let age = self.settings.version_age.and_then(|age| SignedDuration::try_from(age).ok());
        number.saturating_add(kept) <= last_version || age.is_some_and(|age| now.duration_since(at) > age)
    }

    /// Every upload that the head names, in whatever way.
    pub(super) async fn named(&self, head: &Head) -> Result<BTreeSet<Uuid>, Error> {
        let mut named: BTreeSet<Uuid> = head.uploads.iter().map(|upload| upload.id).collect();
        named.extend(head.current.iter().chain(&head.recent).filter_map(|version| version.body.upload()));
        for page in &head.pages {
            named.insert(page.extent.upload);
            named.extend(self.page(page).await?.iter().filter_map(|version| version.body.upload()));
        }
        Ok(named)
    }
}
