//! The draft of delegated storage selects `backend` as a leaf, the id; the schema that was shipped has an object there.

use async_graphql::parser::types::{ExecutableDocument, DocumentOperations, Selection, SelectionSet};
use async_graphql::{Name, Positioned};

/// A leaf `backend` becomes `backend: backendID`.
pub(super) fn leaves(document: &mut ExecutableDocument) {
    match &mut document.operations {
        DocumentOperations::Single(operation) => rewrite(&mut operation.node.selection_set.node),
        DocumentOperations::Multiple(operations) => {
            operations.values_mut().for_each(|operation| rewrite(&mut operation.node.selection_set.node));
        }
    }
    document.fragments.values_mut().for_each(|fragment| rewrite(&mut fragment.node.selection_set.node));
}

fn rewrite(set: &mut SelectionSet) {
    for selection in &mut set.items {
        match &mut selection.node {
            Selection::Field(field) => {
                let field = &mut field.node;
                if field.name.node == "backend" && field.selection_set.node.items.is_empty() {
                    let place = field.name.pos;
                    let shown = std::mem::replace(&mut field.name, Positioned::new(Name::new("backendID"), place));
                    field.alias.get_or_insert(shown);
                }
                rewrite(&mut field.selection_set.node);
            }
            Selection::InlineFragment(fragment) => rewrite(&mut fragment.node.selection_set.node),
            Selection::FragmentSpread(_) => {}
        }
    }
}
