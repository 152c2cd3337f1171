//! What can go wrong, told apart by what somebody can do about it.
//!
//! Clients of the original compare its texts letter by letter: whatever refuses a request has its whole message here, made
//! by [`crate::rules::texts`]. No text holds a value or a context.

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The request contradicts the rules, or what is there. Nothing was changed.
    #[error("{message}")]
    Refused { reason: Reason, message: String },
    #[error(transparent)]
    Database(#[from] db::Error),
    #[error(transparent)]
    Key(#[from] keys::Error),
    /// What the database holds is not what was written there.
    #[error("what is kept of {what} is damaged: {fault}")]
    Damaged { what: String, fault: String },
}

/// What kind of refusal it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    Invalid,
    NotFound,
    Locked,
    InUse,
    /// Somebody else was faster, or has the name already.
    Conflict,
    /// It is being changed by somebody else: try again.
    Retry,
    /// More is asked for than one answer may have.
    TooLarge,
    /// The place in the feed to go on from is kept no more: begin anew.
    Reset,
    /// The backend that keeps it refused, or did not answer.
    Backend,
}

impl Error {
    pub(crate) fn refused(reason: Reason, message: impl Into<String>) -> Error {
        Error::Refused { reason, message: message.into() }
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Error {
        Error::refused(Reason::Invalid, message)
    }

    pub(crate) fn damaged(what: impl Into<String>, fault: impl Into<String>) -> Error {
        Error::Damaged { what: what.into(), fault: fault.into() }
    }
}
