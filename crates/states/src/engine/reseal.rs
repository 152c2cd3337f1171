//! What was written before sealing was switched on: sealed behind the scenes, so that the setting holds for all that is
//! there, and not only for what comes.
//!
//! Nothing is unpacked for it. The bytes of an upload are copied as they are into a sealed one, and one swap lets the
//! head name that; a page of old versions is written anew when all that it lists is sealed. The clear bytes linger for
//! those who are reading them, and are then the sweeper's. Switching sealing off changes nothing of what is there.

use bytes::Bytes;
use keys::Position;
use uuid::Uuid;

use super::State;
use super::change::Verdict;
use super::chunks::{Reader, Writer};
use super::history::Room;
use super::shrink::Before;
use super::write::after;
use crate::Error;
use crate::failpoints::Step;
use crate::head::{Body, Extent, Head, Page, Upload, Version};

/// How many bytes are copied at a time.
const PIECE: u64 = 4 << 20;

impl State {
    /// Whether something is in the clear that should be sealed.
    pub(super) fn has_clear(&self, head: &Head) -> bool {
        self.settings.sealing.key.is_some()
            && (head.current.iter().chain(&head.recent).any(|version| !version.is_sealed())
                || head.pages.iter().any(Page::is_clear))
    }

    /// Seals what is in the clear, the newest first, if the settings say so.
    pub(super) async fn seal_clear(&self) -> Result<(), Error> {
        loop {
            let Some(head) = self.head().await?.filter(|head| self.has_clear(head)) else { return Ok(()) };
            let clear = head.current.iter().chain(&head.recent).find(|version| !version.is_sealed());
            match (clear, head.pages.iter().find(|page| page.is_clear())) {
                (Some(version), _) => match self.seal_version(version).await {
                    // Somebody else has stored it in another way meanwhile.
                    Err(Error::Damaged(what)) => {
                        Box::pin(self.stored_anew(version)).await?.ok_or(Error::Damaged(what))?;
                    }
                    sealed => sealed?,
                },
                (None, Some(page)) => self.seal_page(page).await?,
                (None, None) => return Ok(()),
            }
        }
    }

    async fn seal_version(&self, version: &Version) -> Result<(), Error> {
        let body = self.sealed_body(version).await?;
        Step::SealedPut.hit();
        if !self.exchange(version, &body, Before::Lingers).await?
            && let Some(unused) = body.upload()
        {
            self.give_up(unused).await;
        }
        Ok(())
    }

    /// The same body, sealed; the head names its upload, if it has one, as under way.
    async fn sealed_body(&self, version: &Version) -> Result<Body, Error> {
        if let Body::Inline { bytes, .. } | Body::Difference { bytes, .. } = &version.body {
            let id = Uuid::new_v4();
            let cover = self.cover(id, None).await?;
            if bytes.len() + cover.overhead() <= self.store.limits().inline {
                let clear = Bytes::copy_from_slice(bytes);
                let mut body = version.body.clone();
                if let Body::Inline { bytes, sealed, .. } | Body::Difference { bytes, sealed, .. } = &mut body {
                    (*bytes, *sealed) = (cover.close(0, Position::Last, clear)?.into(), Some(id));
                }
                return Ok(body);
            }
        }
        let upload = self.name_upload().await?;
        let body = match version.body.clone() {
            Body::Inline { .. } | Body::File { .. } => match self.spill(upload, version.clone()).await {
                Ok(Room::Spilled { body, .. }) => Ok(body),
                Ok(Room::Page { .. }) => Err(Error::Internal("a page in place of a version".to_owned())),
                Err(error) => Err(error),
            },
            Body::Difference { .. } => Err(Error::Internal("a difference that does not fit a head".to_owned())),
            Body::Chunks { extent, manifest, base } => {
                self.copied(extent, upload).await.map(|extent| Body::Chunks { extent, manifest, base })
            }
            Body::Spilled { packing, extent, manifest } => {
                self.copied(extent, upload).await.map(|extent| Body::Spilled { packing, extent, manifest })
            }
        };
        if body.is_err() {
            self.give_up(upload.id).await;
        }
        body
    }

    async fn copied(&self, from: Extent, upload: Upload) -> Result<Extent, Error> {
        let mut reader = Reader::new(self.clone(), from);
        let mut writer = Writer::new(self, upload, self.cover(upload.id, None).await?);
        while writer.position() < from.length {
            let length = PIECE.min(from.length - writer.position());
            let piece = reader.range(writer.position(), length).await?;
            writer.write(&piece).await?;
        }
        writer.finish().await
    }

    async fn seal_page(&self, page: &Page) -> Result<(), Error> {
        let clear = self.page(page).await?;
        let (mut versions, mut made) = (clear.clone(), Vec::new());
        let put = async {
            for version in versions.iter_mut().filter(|version| !version.is_sealed()) {
                version.body = self.sealed_body(version).await?;
                made.extend(version.body.upload());
            }
            let upload = self.name_upload().await?;
            made.push(upload.id);
            self.put_page(upload, &versions).await
        };
        let anew = put.await;
        Step::SealedPut.hit();
        let taken = match &anew {
            Ok(anew) => self.exchange_page(page, &clear, anew, &made).await,
            Err(_) => Ok(false),
        };
        if !matches!(taken, Ok(true)) {
            for upload in made {
                self.give_up(upload).await;
            }
        }
        anew.and(taken).map(drop)
    }

    /// Lets the head name the new page, if it still names the old one and nobody has swept what it lists.
    async fn exchange_page(&self, page: &Page, clear: &[Version], anew: &Page, made: &[Uuid]) -> Result<bool, Error> {
        let deadline = after(self.settings.times.linger);
        let old = clear.iter().filter(|version| !version.is_sealed()).filter_map(|version| version.body.upload());
        let old: Vec<Upload> = old.chain([page.extent.upload]).map(|id| Upload { id, deadline }).collect();
        self.change(|head| {
            let all_named = made.iter().all(|id| head.uploads.iter().any(|named| named.id == *id));
            let found = head.pages.iter_mut().find(|found| *found == page);
            let (Some(found), true) = (found, all_named) else { return Ok(Verdict::Keep(false)) };
            *found = anew.clone();
            head.uploads.retain(|named| !made.contains(&named.id));
            head.uploads.extend(&old);
            Ok(Verdict::Swap(true))
        })
        .await
    }
}
