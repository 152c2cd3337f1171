//! Key files by `stateward key`, and named keys as `serve` meets them.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use serde_json::{Value, json};
use testbed::Cluster;

use crate::run::{Run, stateward};
use crate::server::{PATIENCE, Start};

fn scratch() -> PathBuf {
    testbed::process::scratch("key").unwrap()
}

fn key(arguments: &[&str], file: &std::path::Path) -> Run {
    Run::of(stateward(&["key"]).args(arguments).arg(file))
}

/// The keys themselves: what no output may hold.
fn values(file: &std::path::Path) -> Vec<String> {
    let text = fs::read_to_string(file).unwrap();
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines.map(|line| line.split_once(' ').unwrap().1.to_owned()).collect()
}

#[test]
fn a_key_is_made_rotated_and_listed_and_never_shown() {
    let file = scratch().join("main.key");
    let made = key(&["new"], &file);
    assert!(made.code == Some(0) && made.err.contains("keep a copy"), "{made:#?}");
    let first = made.out.trim().to_owned();
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let rotated = key(&["rotate"], &file);
    assert_eq!(rotated.code, Some(0), "{rotated:#?}");
    let second = rotated.out.trim().to_owned();
    assert!(first.starts_with("v1-") && second.starts_with("v2-"), "{first} {second}");

    let table = key(&["show"], &file).ok();
    let rows: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows, [vec!["VERSION", "STATE"], vec![&first, "-"], vec![&second, "newest"]]);
    let listed: Value = serde_json::from_str(&key(&["show", "-o", "json"], &file).ok()).unwrap();
    let expected = json!([{ "version": first, "newest": false }, { "version": second, "newest": true }]);
    assert_eq!(listed, expected);

    let values = values(&file);
    assert!(values.len() == 2 && values.iter().all(|value| value.len() == 44));
    let again = key(&["new"], &file);
    for run in [made, rotated, again, key(&["show", "-o", "yaml"], &file)] {
        assert!(values.iter().all(|value| !run.out.contains(value) && !run.err.contains(value)), "{run:#?}");
    }
}

#[test]
fn what_cannot_be_done_with_a_key_file_has_its_code_and_a_hint() {
    let directory = scratch();
    let file = directory.join("main.key");
    key(&["rotate"], &file).fails(3, "failed to find");
    key(&["show"], &file).fails(3, "failed to read");
    key(&["new"], &directory.join("nowhere/main.key")).fails(3, "failed to create");
    assert_eq!(key(&["new"], &file).code, Some(0));
    let before = fs::read(&file).unwrap();
    key(&["new"], &file).fails(5, "failed to create");
    assert_eq!(fs::read(&file).unwrap(), before);
    fs::write(directory.join("main.key.draft"), "").unwrap();
    let busy = key(&["rotate"], &file);
    busy.fails(5, "somebody else");
    assert!(busy.err.contains("main.key.draft"), "{busy:#?}");
    fs::write(directory.join("bad.key"), "v1 canary\n").unwrap();
    let bad = key(&["show"], &directory.join("bad.key"));
    bad.fails(1, "line 1");
    assert!(!bad.err.contains("canary"), "{bad:#?}");
}

#[test]
fn serve_starts_with_keys_and_names_the_one_that_cannot_be_used() {
    let file = scratch().join("main.key");
    assert_eq!(key(&["new"], &file).code, Some(0));
    let with_key = || Start::new().flag("--keys-files", format!("main={}", file.display()));
    let server = with_key().flag("--states-encryption-key", "main").serve();
    assert!(server.process.log().contains("the key is there"), "{}", server.process.log());
    let value = values(&file).remove(0);
    assert!(!server.process.log().contains(&value));
    drop(server);

    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    let mut refused = with_key().spawn();
    assert_eq!(refused.wait(PATIENCE).unwrap().code(), Some(1));
    assert!(refused.log().contains("the key 'main' cannot be used") && refused.log().contains("chmod 0600"));
    with_key().switch("--keys-shared-files").serve();

    let mut alone = Start::new().flag("--keys-secrets", "main=team-a/key").spawn();
    assert_eq!(alone.wait(PATIENCE).unwrap().code(), Some(2));
    assert!(alone.log().contains("needs a cluster"), "{}", alone.log());
    // Out of reach is no reason to stay down.
    fs::remove_file(&file).unwrap();
    let server = with_key().serve();
    assert!(server.process.log().contains("a key is out of reach"), "{}", server.process.log());
}

#[tokio::test]
async fn serve_takes_a_key_from_a_secret_of_the_cluster() {
    let cluster = Cluster::shared().await;
    let namespace = cluster.namespace("keys").await;
    let start = || {
        let user = cluster.user("keys-server", &["system:masters"]);
        Start::new().cluster(user.kubeconfig()).flag("--keys-secrets", format!("main={namespace}/stateward-key"))
    };
    let mut refused = start().spawn();
    assert_eq!(refused.wait(PATIENCE).unwrap().code(), Some(1));
    assert!(refused.log().contains("stateward-key is not there"), "{}", refused.log());
    // As docs/keys.md has it.
    let value = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
    let secret = ["create", "secret", "generic", "stateward-key", "-n", &namespace];
    let made = cluster.kubectl(secret.into_iter().chain([format!("--from-literal=v1={value}").as_str()])).await;
    assert!(made.status.success(), "{made:?}");
    let server = start().serve();
    let log = server.process.log();
    assert!(log.contains("the key is there") && log.contains("v1") && !log.contains(value), "{log}");
}
