//! Small old versions in a head, each as the difference to the next newer one.
//!
//! Every LOCK and UNLOCK writes the head anew, so that its history must be small. The newest of the old versions stays
//! whole: where another program may overwrite the current one, the others do not go with it. So does the newest version
//! of a page, so that a page can be read when the head is lost.

use aws_lc_rs::digest::{SHA256, digest};
use keys::Position;
use uuid::Uuid;

use super::State;
use super::write::whole;
use crate::Error;
use crate::codec::{self, Receiver, SpoolPlace};
use crate::head::{Body, Head, Version};
use crate::packing;

/// States larger than this are worth chunks of their own.
const SMALL: u64 = 64 << 10;

/// Makes the newest old version a difference to the current one, which is about to become an old version too.
pub(super) fn shrink(head: &mut Head) {
    if let (Some(newer), Some(older)) = (&head.current, head.recent.first_mut())
        && let Some(body) = difference(older, newer)
    {
        older.body = body;
    }
}

/// `None` where it would not be much smaller, or where it takes more than a moment to find out.
fn difference(older: &Version, newer: &Version) -> Option<Body> {
    let (text, base) = (original(older)?, original(newer)?);
    let bytes = codec::difference(&text, &base)?;
    let smaller = bytes.len() < older.body.inline_bytes() / 2;
    smaller.then_some(Body::Difference { against: newer.number, bytes, sealed: None })
}

/// The bytes of a small version that stands whole and in the clear in the head, and was received by us.
fn original(version: &Version) -> Option<Vec<u8>> {
    let is_small = version.facts.size <= SMALL && version.by.is_some();
    match &version.body {
        Body::Inline { segments, bytes, sealed: None } if is_small => packing::unpacked(segments, bytes).ok(),
        Body::File { packing, bytes } if is_small => packing::read(*packing, bytes, version.facts.size).ok(),
        _ => None,
    }
}

impl State {
    /// The bytes of a version that is a difference.
    pub(super) async fn apply(&self, version: &Version) -> Result<Vec<u8>, Error> {
        let missing = |number| Error::Damaged(format!("version {number}, which an older one is a difference to"));
        let (versions, mut chain) = (self.all_versions().await?, vec![version.clone()]);
        while let Some(Version { number, body: Body::Difference { against, .. }, .. }) = chain.last() {
            // A newer one each time: there is an end.
            let newer = versions.iter().find(|newer| newer.number == *against && newer.number > *number);
            chain.push(newer.ok_or_else(|| missing(*against))?.clone());
        }
        let mut text = Vec::new();
        if let Some(whole) = chain.pop() {
            let mut reading = Box::pin(self.open(whole)).await?;
            while let Some(piece) = reading.next().await? {
                text.extend_from_slice(&piece);
            }
        }
        for step in chain.into_iter().rev() {
            let Body::Difference { bytes, sealed, .. } = step.body else { continue };
            let bytes = self.open_inline(bytes.into(), sealed).await?;
            let damaged = |error| Error::Damaged(format!("version {}: {error}", step.number));
            text = codec::apply(&bytes, &text, step.facts.size).map_err(damaged)?;
        }
        if digest(&SHA256, &text).as_ref() != version.facts.sha256 {
            return Err(Error::Damaged(format!("version {}: its bytes are not what was written", version.number)));
        }
        Ok(text)
    }

    /// The same versions, the newest first, so that they can be read without any other.
    pub(super) async fn self_contained(&self, versions: &[Version]) -> Result<Vec<Version>, Error> {
        let mut versions = versions.to_vec();
        if let Some(newest) = versions.first_mut()
            && let Body::Difference { .. } = newest.body
        {
            newest.body = self.inlined(&self.apply(newest).await?).await?;
        }
        Ok(versions)
    }

    /// A body for a head or a page that holds these bytes whole.
    async fn inlined(&self, text: &[u8]) -> Result<Body, Error> {
        let place = SpoolPlace::new(self.settings.spool.clone());
        let mut receiver = Receiver::thorough(self.settings.codec.clone(), place);
        receiver.push(text)?;
        let received = receiver.finish(None)?;
        let (segments, bytes, sealed) = (received.segments.clone(), whole(&received).await?, Uuid::new_v4());
        let cover = self.cover(sealed, None).await?;
        let bytes = cover.close(0, Position::Last, bytes)?.into();
        Ok(Body::Inline { segments, bytes, sealed: cover.is_sealed().then_some(sealed) })
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use crate::head::{Facts, Packing};

    fn version(number: u64, text: &str) -> Version {
        let sha256 = digest(&SHA256, text.as_bytes()).as_ref().try_into().unwrap();
        let facts = Facts { size: text.len() as u64, sha256, ..Facts::of_nothing() };
        let body = Body::File { packing: Packing::Plain, bytes: text.as_bytes().to_vec() };
        Version { number, facts, by: Some("ann".to_owned()), at: Timestamp::UNIX_EPOCH, body }
    }

    fn text(serial: u64) -> String {
        let ids = (0..40).map(|id: u64| format!("{:016x}", id.wrapping_mul(0x9e37_79b9_7f4a_7c15)));
        format!("{{\"serial\": {serial}, \"ids\": {:?}}}", ids.collect::<Vec<_>>())
    }

    #[test]
    fn of_the_old_versions_only_the_newest_stays_whole() {
        let mut head = Head::new();
        for number in 1..=5 {
            shrink(&mut head);
            if let Some(older) = head.current.replace(version(number, &text(number))) {
                head.recent.insert(0, older);
            }
        }
        let against = |version: &Version| match version.body {
            Body::Difference { against, .. } => Some(against),
            _ => None,
        };
        assert_eq!(head.recent.iter().map(against).collect::<Vec<_>>(), [None, Some(4), Some(3), Some(2)]);
        let [.., third, second, first] = head.recent.as_slice() else { panic!("four old versions") };
        let mut base = text(4);
        for older in [third, second, first] {
            let Body::Difference { bytes, .. } = &older.body else { panic!("a difference") };
            assert!(bytes.len() < 100, "{}", bytes.len());
            base = String::from_utf8(codec::apply(bytes, base.as_bytes(), older.facts.size).unwrap()).unwrap();
            assert_eq!(base, text(older.number));
        }
    }

    #[test]
    fn what_another_program_wrote_or_what_is_large_stays_as_it_is() {
        let foreign = Version { by: None, ..version(1, &text(1)) };
        let large = version(1, &"x".repeat(70_000));
        for older in [foreign, large] {
            let mut head = Head { current: Some(version(2, &text(2))), recent: vec![older.clone()], ..Head::new() };
            shrink(&mut head);
            assert_eq!(head.recent, [older]);
        }
    }
}
