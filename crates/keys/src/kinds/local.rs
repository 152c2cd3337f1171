//! What the kinds have in common whose bytes come into this process.

use std::fmt;
use std::sync::Arc;

use futures::FutureExt as _;

use super::{Answer, Kind};
use crate::data_key::DataKey;
use crate::versions::Versions;

/// Where the versions of a key are read.
pub(super) trait Source: fmt::Debug + Send + Sync {
    fn versions<'a>(&'a self, name: &'a str, wanted: Wanted<'a>) -> Answer<'a, Arc<Versions>>;
}

/// What somebody needs: a source that remembers reads again if it has not got that.
#[derive(Clone, Copy, Debug)]
pub(super) enum Wanted<'a> {
    Newest,
    Version(&'a str),
}

#[derive(Debug)]
pub(super) struct Local<S>(pub(super) S);

impl<S: Source> Kind for Local<S> {
    fn newest<'a>(&'a self, name: &'a str) -> Answer<'a, String> {
        async move { Ok(self.0.versions(name, Wanted::Newest).await?.newest().to_owned()) }.boxed()
    }

    fn wrap<'a>(&'a self, name: &'a str, key: &'a DataKey, context: &'a [u8]) -> Answer<'a, (String, Vec<u8>)> {
        async move { self.0.versions(name, Wanted::Newest).await?.wrap(name, key, context) }.boxed()
    }

    fn unwrap<'a>(&'a self, name: &'a str, version: &'a str, kept: &'a [u8], context: &'a [u8]) -> Answer<'a, DataKey> {
        let versions = self.0.versions(name, Wanted::Version(version));
        async move { versions.await?.unwrap(name, version, kept, context) }.boxed()
    }
}
