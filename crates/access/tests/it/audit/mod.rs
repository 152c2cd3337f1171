//! The audit log, against real files, real crashes and a real database.

mod crash;
mod disk;
mod lease;
mod open;
mod tamper;
mod write;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use access::audit::{
    Audit, Config, Entry, Finding, Head, Key, Limits, MIGRATIONS, Outcome, Report, Source, What, Who, Witness,
    read_head, read_instance, verify,
};
use db::Db;

/// A log in a directory of its own, with its database beside it.
pub(crate) struct Place {
    pub(crate) root: PathBuf,
    pub(crate) limits: Limits,
}

impl Place {
    pub(crate) fn new(name: &str) -> Place {
        Place::at(testbed::process::scratch(name).unwrap())
    }

    pub(crate) fn at(root: PathBuf) -> Place {
        let mut limits = Limits::default();
        (limits.keep_for, limits.keep_files) = (None, None);
        Place { root, limits }
    }

    pub(crate) fn rotating_at(mut self, bytes: u64) -> Place {
        self.limits.rotate_bytes = bytes;
        self
    }

    pub(crate) fn keeping(mut self, files: usize) -> Place {
        self.limits.keep_files = Some(files);
        self
    }

    pub(crate) fn directory(&self) -> PathBuf {
        self.root.join("audit")
    }

    pub(crate) fn key_file(&self) -> PathBuf {
        self.root.join("audit.key")
    }

    pub(crate) fn config(&self) -> Config {
        let mut config = Config::new(self.directory(), self.key_file());
        config.limits = self.limits.clone();
        config
    }

    pub(crate) fn key(&self) -> Key {
        Key::load(&self.key_file()).unwrap().expect("the log has a key")
    }

    pub(crate) async fn db(&self) -> Db {
        let db = Db::open(db::Config::sqlite(self.root.join("test.db"))).await.unwrap();
        db.migrate(&[MIGRATIONS]).await.unwrap();
        db
    }

    pub(crate) async fn open(&self) -> Audit {
        Audit::open(self.config(), self.db().await).await.unwrap()
    }

    /// The head in the database, in a fresh connection.
    pub(crate) async fn head(&self) -> Option<Head> {
        let instance = read_instance(&self.directory()).unwrap()?;
        read_head(&self.db().await, &instance).await.unwrap()
    }

    /// Checks the log against the database.
    pub(crate) async fn verify(&self) -> Report {
        let head = self.head().await.unwrap_or(Head::NONE);
        verify(&self.directory(), &self.key(), &[(Witness::Database, head)]).unwrap()
    }

    /// Every whole line that is there, by its number; one that is being written is not whole.
    pub(crate) fn lines(&self) -> BTreeMap<u64, serde_json::Value> {
        let mut lines = BTreeMap::new();
        for (_, content) in files(&self.directory()) {
            for line in content.split_inclusive('\n').filter(|line| line.ends_with('\n')) {
                let value: serde_json::Value = serde_json::from_str(line).unwrap();
                lines.insert(value["n"].as_u64().unwrap(), value);
            }
        }
        lines
    }
}

/// The files of a log that is not rotating with their content, oldest first, the current one last.
pub(crate) fn files(directory: &Path) -> Vec<(String, String)> {
    let mut files: Vec<_> = fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "log"))
        .map(|path| {
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            (name, fs::read_to_string(&path).unwrap())
        })
        .collect();
    // A dash sorts before a dot.
    files.sort();
    files
}

pub(crate) fn decision(name: &str) -> Entry {
    let who = Who::new("jane", Source::Token).groups(&["dev", "system:authenticated"]);
    Entry::decision(who, What::resource("get", "stateward.dev", "states"), Outcome::Allowed)
        .namespace("team")
        .name(name)
}

pub(crate) fn intent(name: &str) -> Entry {
    Entry::intent(Who::new("jane", Source::Token), What::resource("update", "stateward.dev", "states")).name(name)
}

pub(crate) fn act(name: &str) -> Entry {
    let who = Who::new("jane", Source::Token);
    Entry::act(who, What::resource("update", "stateward.dev", "states"), Outcome::Done).namespace("team").name(name)
}

/// What stands in a report, for the message of a failed assertion.
pub(crate) fn told(report: &Report) -> String {
    report.findings.iter().map(Finding::to_string).collect::<Vec<_>>().join("\n")
}

/// Waits for a condition, generously.
pub(crate) async fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = std::time::Instant::now() + Duration::from_mins(1);
    while !holds() {
        assert!(std::time::Instant::now() < deadline, "not within a minute: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
