//! Backends that tests register: the real `stateward backend file`, and one that takes no values, served by the crate itself.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use backends::{Answer, Code, Document, Driver, Failure, Mode, Server, ServerLimits, Serving, Target, Update};
use serde_json::Value;
use testbed::process::{Process, scratch};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpStream, UnixListener};
use tokio::sync::oneshot;

use super::desk::Desk;
use crate::run::stateward;
use crate::server::PATIENCE;

/// Types of backends, as the original ships such manifests: `NAME` and `ACCEPT` are filled in.
const TYPE: &str = r#"
ocfVersion: 0.0.1
revision: 0.1.0
kind: Type
metadata: {prefix: cap.type.NAME, name: storage}
spec:
  additionalRefs: [cap.core.type.hub.storage]
  jsonSchema:
    value: |
      {"type": "object", "required": ["url", "acceptValue", "contextSchema"],
       "properties": {"url": {"type": "string"}, "acceptValue": {"const": ACCEPT}, "contextSchema": {}}, "additionalProperties": false}
"#;

/// A running `stateward backend file`; killed when dropped.
pub(super) struct FileBackend {
    pub process: Process,
    pub address: String,
    pub values: PathBuf,
}

impl FileBackend {
    pub(super) fn start() -> FileBackend {
        let directory = scratch("backend").unwrap();
        let (values, log) = (directory.join("values"), directory.join("log"));
        let mut command = stateward(&["backend", "file", "--listen", "127.0.0.1:0", "--directory"]);
        command.arg(&values);
        let mut process = Process::spawn("backend", &mut command, &log).unwrap();
        let told = || {
            let text = std::fs::read_to_string(&log).unwrap_or_default();
            text.lines().find_map(|line| line.strip_prefix("The storage backend file is at ").map(str::to_owned))
        };
        process.wait_until(PATIENCE, || told().is_some()).unwrap();
        let address = told().unwrap();
        FileBackend { process, address, values }
    }

    /// Whether one of its files has this text.
    pub(super) fn has(&self, text: &str) -> bool {
        let files = std::fs::read_dir(&self.values).into_iter().flatten().flatten();
        files.filter_map(|file| std::fs::read_to_string(file.path()).ok()).any(|held| held.contains(text))
    }

    /// Makes it known under this name, of the Type `cap.type.NAME.storage`; its id.
    #[track_caller]
    pub(super) fn register(&self, desk: &Desk, name: &str) -> String {
        register(desk, name, &self.address, true)
    }
}

#[track_caller]
pub(super) fn register(desk: &Desk, name: &str, address: &str, accept: bool) -> String {
    let manifest = desk.file("type.yaml", &TYPE.replace("NAME", name).replace("ACCEPT", &accept.to_string()));
    desk.ok(&["type", "apply", "-f", &manifest]);
    let schema = r#"{"type": "object", "properties": {"name": {"type": "string"}, "namespace": {"type": "string"}}, "additionalProperties": false}"#;
    let record = desk.file(
        "backend.yaml",
        &format!(
            "name: {name}\ntypeRef: {{path: cap.type.{name}.storage, revision: 0.1.0}}\nvalue: {{url: '{address}', acceptValue: {accept}, contextSchema: {schema}}}"
        ),
    );
    let created = desk.json(&["storage", "register", "-f", &record]);
    created["items"][0]["id"].as_str().unwrap().to_owned()
}

/// A socket of this machine before a server that listens on a port; its url.
pub(super) fn socket(address: &str) -> String {
    let path = scratch("socket").unwrap().join("backend.sock");
    let (listener, address) = (UnixListener::bind(&path).unwrap(), address.to_owned());
    tokio::spawn(async move {
        while let Ok((mut near, _)) = listener.accept().await {
            let mut far = TcpStream::connect(&address).await.unwrap();
            tokio::spawn(async move { copy_bidirectional(&mut near, &mut far).await });
        }
    });
    format!("unix:{}", path.display())
}

/// A backend that takes no values: what a context names is the value. It ends when dropped.
pub(super) struct Projection {
    pub address: String,
    _stop: oneshot::Sender<()>,
}

impl Projection {
    pub(super) async fn start() -> Projection {
        let serving = Serving { listen: ([127, 0, 0, 1], 0).into(), tls: None, limits: ServerLimits::default() };
        let server = Server::bind(Arc::new(Projecting), serving).await.unwrap();
        let address = server.address().to_string();
        let (stop, stopped) = oneshot::channel::<()>();
        tokio::spawn(server.run(async move {
            let _ = stopped.await;
        }));
        Projection { address, _stop: stop }
    }
}

#[derive(Debug)]
struct Projecting;

impl Projecting {
    fn value(target: Target<'_>) -> Result<Option<Document>, Failure> {
        let context = target.context.ok_or_else(|| Failure::new(Code::InvalidArgument, "there is no context"))?;
        let context: Value =
            serde_json::from_slice(&context.0).map_err(|_| Failure::new(Code::InvalidArgument, "no JSON"))?;
        match context["name"].as_str() {
            Some("absent") | None => Ok(None),
            Some(name) => {
                let value = format!("{{\"release\":\"{name}\",\"size\":1.50}}");
                Ok(Some(Document(value.into_bytes().into())))
            }
        }
    }
}

fn done<'a, T: Send + 'a>(answer: Result<T, Failure>) -> Answer<'a, T> {
    Box::pin(std::future::ready(answer))
}

impl Driver for Projecting {
    fn mode(&self) -> Mode {
        Mode::Context
    }

    fn get_value<'a>(&'a self, target: Target<'a>, _version: u32) -> Answer<'a, Option<Document>> {
        done(Projecting::value(target))
    }

    fn get_pre_create_value<'a>(&'a self, target: Target<'a>) -> Answer<'a, Option<Document>> {
        done(Projecting::value(target))
    }

    fn on_create<'a>(&'a self, _target: Target<'a>, value: Option<&'a Document>) -> Answer<'a, Option<Document>> {
        done(match value {
            None => Ok(None),
            Some(_) => Err(Failure::new(Code::InvalidArgument, "a value came along")),
        })
    }

    fn on_update<'a>(&'a self, _target: Target<'a>, update: Update<'a>) -> Answer<'a, Option<Document>> {
        done(match update.value {
            None => Ok(None),
            Some(_) => Err(Failure::new(Code::InvalidArgument, "a value came along")),
        })
    }

    fn on_delete<'a>(&'a self, _target: Target<'a>, _owner: Option<&'a str>) -> Answer<'a, ()> {
        done(Ok(()))
    }

    fn on_delete_revision<'a>(&'a self, _target: Target<'a>, _version: u32, _owner: Option<&'a str>) -> Answer<'a, ()> {
        done(Ok(()))
    }

    fn get_locked_by<'a>(&'a self, _target: Target<'a>) -> Answer<'a, Option<String>> {
        done(Ok(None))
    }

    fn on_lock<'a>(&'a self, _target: Target<'a>, _owner: &'a str) -> Answer<'a, ()> {
        done(Ok(()))
    }

    fn on_unlock<'a>(&'a self, _target: Target<'a>) -> Answer<'a, ()> {
        done(Ok(()))
    }

    fn health(&self, _within: Duration) -> Answer<'_, ()> {
        done(Ok(()))
    }
}
