//! A server that dies while a client is at work.

use std::fs;

use super::{Workspace, held_by, named, on_every_store, text};

#[test]
fn what_could_not_be_written_is_pushed_when_the_server_is_back() {
    on_every_store(async |place, client| {
        let name = named("failed", client);
        let workspace = Workspace::at(place, client, &name);
        workspace.ok(&["init"]);
        workspace.ok(&["apply", "-auto-approve"]);
        let before = place.state(&name).await;
        let (applying, gate) = workspace.busy("held").await;
        let id = held_by(place, &name).await["ID"].as_str().unwrap().to_owned();
        place.kill();
        fs::write(&gate, "").unwrap();
        let applied = applying.wait_with_output().unwrap();
        assert!(!applied.status.success() && text(&applied).contains("errored.tfstate"), "{}", text(&applied));

        place.start_again();
        assert_eq!(place.state(&name).await, before);
        // The client could not let go of its lock either, and the lock outlived the server.
        workspace.fails(&["state", "push", "errored.tfstate"], &id);
        workspace.ok(&["force-unlock", "-force", &id]);
        workspace.ok(&["state", "push", "errored.tfstate"]);
        assert_eq!(place.state(&name).await["outputs"]["it"]["value"], "held");
        assert!(workspace.ok(&["plan"]).contains("No changes"));
    });
}
