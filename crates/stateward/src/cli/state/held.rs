//! The lock of a command that writes: taken before, released at every end, also at Ctrl-C.

use anyhow::Context as _;
use http::Method;
use serde_json::{Value, json};
use tokio::signal::unix::{SignalKind, signal};

use super::target::Target;
use crate::cli::failure::{Exit, Failure};
use crate::cli::output;
use crate::client::Client;
use crate::config::Environment;

/// Runs `work` with the lock's ID while the state is locked.
pub async fn with_lock<T>(
    client: &Client,
    target: &Target,
    info: &Value,
    work: impl AsyncFnOnce(&str) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let id = info["ID"].as_str().unwrap_or_default();
    let done = interruptible(async {
        take(client, target, info).await?;
        work(id).await
    })
    .await;
    // Whoever did not get the lock has none to release; an interrupted request may still have taken it.
    if done.as_ref().err().and_then(|error| error.downcast_ref::<Failure>()).is_some_and(|it| it.exit == Exit::Locked) {
        return done;
    }
    let released = release(client, target, info).await;
    match (done, released) {
        (Ok(done), Ok(())) => Ok(done),
        (Ok(_), Err(failure)) => {
            Err(failure).with_context(|| format!("it is done, but {} is still locked", target.state))
        }
        (Err(error), Ok(())) => Err(error),
        (Err(error), Err(failure)) => {
            output::talk(format_args!("failed to release the lock {id} of {}: {failure}", target.state));
            Err(error)
        }
    }
}

/// A LockInfo as Terraform's clients send it.
pub fn lock_info(id: &str, operation: &str, info: &str, environment: &Environment) -> Value {
    let user = environment.non_empty("USER").or_else(|| environment.non_empty("LOGNAME")).unwrap_or("somebody");
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    json!({
        "ID": id,
        "Operation": operation,
        "Info": info,
        "Who": format!("{user}@{}", host.trim()),
        "Version": concat!("stateward ", env!("CARGO_PKG_VERSION")),
        "Created": jiff::Timestamp::now().to_string(),
        "Path": "",
    })
}

/// Locks, by the clients' protocol or, in a named store, by the management API.
pub async fn take(client: &Client, target: &Target, info: &Value) -> Result<(), Failure> {
    if target.store.is_none() {
        return client.send(verb("LOCK"), &target.protocol_path(), info).await.map(drop);
    }
    let body = json!({ "id": info["ID"], "operation": info["Operation"], "reason": info["Info"] });
    client.send_with(Method::PUT, &target.path(&["lock"]), &[target.store_query()], &body).await.map(drop)
}

/// Releases; a lock that is not ours any more stays.
pub async fn release(client: &Client, target: &Target, info: &Value) -> Result<(), Failure> {
    if target.store.is_none() {
        return client.send(verb("UNLOCK"), &target.protocol_path(), info).await.map(drop);
    }
    let query = target.query("ID", info["ID"].as_str());
    client.ask(Method::DELETE, &target.path(&["lock"]), &query).await.map(drop)
}

fn verb(name: &'static str) -> Method {
    Method::from_bytes(name.as_bytes()).unwrap_or(Method::PUT)
}

/// Runs to its end, or to SIGINT or SIGTERM. From here on neither ends the process by itself: what was taken is given
/// back first.
pub async fn interruptible<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::select! {
        done = work => done,
        _ = interrupt.recv() => Err(interrupted()),
        _ = terminate.recv() => Err(interrupted()),
    }
}

fn interrupted() -> anyhow::Error {
    Failure::new(Exit::Interrupted, "interrupted", "run it again: what was done already is found").into()
}
