//! The outputs of a state, as a state without resources: what `terraform_remote_state` reads.
//!
//! The door is [`outputs`]. Values are copied token by token, so numbers and escapes stay as they were. Two passes:
//! whether an output is sensitive stands behind its value.

use std::collections::HashSet;
use std::io::{self, BufWriter, Write};

use super::super::scan::Container;
use super::walk::{Leaf, Step, Visit, walk};
use super::{Source, Unreadable};

/// What happens to outputs that are marked as sensitive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sensitive {
    Shown,
    /// As if they were not there.
    LeftOut,
}

/// Writes the outputs document of a state.
pub fn outputs(source: &mut Source<'_>, sensitive: Sensitive, out: &mut dyn Write) -> Result<(), Unreadable> {
    let mut marked = Marked::default();
    walk(source, &mut marked)?;
    let hidden = match sensitive {
        Sensitive::Shown => HashSet::new(),
        Sensitive::LeftOut => marked.sensitive,
    };
    let mut copy = Copy::new(hidden, BufWriter::new(out));
    copy.write(b"{");
    walk(source, &mut copy)?;
    copy.finish().map_err(Unreadable::Output)
}

/// Whether `path` names an output.
pub(super) fn is_output(path: &[Step]) -> bool {
    path.len() == 2 && path[0].is("outputs")
}

/// Whether the output that `path` lies in must be hidden for what stands there: anything but `false` or nothing. In
/// doubt it must: Go matches names whatever their case, and takes the last of several.
pub(super) fn marks_sensitive(path: &[Step], leaf: Option<Leaf<'_>>) -> bool {
    path.len() == 3
        && path[0].is("outputs")
        && path[2].key().eq_ignore_ascii_case("sensitive")
        && !leaf.is_some_and(|leaf| matches!(leaf.raw().as_str(), "false" | "null"))
}

/// The numbers of the outputs that are marked as sensitive.
#[derive(Default)]
struct Marked {
    sensitive: HashSet<usize>,
}

impl Visit for Marked {
    fn open(&mut self, path: &[Step], _container: Container) {
        if marks_sensitive(path, None) {
            self.sensitive.insert(path[1].index);
        }
    }

    fn leaf(&mut self, path: &[Step], leaf: Leaf<'_>) {
        if marks_sensitive(path, Some(leaf)) {
            self.sensitive.insert(path[1].index);
        }
    }
}

/// What an outputs document takes over beside the outputs.
const HEADER: [&str; 4] = ["version", "terraform_version", "serial", "lineage"];

struct Copy<W: Write> {
    hidden: HashSet<usize>,
    out: W,
    /// What stands in the document so far needs a comma behind it.
    members: usize,
    copying: bool,
    copied: usize,
    failure: Option<io::Error>,
}

impl<W: Write> Copy<W> {
    fn new(hidden: HashSet<usize>, out: W) -> Copy<W> {
        Copy { hidden, out, members: 0, copying: false, copied: 0, failure: None }
    }

    fn write(&mut self, bytes: &[u8]) {
        if self.failure.is_none()
            && let Err(error) = self.out.write_all(bytes)
        {
            self.failure = Some(error);
        }
    }

    /// Begins a member of the document or of `outputs`.
    fn name(&mut self, before: usize, key: &str) {
        if before > 0 {
            self.write(b",");
        }
        let name = serde_json::Value::from(key).to_string();
        self.write(name.as_bytes());
        self.write(b":");
    }

    fn finish(mut self) -> io::Result<()> {
        if self.copied == 0 {
            self.name(self.members, "outputs");
            self.write(b"{}");
            self.members += 1;
        }
        self.name(self.members, "resources");
        self.write(b"[]}\n");
        self.failure.map_or_else(|| self.out.flush(), Err)
    }
}

impl<W: Write> Visit for Copy<W> {
    fn open(&mut self, path: &[Step], _container: Container) {
        if is_output(path) && !self.hidden.contains(&path[1].index) {
            if self.copied == 0 {
                self.name(self.members, "outputs");
                self.write(b"{");
                self.members += 1;
            }
            self.name(self.copied, &path[1].key());
            self.copied += 1;
            self.copying = true;
        }
    }

    fn close(&mut self, path: &[Step]) {
        if is_output(path) {
            self.copying = false;
        }
        if let [step] = path
            && step.is("outputs")
            && self.copied > 0
        {
            self.write(b"}");
        }
    }

    fn token(&mut self, bytes: &[u8]) {
        if self.copying {
            self.write(bytes);
        }
    }

    fn leaf(&mut self, path: &[Step], leaf: Leaf<'_>) {
        if let [step] = path
            && let Some(key) = HEADER.iter().find(|key| step.is(key))
            && let Some(raw) = leaf.whole()
        {
            self.name(self.members, key);
            self.write(raw.as_bytes());
            self.members += 1;
        }
    }
}
