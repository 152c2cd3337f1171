//! What could stand behind a field, of what the caller sees. Never words of bodies.

use std::collections::HashMap;

use super::rows::Index;
use super::visibility::Visibility;
use crate::query::Field;
use crate::status::Status;

/// A value with how many rows have it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Suggestion {
    pub value: String,
    pub count: u64,
}

/// So many rows or names are looked at: the rows that are seen, or, where those are more, the names that begin so.
const MOST_LOOKED_AT: usize = 100_000;

impl Index {
    /// Values of a field that begin with a text, in their order. `Text` and fields of bodies have none; for a label without a
    /// key, the keys.
    pub fn suggest(&self, field: &Field, beginning: &str, most: usize, visibility: &Visibility) -> Vec<Suggestion> {
        let rows = self.visible(visibility).rows;
        let mut found: Vec<Suggestion> = match field {
            Field::Name if rows.len() <= MOST_LOOKED_AT as u64 => {
                let mut counts: HashMap<u32, u64> = HashMap::new();
                for slot in &rows {
                    *counts.entry(self.name[slot as usize]).or_default() += 1;
                }
                let counted = counts.into_iter().map(|(name, count)| (self.names.texts.text(name), count));
                counted.filter(|(name, _)| name.starts_with(beginning)).map(suggestion).collect()
            }
            // Whoever sees so many rows sees one of the first names, too.
            Field::Name => {
                let names = self.names.texts.beginning(beginning).take(MOST_LOOKED_AT);
                let counted = names.map(|name| (self.names.texts.text(name), self.names.rows(name).count_in(&rows)));
                return counted.filter(|(_, count)| *count > 0).take(most).map(suggestion).collect();
            }
            Field::Label(key) if key.is_empty() => {
                let mut keys: Vec<(&str, u64)> = Vec::new();
                for (key, _, with) in self.labels.beginning(beginning) {
                    // A row has a key once, so that the rows of its values add up.
                    match (keys.last_mut(), with.count_in(&rows)) {
                        (_, 0) => {}
                        (Some((last, count)), more) if *last == key => *count += more,
                        (_, count) => keys.push((key, count)),
                    }
                }
                keys.into_iter().map(suggestion).collect()
            }
            Field::Label(key) => {
                let values = self.labels.counts(key, &rows).into_iter();
                values
                    .filter(|(value, _)| value.starts_with(beginning))
                    .map(|(value, count)| Suggestion { value, count })
                    .collect()
            }
            Field::Status => {
                let counted = Status::ALL
                    .map(|status| (status.as_str(), self.by_status[status as usize].intersection_len(&rows)));
                counted
                    .into_iter()
                    .filter(|(text, count)| *count > 0 && begins(text, beginning))
                    .map(suggestion)
                    .collect()
            }
            Field::Cluster | Field::Namespace | Field::Kind | Field::Group | Field::Tenant | Field::Category => {
                let mut counts: HashMap<u32, u64> = HashMap::new();
                self.count_scopes(&rows, |scope, count| {
                    let (scope, family) = self.scopes.at(scope);
                    let text = match field {
                        Field::Cluster => Some(family.cluster),
                        Field::Kind => Some(family.kind),
                        Field::Group => Some(family.group),
                        Field::Category => Some(family.category),
                        Field::Tenant => scope.tenant,
                        _ => Some(scope.key.namespace),
                    };
                    if let Some(text) = text {
                        *counts.entry(text).or_default() += count;
                    }
                });
                let counted = counts.into_iter().map(|(text, count)| (self.scopes.text(text), count));
                counted.filter(|(text, _)| begins(text, beginning)).map(suggestion).collect()
            }
            Field::Message | Field::Uid | Field::Is | Field::Object(_) | Field::Text => Vec::new(),
        };
        found.sort_unstable_by(|one, other| one.value.cmp(&other.value));
        found.truncate(most);
        found
    }
}

fn suggestion((value, count): (&str, u64)) -> Suggestion {
    Suggestion { value: value.to_owned(), count }
}

/// Kinds and statuses are written with capitals, and typed without.
fn begins(text: &str, beginning: &str) -> bool {
    text.get(..beginning.len()).is_some_and(|start| start.eq_ignore_ascii_case(beginning))
}
