//! Where a page ended, or began: the sort key and the identity of a row, so that any replica can go on from there.
//!
//! It names a place, not a row: the row may be gone, and a replica may never have had it. It is no secret and no proof:
//! whoever makes one up gets rows after some place, of those that they may see.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};

use super::Order;
use crate::row::Key;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cursor {
    pub order: Order,
    pub descending: bool,
    pub value: SortValue,
    pub key: Key,
    pub side: Side,
}

/// On which side of its place a page is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Side {
    #[default]
    After,
    /// The rows that come last before it.
    Before,
}

/// What a row is sorted by first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum SortValue {
    Number(i64),
    Text(String),
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("it is not a cursor of this server")]
pub struct BadCursor;

/// Short names: it stands in URLs.
#[derive(Serialize, Deserialize)]
struct Written {
    o: String,
    d: bool,
    v: SortValue,
    k: [String; 5],
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    b: bool,
}

/// Longer ones are none of ours.
const LONGEST: usize = 64 * 1024;

impl Cursor {
    pub fn encode(&self) -> String {
        let Key { cluster, namespace, group, kind, name } = self.key.clone();
        let written = Written {
            o: self.order.name().to_owned(),
            d: self.descending,
            v: self.value.clone(),
            k: [cluster, namespace, group, kind, name],
            b: self.side == Side::Before,
        };
        URL_SAFE_NO_PAD.encode(serde_json::to_vec(&written).unwrap_or_default())
    }

    pub fn decode(text: &str) -> Result<Cursor, BadCursor> {
        if text.len() > LONGEST {
            return Err(BadCursor);
        }
        let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| BadCursor)?;
        let Written { o, d, v, k, b } = serde_json::from_slice(&bytes).map_err(|_| BadCursor)?;
        let order = Order::parse(&o).ok_or(BadCursor)?;
        let is_number = matches!(v, SortValue::Number(_));
        if is_number != matches!(order, Order::Created | Order::Age) {
            return Err(BadCursor);
        }
        let [cluster, namespace, group, kind, name] = k;
        let side = if b { Side::Before } else { Side::After };
        Ok(Cursor { order, descending: d, value: v, key: Key { cluster, namespace, group, kind, name }, side })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_comes_back_as_it_was_and_others_are_refused() {
        let own = str::to_owned;
        let key = Key { cluster: own("a/b"), namespace: own(""), group: own("g"), kind: own("K"), name: own("ä\"") };
        let text = Cursor {
            order: Order::Message,
            descending: true,
            value: SortValue::Text(own("m")),
            key,
            side: Side::After,
        };
        let number = Cursor { order: Order::Age, value: SortValue::Number(-5), ..text.clone() };
        let before = Cursor { side: Side::Before, ..text.clone() };
        for cursor in [&text, &number, &before] {
            assert_eq!(Cursor::decode(&cursor.encode()).as_ref(), Ok(cursor));
        }
        let wrong = Cursor { order: Order::Age, ..text.clone() }.encode();
        let unknown = URL_SAFE_NO_PAD.encode(r#"{"o":"odd","d":false,"v":"","k":["","","","",""]}"#);
        for bad in ["", "x", "!!", &text.encode()[2..], &wrong, &unknown, &"A".repeat(LONGEST + 1)] {
            assert_eq!(Cursor::decode(bad), Err(BadCursor), "{bad:.20}");
        }
    }
}
