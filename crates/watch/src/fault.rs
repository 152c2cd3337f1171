//! What an error of a call means for a stream. Pure.

use kube::core::Status;

use crate::Why;

/// Why a list, a watch or a write of keys did not go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Try again later; nothing follows from it.
    Lost(Why),
    /// What was asked for is too old, or of a future that a restored etcd has not seen: list again.
    Expired,
    /// 404: perhaps the kind is gone.
    NotServed,
    /// The stream was removed: end.
    Removed,
}

impl Fault {
    pub(crate) fn of(error: &kube::Error) -> Fault {
        match error {
            kube::Error::Api(status) => Fault::of_status(status),
            kube::Error::Auth(_) => Fault::Lost(Why::Unauthorized),
            kube::Error::SerdeError(_) | kube::Error::FromUtf8(_) | kube::Error::LinesCodecMaxLineLengthExceeded => {
                Fault::Lost(Why::Unreadable)
            }
            _ => Fault::Lost(Why::Unreachable),
        }
    }

    pub(crate) fn of_status(status: &Status) -> Fault {
        if is_too_large(status) {
            return Fault::Expired;
        }
        match status.code {
            401 => Fault::Lost(Why::Unauthorized),
            403 => Fault::Lost(Why::Forbidden),
            404 => Fault::NotServed,
            410 => Fault::Expired,
            429 => Fault::Lost(Why::Busy),
            400..=499 => Fault::Lost(Why::Refused),
            _ => Fault::Lost(Why::Failing),
        }
    }

    /// The same for whoever asked for one object: only a stream's own list or watch may conclude more.
    pub(crate) fn why(self) -> Why {
        match self {
            Fault::Lost(why) => why,
            Fault::Expired => Why::Failing,
            Fault::NotServed => Why::NotServed,
            Fault::Removed => Why::Keys,
        }
    }
}

/// The server has not reached the version that is asked for. It says so with 504, also while it merely catches up after
/// its start; a list, which always works, is right in both cases.
fn is_too_large(status: &Status) -> bool {
    let causes = status.details.iter().flat_map(|details| &details.causes);
    causes.into_iter().any(|cause| cause.reason == "ResourceVersionTooLarge")
        || status.message.contains("Too large resource version")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_are_told_apart() {
        let table = [
            (401, "", Fault::Lost(Why::Unauthorized)),
            (403, "", Fault::Lost(Why::Forbidden)),
            (404, "", Fault::NotServed),
            (410, "", Fault::Expired),
            (422, "", Fault::Lost(Why::Refused)),
            (429, "", Fault::Lost(Why::Busy)),
            (500, "", Fault::Lost(Why::Failing)),
            (503, "", Fault::Lost(Why::Failing)),
            (504, "Timeout: request did not complete", Fault::Lost(Why::Failing)),
            (504, "Timeout: Too large resource version: 9, current: 7", Fault::Expired),
        ];
        for (code, message, fault) in table {
            let status = Status::failure(message, "").with_code(code);
            assert_eq!(Fault::of_status(&status), fault, "{code} {message}");
        }
    }
}
