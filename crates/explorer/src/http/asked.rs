//! A request to the explorer: who asks, and where.

use ::http::request::Parts;
use ::http::{HeaderMap, Uri};
use access::Identity;
use access::http::api::{Input, query};
use access::http::{Caller, Parameters, Problem};
use axum::extract::{FromRequestParts, Path};

use super::Http;
use super::problem::no_object;
use crate::index::{Found, Visibility};
use crate::row::Key;
use crate::service::Explorer;

/// Who asks, and for what.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    pub(super) http: Http,
    pub(super) caller: Caller,
    pub(super) uri: Uri,
    pub(super) headers: HeaderMap,
}

impl FromRequestParts<Http> for Asked {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, http: &Http) -> Result<Asked, Problem> {
        let caller = Caller::from_request_parts(parts, http).await?;
        Ok(Asked { http: http.clone(), caller, uri: parts.uri.clone(), headers: parts.headers.clone() })
    }
}

impl Asked {
    pub(super) fn explorer(&self) -> &Explorer {
        self.http.explorer()
    }

    pub(super) fn identity(&self) -> &Identity {
        self.caller.identity()
    }

    /// What the caller may see, now.
    pub(super) async fn sight(&self) -> Visibility {
        self.explorer().visibility(self.identity()).await
    }

    pub(super) fn parameters(&self, inputs: &[Input]) -> Result<Parameters, Problem> {
        query(&self.uri, inputs)
    }

    /// The cluster that a parameter names, or the one that is meant without it.
    pub(super) fn cluster(&self, named: Option<String>) -> Result<String, Problem> {
        named.or_else(|| self.http.settings().local.clone()).ok_or_else(|| {
            let hint = "name one of those that GET /v1/clusters lists";
            Problem::bad_request("the parameter 'cluster' is missing, and this server belongs to no cluster", hint)
        })
    }
}

/// An object that the path names, as the caller sees it.
#[derive(Debug)]
pub(super) struct Named {
    pub(super) asked: Asked,
    pub(super) sight: Visibility,
    pub(super) key: Key,
    pub(super) found: Found,
}

impl FromRequestParts<Http> for Named {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, http: &Http) -> Result<Named, Problem> {
        let asked = Asked::from_request_parts(parts, http).await?;
        let path = Path::<String>::from_request_parts(parts, http).await;
        let Path(id) = path.map_err(|_| no_object())?;
        Named::find(asked, &id).await
    }
}

impl Named {
    pub(super) async fn find(asked: Asked, id: &str) -> Result<Named, Problem> {
        let sight = asked.sight().await;
        let key = Key::from_id(id).ok_or_else(no_object)?;
        let found = asked.explorer().read(|index| index.get(&key, &sight)).ok_or_else(no_object)?;
        Ok(Named { asked, sight, key, found })
    }
}
