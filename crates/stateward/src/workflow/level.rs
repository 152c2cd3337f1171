//! The steps of one Implementation, and of the actions within them.

use std::collections::BTreeMap;

use super::manifest::{Implementation, Manifests, Step, StepOutput};
use super::requires::{self, Injected};
use super::{Fault, Output, Run};
use crate::client::hub::{Backend, TypeRef};

/// What one Implementation does, in its own names.
#[derive(Clone, Debug, Default)]
pub struct Level {
    pub outputs: Vec<Output>,
    pub relations: Vec<(End, End)>,
    pub updates: Vec<Update>,
    /// Backends by alias.
    pub storage: BTreeMap<String, String>,
}

/// One end of a relation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    Output(String),
    Input(String),
}

/// A record that goes in and is changed.
#[derive(Clone, Debug)]
pub struct Update {
    pub name: String,
    pub step: String,
    pub from: String,
}

/// Goes through Implementations, one within the other.
#[derive(Debug)]
pub struct Walk<'a> {
    manifests: &'a Manifests,
    known: &'a [Backend],
    run: &'a Run,
    /// The Implementations that are being walked through.
    open: Vec<String>,
}

impl<'a> Walk<'a> {
    pub fn new(manifests: &'a Manifests, known: &'a [Backend], run: &'a Run) -> Walk<'a> {
        Walk { manifests, known, run, open: Vec::new() }
    }

    pub fn level(&mut self, implementation: &Implementation) -> Result<Level, Fault> {
        let path = implementation.path();
        if self.open.contains(&path) {
            return Err(Fault::field("capact-action", format!("{path} runs itself")));
        }
        self.open.push(path);
        let spec = &implementation.spec;
        let aliases = requires::resolve(spec, self.known, self.run)?;
        let mut level = Level::default();
        for (alias, injected) in &aliases {
            if let Injected::Storage(id) = injected {
                level.storage.insert(alias.clone(), id.clone());
            }
        }
        let steps = spec.steps()?;
        for step in &steps {
            let inner = match &step.capact_action {
                Some(action) => {
                    self.manifests.action(implementation, action).map(|inner| self.level(inner)).transpose()?
                }
                None => None,
            };
            let mut inner = inner.unwrap_or_default();
            let mut renamed = BTreeMap::new();
            for output in &step.outputs {
                let within = inner.outputs.iter().position(|within| within.name == output.from);
                let within = within.map(|index| inner.outputs.remove(index));
                let type_ref = self.manifests.output_type(implementation, &output.name).cloned();
                renamed.insert(output.from.clone(), output.name.clone());
                level.add(put_out(step, output, within.as_ref(), type_ref, &aliases)?)?;
            }
            // What an action puts out and nobody here names is kept all the same.
            for mut output in std::mem::take(&mut inner.outputs) {
                let name = format!("{}-{}", step.name, output.name);
                renamed.insert(std::mem::replace(&mut output.name, name.clone()), name);
                level.add(output)?;
            }
            level.take_in(step, &steps, inner, &renamed);
        }
        let is_output = |name: &str| level.outputs.iter().any(|output| output.name == name);
        let end = |name: &str| if is_output(name) { End::Output(name.to_owned()) } else { End::Input(name.to_owned()) };
        let own: Vec<(End, End)> = spec.relations().map(|(from, to)| (end(from), end(to))).collect();
        level.relations.extend(own);
        self.open.pop();
        Ok(level)
    }
}

impl Level {
    /// The branches of a condition may put out the same record, if it is the same.
    fn add(&mut self, output: Output) -> Result<(), Fault> {
        let Some(known) = self.outputs.iter().find(|known| known.name == output.name) else {
            self.outputs.push(output);
            return Ok(());
        };
        if (&known.type_ref, &known.backend) == (&output.type_ref, &output.backend) {
            return Ok(());
        }
        let fault = format!("the steps {} and {} put it out with different Types or backends", known.step, output.step);
        Err(Fault::field(format!("capact-outputTypeInstances \"{}\"", output.name), fault))
    }

    /// Takes over what an action does, in the names that things have here.
    fn take_in(&mut self, step: &Step, steps: &[Step], inner: Level, renamed: &BTreeMap<String, String>) {
        let here = |end: End| match end {
            End::Output(name) => End::Output(renamed.get(&name).cloned().unwrap_or(name)),
            End::Input(name) => argument(step, steps, &name),
        };
        self.relations.extend(inner.relations.into_iter().map(|(from, to)| (here(from), here(to))));
        let updates = step.updates.iter().map(|update| Update {
            name: update.name.clone(),
            step: step.name.clone(),
            from: update.from.clone(),
        });
        self.updates.extend(updates);
        self.updates.extend(inner.updates.into_iter().map(|update| match argument(step, steps, &update.name) {
            End::Input(name) | End::Output(name) => Update { name, ..update },
        }));
    }
}

/// A record that a step puts out: what an action within says of it, unless this step says more.
fn put_out(
    step: &Step,
    output: &StepOutput,
    within: Option<&Output>,
    type_ref: Option<TypeRef>,
    aliases: &BTreeMap<String, Injected>,
) -> Result<Output, Fault> {
    let field = || format!("capact-outputTypeInstances \"{}\" of step {}", output.name, step.name);
    let nested = within.and_then(|within| within.alias.clone());
    if let (Some(here), Some(there)) = (&output.backend, &nested)
        && here != there
    {
        let fault =
            format!("backend is \"{here}\" here and \"{there}\" in the action {}: name it once", within_name(step));
        return Err(Fault::field(field(), fault));
    }
    let own = output.backend.as_ref().map(|alias| match aliases.get(alias) {
        Some(Injected::Storage(id)) => Ok(id.clone()),
        Some(Injected::Other) => Err(Fault::NotStorage(alias.clone())),
        None => Err(Fault::UnknownAlias(alias.clone())),
    });
    let backend = own.transpose()?.or_else(|| within.and_then(|within| within.backend.clone()));
    let type_ref = type_ref.or_else(|| within.map(|within| within.type_ref.clone())).ok_or_else(|| {
        let fault = "its Type is not known: add it to spec.additionalOutput.typeInstances, or give the Interface or the \
                     Implementation of the action with another -f";
        Fault::field(field(), fault)
    })?;
    Ok(Output {
        name: output.name.clone(),
        type_ref,
        step: step.name.clone(),
        from: output.from.clone(),
        alias: output.backend.clone().or(nested),
        backend,
    })
}

fn within_name(step: &Step) -> &str {
    step.capact_action.as_deref().unwrap_or_default()
}

/// What an input of an action is here: an output of another step, or an input of our own.
fn argument(step: &Step, steps: &[Step], name: &str) -> End {
    let expression = step.argument(name).map(|from| from.trim_matches(|letter: char| "{} ".contains(letter)));
    let Some(expression) = expression else { return End::Input(name.to_owned()) };
    let parts: Vec<&str> = expression.split('.').collect();
    match parts[..] {
        ["steps" | "tasks", of, "outputs", "artifacts", artifact] => {
            let maker = steps.iter().find(|step| step.name == of);
            let output = maker.and_then(|maker| maker.outputs.iter().find(|output| output.from == artifact));
            output.map_or_else(|| End::Input(name.to_owned()), |output| End::Output(output.name.clone()))
        }
        ["inputs", "artifacts", own] => End::Input(own.to_owned()),
        _ => End::Input(name.to_owned()),
    }
}
