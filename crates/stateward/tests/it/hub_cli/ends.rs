//! What a server that ends leaves behind, and the next one does with it.

use std::path::Path;
use std::time::Duration;

use keys::key_file;
use testbed::process::{Process, scratch};

use super::backend::FileBackend;
use super::desk::Desk;
use crate::run::{Run, stateward};
use crate::server::{PATIENCE, Server, Start};

impl Desk {
    /// At another server on the same data.
    fn again(self, server: Server) -> Desk {
        Desk { server, ..self }
    }
}

/// A limit of calls far beyond the patience of this test: whatever waits for a lease does not come.
fn start(data: Option<&Path>) -> Start {
    let start = data.map_or_else(Start::new, |data| Start::on(data.to_owned()));
    start.variable("STATEWARD_HUB_CALL_TIME", "2m")
}

#[tokio::test]
async fn what_a_killed_server_left_half_done_is_undone_by_the_next_one_at_once() {
    let gate = scratch("never").unwrap().join("gate");
    let held = format!("hub.create.before_commit=hold({})", gate.display());
    let mut desk = Desk::at(start(None).variable("STATEWARD_FAILPOINTS", &held).serve());
    let backend = FileBackend::start();
    backend.register(&desk, "files");
    let record = "typeRef: {path: cap.type.secret, revision: 0.1.0}\nname: half\nbackend: files\nvalue: canary\n";
    let file = desk.file("half.yaml", record);
    let log = scratch("client").unwrap().join("log");
    let _client = Process::spawn("ti create", &mut desk.command(&["ti", "create", "-f", &file]), &log).unwrap();
    testbed::eventually(PATIENCE, || async { backend.has("canary") }).await;
    desk.server.process.kill();
    let data = desk.server.data.clone();
    let desk = desk.again(start(Some(&data)).serve());
    testbed::eventually(PATIENCE, || async { !backend.has("canary") }).await;
    assert_eq!(desk.json(&["ti", "get", "--type", "cap.type.secret"])["items"], serde_json::json!([]));
    // Its name is free.
    desk.create(record);
    assert!(backend.has("canary"));
}

#[tokio::test]
async fn a_rotated_key_wraps_the_data_keys_anew_while_the_server_runs() {
    let mut desk = Desk::new();
    desk.create("typeRef: {path: cap.type.secret, revision: 0.1.0}\nname: kept\nvalue: canary\n");
    let (data, key) = (desk.server.data.clone(), desk.server.data.join("hub.key"));
    // It says on standard error that copies are to be renewed.
    let rotated = Run::of(stateward(&["key", "rotate"]).arg(&key));
    assert_eq!(rotated.code, Some(0), "{rotated:#?}");
    let process = &desk.server.process;
    testbed::eventually(Duration::from_mins(3), || async {
        process.log().contains("are wrapped by the newest version")
    })
    .await;
    assert!(desk.server.process.stop(PATIENCE).unwrap().success());
    // The old version is not needed any more.
    let (text, versions) = (std::fs::read_to_string(&key).unwrap(), key_file::list(&key).unwrap());
    let kept: Vec<&str> = text.lines().filter(|line| !line.starts_with(&versions[0])).collect();
    std::fs::write(&key, kept.join("\n") + "\n").unwrap();
    assert_eq!(key_file::list(&key).unwrap(), versions[1..]);
    let desk = desk.again(Start::on(data).serve());
    assert_eq!(desk.ok(&["ti", "get", "kept", "-o", "jsonpath={.latestResourceVersion.spec.value}"]), "canary\n");
}
