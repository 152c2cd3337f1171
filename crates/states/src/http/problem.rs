//! Errors as the clients see them.
//!
//! Terraform repeats every 5xx, and then shows neither status nor body: what repeating cannot mend is a 4xx.

use ::http::StatusCode;
use access::http::{Document, Problem, RequestId};
use serde_json::json;

use crate::Error;
use crate::codec::BadState;
use crate::key::BadKey;
use crate::lock_info::BadLockInfo;
use crate::store::{Refusal, StoreError, Told};

pub(super) fn problem(error: Error) -> Problem {
    let (status, hint) = match &error {
        Error::Locked { .. } => (StatusCode::LOCKED, "wait for its holder, or break the lock"),
        Error::ForceNeeded => {
            // The lock changed hands between the question for permission and the act.
            return Problem::unavailable("the lock changed hands at this moment");
        }
        Error::MayNotCreate => (StatusCode::FORBIDDEN, "ask for the permission to create it"),
        Error::NotFound => (StatusCode::NOT_FOUND, "check the namespace and the name"),
        Error::NoVersion => (StatusCode::NOT_FOUND, "list the versions"),
        Error::Moved { .. } => (StatusCode::CONFLICT, "use it there, or restore it here to take the tombstone back"),
        Error::NoSerial => (StatusCode::CONFLICT, "read that version and push it, with a serial of your own"),
        Error::NotAState => (StatusCode::CONFLICT, "read it whole, and push a state over it"),
        Error::Encrypted => (StatusCode::CONFLICT, "read the whole state, with a client that has the key"),
        Error::BadState(bad) => return bad_state(bad),
        Error::Busy { .. } | Error::NoRoom | Error::UploadExpired => return Problem::unavailable(error.to_string()),
        Error::Store(StoreError::TooLarge(_)) => (
            StatusCode::PAYLOAD_TOO_LARGE,
            "keep fewer versions (states.versions), or use a store for larger states (states.routes)",
        ),
        Error::Store(StoreError::Refused(refusal)) => return refused(refusal, &error),
        Error::Store(StoreError::Conflict | StoreError::Unknown(_) | StoreError::Unavailable(_)) => {
            tracing::warn!(%error, "a store did not answer");
            return Problem::unavailable("the store of this state is not available at the moment");
        }
        Error::Key(keys::Error::Unavailable { .. }) => {
            tracing::warn!(%error, "a key service did not answer");
            return Problem::unavailable("the key of this state is not available at the moment");
        }
        // Not a 5xx: clients would repeat it and show nothing. Not a 409 either, in which they look for a lock.
        Error::Key(_) => {
            tracing::error!(%error, "failed to open or seal a state");
            (StatusCode::UNPROCESSABLE_ENTITY, "ask the operator of this server to look at the keys settings")
        }
        Error::Damaged(_) | Error::Internal(_) | Error::Store(StoreError::Damaged(_)) => {
            tracing::error!(%error, "failed to work on a state");
            let hint = "look for the request id in the server's log";
            return Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "the state cannot be read or written", hint);
        }
    };
    let problem = Problem::new(status, error.to_string(), hint);
    match error {
        Error::Locked { info } => problem.answering(Document::Json(info)),
        Error::Moved { .. } => moved(problem),
        _ => problem,
    }
}

/// Nothing that clients would take for a lock (409) or for the fault of their own token (401, 403).
fn refused(refusal: &Refusal, error: &Error) -> Problem {
    match &refusal.told {
        Some(Told { namespace: Some(namespace), .. }) => Problem::new(
            StatusCode::NOT_FOUND,
            format!("there is no namespace '{namespace}' in the cluster"),
            "create it, or check the namespace in the path",
        ),
        Some(Told { status: 401 | 403, .. }) => {
            tracing::error!(%error, "this server may not do in its store what it has to");
            let message = format!("this server lacks a right in its own store; {error}");
            let hint =
                "ask its operator to grant its identity what it needs there; your own rights are not in question";
            Problem::new(StatusCode::FAILED_DEPENDENCY, message, hint)
        }
        _ => {
            Problem::new(StatusCode::UNPROCESSABLE_ENTITY, error.to_string(), "mend that in the store, then try again")
        }
    }
}

/// Clients read the 409 of a LOCK as a LockInfo and show nothing of it but the ID: there it says where to go.
fn moved(problem: Problem) -> Problem {
    let Problem { status, message, hint, .. } = &problem;
    let error = json!({
        "status": status.as_u16(), "reason": status.canonical_reason(), "message": message, "hint": hint,
        "request_id": RequestId::current().map(|id| id.to_string()),
    });
    let document = json!({ "error": error, "ID": message, "Operation": "moved", "Info": hint }).to_string();
    problem.answering(Document::Json(document))
}

pub(super) fn bad_state(bad: &BadState) -> Problem {
    match bad {
        BadState::TooLarge { .. } => Problem::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            bad.to_string(),
            "make the state smaller, or ask the operator to raise states.body_bytes",
        ),
        BadState::TooDeep { .. } => Problem::bad_request(
            bad.to_string(),
            "nest the values of the state less, or ask the operator to raise states.depth",
        ),
        BadState::Spool(error) => {
            tracing::error!(%error, "failed to spool a state");
            Problem::unavailable("the state cannot be received at the moment")
        }
        _ => Problem::bad_request(bad.to_string(), "send a state as terraform or tofu write it"),
    }
}

pub(super) fn bad_key(bad: BadKey) -> Problem {
    Problem::bad_request(bad.to_string(), "use lower-case letters, digits and '-'; in a name also '.'")
}

pub(super) fn bad_lock_info(bad: BadLockInfo) -> Problem {
    Problem::bad_request(bad.to_string(), "send the JSON that terraform and tofu send: an object with a non-empty ID")
}
