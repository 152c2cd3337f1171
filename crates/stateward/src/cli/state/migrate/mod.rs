//! `stateward state migrate`: copies states between stores of the server, into it from elsewhere, and out of it.
//!
//! Everything is fetched here, with the caller's credentials: the server never opens an address. A kind of place is a
//! file that implements [`side::Source`] or [`side::Destination`], and a line in [`places`].

mod cluster;
mod configmap;
mod copy;
mod failpoints;
mod file;
mod flags;
mod gunzip;
mod http;
mod kubernetes;
mod places;
mod progress;
mod s3;
mod side;
mod state;

use clap::Args;
use serde_json::json;
use states::Key;

use super::list::{self, Filter};
use super::model::{self, State};
use super::target::{Target, key};
use crate::cli::failure::Failure;
use crate::cli::output::{self, Format};
use crate::client::Client;
use crate::config::Environment;
use copy::{Copied, Keep, Options, SourceLock, copy};
use flags::{ClusterFlags, HttpFlags, S3Flags};
use progress::Progress;
use side::{Destination, Source};
use state::StateSide;

/// Copy states between stores, into the server from elsewhere, or out of it
///
/// Both sides are locked, the bytes are compared by SHA-256 after the copy, and a source that is a state of a Stateward
/// is left with a tombstone: whoever uses it is told where it went, and `state restore` takes that back. A migration that
/// was interrupted at any point can be run again. Only the current version is copied, not the history.
///
/// Sources: http(s)://... (any http backend), s3://BUCKET/KEY, kubernetes://NAMESPACE/SECRET-SUFFIX[?workspace=W&context=C]
/// (Terraform's kubernetes backend), configmap://NAMESPACE/NAME[?context=C] (tf-kubernetes-configmap-backend), a file.
/// Destinations: http(s)://... or a file.
#[derive(Args)]
pub struct Migrate {
    /// The state on the server; may be left out between stores, for all that --namespace and --search let through
    #[arg(value_name = "NAMESPACE/NAME", value_parser = key)]
    state: Option<Key>,
    /// Where the state comes from, if not from the server
    #[arg(long, value_name = "PLACE", conflicts_with_all = ["to", "from_store"])]
    from: Option<String>,
    /// Where the state goes, if not to the server
    #[arg(long, value_name = "PLACE", conflicts_with = "to_store")]
    to: Option<String>,
    /// The store of the server that the state comes from
    #[arg(long, value_name = "STORE")]
    from_store: Option<String>,
    /// The store of the server that the state goes to
    #[arg(long, value_name = "STORE")]
    to_store: Option<String>,
    #[command(flatten)]
    filter: Filter,
    /// Leave the source as it is, without a tombstone
    #[arg(long)]
    keep_source: bool,
    /// Do not lock the source, for example because it may only be read; it is left as it is, without a tombstone
    #[arg(long)]
    no_source_lock: bool,
    /// Overwrite what is at the destination, whatever its serial and lineage are
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    http: HttpFlags,
    #[command(flatten)]
    s3: S3Flags,
    #[command(flatten)]
    cluster: ClusterFlags,
}

impl Migrate {
    pub async fn run(self, client: &Client, format: Format, environment: &Environment) -> anyhow::Result<()> {
        match (&self.state, &self.from, &self.to, &self.from_store, &self.to_store) {
            (Some(key), Some(place), None, None, _) => {
                let mut source = places::source(place, &self, client, environment).await?;
                let target = Target { state: key.clone(), store: self.to_store.clone() };
                let mut destination = StateSide::new(client, target);
                let done = self.one(key, source.as_mut(), &mut destination, environment).await?;
                show(format, &[done])
            }
            (Some(key), None, Some(place), _, None) => {
                let target = Target { state: key.clone(), store: self.from_store.clone() };
                let mut source = StateSide::new(client, target);
                let mut destination = places::destination(place, &self, client, environment)?;
                let done = self.one(key, &mut source, destination.as_mut(), environment).await?;
                show(format, &[done])
            }
            (_, None, None, Some(from), Some(to)) if from != to => {
                self.between(client, from, to, format, environment).await
            }
            _ => Err(Failure::usage(
                "it is not clear what is to be copied where",
                "give NAMESPACE/NAME with --from or --to, or --from-store and another --to-store",
            )
            .into()),
        }
    }

    async fn one(
        &self,
        key: &Key,
        source: &mut dyn Source,
        destination: &mut dyn Destination,
        environment: &Environment,
    ) -> anyhow::Result<Copied> {
        let options = Options {
            source: if self.keep_source { Keep::AsItIs } else { Keep::Tombstone },
            lock: if self.no_source_lock { SourceLock::LeftOut } else { SourceLock::Taken },
            force: self.force,
        };
        copy(source, destination, options, &Progress::of(&key.to_string()), environment).await
    }

    /// Goes on to the end of the list, shows what was done, and then fails if one of them failed.
    async fn between(
        &self,
        client: &Client,
        from: &str,
        to: &str,
        format: Format,
        environment: &Environment,
    ) -> anyhow::Result<()> {
        let keys = match &self.state {
            Some(key) => vec![key.clone()],
            None => self.listed(client, from).await?,
        };
        let (mut done, mut failed) = (Vec::new(), None);
        for key in &keys {
            let side =
                |store: &str| StateSide::new(client, Target { state: key.clone(), store: Some(store.to_owned()) });
            match self.one(key, &mut side(from), &mut side(to), environment).await {
                Ok(copied) => done.push(copied),
                Err(error) if keys.len() == 1 => return Err(error),
                Err(error) => {
                    output::talk(format_args!("failed to copy {key}: {error:#}"));
                    let interrupted = is_interrupted(&error);
                    failed = failed.or(Some(error));
                    if interrupted {
                        break;
                    }
                }
            }
        }
        show(format, &done)?;
        let total = keys.len();
        failed.map_or(Ok(()), |error| {
            Err(error.context(format!("{} of {total} states were not copied, the first because", total - done.len())))
        })
    }

    /// What the filter lets through and is in the store.
    async fn listed(&self, client: &Client, store: &str) -> anyhow::Result<Vec<Key>> {
        let items = list::all(client, &self.filter, &[]).await?;
        let mut keys = Vec::new();
        for item in &items {
            let state: State = client.read(item)?;
            if state.store == store && state.version.is_some() && state.deleted.is_none() {
                keys.push(key(&format!("{}/{}", state.namespace, state.name)).map_err(anyhow::Error::msg)?);
            }
        }
        Ok(keys)
    }
}

fn is_interrupted(error: &anyhow::Error) -> bool {
    error.downcast_ref::<Failure>().is_some_and(|failure| failure.exit == crate::cli::failure::Exit::Interrupted)
}

fn show(format: Format, done: &[Copied]) -> anyhow::Result<()> {
    output::show(format, &json!({ "items": done }), || {
        let rows: Vec<Vec<String>> = done.iter().map(row).collect();
        output::table(&["FROM", "TO", "RESULT", "SERIAL", "SIZE", "SHA256"], &rows)
    })
}

fn row(copied: &Copied) -> Vec<String> {
    vec![
        copied.from.clone(),
        copied.to.clone(),
        copied.result.words().to_owned(),
        model::cell(copied.serial.as_ref()),
        model::size(copied.size),
        model::cell(copied.sha256.as_ref()),
    ]
}
