//! A question and its answer: rows, how many there are, counts by field, and where to go on.

use serde::Serialize;

use super::facets::Facet;
use super::rows::{Index, Slot};
use super::select::Ordered;
use super::visibility::{Visibility, Withheld};
use crate::query::{Query, Side};
use crate::row::Row;

/// One page of an answer.
#[derive(Clone, Debug, Default)]
pub struct Page {
    pub rows: Vec<Found>,
    /// How many rows there are on all pages.
    pub total: u64,
    pub facets: Vec<Facet>,
    /// Where the next page begins, if there is one.
    pub cursor: Option<String>,
    /// Where the page before this one ends, if there may be one.
    pub previous: Option<String>,
    /// There are more rows, and the page has as many as the server gives at once.
    pub truncated: bool,
    /// Clusters of which nothing is shown for now.
    pub withheld: Vec<Withheld>,
    /// Parts of the question that were not looked for in bodies: uids, hashes, times.
    pub unsearched: Vec<String>,
    /// Some bodies that were searched have more words than are kept.
    pub incomplete: bool,
}

/// A row that a caller sees.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Found {
    #[serde(skip)]
    pub slot: Slot,
    pub id: String,
    #[serde(flatten)]
    pub row: Row,
    pub tenant: Option<String>,
    /// Since when it may be out of date.
    pub stale_since: Option<i64>,
    /// Whether the caller may see the body.
    pub has_body: bool,
}

impl Index {
    /// Answers a question for somebody.
    pub fn query(&self, query: &Query, visibility: &Visibility) -> Page {
        let visible = self.visible(visibility);
        let filtered = self.filter(&query.clauses, &visible);
        let total = filtered.rows.len();
        let asked = if query.limit == 0 { usize::MAX } else { query.limit };
        let limit = asked.min(self.settings.page.max(1));
        let after = query.after.as_ref();
        let backwards = after.is_some_and(|cursor| cursor.side == Side::Before);
        // The rows before a place are those after it the other way round.
        let ordered = Ordered { order: query.order, descending: query.descending != backwards, after };
        let beyond = query.after.is_none() && query.offset as u64 >= total;
        // One more than is shown tells whether there are more.
        let most = if beyond { 0 } else { query.offset.saturating_add(limit).saturating_add(1) };
        let mut slots = self.first(&filtered.rows, ordered, most);
        slots.drain(..query.offset.min(slots.len()));
        let more = slots.len() > limit;
        slots.truncate(limit);
        if backwards {
            slots.reverse();
        }
        let place = |slot: &Slot, side: Side| self.cursor(*slot, query.order, query.descending, side).encode();
        // Whoever goes back came from somewhere, and whoever goes on from a place has rows behind.
        let cursor = slots.last().filter(|_| more || backwards).map(|last| place(last, Side::After));
        let behind = if backwards { more } else { query.after.is_some() || query.offset > 0 };
        let previous = slots.first().filter(|_| behind).map(|first| place(first, Side::Before));
        let found = |slot: &Slot| self.found(*slot, visible.bodies.contains(slot.0));
        Page {
            rows: slots.iter().map(found).collect(),
            total,
            facets: self.facets(&query.facets, &filtered.rows),
            cursor,
            previous,
            truncated: more && limit < asked,
            withheld: visibility.withheld(),
            unsearched: filtered.unsearched,
            incomplete: filtered.incomplete,
        }
    }

    /// A single row by its key, if the caller sees it.
    pub fn get(&self, key: &crate::row::Key, visibility: &Visibility) -> Option<Found> {
        let slot = self.find(key)?;
        // One row only: it is not worth a set.
        let row = self.row(slot);
        let bodies = match visibility.of(&key.cluster)? {
            super::View::Withheld(_) => return None,
            super::View::Everything => true,
            super::View::Granted { bodies, .. } => bodies.scope(&key.group, &row.resource).covers(key, row.orphaned),
        };
        visibility.sees(key, &row.resource, row.orphaned).then(|| self.found(slot, bodies))
    }

    pub(super) fn found(&self, slot: Slot, has_body: bool) -> Found {
        let row = self.row(slot);
        let (scope, _) = self.scopes.at(self.scope[slot.0 as usize]);
        Found {
            slot,
            id: row.id(),
            tenant: scope.tenant.map(|tenant| self.scopes.text(tenant).to_owned()),
            stale_since: self.stale_since(&row.key),
            has_body,
            row,
        }
    }
}

impl Serialize for Slot {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u32(self.0)
    }
}
