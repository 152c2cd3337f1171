//! What a workflow puts out and where it is kept. Pure: manifests and the known storage backends go in, payloads come out.
//!
//! The door is [`Plan::of`]. [`manifest`] reads Implementations and Interfaces, [`requires`] finds the backends that a workflow asks for,
//! [`level`] walks through the steps of one Implementation and the actions within it, [`payload`] writes what the steps
//! upload, update and download. The Argo manifest itself is data: only what begins with `capact-` has a meaning here.

mod level;
pub mod manifest;
mod payload;
mod requires;

use std::collections::BTreeMap;

use crate::client::hub::{Backend, TypeRef};
use level::{End, Level, Walk};
use manifest::Manifests;

/// Why a workflow cannot be run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The words of the original.
    #[error("cannot find backend storage for specified \"{0}\" alias")]
    UnknownAlias(String),
    #[error("TypeInstance with \"{0}\" alias is not a Hub storage")]
    NotStorage(String),
    #[error("the workflow cannot be run: {place}: no storage backend of Type {types} is registered")]
    NoBackend { place: String, types: String },
    #[error("{field}: {fault}")]
    Field { field: String, fault: String },
}

/// What whoever runs the workflow says about it.
#[derive(Clone, Debug, Default)]
pub struct Run {
    /// Ids of the records that go in, by the names that the manifests have for them.
    pub inputs: BTreeMap<String, String>,
    /// Backends that were chosen, by alias: an id or a name.
    pub backends: BTreeMap<String, String>,
    /// Who creates and changes records; in the original the namespace, name and uid of an Action.
    pub created_by: Option<String>,
    /// Who holds the locks of the records that are changed.
    pub owner: Option<String>,
    /// Where downloaded records go.
    pub download_dir: String,
}

/// What a workflow does to records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    pub outputs: Vec<Output>,
    /// Pairs of an alias or id that uses another one.
    pub relations: Vec<(String, String)>,
    pub updates: Vec<Update>,
    /// Records that go into the workflow, by name: inputs, and backends by their aliases.
    pub downloads: BTreeMap<String, String>,
}

/// A record that the workflow creates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    pub name: String,
    pub type_ref: TypeRef,
    /// The step and its artifact that the record is made of.
    pub step: String,
    pub from: String,
    /// Which alias the workflow names, if any, and which backend that is; without one the hub chooses.
    pub alias: Option<String>,
    pub backend: Option<String>,
}

/// A record that the workflow changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Update {
    pub name: String,
    pub id: String,
    pub step: String,
    pub from: String,
}

impl Fault {
    fn field(field: impl Into<String>, fault: impl Into<String>) -> Fault {
        Fault::Field { field: field.into(), fault: fault.into() }
    }
}

impl Plan {
    /// Works out what the first Implementation of the manifests does.
    pub fn of(manifests: &Manifests, known: &[Backend], run: &Run) -> Result<Plan, Fault> {
        let main = manifests.main().ok_or_else(|| Fault::field("kind", "there is no manifest of an Implementation"))?;
        let mut walk = Walk::new(manifests, known, run);
        let Level { outputs, relations, updates, storage } = walk.level(main)?;
        let id_of = |name: &str, field: &str| {
            run.inputs.get(name).cloned().ok_or_else(|| {
                let fault =
                    format!("\"{name}\" is neither put out nor known; give its id with --type-instance {name}=ID");
                Fault::field(field, fault)
            })
        };
        let resolved = |end: &End| match end {
            End::Output(name) => Ok(name.clone()),
            End::Input(name) => id_of(name, "spec.outputTypeInstanceRelations"),
        };
        let mut pairs: Vec<(String, String)> = Vec::new();
        for (from, to) in &relations {
            let pair = (resolved(from)?, resolved(to)?);
            if !pairs.contains(&pair) {
                pairs.push(pair);
            }
        }
        let mut changed: Vec<Update> = Vec::new();
        for level::Update { name, step, from } in updates {
            let id = id_of(&name, "capact-updateTypeInstances")?;
            if !changed.iter().any(|known| known.id == id) {
                changed.push(Update { name, id, step, from });
            }
        }
        let mut downloads = run.inputs.clone();
        downloads.extend(storage);
        Ok(Plan { outputs, relations: pairs, updates: changed, downloads })
    }
}

#[cfg(test)]
mod tests;
