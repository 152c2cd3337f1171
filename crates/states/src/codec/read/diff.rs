//! What changed between two states: addresses, output names and attribute paths, and never the value of an attribute.
//!
//! The door is [`diff`]. A first pass over each state fingerprints its instances; a second one looks into those that
//! differ. Paths are kept for as many of them as a fixed memory holds; the others are named as changed all the same.
//! Only an output that neither state marks as sensitive shows its values, which takes one pass more.

use std::collections::{BTreeMap, HashMap, HashSet};

use aws_lc_rs::digest::{Context, SHA256};

use super::super::scan::Container;
use super::index::{Fingerprint, Index, Instance, fingerprint, in_instance};
use super::outputs::{Sensitive, is_output, marks_sensitive};
use super::values::{Output, Value, collect};
use super::walk::{Leaf, Step, Visit, walk};
use super::{Source, Unreadable};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Diff {
    /// By address.
    pub resources: Vec<ResourceChange>,
    /// By name.
    pub outputs: Vec<OutputChange>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    Added,
    Changed,
    Removed,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceChange {
    pub address: String,
    pub change: Change,
    /// What changed inside, such as `attributes.tags.Name`; `None` if it was added or removed whole, or if so much
    /// changed that paths are no longer collected.
    pub paths: Option<Vec<String>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputChange {
    pub name: String,
    pub change: Change,
    /// In one of the two states at least.
    pub sensitive: bool,
    /// Its value in the older state, if it has one that may be shown.
    pub before: Value,
    /// Its value in the newer state, if it has one that may be shown.
    pub after: Value,
}

/// How many values of changed instances are compared one by one: some 30 MB of paths.
const MOST_VALUES: usize = 200_000;

/// Compares two states.
pub fn diff(older: &mut Source<'_>, newer: &mut Source<'_>) -> Result<Diff, Unreadable> {
    let (before, after) = (Summary::of(older)?, Summary::of(newer)?);
    let changed: Vec<(&String, &Instance, &Instance)> = before
        .instances
        .iter()
        .filter_map(|(address, old)| after.instances.get(address).map(|new| (address, old, new)))
        .filter(|(_, old, new)| (old.fingerprint, &old.provider) != (new.fingerprint, &new.provider))
        .collect();
    let wanted_before = changed.iter().map(|(_, old, _)| old.at);
    let wanted_after = changed.iter().map(|(_, _, new)| new.at);
    let values_before = Values::of(older, wanted_before)?;
    let values_after = Values::of(newer, wanted_after)?;

    let mut resources = Vec::new();
    for (address, old, new) in changed {
        let mut paths = compare(values_before.found(old.at), values_after.found(new.at));
        if let Some(paths) = &mut paths
            && old.provider != new.provider
        {
            paths.push("provider".to_owned());
        }
        // Only the order of keys, or the way something is written, differs.
        if paths.as_ref().is_none_or(|paths| !paths.is_empty()) {
            resources.push(ResourceChange { address: address.clone(), change: Change::Changed, paths });
        }
    }
    for (one, other, change) in [(&before, &after, Change::Removed), (&after, &before, Change::Added)] {
        let missing = one.instances.keys().filter(|address| !other.instances.contains_key(*address));
        resources.extend(missing.map(|address| ResourceChange { address: address.clone(), change, paths: None }));
    }
    resources.sort_by(|one, other| one.address.cmp(&other.address));
    let mut outputs = compare_outputs(&before, &after);
    show(&mut outputs, older, |output| &mut output.before)?;
    show(&mut outputs, newer, |output| &mut output.after)?;
    // The second state may mark what the first one does not.
    for output in outputs.iter_mut().filter(|output| output.sensitive) {
        (output.before, output.after) = (Value::Hidden, Value::Hidden);
    }
    Ok(Diff { resources, outputs })
}

/// Fills in the values of one side, as far as they may be shown.
fn show(
    outputs: &mut [OutputChange],
    source: &mut Source<'_>,
    side: impl Fn(&mut OutputChange) -> &mut Value,
) -> Result<(), Unreadable> {
    if outputs.iter().all(|output| output.sensitive) {
        return Ok(());
    }
    let open: HashSet<String> =
        outputs.iter().filter(|output| !output.sensitive).map(|output| output.name.clone()).collect();
    let found = collect(source, Sensitive::LeftOut, |name| open.contains(name))?;
    let mut found: HashMap<String, Output> = found.into_iter().map(|output| (output.name.clone(), output)).collect();
    for output in outputs {
        if let Some(Output { value, sensitive, .. }) = found.remove(&output.name) {
            output.sensitive |= sensitive;
            *side(output) = value;
        }
    }
    Ok(())
}

fn compare_outputs(before: &Summary, after: &Summary) -> Vec<OutputChange> {
    let mut outputs = Vec::new();
    let names: std::collections::BTreeSet<&String> = before.outputs.keys().chain(after.outputs.keys()).collect();
    for name in names {
        let (old, new) = (before.outputs.get(name), after.outputs.get(name));
        let change = match (old, new) {
            (Some(old), Some(new)) if old == new => continue,
            (Some(_), Some(_)) => Change::Changed,
            (Some(_), None) => Change::Removed,
            (None, _) => Change::Added,
        };
        let sensitive = [old, new].into_iter().flatten().any(|output| output.sensitive);
        let (before, after) = (Value::Hidden, Value::Hidden);
        outputs.push(OutputChange { name: name.clone(), change, sensitive, before, after });
    }
    outputs
}

fn compare(before: Option<&Paths>, after: Option<&Paths>) -> Option<Vec<String>> {
    let (before, after) = (before?, after?);
    let mut paths: Vec<String> = before
        .iter()
        .filter(|(path, value)| after.get(*path) != Some(value))
        .map(|(path, _)| path)
        .chain(after.keys().filter(|path| !before.contains_key(*path)))
        .cloned()
        .collect();
    paths.sort();
    Some(paths)
}

/// What the first pass keeps of a state.
#[derive(Default)]
struct Summary {
    instances: BTreeMap<String, Instance>,
    outputs: BTreeMap<String, Seen>,
}

#[derive(Default, PartialEq, Eq)]
struct Seen {
    value: Fingerprint,
    sensitive: bool,
}

impl Summary {
    fn of(source: &mut Source<'_>) -> Result<Summary, Unreadable> {
        let mut instances = BTreeMap::new();
        let index = Index::new(|instance: Instance| {
            instances.insert(instance.address.clone(), instance);
        });
        let mut both = Both { index, outputs: BTreeMap::new(), hash: None, sensitive: false };
        walk(source, &mut both)?;
        let outputs = both.outputs;
        Ok(Summary { instances, outputs })
    }
}

struct Both<F> {
    index: Index<F>,
    outputs: BTreeMap<String, Seen>,
    hash: Option<Context>,
    sensitive: bool,
}

impl<F: FnMut(Instance)> Visit for Both<F> {
    fn open(&mut self, path: &[Step], container: Container) {
        if is_output(path) {
            self.hash = Some(Context::new(&SHA256));
            self.sensitive = false;
        }
        self.sensitive |= marks_sensitive(path, None);
        self.index.open(path, container);
    }

    fn close(&mut self, path: &[Step]) {
        if is_output(path)
            && let Some(hash) = self.hash.take()
        {
            let output = Seen { value: fingerprint(hash), sensitive: self.sensitive };
            self.outputs.insert(path[1].key(), output);
        }
        self.index.close(path);
    }

    fn token(&mut self, bytes: &[u8]) {
        if let Some(hash) = &mut self.hash {
            hash.update(bytes);
        }
        self.index.token(bytes);
    }

    fn leaf(&mut self, path: &[Step], leaf: Leaf<'_>) {
        self.sensitive |= marks_sensitive(path, Some(leaf));
        self.index.leaf(path, leaf);
    }
}

type Paths = HashMap<String, Fingerprint>;

/// The values of chosen instances, as fingerprints by path.
struct Values {
    wanted: HashMap<(usize, usize), Option<Paths>>,
    room: usize,
    hash: Context,
}

impl Values {
    fn of(source: &mut Source<'_>, wanted: impl Iterator<Item = (usize, usize)>) -> Result<Values, Unreadable> {
        let wanted: HashMap<_, _> = wanted.map(|at| (at, Some(Paths::new()))).collect();
        let mut values = Values { wanted, room: MOST_VALUES, hash: Context::new(&SHA256) };
        if !values.wanted.is_empty() {
            walk(source, &mut values)?;
        }
        Ok(values)
    }

    fn found(&self, at: (usize, usize)) -> Option<&Paths> {
        self.wanted.get(&at)?.as_ref()
    }

    fn keep(&mut self, path: &[Step], value: Fingerprint) {
        let Some(slot) = self.wanted.get_mut(&(path[1].index, path[3].index)) else { return };
        let Some(paths) = slot else { return };
        if self.room == 0 {
            *slot = None;
            return;
        }
        self.room -= 1;
        let mut name = String::new();
        path[4..].iter().for_each(|step| step.append_to(&mut name));
        paths.insert(name, value);
    }
}

impl Visit for Values {
    fn open(&mut self, path: &[Step], container: Container) {
        if path.len() > 4 && in_instance(path) {
            self.keep(path, [container as u8; 16]);
        }
    }

    fn piece(&mut self, path: &[Step], bytes: &[u8]) {
        if in_instance(path) {
            self.hash.update(bytes);
        }
    }

    fn leaf(&mut self, path: &[Step], _leaf: Leaf<'_>) {
        if in_instance(path) {
            let hash = std::mem::replace(&mut self.hash, Context::new(&SHA256));
            self.keep(path, fingerprint(hash));
        }
    }
}
