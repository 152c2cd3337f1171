//! Which rows make a page, in every order. Rows are compared by numbers, and only as many are put in order as are shown.

use std::cmp::Ordering;

use roaring::RoaringBitmap;

use super::rows::{Index, NO_TIME, Slot};
use crate::query::{Cursor, Order, Side, SortValue};
use crate::row::Key;

/// In which order, and from where on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ordered<'a> {
    pub(super) order: Order,
    pub(super) descending: bool,
    pub(super) after: Option<&'a Cursor>,
}

/// A place between rows: of each thing that rows are compared by, its label, and whether a row can have exactly that.
struct Bound {
    first: (u64, bool),
    name: (u64, bool),
    rest: [(u64, bool); 4],
}

impl Index {
    /// The first `most` rows.
    pub(super) fn first(&self, rows: &RoaringBitmap, ordered: Ordered<'_>, most: usize) -> Vec<Slot> {
        // One more, so that nothing comes before the first text.
        let label = |text: Option<u32>| text.map_or(0, |text| self.scopes.texts.texts.label(text) + 1);
        let by_scope = |of: &dyn Fn(u32) -> Option<u32>| {
            // Few rows: they are looked up one by one; many: their scopes are.
            if rows.len() < (self.scopes.end() / 2) as u64 {
                return self.pick(rows, ordered, most, |slot| label(of(self.scope[slot as usize])));
            }
            let mut labels = vec![0; self.scopes.end()];
            for (scope, _) in self.scopes.live() {
                labels[scope as usize] = label(of(scope));
            }
            self.pick(rows, ordered, most, |slot| labels[self.scope[slot as usize] as usize])
        };
        match ordered.order {
            Order::Name => self.pick(rows, ordered, most, |slot| self.names.texts.label(self.name[slot as usize])),
            Order::Message => {
                self.pick(rows, ordered, most, |slot| self.messages.texts.label(self.message[slot as usize]))
            }
            Order::Status => self.pick(rows, ordered, most, |slot| self.status[slot as usize] as u64),
            Order::Created => self.pick(rows, ordered, most, |slot| growing(self.created[slot as usize])),
            Order::Age => self.pick(rows, ordered, most, |slot| !growing(self.created[slot as usize])),
            Order::Kind => by_scope(&|scope| Some(self.scopes.at(scope).1.kind)),
            Order::Namespace => by_scope(&|scope| Some(self.scopes.at(scope).0.key.namespace)),
            Order::Cluster => by_scope(&|scope| Some(self.scopes.at(scope).1.cluster)),
            Order::Tenant => by_scope(&|scope| self.scopes.at(scope).0.tenant),
            Order::Category => by_scope(&|scope| Some(self.scopes.at(scope).1.category)),
        }
    }

    /// The place right after this row, or right before it.
    pub(super) fn cursor(&self, slot: Slot, order: Order, descending: bool, side: Side) -> Cursor {
        let at = slot.0 as usize;
        let (scope, family) = self.scopes.at(self.scope[at]);
        let text = |id: u32| SortValue::Text(self.scopes.text(id).to_owned());
        let value = match order {
            Order::Name => SortValue::Text(self.names.texts.text(self.name[at]).to_owned()),
            Order::Message => SortValue::Text(self.messages.texts.text(self.message[at]).to_owned()),
            Order::Status => SortValue::Text(self.status[at].as_str().to_owned()),
            Order::Created | Order::Age => SortValue::Number(self.created[at]),
            Order::Kind => text(family.kind),
            Order::Namespace => text(scope.key.namespace),
            Order::Cluster => text(family.cluster),
            Order::Category => text(family.category),
            Order::Tenant => SortValue::Text(scope.tenant.map_or("", |tenant| self.scopes.text(tenant)).to_owned()),
        };
        Cursor { order, descending, value, key: self.key(slot), side }
    }

    fn pick(&self, rows: &RoaringBitmap, ordered: Ordered<'_>, most: usize, first: impl Fn(u32) -> u64) -> Vec<Slot> {
        let Ordered { order, descending, after } = ordered;
        let bound = after.map(|cursor| self.bound(order, cursor));
        let turned = |ordering: Ordering| if descending { ordering.reverse() } else { ordering };
        let name = |slot: u32| self.names.texts.label(self.name[slot as usize]);
        let compare = |(one, one_slot): &(u64, u32), (other, other_slot): &(u64, u32)| {
            let by_name = || name(*one_slot).cmp(&name(*other_slot));
            let by_rest = || self.rest(*one_slot).cmp(&self.rest(*other_slot));
            turned(one.cmp(other).then_with(by_name).then_with(by_rest))
        };
        // Twice as many as wanted are gathered, then the later half goes: from then on most rows are dismissed by one look.
        let room = most.saturating_mul(2).max(512);
        let mut picked: Vec<(u64, u32)> = Vec::with_capacity(room.min(usize::try_from(rows.len()).unwrap_or(room)));
        let mut last: Option<(u64, u64, u32)> = None;
        if most == 0 {
            return Vec::new();
        }
        for slot in rows {
            let row = (first(slot), slot);
            let is_late = |(first, last_name, last_slot): (u64, u64, u32)| {
                // Most rows are told apart by the first, nearly all others by their name.
                let quick = row.0.cmp(&first).then_with(|| name(slot).cmp(&last_name));
                match turned(quick) {
                    Ordering::Equal => compare(&row, &(first, last_slot)) != Ordering::Less,
                    other => other == Ordering::Greater,
                }
            };
            if last.is_some_and(is_late) {
                continue;
            }
            let is_before = |bound: &Bound| turned(self.against(row, bound)) != Ordering::Greater;
            if bound.as_ref().is_some_and(is_before) {
                continue;
            }
            picked.push(row);
            if picked.len() >= room {
                picked.select_nth_unstable_by(most - 1, compare);
                picked.truncate(most);
                last = picked.last().map(|(first, slot)| (*first, name(*slot), *slot));
            }
        }
        picked.sort_unstable_by(compare);
        picked.truncate(most);
        picked.into_iter().map(|(_, slot)| Slot(slot)).collect()
    }

    /// What tells rows apart that are equal in what they are sorted by.
    fn rest(&self, slot: u32) -> [u64; 4] {
        let (scope, family) = self.scopes.at(self.scope[slot as usize]);
        let label = |text: u32| self.scopes.texts.texts.label(text);
        [label(family.cluster), label(scope.key.namespace), label(family.kind), label(family.group)]
    }

    fn against(&self, (first, slot): (u64, u32), bound: &Bound) -> Ordering {
        let ordering = against_one(first, bound.first);
        if ordering != Ordering::Equal {
            return ordering;
        }
        let name = against_one(self.names.texts.label(self.name[slot as usize]), bound.name);
        let rest = || self.rest(slot).into_iter().zip(bound.rest).map(|(label, bound)| against_one(label, bound));
        name.then_with(|| rest().fold(Ordering::Equal, Ordering::then))
    }

    fn bound(&self, order: Order, cursor: &Cursor) -> Bound {
        let Key { cluster, namespace, group, kind, name } = &cursor.key;
        let scope = |text: &str| self.scopes.texts.texts.bound(text);
        let above = |(label, exact): (u64, bool)| (label.saturating_add(1), exact);
        let first = match (&cursor.value, order) {
            (SortValue::Number(number), Order::Age) => (!growing(*number), true),
            (SortValue::Number(number), _) => (growing(*number), true),
            (SortValue::Text(text), Order::Name) => self.names.texts.bound(text),
            (SortValue::Text(text), Order::Message) => self.messages.texts.bound(text),
            (SortValue::Text(text), Order::Status) => {
                let at = crate::Status::ALL.partition_point(|status| status.as_str() < text.as_str());
                (at as u64, crate::Status::ALL.get(at).is_some_and(|status| status.as_str() == text))
            }
            // Rows without a tenant are before all others, whether or not some text is empty.
            (SortValue::Text(text), Order::Tenant) if text.is_empty() => (0, true),
            (SortValue::Text(text), _) => above(scope(text)),
        };
        let rest = [scope(cluster), scope(namespace), scope(kind), scope(group)];
        Bound { first, name: self.names.texts.bound(name), rest }
    }
}

/// A label that nobody can have is before the next one, which is where the bound says.
fn against_one(label: u64, (bound, exact): (u64, bool)) -> Ordering {
    match label.cmp(&bound) {
        Ordering::Equal if !exact => Ordering::Greater,
        other => other,
    }
}

/// The same order without a sign.
fn growing(number: i64) -> u64 {
    number.cast_unsigned() ^ (1 << 63)
}

const _: () = assert!(NO_TIME == i64::MIN, "rows without a time are the oldest");
