//! What is in a state, for those who manage it: what changed, which resources and outputs there are.
//!
//! Everything is read in passes over a version on a blocking thread; only what is answered is kept.

use std::io::Write;

use tokio::runtime::Handle;

use super::rollback::unreadable;
use super::{Reading, State};
use crate::Error;
use crate::codec::{self, Diff, Output, Resource, Sensitive, Source, Unreadable};
use crate::head::Version;

/// What changed between two versions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Differences {
    pub from: u64,
    pub to: u64,
    pub diff: Diff,
}

/// Which resources are wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceQuery {
    /// Stands somewhere in the address, type, provider or id, whatever the case.
    pub search: Option<String>,
    /// The version to look into; `None` is the current one.
    pub version: Option<u64>,
    /// How many of those that fit are skipped.
    pub skip: u64,
    pub limit: usize,
}

/// Some resources of one version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourcePage {
    pub version: u64,
    pub items: Vec<Resource>,
    /// How many fit, the skipped ones included.
    pub total: u64,
}

impl State {
    /// Compares two versions; left out, `to` is the current one and `from` the one before it.
    pub async fn diff(&self, from: Option<u64>, to: Option<u64>) -> Result<Differences, Error> {
        let newer = self.version_or_current(to).await?;
        let older = if let Some(from) = from {
            self.version(from).await?
        } else {
            let versions = self.versions().await?;
            versions.into_iter().find(|version| version.number < newer.number).ok_or(Error::NoVersion)?
        };
        let (from, to) = (older.number, newer.number);
        let diff = self.inspect([older, newer], |[older, newer]| codec::diff(older, newer)).await?;
        Ok(Differences { from, to, diff })
    }

    /// One page of resources, in the order of the state.
    pub async fn resources(&self, query: ResourceQuery) -> Result<ResourcePage, Error> {
        let version = self.version_or_current(query.version).await?;
        let mut page = ResourcePage { version: version.number, items: Vec::new(), total: 0 };
        let search = query.search.map(|search| search.to_lowercase());
        let read = move |[source]: [&mut Source<'_>; 1]| {
            codec::resources(source, &mut |resource| {
                if search.as_ref().is_some_and(|search| !fits(&resource, search)) {
                    return;
                }
                if page.total >= query.skip && page.items.len() < query.limit {
                    page.items.push(resource);
                }
                page.total += 1;
            })?;
            Ok(page)
        };
        self.inspect([version], read).await
    }

    /// The outputs of the current version by name.
    pub async fn output_list(&self, sensitive: Sensitive) -> Result<Vec<Output>, Error> {
        let version = self.version_or_current(None).await?;
        self.inspect([version], move |[source]| codec::output_list(source, sensitive)).await
    }

    /// Any version by its number, also of a deleted state.
    pub async fn read_version(&self, number: u64) -> Result<Reading, Error> {
        self.head().await?.ok_or(Error::NotFound)?.here()?;
        self.open(self.version(number).await?).await
    }

    /// A version by number, or the current one; a tombstone or a deleted state has none to look into.
    async fn version_or_current(&self, number: Option<u64>) -> Result<Version, Error> {
        let head = self.head().await?.ok_or(Error::NotFound)?;
        let current = head.here()?.visible().ok_or(Error::NotFound)?;
        match number {
            Some(number) if number != current.number => self.version(number).await,
            _ => Ok(current.clone()),
        }
    }

    /// Lets `read` make its passes over these versions.
    async fn inspect<T: Send + 'static, const N: usize>(
        &self,
        versions: [Version; N],
        read: impl FnOnce([&mut Source<'_>; N]) -> Result<T, Unreadable> + Send + 'static,
    ) -> Result<T, Error> {
        if versions.iter().any(|version| version.facts.encrypted) {
            return Err(Error::Encrypted);
        }
        let number = versions.iter().map(|version| version.number).max().unwrap_or_default();
        let (state, runtime) = (self.clone(), Handle::current());
        let done = tokio::task::spawn_blocking(move || {
            let mut sources = versions.map(|version| {
                let (state, runtime) = (state.clone(), runtime.clone());
                move |out: &mut dyn Write| runtime.block_on(state.pass(&version, out))
            });
            read(sources.each_mut().map(|source| source as &mut Source<'_>))
        });
        let done = done.await.map_err(|error| Error::Internal(error.to_string()))?;
        done.map_err(|error| unreadable(error, number))
    }
}

fn fits(resource: &Resource, search: &str) -> bool {
    let Resource { address, kind, provider, id } = resource;
    let texts = [Some(address), Some(kind), Some(provider), id.as_ref()];
    texts.into_iter().flatten().any(|text| text.to_lowercase().contains(search))
}
