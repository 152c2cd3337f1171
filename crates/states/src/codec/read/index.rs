//! The instances of all resources of a state, in their order, with addresses as Terraform prints them.
//!
//! The door is [`Index`]. The parts of an address may stand behind the instances (another program may have sorted the
//! keys), so the instances of one resource wait for its end.

use aws_lc_rs::digest::{Context, SHA256};

use super::super::scan::Container;
use super::walk::{Leaf, Step, Visit};

/// One instance of a resource.
#[derive(Clone, Debug, Default)]
pub(super) struct Instance {
    pub(super) address: String,
    pub(super) kind: String,
    pub(super) provider: String,
    pub(super) id: Option<String>,
    /// Of all its tokens.
    pub(super) fingerprint: Fingerprint,
    /// Its number in the list of resources and in that of instances.
    pub(super) at: (usize, usize),
}

/// Enough of a SHA-256 to tell values apart.
pub(super) type Fingerprint = [u8; 16];

pub(super) fn fingerprint(hash: Context) -> Fingerprint {
    let mut short = [0; 16];
    short.copy_from_slice(&hash.finish().as_ref()[..16]);
    short
}

/// Hands each instance to `found`.
pub(super) struct Index<F> {
    found: F,
    module: String,
    mode: String,
    kind: String,
    name: String,
    provider: String,
    instances: Vec<Part>,
    part: Part,
    hash: Option<Context>,
}

/// What an instance says itself.
#[derive(Default)]
struct Part {
    key: Option<String>,
    deposed: Option<String>,
    id: Option<String>,
    fingerprint: Fingerprint,
    index: usize,
}

impl<F: FnMut(Instance)> Index<F> {
    pub(super) fn new(found: F) -> Index<F> {
        Index {
            found,
            module: String::new(),
            mode: String::new(),
            kind: String::new(),
            name: String::new(),
            provider: String::new(),
            instances: Vec::new(),
            part: Part::default(),
            hash: None,
        }
    }

    fn resource_ended(&mut self, number: usize) {
        let module = if self.module.is_empty() { String::new() } else { format!("{}.", self.module) };
        let data = if self.mode == "data" { "data." } else { "" };
        let address = format!("{module}{data}{}.{}", self.kind, self.name);
        for part in std::mem::take(&mut self.instances) {
            let key = part.key.map(|key| format!("[{key}]")).unwrap_or_default();
            let deposed = part.deposed.map(|deposed| format!(" (deposed {deposed})")).unwrap_or_default();
            (self.found)(Instance {
                address: format!("{address}{key}{deposed}"),
                kind: self.kind.clone(),
                provider: provider_source(&self.provider),
                id: part.id,
                fingerprint: part.fingerprint,
                at: (number, part.index),
            });
        }
        for text in [&mut self.module, &mut self.mode, &mut self.kind, &mut self.name, &mut self.provider] {
            text.clear();
        }
    }
}

/// `registry.terraform.io/hashicorp/aws` of `provider["registry.terraform.io/hashicorp/aws"].alias`, with the alias.
fn provider_source(provider: &str) -> String {
    provider.strip_prefix("provider[\"").map_or_else(|| provider.to_owned(), |rest| rest.replacen("\"]", "", 1))
}

/// Whether `path` begins with an instance; its own members lie below.
pub(super) fn in_instance(path: &[Step]) -> bool {
    path.len() >= 4 && path[0].is("resources") && path[2].is("instances")
}

impl<F: FnMut(Instance)> Visit for Index<F> {
    fn open(&mut self, path: &[Step], _container: Container) {
        if path.len() == 4 && in_instance(path) {
            self.part = Part { index: path[3].index, ..Part::default() };
            self.hash = Some(Context::new(&SHA256));
        }
    }

    fn token(&mut self, bytes: &[u8]) {
        if let Some(hash) = &mut self.hash {
            hash.update(bytes);
        }
    }

    fn leaf(&mut self, path: &[Step], leaf: Leaf<'_>) {
        if path.first().is_none_or(|step| !step.is("resources")) {
            return;
        }
        let text = || leaf.string().unwrap_or_default();
        match path {
            [_, _, field] if field.is("module") => self.module = text(),
            [_, _, field] if field.is("mode") => self.mode = text(),
            [_, _, field] if field.is("type") => self.kind = text(),
            [_, _, field] if field.is("name") => self.name = text(),
            [_, _, field] if field.is("provider") => self.provider = text(),
            [_, _, _, _, field] if field.is("index_key") && leaf.raw() != "null" => self.part.key = Some(leaf.raw()),
            [_, _, _, _, field] if field.is("deposed") => self.part.deposed = leaf.string(),
            [_, _, _, _, attributes, field] if attributes.is("attributes") && field.is("id") => {
                self.part.id = leaf.string().or_else(|| Some(leaf.raw()).filter(|raw| raw != "null"));
            }
            _ => {}
        }
    }

    fn close(&mut self, path: &[Step]) {
        if path.len() == 4 && in_instance(path) {
            if let Some(hash) = self.hash.take() {
                self.part.fingerprint = fingerprint(hash);
            }
            self.instances.push(std::mem::take(&mut self.part));
        }
        if let [list, resource] = path
            && list.is("resources")
        {
            self.resource_ended(resource.index);
        }
    }
}
