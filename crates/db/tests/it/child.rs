//! The part of a test that runs in a process which is killed, crashed or traced.
//!
//! The test executable runs itself again with `--exact child::child` and its orders in the environment; without orders
//! that test returns at once. The child says on stdout what it has done, one line each, and ends when nobody reads or
//! its parent is gone.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::time::Duration;

use db::{Config, Db, Engine, Error, Migrations, Synchronous, params};

use crate::place::{PAIRS, Place};

/// What the child is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Write rows from several tasks until it is killed; `ack NAME` after each commit.
    Write,
    /// Write this many rows one after the other.
    WriteInTurn,
    /// The same, without syncing.
    WriteInTurnUnsynced,
    /// Apply [`STEPS`].
    Migrate,
    /// Copy the database beside itself.
    Backup,
    /// Write one row.
    WriteOne,
}

const ROLES: [Role; 6] =
    [Role::Write, Role::WriteInTurn, Role::WriteInTurnUnsynced, Role::Migrate, Role::Backup, Role::WriteOne];

/// How many rows [`Role::WriteInTurn`] writes.
pub(crate) const IN_TURN: usize = 20;

/// A schema in many steps, so that there is time to be killed.
pub(crate) const STEPS: Migrations = Migrations {
    set: "steps",
    steps: &[
        "CREATE TABLE steps (number BIGINT PRIMARY KEY, filler TEXT); INSERT INTO steps (number) VALUES (1);",
        "INSERT INTO steps (number) VALUES (2); CREATE TABLE two (a BIGINT); DROP TABLE two; CREATE TABLE three (a BIGINT);",
        "INSERT INTO steps (number) VALUES (3); DROP TABLE three;",
        "CREATE TABLE four (a BIGINT); INSERT INTO steps (number) VALUES (4);",
        "INSERT INTO four (a) VALUES (1); INSERT INTO steps (number) VALUES (5);",
        "CREATE INDEX by_filler ON steps (filler); INSERT INTO steps (number) VALUES (6);",
        "INSERT INTO steps (number) VALUES (7); DROP INDEX by_filler;",
        "INSERT INTO steps (number) VALUES (8)",
    ],
};

/// A running child.
pub(crate) struct Running {
    child: Child,
    lines: BufReader<ChildStdout>,
}

/// How to run a child: `arm` is for `failpoint::arm_from`, `name` tells its rows from those of others.
pub(crate) fn command(program: &mut Command, role: Role, place: &Place, name: &str, arm: &str) {
    let (engine, at) = match place {
        Place::Sqlite(path) => ("sqlite", path),
        Place::Postgres(url) => ("postgres", url),
    };
    program
        .args(["--exact", "child::child", "--nocapture", "--test-threads=1"])
        .env("DB_CHILD_ROLE", format!("{role:?}"))
        .env("DB_CHILD_ENGINE", engine)
        .env("DB_CHILD_AT", at)
        .env("DB_CHILD_NAME", name)
        .env("DB_CHILD_ARM", arm)
        .stdin(Stdio::null());
}

pub(crate) fn start(role: Role, place: &Place, name: &str) -> Running {
    let mut program = Command::new(std::env::current_exe().unwrap());
    command(&mut program, role, place, name, "");
    let mut child = program.process_group(0).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap());
    Running { child, lines }
}

/// Runs a child to its end; returns that and what it said on stderr.
pub(crate) fn run(role: Role, place: &Place, arm: &str) -> (ExitStatus, String) {
    let mut program = Command::new(std::env::current_exe().unwrap());
    command(&mut program, role, place, "only", arm);
    let output = program.output().unwrap();
    (output.status, String::from_utf8_lossy(&output.stderr).into_owned())
}

impl Running {
    /// The name after the next `ack`; `None` when the child has ended.
    pub(crate) fn next_ack(&mut self) -> Option<String> {
        let mut line = String::new();
        while self.lines.read_line(&mut line).unwrap_or(0) > 0 {
            if let Some(name) = line.strip_prefix("ack ").and_then(|rest| rest.strip_suffix('\n')) {
                return Some(name.to_owned());
            }
            line.clear();
        }
        None
    }

    /// `kill -9`.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn child() {
    let Ok(role) = std::env::var("DB_CHILD_ROLE") else { return };
    // A test run that is killed must not leave a writer behind.
    let parent = std::os::unix::process::parent_id();
    std::thread::spawn(move || {
        while std::os::unix::process::parent_id() == parent {
            std::thread::sleep(Duration::from_millis(200));
        }
        std::process::abort();
    });
    let role = ROLES.into_iter().find(|known| format!("{known:?}") == role).unwrap();
    let order = |name: &str| std::env::var(name).unwrap();
    let place = match order("DB_CHILD_ENGINE").as_str() {
        "sqlite" => Place::Sqlite(order("DB_CHILD_AT")),
        _ => Place::Postgres(order("DB_CHILD_AT")),
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(obey(role, &place, &order("DB_CHILD_NAME"), &order("DB_CHILD_ARM")));
}

async fn obey(role: Role, place: &Place, name: &str, arm: &str) {
    let mut config = place.config();
    if let (Role::WriteInTurnUnsynced, Config::Sqlite(config)) = (role, &mut config) {
        config.synchronous = Synchronous::Off;
    }
    let db = Db::open(config).await.unwrap();
    if role != Role::Migrate {
        db.migrate(&[PAIRS]).await.unwrap();
    }
    failpoint::arm_from(arm).unwrap();
    // libtest has begun a line.
    say("");
    match role {
        Role::Write => {
            // A server that is killed may forget notes; on SQLite this process is all there is to kill.
            let noting = usize::from(db.engine() == Engine::Sqlite);
            let tasks = (0..4).map(|task| {
                let how = if task < noting { How::Note } else { How::Write };
                tokio::spawn(write_for_ever(db.clone(), how, format!("{name}-{task}")))
            });
            for task in tasks.collect::<Vec<_>>() {
                task.await.unwrap();
            }
        }
        Role::WriteInTurn | Role::WriteInTurnUnsynced => {
            for index in 0..IN_TURN {
                // What is not synced before it changes nothing for a write.
                db.note(INSERT, vec![format!("note-{index}").into()]).await.unwrap();
                put(&db, How::Write, format!("{name}-{index}")).await.unwrap();
            }
        }
        Role::WriteOne => put(&db, How::Write, name.to_owned()).await.unwrap(),
        Role::Migrate => {
            db.migrate(&[STEPS]).await.unwrap();
            say("ack migrated");
        }
        Role::Backup => {
            let Place::Sqlite(path) = place else { panic!("only SQLite has back-ups") };
            db.backup(Path::new(&format!("{path}.copy"))).await.unwrap();
            say("ack copied");
        }
    }
}

#[derive(Clone, Copy)]
enum How {
    Write,
    Note,
}

const INSERT: &str = "INSERT INTO pairs (name, number) VALUES ($1, 1)";

async fn write_for_ever(db: Db, how: How, name: String) {
    for index in 0.. {
        // What is not acknowledged may or may not be there; the same row is never tried twice.
        let _ = put(&db, how, format!("{name}-{index}")).await;
    }
}

async fn put(db: &Db, how: How, name: String) -> Result<(), Error> {
    let row = name.clone();
    match how {
        How::Write => db.write(move |tx| tx.execute(INSERT, params![&row])).await?,
        How::Note => db.note(INSERT, vec![row.into()]).await?,
    };
    say(&format!("ack {name}"));
    Ok(())
}

/// One `write` per line, so that a trace shows it; ends the process when nobody reads any more.
fn say(line: &str) {
    if std::io::stdout().lock().write_all(format!("{line}\n").as_bytes()).is_err() {
        std::process::abort();
    }
}
