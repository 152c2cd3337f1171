//! A request about one state: who asks, for which, and with which query.

use ::http::Uri;
use ::http::request::Parts;
use access::http::api::{Input, names};
use access::http::{Caller, Parameters, Problem};
use axum::extract::rejection::PathRejection;
use axum::extract::{FromRequestParts, Path};
use axum::response::{IntoResponse as _, Response};
use serde::Deserialize;

use super::super::action;
use super::super::problem::bad_key;
use super::input::STORE;
use crate::engine::{State, States};
use crate::key::Key;

pub(super) struct Asked {
    pub(super) states: States,
    pub(super) caller: Caller,
    place: Place,
    uri: Uri,
}

/// What the path holds.
#[derive(Deserialize)]
struct Place {
    namespace: String,
    name: String,
    version: Option<String>,
}

impl FromRequestParts<States> for Asked {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, states: &States) -> Result<Asked, Response> {
        let caller = Caller::from_request_parts(parts, states).await.map_err(Problem::into_response)?;
        let place = Path::from_request_parts(parts, states).await;
        let Path(place) = place.map_err(PathRejection::into_response)?;
        Ok(Asked { states: states.clone(), caller, place, uri: parts.uri.clone() })
    }
}

impl Asked {
    pub(super) fn user(&self) -> String {
        self.caller.identity().user.clone()
    }

    /// The state, in the store that the query may name, and the rest of the query.
    pub(super) fn state(&self, inputs: &[Input]) -> Result<(State, Parameters), Problem> {
        let mut known = names(inputs);
        known.push(STORE.name);
        let mut query = Parameters::read(&self.uri, &known)?;
        let key = Key::new(&self.place.namespace, &self.place.name).map_err(bad_key)?;
        let Some(wanted) = query.text(STORE.name) else { return Ok((self.states.at(key), query)) };
        let stores = self.states.stores();
        let Some(store) = stores.iter().find(|store| store.name() == wanted) else {
            let known: Vec<&str> = stores.iter().map(|store| store.name()).collect();
            let hint = format!("the stores of this server are {}", known.join(", "));
            return Err(Problem::bad_request("the parameter 'store' names no store of this server", hint));
        };
        Ok((self.states.in_store(store.clone(), key), query))
    }

    /// The state, if the caller may read it; the query takes nothing but the store.
    pub(super) async fn readable(&self) -> Result<State, Problem> {
        let (state, _) = self.state(&[])?;
        self.caller.may(&action(&state, "get")).await?;
        Ok(state)
    }

    /// The number of the version that the path names.
    pub(super) fn version(&self) -> Result<u64, Problem> {
        let number = self.place.version.as_ref().and_then(|version| version.parse().ok());
        number.ok_or_else(|| {
            let hint = "list the versions to see their numbers";
            Problem::bad_request("the version in the path is not a whole number", hint)
        })
    }
}
