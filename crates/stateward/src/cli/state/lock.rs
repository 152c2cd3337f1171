//! `stateward state lock`, `locks` and `unlock`: locks of people.

use clap::Args;
use http::Method;
use jiff::Timestamp;
use serde_json::json;

use super::model::{self, Items};
use super::target::{COLLECTION, Target};
use crate::cli::output::{self, Format};
use crate::client::Client;

/// Lock a state so that nobody else writes to it, and print the lock's ID
///
/// The lock stays until `state unlock`. Commands that write take its ID with --lock-id.
#[derive(Args)]
pub struct Lock {
    #[command(flatten)]
    target: Target,
    /// Why, for those who find it locked
    #[arg(long, value_name = "TEXT")]
    reason: String,
}

/// List the locks: who holds them, since when, and when they were last active
#[derive(Args)]
pub struct Locks {
    /// Only this namespace
    #[arg(short, long)]
    namespace: Option<String>,
}

/// Release a lock by its ID, or break one with --force
#[derive(Args)]
pub struct Unlock {
    #[command(flatten)]
    target: Target,
    /// The ID of the lock, as `state lock` printed it or `state locks` shows it
    #[arg(value_name = "ID", required_unless_present = "force")]
    id: Option<String>,
    /// Break the lock, whoever holds it, with an ID only if it is that one; needs the permission `unlock`
    #[arg(long)]
    force: bool,
}

impl Lock {
    pub async fn run(self, client: &Client, format: Format) -> anyhow::Result<()> {
        let target = &self.target;
        let body = json!({ "reason": self.reason });
        let answer = client.send_with(Method::PUT, &target.path(&["lock"]), &[target.store_query()], &body).await?;
        let lock: model::Lock = client.read(&answer)?;
        output::show(format, &answer, || output::plain(&lock.id))
    }
}

impl Locks {
    pub async fn run(self, client: &Client, format: Format) -> anyhow::Result<()> {
        let [first, second] = COLLECTION;
        let query = [("namespace", self.namespace.as_deref())];
        let answer = client.ask(Method::GET, &[first, second, "locks"], &query).await?;
        let list: Items<model::Lock> = client.read(&answer)?;
        let now = Timestamp::now();
        output::show(format, &answer, || {
            let rows: Vec<Vec<String>> = list.items.iter().map(|lock| row(lock, now)).collect();
            let header = ["STATE", "ID", "HOLDER", "OPERATION", "AGE", "LAST ACTIVE", "EXPIRED", "INFO"];
            output::table(&header, &rows)
        })
    }
}

fn row(lock: &model::Lock, now: Timestamp) -> Vec<String> {
    vec![
        format!("{}/{}", lock.namespace, lock.name),
        lock.id.clone(),
        lock.holder(),
        model::cell(lock.operation.as_ref()),
        model::age(lock.taken_at.as_ref(), now),
        model::age(lock.active_at.as_ref(), now),
        if lock.expired { "yes" } else { "no" }.to_owned(),
        model::cell(lock.info.as_ref()),
    ]
}

impl Unlock {
    pub async fn run(self, client: &Client) -> anyhow::Result<()> {
        let target = &self.target;
        let force = self.force.then_some("true");
        let query = [target.store_query(), ("ID", self.id.as_deref()), ("force", force)];
        let answer = client.ask(Method::DELETE, &target.path(&["lock"]), &query).await?;
        let done = if answer["unlocked"] == true { "unlocked" } else { "was not locked" };
        output::talk(format_args!("{} {done}", target.state));
        Ok(())
    }
}
