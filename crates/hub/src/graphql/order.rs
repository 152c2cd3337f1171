//! Puts the fields of an answer into the order in which they were selected; they come in the order in which they were ready.

use std::collections::{HashMap, HashSet};
use std::mem;

use async_graphql::indexmap::IndexMap;
use async_graphql::parser::types::{FragmentDefinition, Selection, SelectionSet};
use async_graphql::{Name, Positioned, Response, Value};

/// What an operation selects. `limits` has looked at it, so it ends.
pub(super) struct Order {
    selected: SelectionSet,
    fragments: HashMap<Name, Positioned<FragmentDefinition>>,
}

impl Order {
    pub(super) fn of(selected: &SelectionSet, fragments: &HashMap<Name, Positioned<FragmentDefinition>>) -> Order {
        Order { selected: selected.clone(), fragments: fragments.clone() }
    }

    /// A name under which the operation is to answer two fields, which are one by the specification: carried out one by one,
    /// both would be.
    pub(super) fn repeated(&self) -> Option<&Name> {
        self.first_repeated(&self.selected, &mut HashSet::new())
    }

    fn first_repeated<'a>(&'a self, set: &'a SelectionSet, seen: &mut HashSet<&'a Name>) -> Option<&'a Name> {
        // Of those with conditions, one may be left out.
        let mut certain = set.items.iter().filter(|selection| selection.node.directives().is_empty());
        certain.find_map(|selection| match &selection.node {
            Selection::Field(field) if field.node.name.node == "__typename" => None,
            Selection::Field(field) => {
                let name = &field.node.response_key().node;
                (!seen.insert(name)).then_some(name)
            }
            Selection::InlineFragment(fragment) => self.first_repeated(&fragment.node.selection_set.node, seen),
            Selection::FragmentSpread(spread) => {
                let fragment = self.fragments.get(&spread.node.fragment_name.node)?;
                self.first_repeated(&fragment.node.selection_set.node, seen)
            }
        })
    }

    pub(super) fn put(&self, mut response: Response) -> Response {
        self.arrange(&mut response.data, &[&self.selected]);
        response
    }

    fn arrange(&self, value: &mut Value, sets: &[&SelectionSet]) {
        match value {
            Value::List(items) => {
                for item in items {
                    self.arrange(item, sets);
                }
            }
            Value::Object(fields) => {
                let mut selected = IndexMap::new();
                for set in sets {
                    self.collect(set, &mut selected);
                }
                let mut left = mem::take(fields);
                for (name, sets) in selected {
                    if let Some(mut field) = left.swap_remove(name) {
                        if !sets.is_empty() {
                            self.arrange(&mut field, &sets);
                        }
                        fields.insert(name.clone(), field);
                    }
                }
                fields.extend(left);
            }
            _ => {}
        }
    }

    /// The names under which fields are answered, each with what is selected of it, wherever that is said.
    fn collect<'a>(&'a self, set: &'a SelectionSet, selected: &mut IndexMap<&'a Name, Vec<&'a SelectionSet>>) {
        for selection in &set.items {
            match &selection.node {
                Selection::Field(field) => {
                    let sets = selected.entry(&field.node.response_key().node).or_default();
                    if !field.node.selection_set.node.items.is_empty() {
                        sets.push(&field.node.selection_set.node);
                    }
                }
                Selection::InlineFragment(fragment) => self.collect(&fragment.node.selection_set.node, selected),
                Selection::FragmentSpread(spread) => {
                    if let Some(fragment) = self.fragments.get(&spread.node.fragment_name.node) {
                        self.collect(&fragment.node.selection_set.node, selected);
                    }
                }
            }
        }
    }
}
