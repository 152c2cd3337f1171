//! One request to the bucket: with a deadline, and with what its failure means.
//!
//! The texts of the client's errors hold addresses and whatever the server says; of them only the code of S3 gets out.

use std::error::Error as _;
use std::future::Future;
use std::time::Duration;

use object_store::Error;
use object_store::client::{HttpError, HttpErrorKind};

use crate::store::StoreError;

/// How often something is asked that changes nothing when it is asked again.
const ATTEMPTS: u32 = 3;
const PAUSE: Duration = Duration::from_millis(100);

/// Asks once: what may change something when it arrives twice.
pub(super) async fn once<T>(
    within: Duration,
    question: impl Future<Output = Result<T, Error>>,
) -> Result<T, StoreError> {
    match tokio::time::timeout(within, question).await {
        Ok(answer) => answer.map_err(|error| failure(&error).of_a_write()),
        Err(_) => Err(Failure::Lost(LATE.to_owned()).of_a_write()),
    }
}

/// Asks again when the answer is lost; what it says then is what is there.
pub(super) async fn repeatedly<T, F>(within: Duration, question: impl Fn() -> F) -> Result<T, StoreError>
where
    F: Future<Output = Result<T, Error>>,
{
    let asking = async {
        let mut attempt = 1;
        loop {
            match question().await.map_err(|error| failure(&error)) {
                Ok(answer) => return Ok(answer),
                Err(Failure::Lost(_) | Failure::NotSent(_)) if attempt < ATTEMPTS => {
                    tokio::time::sleep(PAUSE * attempt).await;
                    attempt += 1;
                }
                Err(failure) => return Err(failure.of_a_read()),
            }
        }
    };
    let answer = tokio::time::timeout(within, asking).await;
    answer.unwrap_or_else(|_| Err(Failure::Lost(LATE.to_owned()).of_a_read()))
}

/// Whether an object is surely not there. A bucket that is not there is no answer about its objects, and neither is
/// the 404 of whatever stands in front of it.
pub(super) fn is_missing(error: &Error) -> bool {
    matches!(error, Error::NotFound { .. }) && code(error).as_deref() == Some("NoSuchKey")
}

const LATE: &str = "the bucket does not answer in time";

/// What became of a request.
enum Failure {
    /// Its condition did not hold.
    Condition,
    /// It never left.
    NotSent(String),
    /// It may have been done.
    Lost(String),
    TooLarge(String),
    /// It was not done and never will be.
    Refused(String),
}

impl Failure {
    fn of_a_write(self) -> StoreError {
        match self {
            Failure::Condition => StoreError::Conflict,
            Failure::NotSent(text) => StoreError::Unavailable(text),
            Failure::Lost(text) => StoreError::Unknown(text),
            Failure::TooLarge(text) => StoreError::TooLarge(text),
            Failure::Refused(text) => StoreError::refused(text),
        }
    }

    fn of_a_read(self) -> StoreError {
        match self {
            Failure::Lost(text) => StoreError::Unavailable(text),
            other => other.of_a_write(),
        }
    }
}

fn failure(error: &Error) -> Failure {
    let code = code(error);
    let answers = |status: u16| match &code {
        Some(code) => format!("the bucket answers {status} {code}"),
        None => format!("the bucket answers {status}"),
    };
    match error {
        // What a swap is told when the bucket is gone.
        _ if code.as_deref() == Some("NoSuchBucket") => Failure::Refused(answers(404)),
        Error::Precondition { .. } | Error::AlreadyExists { .. } | Error::NotModified { .. } => Failure::Condition,
        // What AWS answers to a put with If-Match where there is no object any more.
        _ if is_missing(error) => Failure::Condition,
        _ if kind(error) == Some(HttpErrorKind::Connect) => {
            Failure::NotSent("the bucket's server cannot be reached".to_owned())
        }
        _ => match status(error) {
            Some(413) => Failure::TooLarge(answers(413)),
            Some(status @ 429) => Failure::NotSent(answers(status)),
            // The server gave up waiting for the rest of the request.
            Some(status @ 408) => Failure::Lost(answers(status)),
            Some(status @ (300..=499 | 501)) => Failure::Refused(answers(status)),
            Some(status) => Failure::Lost(answers(status)),
            None => Failure::Lost("the connection to the bucket broke, or its answer cannot be read".to_owned()),
        },
    }
}

/// How the connection failed, if it did.
fn kind(error: &Error) -> Option<HttpErrorKind> {
    let mut source = error.source();
    while let Some(error) = source {
        if let Some(error) = error.downcast_ref::<HttpError>() {
            return Some(error.kind());
        }
        source = error.source();
    }
    None
}

/// The status of the answer. The client tells it in a text only.
fn status(error: &Error) -> Option<u16> {
    match error {
        Error::NotFound { .. } => Some(404),
        Error::PermissionDenied { .. } => Some(403),
        Error::Unauthenticated { .. } => Some(401),
        other => {
            let text = other.to_string();
            let (_, after) = text.split_once("status code: ")?;
            after.get(..3)?.parse().ok()
        }
    }
}

/// The code of S3 in the body of an answer.
fn code(error: &Error) -> Option<String> {
    let text = error.to_string();
    let (_, after) = text.split_once("<Code>")?;
    let (code, _) = after.split_once("</Code>")?;
    let plain = !code.is_empty() && code.len() <= 64 && code.bytes().all(|byte| byte.is_ascii_alphanumeric());
    plain.then(|| code.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_swap_of_what_is_gone_met_somebody_else_and_is_not_refused_for_good() {
        let not_found = |code: &str| {
            let source = format!("status code: 404: <Error><Code>{code}</Code></Error>").into();
            failure(&Error::NotFound { path: "heads/team-a/app".to_owned(), source }).of_a_write()
        };
        assert!(matches!(not_found("NoSuchKey"), StoreError::Conflict));
        assert!(matches!(not_found("NoSuchBucket"), StoreError::Refused(_)));
    }
}
