//! A route and what an OpenAPI document says of it.

use axum::routing::MethodRouter;
use schemars::{Schema, SchemaGenerator};
use serde_json::Value;

use super::input::Input;

/// A handler and its description.
#[derive(Debug)]
pub struct Route<S>(pub fn() -> MethodRouter<S>, pub Operation);

/// What callers are told of one method of one path.
#[derive(Clone, Copy, Debug)]
pub struct Operation {
    pub method: &'static str,
    pub path: &'static str,
    pub id: &'static str,
    pub about: &'static str,
    /// The verb and resource that RBAC or a role must grant.
    pub permission: &'static str,
    pub query: &'static [Input],
    pub body: Body,
    pub answer: Answer,
    /// Statuses of failures, beside those that every route has.
    pub failures: &'static [u16],
}

/// What a request carries.
#[derive(Clone, Copy, Debug)]
pub enum Body {
    Nothing,
    Fields(&'static [Input]),
    Json(fn(&mut SchemaGenerator) -> Schema),
    /// Something of the family's own, which may be left out if it is not needed.
    Other {
        schema: fn() -> Value,
        needed: bool,
    },
}

/// What a success is answered with.
#[derive(Clone, Copy, Debug)]
pub enum Answer {
    Nothing,
    Json(fn(&mut SchemaGenerator) -> Schema),
    /// A description of the API itself.
    Document,
    /// The response as the document shall describe it.
    Other(fn() -> Value),
}

impl Operation {
    pub const fn new(method: &'static str, path: &'static str, id: &'static str, about: &'static str) -> Operation {
        let (permission, query, failures): (_, &[Input], &[u16]) = ("", &[], &[]);
        let (body, answer) = (Body::Nothing, Answer::Nothing);
        Operation { method, path, id, about, permission, query, body, answer, failures }
    }

    #[must_use]
    pub const fn needs(self, permission: &'static str) -> Operation {
        Operation { permission, ..self }
    }

    #[must_use]
    pub const fn query(self, query: &'static [Input]) -> Operation {
        Operation { query, ..self }
    }

    #[must_use]
    pub const fn takes(self, body: Body) -> Operation {
        Operation { body, ..self }
    }

    #[must_use]
    pub const fn answers(self, answer: Answer) -> Operation {
        Operation { answer, ..self }
    }

    #[must_use]
    pub const fn fails(self, failures: &'static [u16]) -> Operation {
        Operation { failures, ..self }
    }
}
