//! A server, the command line of its first user, and the files on the desk.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;
use testbed::process::scratch;

use crate::run::{Run, stateward};
use crate::server::{Server, Start, answer};

pub(super) struct Desk {
    pub server: Server,
    pub token: String,
    pub directory: PathBuf,
}

impl Desk {
    pub(super) fn new() -> Desk {
        Desk::at(Start::new().serve())
    }

    pub(super) fn at(server: Server) -> Desk {
        let token = server.first_token();
        Desk { server, token, directory: scratch("desk").unwrap() }
    }

    pub(super) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = stateward(arguments);
        command.env("STATEWARD_SERVER", &self.server.url).env("STATEWARD_TOKEN", &self.token);
        command.current_dir(&self.directory);
        command
    }

    pub(super) fn run(&self, arguments: &[&str]) -> Run {
        Run::of(&mut self.command(arguments))
    }

    #[track_caller]
    pub(super) fn ok(&self, arguments: &[&str]) -> String {
        self.run(arguments).ok()
    }

    #[track_caller]
    pub(super) fn json(&self, arguments: &[&str]) -> Value {
        serde_json::from_str(&self.ok(&[arguments, &["-o", "json"]].concat())).expect("JSON")
    }

    #[track_caller]
    pub(super) fn fails(&self, code: i32, text: &str, arguments: &[&str]) {
        self.run(arguments).fails(code, text);
    }

    /// Runs it with something on its standard input.
    pub(super) fn typed(&self, text: &str, arguments: &[&str]) -> Run {
        let input = self.file("typed", text);
        Run::of(self.command(arguments).stdin(Stdio::from(std::fs::File::open(self.directory.join(input)).unwrap())))
    }

    /// Puts a file on the desk and gives its name, which every command finds.
    pub(super) fn file(&self, name: &str, text: &str) -> String {
        let path = self.directory.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        name.to_owned()
    }

    pub(super) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.directory.join(name)).unwrap()
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// Creates the records of a document; their ids by alias.
    #[track_caller]
    pub(super) fn create(&self, document: &str) -> Created {
        let file = self.file("create.yaml", document);
        Created::of(&self.json(&["ti", "create", "-f", &file]))
    }

    /// Somebody else at the same server.
    pub(super) async fn somebody(&self, name: &str, grants: &[&str]) -> String {
        let body = serde_json::json!({"name": name, "user": name, "grants": grants});
        let request = self.server.request("POST", "/api/v1/tokens").bearer_auth(&self.token).json(&body);
        let (status, text) = answer(request).await;
        assert_eq!(status, 201, "{text}");
        serde_json::from_str::<Value>(&text).unwrap()["token"].as_str().unwrap().to_owned()
    }
}

/// Ids by alias.
#[derive(Debug)]
pub(super) struct Created(Vec<(String, String)>);

impl Created {
    pub(super) fn of(answer: &Value) -> Created {
        let items = answer["items"].as_array().unwrap().iter();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        Created(items.map(|item| (text(&item["alias"]), text(&item["id"]))).collect())
    }

    #[track_caller]
    pub(super) fn id(&self, alias: &str) -> &str {
        &self.0.iter().find(|(known, _)| known == alias).unwrap_or_else(|| panic!("no {alias} in {self:?}")).1
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}

/// The cells of the rows of a table, without its header.
pub(super) fn cells(table: &str) -> Vec<Vec<&str>> {
    table
        .lines()
        .skip(1)
        .map(|line| line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect())
        .collect()
}

/// An executable file.
pub(super) fn script(path: &Path, text: &str) -> String {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::write(path, format!("#!/bin/sh\n{text}\n")).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path.to_str().unwrap().to_owned()
}
