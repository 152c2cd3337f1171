//! States that move in, on to another store, and out again, by the client's own means.

use std::fs;
use std::path::Path;

use serde_json::Value;

use super::{Workspace, http, named, on_every_store};
use crate::places::{Place, STORES};

#[test]
fn a_state_moves_in_on_to_another_store_and_out_again() {
    on_every_store(async |place, client| {
        let name = named("moving", client);
        let workspace = Workspace::local(client);
        workspace.ok(&["init"]);
        workspace.ok(&["apply", "-auto-approve"]);
        let first = in_file(&workspace.directory.join("terraform.tfstate"));
        let is_the_same = |state: &Value| {
            // The lineage does not go along: clients begin a new one where there was no state.
            for field in ["outputs", "resources"] {
                assert_eq!(state[field], first[field], "{field}");
            }
        };

        move_to(&workspace, &backend(place, &name));
        is_the_same(&place.state(&name).await);
        let index = STORES.iter().position(|&store| store == place.kept).unwrap();
        let other = Place::new(STORES[(index + 1) % STORES.len()]).await;
        move_to(&workspace, &backend(&other, &name));
        is_the_same(&other.state(&name).await);

        // What is where it was before stays behind, and is not written any more.
        let left = place.state(&name).await;
        workspace.configure("two", "");
        workspace.ok(&["apply", "-auto-approve"]);
        assert_eq!(other.state(&name).await["outputs"]["it"]["value"], "two");
        assert_eq!(place.state(&name).await, left);

        move_to(&workspace, "");
        let last = in_file(&workspace.directory.join("terraform.tfstate"));
        assert_eq!(last["outputs"]["it"]["value"], "two");
    });
}

fn backend(place: &Place, name: &str) -> String {
    format!("backend \"http\" {{\n{}}}", http(&place.server, &place.token, &place.path(name)))
}

/// The state goes along, and there is nothing to do afterwards.
fn move_to(workspace: &Workspace, backend: &str) {
    workspace.keep_in(backend);
    workspace.ok(&["init", "-migrate-state", "-force-copy"]);
    assert!(workspace.ok(&["plan"]).contains("No changes"));
}

fn in_file(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).expect("a state")
}
