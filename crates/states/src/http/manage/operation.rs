//! A route and what the OpenAPI document says of it.

use axum::routing::MethodRouter;
use schemars::{Schema, SchemaGenerator};

use super::input::Input;
use crate::engine::States;

/// A handler and its description.
pub(super) struct Route(pub(super) fn() -> MethodRouter<States>, pub(super) Operation);

/// What callers are told of one method of one path.
#[derive(Clone, Copy)]
pub(super) struct Operation {
    pub(super) method: &'static str,
    pub(super) path: &'static str,
    pub(super) id: &'static str,
    pub(super) about: &'static str,
    /// The verb and resource that RBAC or a role must grant.
    pub(super) permission: &'static str,
    pub(super) query: &'static [Input],
    pub(super) body: Body,
    pub(super) answer: Answer,
    /// Statuses of failures, beside those that every route has.
    pub(super) failures: &'static [u16],
}

/// What a request carries.
#[derive(Clone, Copy)]
pub(super) enum Body {
    Nothing,
    Fields(&'static [Input]),
    /// A Terraform state.
    State,
    /// The LockInfo of a client.
    LockInfo,
}

/// What a success is answered with.
#[derive(Clone, Copy)]
pub(super) enum Answer {
    Json(fn(&mut SchemaGenerator) -> Schema),
    State,
    Document,
    Nothing,
}

impl Operation {
    pub(super) const fn new(
        method: &'static str,
        path: &'static str,
        id: &'static str,
        about: &'static str,
    ) -> Operation {
        let (permission, query, failures): (_, &[Input], &[u16]) = ("", &[], &[]);
        let (body, answer) = (Body::Nothing, Answer::Nothing);
        Operation { method, path, id, about, permission, query, body, answer, failures }
    }

    pub(super) const fn needs(self, permission: &'static str) -> Operation {
        Operation { permission, ..self }
    }

    pub(super) const fn query(self, query: &'static [Input]) -> Operation {
        Operation { query, ..self }
    }

    pub(super) const fn takes(self, body: Body) -> Operation {
        Operation { body, ..self }
    }

    pub(super) const fn answers(self, answer: Answer) -> Operation {
        Operation { answer, ..self }
    }

    pub(super) const fn fails(self, failures: &'static [u16]) -> Operation {
        Operation { failures, ..self }
    }
}
