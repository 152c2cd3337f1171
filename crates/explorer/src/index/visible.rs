//! Which rows a caller may see, as sets: the first thing that every answer does.

use roaring::RoaringBitmap;

use super::posting::Union;
use super::rows::Index;
use super::scopes::Family;
use super::visibility::{Grants, Scope, View, Visibility};

/// What a caller may see, for as long as the index does not change.
#[derive(Debug, Default)]
pub(super) struct Visible {
    pub(super) rows: RoaringBitmap,
    /// Those of the rows whose bodies are seen too.
    pub(super) bodies: RoaringBitmap,
}

impl Index {
    pub(super) fn visible(&self, visibility: &Visibility) -> Visible {
        let (mut rows, mut bodies) = (Union::default(), Union::default());
        let (mut all_rows, mut all_bodies) = (true, true);
        for family in self.scopes.families() {
            match visibility.of(self.scopes.text(family.key.cluster)) {
                None | Some(View::Withheld(_)) => (all_rows, all_bodies) = (false, false),
                Some(View::Everything) => {
                    rows.add_later(&family.rows);
                    bodies.add_later(&family.rows);
                }
                Some(View::Granted { rows: granted, bodies: with_body }) => {
                    all_rows &= self.add(&self.scope_of(&**granted, family), family, &mut rows);
                    all_bodies &= self.add(&self.scope_of(&**with_body, family), family, &mut bodies);
                }
            }
        }
        // All is known as a set already: whoever may see everything does not wait for it to be put together.
        let rows = if all_rows { self.live.clone() } else { rows.finish() };
        let bodies = if all_bodies { self.live.clone() } else { bodies.finish() };
        // Who may get a thing that they may not list sees its body no more than its row.
        let bodies = bodies & &rows;
        Visible { rows, bodies }
    }

    fn scope_of(&self, grants: &dyn Grants, family: &Family) -> Scope {
        grants.scope(self.scopes.text(family.key.group), self.scopes.text(family.key.resource))
    }

    /// Adds the rows of a family that a scope covers; the same as [`Scope::covers`] for each of them. Tells whether it was all
    /// of them without a look.
    fn add<'a>(&'a self, scope: &Scope, family: &'a Family, rows: &mut Union<'a>) -> bool {
        if scope.everywhere {
            rows.add_later(&family.rows);
            return true;
        }
        // Whichever is shorter: what is granted, or what there is.
        if scope.namespaces.len() < family.scopes.len() {
            for namespace in scope.namespaces.iter().filter(|namespace| !namespace.is_empty()) {
                let id = self.scopes.texts.find(&self.hashes, namespace);
                if let Some(found) = id.and_then(|id| family.scopes.get(&(id, false))) {
                    rows.add(self.scopes.posting(*found));
                }
            }
        } else {
            for ((namespace, orphaned), found) in &family.scopes {
                let namespace = self.scopes.text(*namespace);
                if !orphaned && !namespace.is_empty() && scope.namespaces.contains(namespace) {
                    rows.add(self.scopes.posting(*found));
                }
            }
        }
        for (namespace, name) in &scope.names {
            let Some(name) = self.names.find(&self.hashes, name) else { continue };
            let named = self.names.rows(name);
            match namespace {
                None => rows.add_bitmap(&named.and(&family.rows)),
                Some(namespace) if namespace.is_empty() => {}
                Some(namespace) => {
                    let id = self.scopes.texts.find(&self.hashes, namespace);
                    if let Some(found) = id.and_then(|id| family.scopes.get(&(id, false))) {
                        let within = self.scopes.posting(*found);
                        named.for_each(|slot| {
                            if within.contains(slot) {
                                rows.add_slot(slot);
                            }
                        });
                    }
                }
            }
        }
        false
    }
}
