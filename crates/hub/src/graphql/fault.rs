//! Why a request is not carried out at all.

/// What is wrong with a request, and which word tells programs so.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Fault {
    pub code: &'static str,
    pub message: String,
}

impl Fault {
    pub(crate) fn malformed(message: impl Into<String>) -> Fault {
        Fault { code: "BAD_REQUEST", message: message.into() }
    }

    pub(crate) fn too_large(message: impl Into<String>) -> Fault {
        Fault { code: "TOO_LARGE", message: message.into() }
    }
}
