//! How many of the rows that were found are in which cluster, namespace, kind and so on.
//!
//! Four of the fields are the same for all rows of a scope: the rows are counted by scope in one pass over a column, and the
//! scopes are put together. Statuses and labels are counted by what two sets have in common.

use std::collections::HashMap;

use roaring::RoaringBitmap;
use serde::Serialize;

use super::rows::Index;
use crate::query::Facets;
use crate::status::Status;

/// One field with its values.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Facet {
    /// `labels.KEY` for a label.
    pub field: String,
    /// Those with most rows first.
    pub values: Vec<FacetValue>,
    /// How many values there are beside these.
    pub more: usize,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FacetValue {
    pub value: String,
    pub count: u64,
}

/// As many as the original had.
pub(super) const MOST_VALUES: usize = 100;

impl Index {
    pub(super) fn facets(&self, facets: &Facets, rows: &RoaringBitmap) -> Vec<Facet> {
        let Facets::WithLabels(labels) = facets else { return Vec::new() };
        // By the number of the text: cluster, namespace, kind, tenant, category.
        let mut fields: [Vec<u64>; 5] = std::array::from_fn(|_| vec![0; self.scopes.texts.texts.ids_end()]);
        self.count_scopes(rows, |scope, count| {
            let (scope, family) = self.scopes.at(scope);
            let texts = [
                Some(family.cluster),
                Some(scope.key.namespace),
                Some(family.kind),
                scope.tenant,
                Some(family.category),
            ];
            for (counts, text) in fields.iter_mut().zip(texts) {
                if let Some(text) = text {
                    counts[text as usize] += count;
                }
            }
        });
        let [cluster, namespace, kind, tenant, category] = fields.map(|counts| self.most_of(&counts));
        let status = |status: Status| {
            let count = self.by_status[status as usize].intersection_len(rows);
            (count > 0).then(|| (status.as_str().to_owned(), count))
        };
        let status: Vec<_> = Status::ALL.into_iter().filter_map(status).collect();
        let status = (status.len(), status);
        let fields = [
            ("cluster", cluster),
            ("namespace", namespace),
            ("kind", kind),
            ("status", status),
            ("tenant", tenant),
            ("category", category),
        ];
        let fields = fields.into_iter().map(|(field, (all, counts))| facet(field.to_owned(), all, counts));
        let labels = labels.iter().map(|key| {
            let counts = self.labels.counts(key, rows);
            facet(format!("labels.{key}"), counts.len(), counts)
        });
        fields.chain(labels).collect()
    }

    /// How many texts have a count, and those with the largest.
    fn most_of(&self, counts: &[u64]) -> (usize, Vec<(String, u64)>) {
        let texts = &self.scopes.texts.texts;
        let mut counted: Vec<(u64, u32)> = counts.iter().copied().zip(0..).filter(|(count, _)| *count > 0).collect();
        let all = counted.len();
        counted.sort_unstable_by_key(|(count, text)| (std::cmp::Reverse(*count), texts.label(*text)));
        counted.truncate(MOST_VALUES);
        (all, counted.into_iter().map(|(count, text)| (texts.text(text).to_owned(), count)).collect())
    }

    /// How many of the rows are in each scope that has any.
    pub(super) fn count_scopes(&self, rows: &RoaringBitmap, mut count: impl FnMut(u32, u64)) {
        // All rows: it is known.
        if rows.len() == self.live.len() {
            for (id, scope) in self.scopes.live() {
                count(id, scope.rows.len());
            }
            return;
        }
        // Few rows: the counters of all scopes would cost more than they do.
        if rows.len() < (self.scopes.end() / 4) as u64 {
            let mut counts: HashMap<u32, u64> = HashMap::new();
            for slot in rows {
                *counts.entry(self.scope[slot as usize]).or_default() += 1;
            }
            for (scope, number) in counts {
                count(scope, number);
            }
            return;
        }
        let mut counts = vec![0_u32; self.scopes.end()];
        for slot in rows {
            counts[self.scope[slot as usize] as usize] += 1;
        }
        for (scope, number) in (0..).zip(counts).filter(|(_, number)| *number > 0) {
            count(scope, u64::from(number));
        }
    }
}

fn facet(field: String, all: usize, mut counts: Vec<(String, u64)>) -> Facet {
    counts.sort_unstable_by(|(one, one_count), (other, other_count)| other_count.cmp(one_count).then(one.cmp(other)));
    let more = all.saturating_sub(MOST_VALUES);
    counts.truncate(MOST_VALUES);
    Facet { field, values: counts.into_iter().map(|(value, count)| FacetValue { value, count }).collect(), more }
}
