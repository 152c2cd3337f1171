//! Two clients at the same state.

use std::fs;

use super::{Workspace, held_by, named, on_every_store, text};
use crate::server::{answer, status};

#[test]
fn of_two_applies_one_waits_or_fails_with_the_real_holder() {
    on_every_store(async |place, client| {
        let name = named("locked", client);
        let holder = Workspace::at(place, client, &name);
        let other = Workspace::at(place, client, &name);
        holder.ok(&["init"]);
        other.ok(&["init"]);
        let (mut applying, gate) = holder.busy("held").await;

        let info = held_by(place, &name).await;
        assert_eq!(info["Operation"], "OperationTypeApply");
        let id = info["ID"].as_str().unwrap();
        other.fails(&["apply", "-auto-approve"], id);
        let waiting = other.spawn(&["apply", "-auto-approve", "-lock-timeout=300s"]);
        fs::write(&gate, "").unwrap();
        assert!(applying.wait().unwrap().success());
        let waited = waiting.wait_with_output().unwrap();
        assert!(waited.status.success(), "{}", text(&waited));
        assert_eq!(place.state(&name).await["outputs"]["it"]["value"], "one", "the later one won");
    });
}

#[test]
fn a_broken_lock_is_free_and_its_holder_cannot_write_any_more() {
    on_every_store(async |place, client| {
        let name = named("forced", client);
        let path = place.path(&name);
        let workspace = Workspace::at(place, client, &name);
        workspace.ok(&["init"]);
        workspace.ok(&["apply", "-auto-approve"]);
        let info = r#"{"ID":"00000000-0000-0000-0000-00000000000a","Operation":"stuck","Who":"gone@host"}"#;
        let lock = place.server.request("LOCK", &path).bearer_auth(&place.token).body(info);
        assert_eq!(status(lock).await, 200);
        workspace.fails(&["plan"], "00000000-0000-0000-0000-00000000000a");
        workspace.ok(&["force-unlock", "-force", "00000000-0000-0000-0000-00000000000a"]);
        workspace.ok(&["plan"]);
        let late = format!("{path}?ID=00000000-0000-0000-0000-00000000000a");
        let late = place.server.request("POST", &late).bearer_auth(&place.token).body("{}");
        let (status, body) = answer(late).await;
        assert_eq!(status, 423, "{body}");
        assert!(body.contains("\"ID\""), "{body}");
        workspace.configure("after", "");
        workspace.ok(&["apply", "-auto-approve"]);
    });
}
