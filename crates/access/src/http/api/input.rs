//! What requests carry beside their path: parameters and fields as one list, by which they are read and documented.

use axum::extract::Request;
use http::Uri;

use super::super::{Fields, Parameters, Problem};

/// A query parameter or a field of a JSON body.
#[derive(Clone, Copy, Debug)]
pub struct Input {
    pub name: &'static str,
    pub kind: Kind,
    pub about: &'static str,
    pub needed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Text,
    Texts,
    Number,
    Flag,
}

impl Input {
    pub const fn text(name: &'static str, about: &'static str) -> Input {
        Input { name, kind: Kind::Text, about, needed: false }
    }

    pub const fn texts(name: &'static str, about: &'static str) -> Input {
        Input { name, kind: Kind::Texts, about, needed: false }
    }

    pub const fn number(name: &'static str, about: &'static str) -> Input {
        Input { name, kind: Kind::Number, about, needed: false }
    }

    pub const fn flag(name: &'static str, about: &'static str) -> Input {
        Input { name, kind: Kind::Flag, about, needed: false }
    }

    #[must_use]
    pub const fn needed(self) -> Input {
        Input { needed: true, ..self }
    }
}

/// The query of a request that takes these parameters.
pub fn query(uri: &Uri, inputs: &[Input]) -> Result<Parameters, Problem> {
    Parameters::read(uri, &names(inputs))
}

/// The body of a request that takes a JSON object with these fields.
pub async fn fields(request: Request, inputs: &[Input]) -> Result<Fields, Problem> {
    Fields::read(request, &names(inputs)).await
}

pub fn names(inputs: &[Input]) -> Vec<&'static str> {
    inputs.iter().map(|input| input.name).collect()
}
