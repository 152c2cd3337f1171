//! One question to the API server: with a deadline, and with what its failure means for a swap.

use std::future::Future;
use std::time::Duration;

use kube::core::Status;

use super::StoreError;
use crate::store::{Refusal, Told};

/// Long enough for an object of a megabyte on a slow network.
const DEADLINE: Duration = Duration::from_secs(20);

/// Whether something may have changed when the answer is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Doing {
    Read,
    Write,
}

/// An API server that has just started knows no roles yet, and refuses everybody for a moment.
const PAUSES: [Duration; 4] =
    [Duration::from_millis(100), Duration::from_millis(400), Duration::from_secs(1), Duration::from_secs(2)];

/// Asks again for a while when the API server says that we may not: it was refused before anything was done.
pub(super) async fn admitted<T, F>(doing: Doing, question: impl Fn() -> F) -> Result<T, StoreError>
where
    F: Future<Output = Result<T, kube::Error>>,
{
    let admitted = async {
        for pause in PAUSES {
            match question().await {
                Err(kube::Error::Api(status)) if matches!(status.code, 401 | 403) => tokio::time::sleep(pause).await,
                answer => return answer,
            }
        }
        question().await
    };
    asked(doing, admitted).await
}

pub(super) async fn asked<T>(
    doing: Doing,
    question: impl Future<Output = Result<T, kube::Error>>,
) -> Result<T, StoreError> {
    let lost = |reason: String| match doing {
        Doing::Read => StoreError::Unavailable(reason),
        Doing::Write => StoreError::Unknown(reason),
    };
    match tokio::time::timeout(DEADLINE, question).await {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(kube::Error::Api(status))) => Err(match status.code {
            409 => StoreError::Conflict,
            413 => StoreError::TooLarge("the object is too large for the API server".to_owned()),
            // Names are checked before, so that only sizes are left to be invalid.
            422 => StoreError::TooLarge("the object is too large for its kind".to_owned()),
            // Refused before anything was done.
            429 => StoreError::Unavailable("the API server has too much to do".to_owned()),
            400..=499 => StoreError::Refused(refusal(*status)),
            code => lost(format!("the API server answers {code} {}", status.reason)),
        }),
        // The text of such an error may quote what was sent.
        Ok(Err(_)) => Err(lost("the API server cannot be reached, or its answer not be read".to_owned())),
        Err(_) => Err(lost("the API server does not answer in time".to_owned())),
    }
}

fn refusal(status: Status) -> Refusal {
    let text = format!("the API server answers {} {}", status.code, status.reason);
    let missing = status.details.filter(|details| status.code == 404 && details.kind == "namespaces");
    // Of these two it is known that they quote nothing of what was sent.
    let message = if matches!(status.code, 403 | 404) { status.message } else { text.clone() };
    let namespace = missing.map(|details| details.name);
    Refusal { text, told: Some(Told { status: status.code, message, namespace }) }
}
