//! A PostgreSQL server of one's own: the installed program on a fresh data directory and port.
//!
//! The door is [`Postgres`]. It commits to the disk like one in production, so that tests may kill it.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustix::process::{Pid, Signal, kill_process};

use crate::process::{Process, free_port, scratch};

const BIN: &str = "/usr/lib/postgresql/15/bin";
const PASSWORD: &str = "testbed-password";
const PATIENCE: Duration = Duration::from_mins(1);

/// A running server; ended when dropped.
#[derive(Debug)]
pub struct Postgres {
    directory: PathBuf,
    port: u16,
    process: Mutex<Option<Process>>,
    databases: AtomicU32,
}

/// Whether the server speaks TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tls {
    Off,
    On,
}

impl Postgres {
    /// Starts a server without TLS.
    pub fn start() -> Result<Postgres> {
        Postgres::new(Tls::Off)
    }

    /// Starts a server with a certificate for `localhost` and 127.0.0.1, signed by [`Postgres::ca_file`].
    pub fn start_with_tls() -> Result<Postgres> {
        Postgres::new(Tls::On)
    }

    /// One server for all tests of this process. Do not disturb it.
    pub fn shared() -> Result<&'static Postgres> {
        static SHARED: LazyLock<Result<Postgres, String>> =
            LazyLock::new(|| Postgres::start().map_err(|error| format!("{error:#}")));
        SHARED.as_ref().map_err(|error| anyhow::anyhow!("{error}"))
    }

    /// Where it listens.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// The URL of a database, with the password.
    pub fn url(&self, database: &str) -> String {
        Postgres::url_through(&self.address(), database)
    }

    /// The URL of a database when the server is reached at another address, such as that of a proxy.
    pub fn url_through(address: &str, database: &str) -> String {
        format!("postgres://postgres:{PASSWORD}@{address}/{database}")
    }

    /// The authority that signed the certificate of [`Postgres::start_with_tls`].
    pub fn ca_file(&self) -> PathBuf {
        self.directory.join("ca.pem")
    }

    /// Creates an empty database and returns its name.
    pub fn create_database(&self) -> Result<String> {
        let name = format!("test_{}", self.databases.fetch_add(1, Ordering::Relaxed));
        self.sql("postgres", &format!("CREATE DATABASE {name}"))?;
        Ok(name)
    }

    /// Runs statements as the superuser, past everything under test; returns what `psql` prints, without decoration.
    pub fn sql(&self, database: &str, sql: &str) -> Result<String> {
        let output = Command::new(format!("{BIN}/psql"))
            .args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-c", sql])
            .arg(self.url(database))
            .output()
            .context("failed to run psql")?;
        ensure!(output.status.success(), "psql: {}", String::from_utf8_lossy(&output.stderr));
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }

    /// An orderly stop that ends all connections, then a start.
    pub fn restart(&self) -> Result<()> {
        self.stop()?;
        self.start_again()
    }

    /// An orderly stop that ends all connections. Does nothing when it is not running.
    pub fn stop(&self) -> Result<()> {
        if let Some(mut process) = self.process().take() {
            process.signal(Signal::INT);
            process.wait(PATIENCE)?;
        }
        Ok(())
    }

    /// `kill -9` of the server and all its processes at once, as when the machine stops.
    pub fn kill(&self) {
        if let Some(mut process) = self.process().take() {
            // They have process groups of their own. Stopped first, so that it starts no more of them.
            process.signal(Signal::STOP);
            let children = children(process.pid());
            process.kill();
            for child in &children {
                let _ = kill_process(*child, Signal::KILL);
            }
            // Shared memory is theirs until they have ended, and a new server on the same data would be refused.
            let deadline = Instant::now() + PATIENCE;
            while children.iter().any(|child| is_running(*child)) && Instant::now() < deadline {
                std::thread::sleep(Duration::from_millis(5));
            }
        }
    }

    /// Starts it on the same data and port after a stop or a kill.
    pub fn start_again(&self) -> Result<()> {
        let mut process = self.process();
        if process.is_none() {
            *process = Some(self.spawn()?);
        }
        Ok(())
    }

    fn new(tls: Tls) -> Result<Postgres> {
        let directory = scratch("postgres")?;
        let data = directory.join("data");
        fs::write(directory.join("password"), PASSWORD)?;
        if tls == Tls::On {
            write_certificates(&directory)?;
        }
        let server =
            Postgres { directory, port: free_port()?, process: Mutex::default(), databases: AtomicU32::new(0) };
        for file in fs::read_dir(&server.directory)? {
            own(&file?.path())?;
        }
        own(&server.directory)?;
        let initialised = as_postgres("initdb")?
            .args(["--no-sync", "--encoding=UTF8", "--locale=C.UTF-8", "--username=postgres"])
            .args(["--auth-local=trust", "--auth-host=scram-sha-256"])
            .arg(format!("--pwfile={}", server.directory.join("password").display()))
            .arg(&data)
            .output()
            .with_context(|| format!("failed to run {BIN}/initdb (Debian package postgresql-15)"))?;
        ensure!(initialised.status.success(), "initdb: {}", String::from_utf8_lossy(&initialised.stderr));
        let directory = server.directory.display();
        let tls = match tls {
            Tls::Off => String::new(),
            Tls::On => {
                format!("ssl = on\nssl_cert_file = '{directory}/server.pem'\nssl_key_file = '{directory}/server.key'\n")
            }
        };
        let settings = format!(
            "listen_addresses = '127.0.0.1'\nport = {}\nunix_socket_directories = '{directory}'\n\
             max_connections = 200\n{tls}",
            server.port
        );
        fs::write(data.join("conf.d.conf"), settings)?;
        own(&data.join("conf.d.conf"))?;
        let main = data.join("postgresql.conf");
        fs::write(&main, fs::read_to_string(&main)? + "\ninclude 'conf.d.conf'\n")?;
        server.start_again()?;
        Ok(server)
    }

    fn spawn(&self) -> Result<Process> {
        let log = self.directory.join("log");
        let mut process =
            Process::spawn("postgres", as_postgres("postgres")?.arg("-D").arg(self.directory.join("data")), &log)?;
        process.wait_until(PATIENCE, || {
            let asked = Command::new(format!("{BIN}/pg_isready"))
                .args(["-q", "-h", "127.0.0.1", "-p", &self.port.to_string()])
                .status();
            asked.is_ok_and(|status| status.success())
        })?;
        Ok(process)
    }

    fn process(&self) -> MutexGuard<'_, Option<Process>> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A program of PostgreSQL, as the user `postgres` when we are root: it refuses to run as root.
fn as_postgres(program: &str) -> Result<Command> {
    let mut command = Command::new(format!("{BIN}/{program}"));
    if let Some((user, group)) = postgres_user()? {
        command.uid(user).gid(group);
    }
    command.current_dir("/").env("LC_ALL", "C.UTF-8");
    Ok(command)
}

fn own(path: &Path) -> Result<()> {
    match postgres_user()? {
        Some((user, group)) => chown(path, Some(user), Some(group)).with_context(|| path.display().to_string()),
        None => Ok(()),
    }
}

fn postgres_user() -> Result<Option<(u32, u32)>> {
    if !rustix::process::geteuid().is_root() {
        return Ok(None);
    }
    let users = fs::read_to_string("/etc/passwd")?;
    let line = users.lines().find(|line| line.starts_with("postgres:")).context("there is no user postgres")?;
    let mut fields = line.split(':').skip(2).map(str::parse);
    match (fields.next(), fields.next()) {
        (Some(Ok(user)), Some(Ok(group))) => Ok(Some((user, group))),
        _ => anyhow::bail!("the line of the user postgres in /etc/passwd cannot be read"),
    }
}

/// Whether a process holds anything still: one that ended and was not waited for does not.
fn is_running(process: Pid) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", process.as_raw_nonzero())).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with(['Z', 'X']))
}

fn children(parent: u32) -> Vec<Pid> {
    let parent = parent.to_string();
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let its = pids.filter(|pid| {
        // "pid (name) state parent ...": the name may hold anything but ends with the last parenthesis.
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(1)) == Some(parent.as_str())
    });
    its.filter_map(Pid::from_raw).collect()
}

fn write_certificates(directory: &Path) -> Result<()> {
    let mut authority = CertificateParams::new(Vec::new())?;
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority_key = KeyPair::generate()?;
    fs::write(directory.join("ca.pem"), authority.self_signed(&authority_key)?.pem())?;
    let key = KeyPair::generate()?;
    let server = CertificateParams::new(vec!["localhost".to_owned(), "127.0.0.1".to_owned()])?;
    let signed = server.signed_by(&key, &Issuer::new(authority, authority_key))?;
    fs::write(directory.join("server.pem"), signed.pem())?;
    let file = directory.join("server.key");
    fs::write(&file, key.serialize_pem())?;
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600))?;
    Ok(())
}
