//! Conditions as sets of rows. Each is worked out among the rows that are left of those that the caller may see.

use std::collections::HashMap;

use roaring::RoaringBitmap;

use super::posting::{Posting, Union};
use super::prepare::{OF_THE_ROW, field_hash};
use super::rows::{Index, Uid};
use super::visible::Visible;
use super::words::{folded, is_value, words};
use crate::query::{Clause, Field, Pattern};
use crate::status::Status;

/// What is left of the rows, and what could not be looked for.
#[derive(Debug, Default)]
pub(super) struct Filtered {
    pub(super) rows: RoaringBitmap,
    /// Parts of questions that are no words of any body.
    pub(super) unsearched: Vec<String>,
    /// Bodies were searched of which not all words are known.
    pub(super) incomplete: bool,
}

/// A shorter beginning of a word is in too many.
const SHORTEST_PREFIX: usize = 2;

impl Index {
    pub(super) fn filter(&self, clauses: &[Clause], visible: &Visible) -> Filtered {
        let mut filtered = Filtered { rows: visible.rows.clone(), ..Filtered::default() };
        // What is quick and cuts much away comes first; the order does not change the outcome.
        let mut clauses: Vec<&Clause> = clauses.iter().collect();
        clauses
            .sort_by_key(|clause| (clause.negated, matches!(clause.field, Field::Text | Field::Message | Field::Uid)));
        for clause in clauses {
            if matches!(clause.field, Field::Text | Field::Object(_)) {
                filtered.incomplete |= !self.incomplete.is_disjoint(&visible.bodies);
            }
            let mut found = RoaringBitmap::new();
            for pattern in &clause.patterns {
                found |= self.matching(&clause.field, pattern, visible, &filtered.rows, &mut filtered.unsearched);
            }
            if clause.negated {
                filtered.rows -= found;
            } else {
                filtered.rows = found;
            }
        }
        filtered
    }

    /// The rows among `within` that fulfil a condition.
    fn matching(
        &self,
        field: &Field,
        pattern: &Pattern,
        visible: &Visible,
        within: &RoaringBitmap,
        unsearched: &mut Vec<String>,
    ) -> RoaringBitmap {
        match field {
            Field::Cluster => {
                self.of_families(within, |index, family| pattern.matches(index.scopes.text(family.cluster)))
            }
            Field::Group => self.of_families(within, |index, family| pattern.matches(index.scopes.text(family.group))),
            Field::Kind => {
                let small = pattern.map(folded);
                self.of_families(within, |index, family| small.matches(&folded(index.scopes.text(family.kind))))
            }
            Field::Category => {
                let small = pattern.map(folded);
                self.of_families(within, |index, family| small.matches(&folded(index.scopes.text(family.category))))
            }
            Field::Namespace => self.in_namespaces(pattern, within),
            Field::Tenant => self.of_tenants(pattern, within),
            Field::Name => self.names.matching(&self.hashes, pattern, within, &self.name),
            Field::Status => {
                let small = pattern.map(folded);
                let fits = Status::ALL.iter().filter(|status| small.matches(&folded(status.as_str())));
                fits.fold(RoaringBitmap::new(), |rows, status| rows | (&self.by_status[*status as usize] & within))
            }
            Field::Message => self.with_message(pattern, within),
            Field::Uid => match pattern.as_exact().map(Uid::new) {
                Some(uid) => select(within, |slot| self.records[slot as usize].uid == uid),
                None => select(within, |slot| pattern.matches(&self.records[slot as usize].uid.text())),
            },
            Field::Is => match pattern.as_exact() {
                Some("deleted") => &self.deleted & within,
                Some("live") => within - &self.deleted,
                Some("terminating") => &self.terminating & within,
                Some("stale") => self.of_families(within, |index, family| {
                    let text = |id: u32| index.scopes.text(id);
                    index.is_stale(text(family.cluster), text(family.group), text(family.kind))
                }),
                _ => RoaringBitmap::new(),
            },
            Field::Label(key) => self.labels.matching(&self.hashes, key, pattern) & within,
            Field::Object(path) => self.with_field(path, pattern, &(&visible.bodies & within), unsearched),
            Field::Text => self.with_text(pattern, visible, within, unsearched),
        }
    }

    fn of_families(
        &self,
        within: &RoaringBitmap,
        fits: impl Fn(&Index, &super::scopes::FamilyKey) -> bool,
    ) -> RoaringBitmap {
        let families = self.scopes.families().filter(|family| fits(self, &family.key));
        families.fold(RoaringBitmap::new(), |rows, family| rows | (&family.rows & within))
    }

    fn in_namespaces(&self, pattern: &Pattern, within: &RoaringBitmap) -> RoaringBitmap {
        let scopes: Vec<u32> = if let Some(namespace) = pattern.as_exact() {
            let id = self.scopes.texts.find(&self.hashes, namespace);
            id.map(|id| self.scopes.of_namespace(id).to_vec()).unwrap_or_default()
        } else {
            let fits = |(namespace, _): &(u32, &[u32])| pattern.matches(self.scopes.text(*namespace));
            self.scopes.namespaces().filter(fits).flat_map(|(_, scopes)| scopes).copied().collect()
        };
        self.of_scopes(&scopes, within)
    }

    fn of_tenants(&self, pattern: &Pattern, within: &RoaringBitmap) -> RoaringBitmap {
        let nobody = pattern.matches("");
        let fits: Vec<bool> = {
            let mut fits = vec![false; self.scopes.texts.texts.ids_end()];
            for (_, _, tenant) in self.scopes.tenant_ids() {
                fits[tenant as usize] = pattern.matches(self.scopes.text(tenant));
            }
            fits
        };
        let fits = |tenant: Option<u32>| tenant.map_or(nobody, |tenant| fits[tenant as usize]);
        let scopes: Vec<u32> = self.scopes.live().filter(|(_, scope)| fits(scope.tenant)).map(|(id, _)| id).collect();
        self.of_scopes(&scopes, within)
    }

    /// Few rows are put together; of many, each is asked for its scope.
    fn of_scopes(&self, scopes: &[u32], within: &RoaringBitmap) -> RoaringBitmap {
        let rows: u64 = scopes.iter().map(|scope| self.scopes.posting(*scope).len()).sum();
        if rows < within.len() / 4 {
            let mut union = Union::default();
            for scope in scopes {
                union.add(self.scopes.posting(*scope));
            }
            return union.finish() & within;
        }
        let mut wanted = vec![false; self.scopes.end()];
        for scope in scopes {
            wanted[*scope as usize] = true;
        }
        select(within, |slot| wanted[self.scope[slot as usize] as usize])
    }

    /// Without a star: the rows whose messages have all the words. With one: whose messages match as a whole.
    fn with_message(&self, pattern: &Pattern, within: &RoaringBitmap) -> RoaringBitmap {
        let mut known: HashMap<u32, bool> = HashMap::new();
        let mut by_message = |within: &RoaringBitmap, fits: &dyn Fn(&str) -> bool| {
            select(within, |slot| {
                let message = self.message[slot as usize];
                *known.entry(message).or_insert_with(|| fits(self.messages.texts.text(message)))
            })
        };
        match pattern.as_exact() {
            Some("") => by_message(within, &str::is_empty),
            Some(text) => {
                let wanted = all_words(text);
                let mut left = within.clone();
                for word in &wanted.found {
                    let rows = self.terms.word(&self.hashes, word);
                    left = rows.map_or_else(RoaringBitmap::new, |(public, _)| public.and(&left));
                }
                // Hashes and times are no words; in a single message they can be looked for.
                let runs: Vec<String> = wanted.skipped.iter().map(|run| folded(run)).collect();
                by_message(&left, &|message| {
                    wanted.found.iter().all(|word| has_word(message, word))
                        && runs.iter().all(|run| folded(message).contains(run))
                })
            }
            None => {
                let small = pattern.map(folded);
                by_message(within, &|message| small.matches(&folded(message)))
            }
        }
    }

    fn with_field(
        &self,
        path: &str,
        pattern: &Pattern,
        bodies: &RoaringBitmap,
        unsearched: &mut Vec<String>,
    ) -> RoaringBitmap {
        let Some(value) = pattern.as_exact() else { return RoaringBitmap::new() };
        match OF_THE_ROW.iter().position(|of_the_row| *of_the_row == path) {
            Some(0) => return self.names.matching(&self.hashes, pattern, bodies, &self.name),
            Some(_) => return self.in_namespaces(pattern, bodies),
            None => {}
        }
        if !is_value(value) {
            unsearched.push(value.to_owned());
            return RoaringBitmap::new();
        }
        let rows = self.terms.field(field_hash(&self.hashes, path, &folded(value)));
        rows.map_or_else(RoaringBitmap::new, |rows| rows.and(bodies))
    }

    /// The rows that have the text in their name, or all its words anywhere: in a body only for those who may see it.
    fn with_text(
        &self,
        pattern: &Pattern,
        visible: &Visible,
        within: &RoaringBitmap,
        unsearched: &mut Vec<String>,
    ) -> RoaringBitmap {
        let text = folded(pattern.first());
        let named = self.names.holding(&text, within, &self.name);
        let wanted = all_words(&text);
        let too_short = |run: &str| run.len() < 2;
        if wanted.skipped.iter().any(|run| !too_short(run)) {
            unsearched.extend(wanted.skipped.into_iter().filter(|run| !too_short(run)));
            return named;
        }
        let Some((last, others)) = wanted.found.split_last() else { return named };
        let bodies = &visible.bodies & within;
        let mut left = within.clone();
        for word in others {
            left &= self.with_word(word, &left, &bodies);
        }
        let ends_in_word = text.ends_with(last.as_str());
        left &= if pattern.as_prefix().is_some() && ends_in_word {
            if last.len() < SHORTEST_PREFIX {
                return named;
            }
            let (mut public, mut body) = (Union::default(), Union::default());
            for (in_row, in_body) in self.terms.beginning(last) {
                public.add(in_row);
                body.add(in_body);
            }
            (public.finish() & &left) | (body.finish() & &bodies)
        } else {
            self.with_word(last, &left, &bodies)
        };
        named | left
    }

    fn with_word(&self, word: &str, rows: &RoaringBitmap, bodies: &RoaringBitmap) -> RoaringBitmap {
        let found = self.terms.word(&self.hashes, word);
        let and = |posting: &Posting, set: &RoaringBitmap| {
            if posting.is_empty() { RoaringBitmap::new() } else { posting.and(set) }
        };
        found.map_or_else(RoaringBitmap::new, |(public, body)| and(public, rows) | and(body, bodies))
    }
}

struct AllWords {
    found: Vec<String>,
    skipped: Vec<String>,
}

/// The words of a text in small letters, and what looks like a word and is none.
fn all_words(text: &str) -> AllWords {
    let mut all = AllWords { found: Vec::new(), skipped: Vec::new() };
    words(text, |word| all.found.push(folded(word)), |run| all.skipped.push(run.to_owned()));
    all
}

/// Whether a text has a word, which is in small letters.
fn has_word(text: &str, word: &str) -> bool {
    let mut found = false;
    words(
        text,
        |run| found |= if run.is_ascii() { run.eq_ignore_ascii_case(word) } else { folded(run) == word },
        |_| {},
    );
    found
}

/// The rows of a set that fulfil something.
pub(super) fn select(within: &RoaringBitmap, mut fits: impl FnMut(u32) -> bool) -> RoaringBitmap {
    let mut rows = RoaringBitmap::new();
    let _ = rows.append(within.iter().filter(|slot| fits(*slot)));
    rows
}
