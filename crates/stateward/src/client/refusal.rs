//! What the server says when it refuses, as a failure of the command.

use http::StatusCode;
use serde::Deserialize;

use crate::cli::failure::{Exit, Failure};
use crate::cli::output::plain;

#[derive(Deserialize)]
struct Body {
    error: Error,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Error {
    message: String,
    hint: String,
    request_id: String,
}

/// The exit code of a status.
fn exit(status: StatusCode) -> Exit {
    match status.as_u16() {
        401 | 403 => Exit::Denied,
        404 | 410 => Exit::NotFound,
        409 | 412 => Exit::Conflict,
        423 => Exit::Locked,
        408 | 429 | 502..=504 => Exit::Unavailable,
        _ => Exit::Failed,
    }
}

/// Who holds a lock, as the LockInfo in a 423 says; `None` if the text is none.
pub fn holder(body: &[u8]) -> Option<String> {
    let info = states::lock_info::LockInfo::of_unlock(body).ok()?;
    let field = |name: &str| info.field(name).filter(|text| !text.is_empty());
    let mut text = format!("locked by {}", field("Who").unwrap_or_else(|| "somebody".to_owned()));
    for (words, value) in [("for ", field("Operation")), ("", field("Info")), ("since ", field("Created"))] {
        if let Some(value) = value {
            text.push_str(&format!(", {words}{value}"));
        }
    }
    Some(plain(&format!("{text} (lock ID {})", info.id)))
}

/// Whether the request said who we are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Credential {
    Sent,
    None,
}

/// What to do, when the server does not say.
fn general_hint(status: StatusCode, credential: Credential) -> &'static str {
    match exit(status) {
        Exit::Denied if credential == Credential::None => {
            "no credential was sent: use --token-file, STATEWARD_TOKEN or --kubeconfig"
        }
        Exit::Denied => "check that the token is current and that its grants cover this",
        Exit::NotFound => "list what is there; check the name and --server",
        Exit::Conflict => "somebody else was first: look at the present state, then try again",
        Exit::Unavailable => "try again later; `/readyz?verbose` of the server says what is not ready",
        Exit::Locked => "wait for its holder; `stateward state unlock --force` breaks the lock, with permission",
        Exit::Failed | Exit::Usage | Exit::Unverified | Exit::Different | Exit::Partial | Exit::Interrupted => {
            "the log of the server says more"
        }
    }
}

/// Turns a refusal into a failure.
pub fn failure(status: StatusCode, body: &[u8], credential: Credential) -> Failure {
    let error = serde_json::from_slice::<Body>(body).map(|body| body.error).unwrap_or_default();
    let mut message = plain(&error.message);
    if let Some(holder) = holder(body).filter(|_| exit(status) == Exit::Locked) {
        message = holder;
    } else if message.is_empty() {
        message = format!("the server answered {status}");
    }
    if !error.request_id.is_empty() {
        message = format!("{message} (request {})", plain(&error.request_id));
    }
    let hint = if error.hint.is_empty() { general_hint(status, credential).to_owned() } else { plain(&error.hint) };
    Failure::new(exit(status), message, hint)
}
