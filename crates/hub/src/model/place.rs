//! Where a record stands in every list: by path, then the newest revision first, then the newest record first.
//!
//! The order is that of bytes, which is the same in both databases, whatever their collation. The place of a record never
//! changes, so that it is also where the next page begins.

use jiff::Timestamp;

use super::{Revision, TypeRef};

/// Bytes that sort as lists do.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place(Vec<u8>);

impl Place {
    pub fn new(type_ref: &TypeRef, created_at: Timestamp, id: &str) -> Place {
        let mut bytes = type_ref.path.as_str().as_bytes().to_vec();
        // Less than every byte of a path, so that a path stands before those that it begins.
        bytes.push(0);
        push_falling(&mut bytes, &type_ref.revision);
        bytes.extend((!created_at.as_microsecond().cast_unsigned()).to_be_bytes());
        bytes.extend(id.as_bytes());
        Place(bytes)
    }

    /// Between which bytes the places of a path are, both ends excluded.
    pub(crate) fn range(path: &str) -> (Vec<u8>, Vec<u8>) {
        ([path.as_bytes(), &[0]].concat(), [path.as_bytes(), &[1]].concat())
    }

    pub(crate) fn from_bytes(bytes: Vec<u8>) -> Place {
        Place(bytes)
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// Greater revisions have lesser bytes. Pre-releases stand after their release, among themselves as texts.
fn push_falling(bytes: &mut Vec<u8>, revision: &Revision) {
    bytes.extend(revision.numbers().iter().flat_map(|number| (!number).to_be_bytes()));
    bytes.push(u8::from(revision.pre_release().is_some()));
    bytes.extend(revision.pre_release().unwrap_or_default().bytes().map(|byte| !byte));
    bytes.push(u8::MAX);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_go_by_path_then_newest_revision_then_newest_record() {
        let place = |path: &str, revision: &str, second: i64| {
            let type_ref = TypeRef { path: path.parse().unwrap(), revision: revision.parse().unwrap() };
            Place::new(&type_ref, Timestamp::from_second(second).unwrap(), "id")
        };
        let in_order = [
            place("a", "0.1.0", 5),
            place("a-b", "0.1.0", 5),
            place("a.b", "0.10.0", 1),
            place("a.b", "0.9.0", 9),
            place("a.b", "0.9.0", 8),
            place("a.b", "0.9.0-rc.2", 8),
            place("a.b", "0.9.0-rc.1", 9),
            place("a.b", "0.9.0-rc", 9),
            place("b", "9.0.0", 0),
        ];
        assert!(in_order.is_sorted_by(|left, right| left < right));
        let (begin, end) = Place::range("a.b");
        let inside = |place: &&Place| begin.as_slice() < place.as_bytes() && place.as_bytes() < end.as_slice();
        assert_eq!(in_order.iter().filter(inside).count(), 6);
    }
}
