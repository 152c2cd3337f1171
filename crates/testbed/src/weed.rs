//! An S3 server of one's own: SeaweedFS, all its parts in one process, on a fresh data directory and ports.
//!
//! The door is [`Weed`]. It checks signatures and honours `If-Match` and `If-None-Match`. Who needs an S3 that does not
//! puts a [`crate::faults::Proxy`] in front of [`Weed::start_open`] that takes away those headers and the signature,
//! which is over them too.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::json;

use crate::peers::peer;
use crate::process::{Process, free_port_with, scratch};

const PATIENCE: Duration = Duration::from_mins(1);
/// Each HTTP port has a gRPC port that much above it.
const GRPC: u16 = 10_000;

/// A running server; ended when dropped.
#[derive(Debug)]
pub struct Weed {
    directory: PathBuf,
    ports: Ports,
    process: Mutex<Option<Process>>,
    buckets: AtomicU32,
}

#[derive(Clone, Copy, Debug)]
struct Ports {
    master: u16,
    volume: u16,
    filer: u16,
    s3: u16,
}

#[derive(Clone, Copy, Debug)]
enum Identity {
    Signed,
    Anonymous,
}

impl Identity {
    fn json(self) -> serde_json::Value {
        let actions = ["Admin", "Read", "Write", "List", "Tagging"];
        match self {
            Identity::Anonymous => json!({ "name": "anonymous", "actions": actions }),
            Identity::Signed => {
                let keys = json!({ "accessKey": Weed::ACCESS_KEY_ID, "secretKey": Weed::SECRET_ACCESS_KEY });
                json!({ "name": "testbed", "credentials": [keys], "actions": actions })
            }
        }
    }
}

impl Weed {
    pub const REGION: &str = "us-east-1";
    pub const ACCESS_KEY_ID: &str = "testbed-access-key";
    pub const SECRET_ACCESS_KEY: &str = "testbed-secret-access-key";

    pub fn start() -> Result<Weed> {
        Weed::new(&[Identity::Signed])
    }

    /// One that takes requests without a signature, too.
    pub fn start_open() -> Result<Weed> {
        Weed::new(&[Identity::Signed, Identity::Anonymous])
    }

    fn new(identities: &[Identity]) -> Result<Weed> {
        let directory = scratch("weed")?;
        let identities: Vec<_> = identities.iter().map(|identity| identity.json()).collect();
        fs::write(directory.join("s3.json"), json!({ "identities": identities }).to_string())?;
        fs::create_dir(directory.join("data"))?;
        let port = || free_port_with(GRPC);
        let ports = Ports { master: port()?, volume: port()?, filer: port()?, s3: port()? };
        let weed = Weed { directory, ports, process: Mutex::default(), buckets: AtomicU32::new(0) };
        weed.start_again()?;
        Ok(weed)
    }

    /// One server for all tests of this process. Do not disturb it.
    pub fn shared() -> Result<&'static Weed> {
        static SHARED: LazyLock<Result<Weed, String>> =
            LazyLock::new(|| Weed::start().map_err(|error| format!("{error:#}")));
        SHARED.as_ref().map_err(|error| anyhow::anyhow!("{error}"))
    }

    /// Where it speaks S3.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.ports.s3)
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address())
    }

    /// Creates an empty bucket and returns its name.
    pub fn create_bucket(&self) -> Result<String> {
        let name = format!("bucket-{}", self.buckets.fetch_add(1, Ordering::Relaxed));
        let told = self.shell(&format!("s3.bucket.create -name {name}"))?;
        ensure!(told.contains(&format!("created bucket {name}")), "weed shell: {told}");
        Ok(name)
    }

    /// Removes a bucket with everything in it.
    pub fn delete_bucket(&self, name: &str) -> Result<()> {
        self.shell(&format!("s3.bucket.delete -name {name}")).map(drop)
    }

    /// An orderly stop. Does nothing when it is not running.
    pub fn stop(&self) -> Result<()> {
        match self.process().take() {
            Some(mut process) => process.stop(PATIENCE).map(drop),
            None => Ok(()),
        }
    }

    /// `kill -9`.
    pub fn kill(&self) {
        drop(self.process().take());
    }

    /// An orderly stop, then a start.
    pub fn restart(&self) -> Result<()> {
        self.stop()?;
        self.start_again()
    }

    /// Starts it on the same data and ports after a stop or a kill.
    pub fn start_again(&self) -> Result<()> {
        let mut process = self.process();
        if process.is_none() {
            *process = Some(self.spawn()?);
        }
        Ok(())
    }

    fn spawn(&self) -> Result<Process> {
        let Ports { master, volume, filer, s3 } = self.ports;
        let mut command = Command::new(peer("weed")?);
        command
            .current_dir(&self.directory)
            .env("HOME", &self.directory)
            .args(["server", "-dir=data", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-filer", "-s3"])
            .args([format!("-master.port={master}"), format!("-volume.port={volume}")])
            .args([format!("-filer.port={filer}"), format!("-s3.port={s3}")])
            .args(["-s3.config=s3.json", "-master.volumeSizeLimitMB=64", "-volume.max=2000"])
            // Two more services have fixed ports otherwise.
            .args(["-s3.port.iceberg=0", "-s3.port.lance=0"]);
        let mut process = Process::spawn("weed", &mut command, &self.directory.join("log"))?;
        // It answers before its volumes have found each other: ready is what has stored a file.
        let stores = || status(filer, "PUT", "/testbed/ready").is_some_and(|status| status == 201);
        let answers = || status(s3, "GET", "/healthz").is_some_and(|status| status == 200);
        process.wait_until(PATIENCE, || stores() && answers())?;
        Ok(process)
    }

    fn shell(&self, line: &str) -> Result<String> {
        let mut shell = Command::new(peer("weed")?)
            .arg("shell")
            .arg(format!("-master=127.0.0.1:{}", self.ports.master))
            .arg(format!("-filer=127.0.0.1:{}", self.ports.filer))
            .current_dir(&self.directory)
            .env("HOME", &self.directory)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .context("failed to run weed shell")?;
        let mut input = shell.stdin.take().context("weed shell takes no input")?;
        writeln!(input, "{line}")?;
        drop(input);
        let output = shell.wait_with_output()?;
        let told = String::from_utf8_lossy(&output.stdout).into_owned();
        ensure!(output.status.success(), "weed shell: {told}{}", String::from_utf8_lossy(&output.stderr));
        Ok(told)
    }

    fn process(&self) -> MutexGuard<'_, Option<Process>> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The status of one small request; `None` while nobody answers.
fn status(port: u16, method: &str, path: &str) -> Option<u16> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
    let request =
        format!("{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok");
    stream.write_all(request.as_bytes()).ok()?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).ok()?;
    String::from_utf8_lossy(&answer).split(' ').nth(1)?.parse().ok()
}
