//! Why a caller does not get what it asked for.

use access::http::Problem;
use http::StatusCode;

use crate::{Error, Reason};

/// The hub refuses, or the gate does.
#[derive(Debug)]
pub enum Failure {
    Hub(Error),
    Access(Problem),
}

impl Failure {
    /// A word for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Failure::Hub(Error::Refused { reason, .. }) => match reason {
                Reason::Invalid => "INVALID",
                Reason::NotFound => "NOT_FOUND",
                Reason::Locked => "LOCKED",
                Reason::InUse => "IN_USE",
                Reason::Conflict => "CONFLICT",
                Reason::Retry => "RETRY",
                Reason::TooLarge => "TOO_LARGE",
                Reason::Reset => "RESET",
                Reason::Backend => "BACKEND",
            },
            Failure::Hub(Error::Damaged { .. }) => "INTERNAL",
            Failure::Hub(Error::Database(db::Error::Nul { .. })) => "INVALID",
            Failure::Hub(_) => "UNAVAILABLE",
            Failure::Access(problem) => match problem.status {
                StatusCode::FORBIDDEN => "FORBIDDEN",
                StatusCode::TOO_MANY_REQUESTS => "BUSY",
                StatusCode::SERVICE_UNAVAILABLE => "UNAVAILABLE",
                _ => "INTERNAL",
            },
        }
    }

    /// What the caller is told. Texts of other systems go to the log instead, once: they are not ours to vouch for.
    pub fn message(&self) -> String {
        match self {
            Failure::Hub(error) => Failure::told(error),
            Failure::Access(problem) => format!("{}; {}", problem.message, problem.hint),
        }
    }

    /// What callers are told of an error of the hub.
    pub(crate) fn told(error: &Error) -> String {
        match error {
            Error::Refused { message, .. } => message.clone(),
            Error::Damaged { .. } => {
                "what is kept of this record is damaged; look for the request id in the server's log".to_owned()
            }
            Error::Database(db::Error::Nul { .. }) => {
                "a text of the request holds a NUL character, which no id, name or author can: leave it out".to_owned()
            }
            Error::Database(_) => "the hub's database does not answer; try again later".to_owned(),
            Error::Key(_) => "the hub's key is not available; try again later".to_owned(),
        }
    }

    /// How the audit log classes it.
    pub(super) fn status(error: &Error) -> StatusCode {
        match error {
            Error::Refused { reason, .. } => match reason {
                Reason::Invalid | Reason::TooLarge => StatusCode::BAD_REQUEST,
                Reason::NotFound | Reason::Reset => StatusCode::NOT_FOUND,
                Reason::Locked => StatusCode::LOCKED,
                Reason::InUse | Reason::Conflict | Reason::Retry => StatusCode::CONFLICT,
                Reason::Backend => StatusCode::BAD_GATEWAY,
            },
            Error::Database(db::Error::Nul { .. }) => StatusCode::BAD_REQUEST,
            Error::Database(_) | Error::Key(_) => StatusCode::SERVICE_UNAVAILABLE,
            Error::Damaged { .. } => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    /// Notes in the log what the caller is not told.
    pub fn log(&self) {
        if let Failure::Hub(Error::Database(db::Error::Nul { .. })) = self {
            return;
        }
        if let Failure::Hub(error @ (Error::Database(_) | Error::Key(_) | Error::Damaged { .. })) = self {
            tracing::error!(%error, "the hub failed");
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::Hub(error)
    }
}

impl From<Problem> for Failure {
    fn from(problem: Problem) -> Failure {
        Failure::Access(problem)
    }
}
