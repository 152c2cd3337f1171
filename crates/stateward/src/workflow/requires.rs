//! Which storage backends a workflow asks for, and which there are.

use std::collections::BTreeMap;

use super::manifest::{Item, Spec};
use super::{Fault, Run};
use crate::client::hub::Backend;

/// The node that storage backends are attached to, as it was shipped and as the draft has it.
const STORAGE: [&str; 2] = ["cap.core.type.hub.storage", "cap.core.hub.storage"];

/// What an alias of a requirement stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Injected {
    /// The id of a backend.
    Storage(String),
    Other,
}

/// The aliases of an Implementation. A requirement for storage that nothing meets is a fault; others are not the hub's to judge.
pub fn resolve(spec: &Spec, known: &[Backend], run: &Run) -> Result<BTreeMap<String, Injected>, Fault> {
    let mut aliases = BTreeMap::new();
    for (node, requirement) in &spec.requires {
        let is_storage = STORAGE.contains(&node.as_str());
        let place = |list: &str| format!("spec.requires.{node}.{list}");
        let found = |item: &Item| find(item, node, known, run);
        let is_met = |items: &[Item]| items.is_empty() || items.iter().any(|item| found(item).is_some());
        if is_storage {
            if let Some(missing) = requirement.all_of.iter().find(|item| found(item).is_none()) {
                return Err(Fault::NoBackend { place: place("allOf"), types: missing.path(node) });
            }
            for (list, items) in [("anyOf", &requirement.any_of), ("oneOf", &requirement.one_of)] {
                if !is_met(items) {
                    let types: Vec<String> = items.iter().map(|item| item.path(node)).collect();
                    return Err(Fault::NoBackend { place: place(list), types: types.join(" or ") });
                }
            }
        }
        // Of oneOf the first that is there counts, and the others do not.
        let one = requirement.one_of.iter().find(|item| found(item).is_some());
        let one: Vec<&Item> = if is_storage { one.into_iter().collect() } else { requirement.one_of.iter().collect() };
        for item in requirement.all_of.iter().chain(&requirement.any_of).chain(one) {
            let Some(alias) = item.alias() else { continue };
            match found(item) {
                Some(backend) => aliases.insert(alias.to_owned(), Injected::Storage(backend.id.clone())),
                None if is_storage => continue,
                None => aliases.insert(alias.to_owned(), Injected::Other),
            };
        }
    }
    Ok(aliases)
}

/// The backend that an item means: the one that was chosen for its alias; else one of its Type, of the same revision where there is one,
/// then the default one, then the oldest.
fn find<'a>(item: &Item, node: &str, known: &'a [Backend], run: &Run) -> Option<&'a Backend> {
    let path = item.path(node);
    let of_type = known.iter().filter(|backend| backend.type_ref.path == path);
    if let Some(chosen) = item.alias().and_then(|alias| run.backends.get(alias)) {
        return of_type.into_iter().find(|backend| backend.is_called(chosen));
    }
    let same_revision =
        |backend: &Backend| item.revision().is_none_or(|revision| backend.type_ref.revision == revision);
    of_type.min_by_key(|backend| (!same_revision(backend), !backend.is_default, backend.age()))
}
