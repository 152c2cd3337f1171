//! Errors as callers see them.

use ::http::StatusCode;
use access::http::Problem;

use crate::query;
use crate::service::Error;

#[expect(clippy::needless_pass_by_value, reason = "it is what map_err hands over")]
pub(super) fn problem(error: Error) -> Problem {
    let (status, hint) = match &error {
        Error::Invalid { field, fault } => {
            return Problem::bad_request(
                format!("the field '{field}' is wrong: {fault}"),
                "change it and send it again",
            );
        }
        Error::NoSuchCluster { .. } => (StatusCode::NOT_FOUND, "list the clusters to see their names"),
        Error::NameTaken { .. } | Error::SameCluster { .. } => {
            (StatusCode::CONFLICT, "list the clusters to see what is there")
        }
        Error::NotAdded { .. } => (StatusCode::CONFLICT, "change it where it comes from"),
        Error::Unreachable { .. } => {
            (StatusCode::BAD_REQUEST, "check the address, the authority and the credentials in the kubeconfig")
        }
        Error::Withheld { .. } => return Problem::unavailable(error.to_string()),
        _ => {
            tracing::error!(%error, "the explorer failed");
            return Problem::unavailable("the explorer cannot answer at the moment");
        }
    };
    Problem::new(status, error.to_string(), hint)
}

/// A question that is not understood, with the place of the fault.
pub(super) fn bad_query(error: &query::Error) -> Problem {
    let place = error.at.map(|at| format!(" at character {}", at + 1)).unwrap_or_default();
    Problem::bad_request(format!("{}{place}: {}", error.part, error.fault), error.cure.clone())
}

/// The same whether there is no such object or the caller may not see it.
pub(super) fn no_object() -> Problem {
    let hint = "search for it; an id is cluster/namespace/group/version/kind/name, percent-encoded in a path";
    Problem::new(StatusCode::NOT_FOUND, "there is no such object, or none that you may see", hint)
}

pub(super) fn no_cluster() -> Problem {
    let message = "there is no such cluster, or you are nobody there";
    Problem::new(StatusCode::NOT_FOUND, message, "list the clusters to see their names")
}
