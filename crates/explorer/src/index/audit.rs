//! Recounts everything by brute force, so that tests find a row that was left behind in any structure.

use std::collections::{BTreeSet, HashMap};

use super::prepare::Preparer;
use super::rows::{Index, Slot};
use super::terms::Lists;

impl Index {
    /// The first thing that is not as it should be. It takes as long as building the index anew.
    pub fn audit(&self) -> Result<(), String> {
        self.audit_rows()?;
        self.audit_sets()?;
        self.audit_words()?;
        self.names.check()?;
        self.scopes.check(self.live.iter().map(|slot| self.records[slot as usize].version))
    }

    fn audit_rows(&self) -> Result<(), String> {
        for slot in &self.live {
            let key = self.key(Slot(slot));
            if self.find(&key) != Some(Slot(slot)) {
                return Err(format!("{} is not found by its key", key.id("")));
            }
        }
        let free: BTreeSet<u32> = self.free_slots().iter().copied().collect();
        if free.len() != self.free_slots().len() || free.iter().any(|slot| self.live.contains(*slot)) {
            return Err("a slot is free twice, or free and used".to_owned());
        }
        if free.len() + self.len() != self.slots() {
            return Err("a slot is neither free nor used".to_owned());
        }
        Ok(())
    }

    fn audit_sets(&self) -> Result<(), String> {
        let mut statuses = 0;
        for (status, rows) in self.by_status.iter().enumerate() {
            statuses += rows.len();
            if !rows.is_subset(&self.live) || rows.iter().any(|slot| self.status[slot as usize] as usize != status) {
                return Err("a row is in the set of another status".to_owned());
            }
        }
        let (mut names, mut pairs) = (0, 0);
        for id in self.names.texts.ids() {
            names += self.names.rows(id).len();
        }
        let mut messages: HashMap<u32, u32> = HashMap::new();
        for slot in &self.live {
            let at = slot as usize;
            if !self.names.rows(self.name[at]).contains(slot) || !self.scopes.posting(self.scope[at]).contains(slot) {
                return Err("a row is not among those of its name or its scope".to_owned());
            }
            let record = &self.records[at];
            if record.labels.iter().any(|pair| !self.labels.has(*pair, slot)) {
                return Err("a row is not among those of its labels".to_owned());
            }
            pairs += record.labels.len() as u64;
            *messages.entry(self.message[at]).or_default() += 1;
        }
        if statuses != self.live.len() || names != self.live.len() || pairs != self.labels.check()? {
            return Err("a status, a name or a label has rows that are gone".to_owned());
        }
        let texts = &self.messages.texts;
        if messages.len() != texts.len() || messages.iter().any(|(id, uses)| self.messages.uses(*id) != *uses) {
            return Err("messages are not counted right".to_owned());
        }
        let deleted = |slot: u32| self.records[slot as usize].deleted_at.map(|at| (at, slot));
        let expiring: BTreeSet<(i64, u32)> = self.live.iter().filter_map(deleted).collect();
        if expiring != self.expiring
            || expiring.iter().map(|(_, slot)| *slot).collect::<BTreeSet<_>>() != self.deleted.iter().collect()
        {
            return Err("rows of objects that are gone are not listed right".to_owned());
        }
        let marks = [&self.terminating, &self.incomplete, &self.doubtful];
        if marks.iter().any(|marked| !marked.is_subset(&self.live)) {
            return Err("a row that is gone is still marked".to_owned());
        }
        Ok(())
    }

    fn audit_words(&self) -> Result<(), String> {
        let mut counted = self.terms.recount()?;
        let preparer = Preparer::new(self.hashes.clone());
        for slot in &self.live {
            let held = self.records[slot as usize].held.lists();
            if counted.remove(&slot).unwrap_or_default() != held {
                return Err("the words of a row are not those that lead to it".to_owned());
            }
            // Those of bodies are gone with the bodies; those of the row can be made again.
            let Lists { public, .. } = held;
            let mut public: Vec<&str> = public.iter().map(|word| self.terms.text(*word)).collect();
            let prepared = preparer.prepare(self.row(Slot(slot)));
            let mut expected: Vec<&str> = prepared.public.iter().map(|(_, word)| word).collect();
            public.sort_unstable();
            expected.sort_unstable();
            if public != expected {
                return Err("the words of a row are not those of its texts".to_owned());
            }
        }
        if counted.is_empty() { Ok(()) } else { Err("words lead to a row that is gone".to_owned()) }
    }
}
