//! How much a document may ask for: how deep, and how many fields once its fragments are unfolded.

use std::collections::HashMap;

use async_graphql::Name;
use async_graphql::parser::types::{ExecutableDocument, Selection, SelectionSet};

use super::fault::Fault;

/// The settings of the same names.
#[derive(Clone, Copy, Debug)]
pub struct QueryLimits {
    pub depth: usize,
    pub fields: usize,
}

#[derive(Clone, Copy, Debug, Default)]
struct Weight {
    depth: usize,
    fields: usize,
}

pub(super) fn check(document: &ExecutableDocument, limits: QueryLimits) -> Result<(), Fault> {
    let mut scales = Scales { document, known: HashMap::new(), open: 0, levels: 0 };
    let mut whole = Weight::default();
    for (_name, operation) in document.operations.iter() {
        whole.add(scales.weigh(&operation.node.selection_set.node)?);
    }
    // Those that no operation uses are validated, too.
    for (name, fragment) in &document.fragments {
        if !scales.known.contains_key(name) {
            whole.add(scales.weigh(&fragment.node.selection_set.node)?);
        }
    }
    if whole.depth > limits.depth {
        return Err(Fault::too_large(format!(
            "query: it is {} fields deep, and {} are allowed (the setting hub.query_depth); ask for less at once",
            whole.depth, limits.depth
        )));
    }
    if whole.fields > limits.fields {
        return Err(Fault::too_large(format!(
            "query: it selects more than {} fields (the setting hub.query_fields); ask for less at once",
            limits.fields
        )));
    }
    Ok(())
}

impl Weight {
    fn add(&mut self, other: Weight) {
        self.depth = self.depth.max(other.depth);
        self.fields = self.fields.saturating_add(other.fields);
    }
}

struct Scales<'a> {
    document: &'a ExecutableDocument,
    /// `None` while it is being weighed.
    known: HashMap<Name, Option<Weight>>,
    /// How many fragments are being weighed, one within the other.
    open: usize,
    /// How many selections are, with those without a name.
    levels: usize,
}

/// More fragments within fragments, and selections within selections, could exhaust the stack of whoever walks through them.
const FRAGMENTS: usize = 64;
pub(super) const LEVELS: usize = 256;

impl Scales<'_> {
    fn weigh(&mut self, set: &SelectionSet) -> Result<Weight, Fault> {
        let mut weight = Weight::default();
        if self.levels >= LEVELS {
            return Err(Fault::malformed(format!("query: selections are nested more than {LEVELS} levels deep")));
        }
        self.levels += 1;
        for selection in &set.items {
            weight.add(match &selection.node {
                Selection::Field(field) => {
                    let below = self.weigh(&field.node.selection_set.node)?;
                    Weight { depth: below.depth + 1, fields: below.fields.saturating_add(1) }
                }
                Selection::InlineFragment(fragment) => self.weigh(&fragment.node.selection_set.node)?,
                Selection::FragmentSpread(spread) => self.fragment(&spread.node.fragment_name.node)?,
            });
        }
        self.levels -= 1;
        Ok(weight)
    }

    fn fragment(&mut self, name: &Name) -> Result<Weight, Fault> {
        match self.known.get(name) {
            Some(Some(weight)) => return Ok(*weight),
            Some(None) => return Err(Fault::malformed("query: a fragment spreads itself")),
            None => {}
        }
        // Validation says that there is no such fragment, but only after every way to it has been gone.
        let Some(fragment) = self.document.fragments.get(name) else { return Ok(Weight { depth: 0, fields: 1 }) };
        if self.open >= FRAGMENTS {
            return Err(Fault::malformed(format!(
                "query: fragments spread fragments more than {FRAGMENTS} levels deep"
            )));
        }
        self.known.insert(name.clone(), None);
        self.open += 1;
        let weight = self.weigh(&fragment.node.selection_set.node)?;
        self.open -= 1;
        self.known.insert(name.clone(), Some(weight));
        Ok(weight)
    }
}

#[cfg(test)]
mod tests {
    use async_graphql::parser::parse_query;

    use super::*;

    fn checked(document: &str) -> Result<(), Fault> {
        check(&parse_query(document).unwrap(), QueryLimits { depth: 4, fields: 10 })
    }

    #[test]
    fn depth_and_fields_are_limited_and_the_setting_is_named() {
        let bomb = "{ ...a ...a } fragment a on Q { ...b ...b } fragment b on Q { x { y } z }";
        let table = [
            ("{ a { b { c { d } } } }", ""),
            ("{ a { b { c { d { e } } } } }", "hub.query_depth"),
            ("{ a { ...f } } fragment f on Q { b { c { d { e } } } }", "hub.query_depth"),
            ("{ a { ... on Q { b { c { ... { d { e } } } } } } }", "hub.query_depth"),
            ("{ a: x b: x c: x d: x e: x f: x g: x h: x i: x j: x }", ""),
            ("{ a: x b: x c: x d: x e: x f: x g: x h: x i: x j: x k: x }", "hub.query_fields"),
            (bomb, "hub.query_fields"),
            ("{ a } fragment f on Q { a b c d e f g h i j }", "hub.query_fields"),
            ("{ ...a } fragment a on Q { ...b } fragment b on Q { ...a }", "spreads itself"),
            ("{ ...nothing }", ""),
        ];
        for (document, expected) in table {
            match checked(document) {
                Ok(()) => assert_eq!(expected, "", "{document}"),
                Err(fault) => assert!(!expected.is_empty() && fault.message.contains(expected), "{document}: {fault}"),
            }
        }
    }

    #[test]
    fn a_bomb_of_fragments_is_weighed_and_not_unfolded() {
        let mut document = "{ ...f0 }".to_owned();
        for level in 0..60 {
            document.push_str(&format!(" fragment f{level} on Q {{ ...f{0} ...f{0} }}", level + 1));
        }
        document.push_str(" fragment f60 on Q { x }");
        assert!(checked(&document).unwrap_err().message.contains("hub.query_fields"));
        // Nor where they lead to nothing.
        let document = document.replace(" fragment f60 on Q { x }", "");
        assert!(checked(&document).unwrap_err().message.contains("hub.query_fields"));
        let chain = |length: usize| {
            let links = (0..length).map(|at| format!(" fragment f{at} on Q {{ ...f{} }}", at + 1));
            format!("{{ ...f0 }}{}", links.collect::<Vec<_>>().concat())
        };
        assert_eq!(checked(&chain(60)), Ok(()));
        assert!(checked(&chain(20_000)).unwrap_err().message.contains("fragments spread fragments"));
        let nested = |at: usize| {
            let (open, close) = ("...{".repeat(50), "}".repeat(50));
            format!(" fragment f{at} on Q {{ {open}...f{}{close} }}", at + 1)
        };
        let document = format!("{{ ...f0 }}{}", (0..60).map(nested).collect::<String>());
        assert!(checked(&document).unwrap_err().message.contains("selections are nested"));
    }
}
