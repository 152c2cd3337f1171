//! `stateward audit` on the log of a real server.

use std::fs;
use std::path::Path;
use std::process::Output;

use crate::run::stateward;
use crate::server::{PATIENCE, Server, Start, status};

fn verify(data: &Path) -> (i32, String) {
    let Output { status, stdout, .. } =
        stateward(&["audit", "verify", "--data-dir"]).arg(data).output().expect("run audit verify");
    (status.code().expect("an exit code"), String::from_utf8(stdout).unwrap())
}

/// A server that did some things and was then stopped in good order.
async fn history() -> Server {
    let mut server = Start::new().serve();
    let token = server.first_token();
    for round in 0..5 {
        for method in ["GET", "POST", "LOCK", "UNLOCK"] {
            let request = server.request(method, &format!("/probe/a/round-{round}")).bearer_auth(&token);
            assert_eq!(status(request).await, 200);
        }
        assert_eq!(status(server.request("GET", "/probe/a/b").bearer_auth("nonsense")).await, 401);
    }
    assert_eq!(verify(&server.data).0, 0, "also while the server runs");
    server.process.stop(PATIENCE).unwrap();
    assert_eq!(verify(&server.data).0, 0);
    server
}

#[tokio::test]
async fn every_change_to_any_line_is_found() {
    let server = history().await;
    let file = server.data.join("audit/audit.log");
    let whole = fs::read_to_string(&file).unwrap();
    let lines: Vec<&str> = whole.lines().collect();
    assert!(lines.len() > 40, "{whole}");
    let mut changes: Vec<(String, Vec<String>)> = Vec::new();
    let copy = || lines.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>();
    let places = [0, 1, lines.len() / 2, lines.len() - 2, lines.len() - 1];
    for at in places {
        let mut edited = copy();
        edited[at] = edited[at].replacen("\"time\":\"20", "\"time\":\"19", 1);
        changes.push((format!("edit {at}"), edited));
        let mut removed = copy();
        removed.remove(at);
        changes.push((format!("remove {at}"), removed));
        let mut repeated = copy();
        repeated.insert(at, lines[at].to_owned());
        changes.push((format!("repeat {at}"), repeated));
        if at + 1 < lines.len() {
            let mut swapped = copy();
            swapped.swap(at, at + 1);
            changes.push((format!("swap {at}"), swapped));
        }
        if at > 0 {
            changes.push((format!("cut off from {at}"), copy()[..at].to_vec()));
        }
    }
    let mut added = copy();
    added.push("{\"kind\":\"act\",\"user\":\"mallory\"}".to_owned());
    changes.push(("a line behind the last one".to_owned(), added));
    for (what, changed) in changes {
        fs::write(&file, changed.join("\n") + "\n").unwrap();
        let (code, text) = verify(&server.data);
        assert_eq!(code, 7, "{what}: {text}");
        assert!(text.contains("tampered: audit.log"), "{what}: {text}");
    }
    // A server does not start on such a log, until somebody has accepted it.
    let mut refused = Start::on(server.data.clone()).spawn();
    assert!(!refused.wait(PATIENCE).unwrap().success());
    assert!(refused.log().contains("audit"), "{}", refused.log());
    assert!(stateward(&["audit", "accept", "--data-dir"]).arg(&server.data).status().unwrap().success());
    let (code, text) = verify(&server.data);
    assert_eq!(code, 0, "{text}");
    assert!(text.contains("a new segment"), "{text}");
    Start::on(server.data.clone()).serve();
}

#[tokio::test]
async fn the_last_answered_change_is_missed_also_after_a_kill_in_the_same_moment() {
    for changes in [1, 20] {
        let mut server = Start::new().serve();
        let token = server.first_token();
        for _ in 0..changes {
            assert_eq!(status(server.request("POST", "/probe/a/b").bearer_auth(&token)).await, 200);
        }
        server.process.kill();
        let (code, text) = verify(&server.data);
        assert_eq!(code, 0, "a kill is no tampering: {text}");
        let file = server.data.join("audit/audit.log");
        let whole = fs::read_to_string(&file).unwrap();
        let lines: Vec<&str> = whole.lines().collect();
        let act = lines.iter().rposition(|line| line.contains("\"kind\":\"act\"")).expect("a line of the last change");
        fs::write(&file, lines[..act].join("\n") + "\n").unwrap();
        let (code, text) = verify(&server.data);
        assert_eq!(code, 7, "{text}");
    }
}

#[tokio::test]
async fn a_log_that_was_taken_away_whole_is_missed() {
    for with_key in [false, true] {
        let server = history().await;
        fs::remove_dir_all(server.data.join("audit")).unwrap();
        if with_key {
            fs::remove_file(server.data.join("audit.key")).unwrap();
        }
        let (code, text) = verify(&server.data);
        assert_eq!(code, 7, "{text}");
        let mut refused = Start::on(server.data.clone()).spawn();
        assert!(!refused.wait(PATIENCE).unwrap().success());
        assert!(refused.log().contains("that is not in the data directory"), "{}", refused.log());
        assert_eq!(verify(&server.data).0, 7, "a refused start hides nothing");
        assert!(stateward(&["audit", "accept", "--data-dir"]).arg(&server.data).status().unwrap().success());
        assert_eq!(verify(&server.data).0, 0);
        Start::on(server.data.clone()).serve();
    }
}

fn forget(data: &Path) {
    for file in ["stateward.db", "stateward.db-wal", "stateward.db-shm"] {
        let _ = fs::remove_file(data.join(file));
    }
}

#[tokio::test]
async fn a_log_whose_database_is_gone_is_not_taken_for_whole() {
    let server = history().await;
    forget(&server.data);
    let file = server.data.join("audit/audit.log");
    let whole = fs::read_to_string(&file).unwrap();
    let kept: Vec<&str> = whole.lines().collect();
    for kept in [&kept[..], &kept[..kept.len() - 4], &kept[..2]] {
        fs::write(&file, kept.join("\n") + "\n").unwrap();
        let (code, text) = verify(&server.data);
        assert_eq!(code, 7, "{text}");
        assert!(text.contains("the database does not know this log"), "{text}");
        assert!(!server.data.join("stateward.db").exists(), "a check makes no database");
        let mut refused = Start::on(server.data.clone()).spawn();
        assert!(!refused.wait(PATIENCE).unwrap().success());
        assert_eq!(verify(&server.data).0, 7, "a refused start hides nothing");
        forget(&server.data);
    }
    assert!(stateward(&["audit", "accept", "--data-dir"]).arg(&server.data).status().unwrap().success());
    assert_eq!(verify(&server.data).0, 0);
    Start::on(server.data.clone()).serve();
}

#[tokio::test]
async fn a_check_leaves_an_older_database_as_it_is() {
    let mut server = Start::new().serve();
    server.process.stop(PATIENCE).unwrap();
    let path = server.data.join("stateward.db");
    let config = || db::Config::sqlite(&path);
    let change = |sql: &'static str| async move {
        let db = db::Db::open(config()).await.unwrap();
        db.write(move |tx| tx.execute(sql, &[])).await.unwrap();
        db.close().await;
    };
    // As if an earlier version had left it.
    change("DELETE FROM stateward_migrations WHERE set_name = 'access'").await;
    let before = fs::read(&path).unwrap();
    assert_eq!(verify(&server.data).0, 0);
    assert_eq!(fs::read(&path).unwrap(), before);
}

#[tokio::test]
async fn a_log_that_was_taken_away_is_missed_with_any_database() {
    let postgres = testbed::Postgres::start().expect("PostgreSQL");
    let database = postgres.create_database().expect("a database");
    let sqlite = testbed::process::scratch("elsewhere").unwrap().join("elsewhere.db");
    for url in [format!("sqlite:{}", sqlite.display()), postgres.url(&database)] {
        let with_url = |arguments: &[&str], data: &Path| {
            let mut command = stateward(arguments);
            command.arg("--data-dir").arg(data).env("STATEWARD_DATABASE_URL", &url);
            command.output().unwrap()
        };
        let code = |data: &Path| with_url(&["audit", "verify"], data).status.code();
        let start = |start: Start| start.variable("STATEWARD_DATABASE_URL", &url);
        // Several servers with a log each share the database.
        let mut servers: Vec<Server> = (0..2).map(|_| start(Start::new()).serve()).collect();
        for server in &mut servers {
            server.process.stop(PATIENCE).unwrap();
            assert_eq!(code(&server.data), Some(0));
        }
        let data = &servers[0].data;
        fs::remove_dir_all(data.join("audit")).unwrap();
        assert_eq!(code(data), Some(7));
        let mut refused = start(Start::on(data.clone())).spawn();
        assert!(!refused.wait(PATIENCE).unwrap().success());
        assert!(refused.log().contains("that is not in the data directory"), "{}", refused.log());
        assert_eq!(code(data), Some(7), "a refused start hides nothing");
        assert_eq!(code(&servers[1].data), Some(0));
        assert!(with_url(&["audit", "accept"], data).status.success());
        assert_eq!(code(data), Some(0));
        for server in &servers {
            start(Start::on(server.data.clone())).serve();
        }
        // With everything in the data directory that names it: the database knows where it was.
        for everything in [false, true] {
            let data = &servers[usize::from(everything)].data;
            let name = fs::read_to_string(data.join("audit/audit.instance")).unwrap();
            if everything {
                fs::remove_dir_all(data).unwrap();
            } else {
                fs::remove_dir_all(data.join("audit")).unwrap();
                fs::remove_file(data.join("audit.instance")).unwrap();
            }
            for _ in 0..2 {
                let missed = with_url(&["audit", "verify"], data);
                let text = String::from_utf8(missed.stderr).unwrap();
                assert!(missed.status.code() == Some(7) && text.contains(name.trim()), "{text}");
                let mut refused = start(Start::on(data.clone())).spawn();
                assert!(!refused.wait(PATIENCE).unwrap().success());
                assert!(refused.log().contains(name.trim()), "{}", refused.log());
            }
            assert!(with_url(&["audit", "accept"], data).status.success());
            assert_eq!(code(data), Some(0));
            start(Start::on(data.clone())).serve();
        }
        start(Start::new()).serve();
        assert_eq!(code(Path::new("/nowhere")), Some(3), "a place where no log ever was");
        if url.starts_with("postgres") {
            postgres.kill();
            let unknown = with_url(&["audit", "verify", "--database-deadline", "2s"], data);
            assert_eq!(unknown.status.code(), Some(6), "{unknown:?}");
        }
    }
}

#[tokio::test]
async fn a_torn_last_line_is_told_apart_from_tampering() {
    let server = history().await;
    let file = server.data.join("audit/audit.log");
    let mut torn = fs::read(&file).unwrap();
    torn.extend(br#"{"n":999,"time":"2026-"#);
    fs::write(&file, torn).unwrap();
    let (code, text) = verify(&server.data);
    assert_eq!(code, 0, "{text}");
    assert!(text.contains("half written at the end, as a crash leaves them"), "{text}");
    drop(Start::on(server.data.clone()).serve());
    let (code, text) = verify(&server.data);
    assert_eq!(code, 0, "{text}");
    assert!(text.contains("half-written bytes were cut off here"), "{text}");
}

#[tokio::test]
async fn rotation_and_expiry_leave_checkpoints() {
    let limits = |start: Start| start.flag("--audit-rotate-bytes", "4KiB").flag("--audit-keep", "2s");
    let server = limits(Start::new()).serve();
    let token = server.first_token();
    let client = server.client();
    let expired = || async {
        for _ in 0..20 {
            let request = server.request_by(&client, "POST", "/probe/a/b").bearer_auth(&token);
            assert_eq!(status(request).await, 200);
        }
        verify(&server.data).1.contains("expired, covered by a checkpoint")
    };
    testbed::eventually(PATIENCE, expired).await;
    let mut server = server;
    server.process.stop(PATIENCE).unwrap();
    let (code, text) = verify(&server.data);
    assert_eq!(code, 0, "{text}");
    // A file that goes without a checkpoint is another thing. A server at rest has none that is about to go.
    let rotated = fs::read_dir(server.data.join("audit")).unwrap().flatten().map(|entry| entry.path());
    let mut rotated: Vec<_> = rotated.filter(|path| path.to_string_lossy().contains("/audit-0")).collect();
    rotated.sort();
    fs::remove_file(rotated.last().expect("a file that was rotated away")).unwrap();
    let (code, text) = verify(&server.data);
    assert_eq!(code, 7, "{text}");
}

#[tokio::test]
async fn tail_shows_the_newest_lines() {
    let server = history().await;
    let Output { status, stdout, .. } =
        stateward(&["audit", "tail", "--lines", "3", "--data-dir"]).arg(&server.data).output().unwrap();
    assert!(status.success());
    let text = String::from_utf8(stdout).unwrap();
    let whole = fs::read_to_string(server.data.join("audit/audit.log")).unwrap();
    let expected: Vec<&str> = whole.lines().rev().take(3).collect();
    assert_eq!(text.lines().rev().collect::<Vec<_>>(), expected);
    let nowhere = stateward(&["audit", "verify", "--data-dir", "/nowhere"]).output().unwrap();
    assert_eq!(nowhere.status.code(), Some(3));
}
