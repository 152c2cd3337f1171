//! Manifests of Implementations and Interfaces, as far as they say something about records.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use super::Fault;
use crate::client::hub::TypeRef;
use crate::document::Document;

/// The manifests that belong to one workflow; the first Implementation is the one that is run.
#[derive(Clone, Debug, Default)]
pub struct Manifests {
    implementations: Vec<Implementation>,
    interfaces: Vec<Interface>,
}

#[derive(Clone, Debug, Deserialize)]
pub struct Implementation {
    #[serde(default)]
    metadata: Metadata,
    #[serde(default)]
    pub spec: Spec,
}

#[derive(Clone, Debug, Deserialize)]
struct Interface {
    #[serde(default)]
    metadata: Metadata,
    #[serde(default)]
    spec: InterfaceSpec,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct Metadata {
    path: Option<String>,
    prefix: Option<String>,
    name: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Spec {
    implements: Vec<Reference>,
    /// By the node that the Types of the requirement belong to.
    pub requires: BTreeMap<String, Requirement>,
    imports: Vec<Import>,
    additional_output: Records,
    output_type_instance_relations: BTreeMap<String, Uses>,
    action: Action,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct InterfaceSpec {
    output: Records,
}

#[derive(Clone, Debug, Deserialize)]
struct Reference {
    path: String,
}

/// What must be there before the workflow can be run.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[expect(clippy::struct_field_names, reason = "the words of the manifest")]
pub struct Requirement {
    pub all_of: Vec<Item>,
    pub any_of: Vec<Item>,
    pub one_of: Vec<Item>,
}

/// One Type of a requirement: `name`, `revision` and `alias` as shipped, or the draft's `typeRef` with all three.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Item {
    name: Option<String>,
    path: Option<String>,
    revision: Option<String>,
    alias: Option<String>,
    type_ref: Option<Box<Item>>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Import {
    interface_group_path: String,
    alias: Option<String>,
    #[serde(default)]
    methods: Vec<Method>,
}

#[derive(Clone, Debug, Deserialize)]
struct Method {
    name: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Records {
    type_instances: BTreeMap<String, Record>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Record {
    type_ref: TypeRef,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Uses {
    uses: Vec<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Action {
    args: Arguments,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Arguments {
    workflow: Value,
}

/// A step of a workflow, as far as it has a meaning here.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct Step {
    pub name: String,
    pub capact_action: Option<String>,
    #[serde(rename = "capact-outputTypeInstances")]
    pub outputs: Vec<StepOutput>,
    #[serde(rename = "capact-updateTypeInstances")]
    pub updates: Vec<StepOutput>,
    arguments: StepArguments,
}

#[derive(Clone, Debug, Deserialize)]
pub struct StepOutput {
    pub name: String,
    pub from: String,
    pub backend: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct StepArguments {
    artifacts: Vec<Artifact>,
}

#[derive(Clone, Debug, Deserialize)]
struct Artifact {
    name: String,
    from: Option<String>,
}

impl Manifests {
    /// Takes one more manifest; other kinds, such as Types, count for nothing.
    pub fn add(&mut self, document: &Document) -> Result<(), Fault> {
        let unreadable = |error: serde_json::Error| Fault::field("manifest", error.to_string());
        let json = document.to_json();
        match document.at(&["kind"]).and_then(Document::as_str) {
            Some("Implementation") => self.implementations.push(serde_json::from_str(&json).map_err(unreadable)?),
            Some("Interface") => self.interfaces.push(serde_json::from_str(&json).map_err(unreadable)?),
            Some(_) => {}
            None => return Err(Fault::field("kind", "it is needed: Implementation or Interface")),
        }
        Ok(())
    }

    pub fn main(&self) -> Option<&Implementation> {
        self.implementations.first()
    }

    /// The Implementation of an action that a step names, if its manifest is there.
    pub fn action(&self, implementation: &Implementation, action: &str) -> Option<&Implementation> {
        let path = implementation.spec.interface_path(action);
        let implements = |known: &&Implementation| known.spec.implements.iter().any(|reference| reference.path == path);
        self.implementations.iter().find(implements)
    }

    /// The Type of a record that an Implementation puts out.
    pub fn output_type<'a>(&'a self, implementation: &'a Implementation, name: &str) -> Option<&'a TypeRef> {
        let implemented = |interface: &&Interface| {
            let path = interface.metadata.path();
            implementation.spec.implements.iter().any(|reference| reference.path == path)
        };
        let of_interface =
            || self.interfaces.iter().filter(implemented).find_map(|one| one.spec.output.type_instances.get(name));
        let found = implementation.spec.additional_output.type_instances.get(name).or_else(of_interface);
        found.map(|record| &record.type_ref)
    }
}

impl Implementation {
    pub fn path(&self) -> String {
        self.metadata.path()
    }
}

impl Metadata {
    fn path(&self) -> String {
        match (&self.path, &self.prefix, &self.name) {
            (Some(path), ..) => path.clone(),
            (None, Some(prefix), Some(name)) => format!("{prefix}.{name}"),
            (None, _, name) => name.clone().unwrap_or_default(),
        }
    }
}

impl Spec {
    /// `alias.method` of an import, or a path as it is.
    fn interface_path(&self, action: &str) -> String {
        let (alias, method) = action.rsplit_once('.').unwrap_or(("", action));
        let imported = |import: &&Import| {
            let called = import.alias.as_deref().or_else(|| import.interface_group_path.rsplit('.').next());
            called == Some(alias)
                && (import.methods.is_empty() || import.methods.iter().any(|known| known.name == method))
        };
        match self.imports.iter().find(imported) {
            Some(import) => format!("{}.{method}", import.interface_group_path),
            None => action.to_owned(),
        }
    }

    /// Which output uses which output or input.
    pub fn relations(&self) -> impl Iterator<Item = (&str, &str)> {
        let relations = self.output_type_instance_relations.iter();
        relations.flat_map(|(name, uses)| uses.uses.iter().map(|used| (name.as_str(), used.as_str())))
    }

    /// The steps of all templates, in order, whether they are lists of steps or tasks of a graph.
    pub fn steps(&self) -> Result<Vec<Step>, Fault> {
        let mut steps = Vec::new();
        for template in self.action.args.workflow["templates"].as_array().into_iter().flatten() {
            let in_groups = template["steps"].as_array().into_iter().flatten();
            // A group may be written without its list.
            let in_groups = in_groups
                .flat_map(|group| group.as_array().map_or_else(|| vec![group], |group| group.iter().collect()));
            let in_graph = template["dag"]["tasks"].as_array().into_iter().flatten();
            for step in in_groups.chain(in_graph) {
                let read = Step::deserialize(step).map_err(|error| {
                    let name = step["name"].as_str().unwrap_or("without a name");
                    Fault::field(format!("step {name}"), error.to_string())
                })?;
                steps.push(read);
            }
        }
        Ok(steps)
    }
}

impl Item {
    /// The path of the Type, from a name under the node or from a whole path.
    pub fn path(&self, node: &str) -> String {
        let item = self.type_ref.as_deref().unwrap_or(self);
        let name = item.path.as_deref().or(item.name.as_deref()).unwrap_or_default();
        if name.starts_with("cap.") { name.to_owned() } else { format!("{node}.{name}") }
    }

    pub fn revision(&self) -> Option<&str> {
        self.type_ref.as_deref().and_then(|item| item.revision.as_deref()).or(self.revision.as_deref())
    }

    pub fn alias(&self) -> Option<&str> {
        self.type_ref.as_deref().and_then(|item| item.alias.as_deref()).or(self.alias.as_deref())
    }
}

impl Step {
    /// What goes into an action under a name: an expression of the workflow.
    pub fn argument(&self, name: &str) -> Option<&str> {
        self.arguments
            .artifacts
            .iter()
            .find(|artifact| artifact.name == name)
            .and_then(|artifact| artifact.from.as_deref())
    }
}
