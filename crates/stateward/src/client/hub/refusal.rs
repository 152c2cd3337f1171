//! What the hub says when it refuses, as a failure of the command.

use serde::Deserialize;

use crate::cli::failure::{Exit, Failure};

#[derive(Deserialize)]
struct Envelope {
    errors: Vec<Told>,
}

#[derive(Deserialize)]
struct Told {
    message: String,
    #[serde(default)]
    extensions: Extensions,
}

#[derive(Default, Deserialize)]
struct Extensions {
    #[serde(default)]
    code: String,
}

/// The failure that an answer tells of, if it does. The first error counts, as it does to the original's clients.
pub fn failure(body: &[u8]) -> Option<Failure> {
    let envelope: Envelope = serde_json::from_slice(body).ok()?;
    let Told { message, extensions } = envelope.errors.into_iter().next()?;
    let (exit, hint) = verdict(&extensions.code);
    // Lists of faults have lines of their own, which a terminal may obey.
    let readable = |letter: char| matches!(letter, '\n' | '\t') || !letter.is_control();
    let message: String = message.chars().map(|letter| if readable(letter) { letter } else { '\u{fffd}' }).collect();
    Some(Failure::new(exit, message, hint))
}

const SMALLER: &str = "ask for less at once, or ask the operator to raise the setting that the message names";

/// Whether the server would answer a smaller question.
pub fn is_too_large(failure: &Failure) -> bool {
    failure.hint == SMALLER
}

fn verdict(code: &str) -> (Exit, &'static str) {
    match code {
        "NOT_FOUND" => (Exit::NotFound, "`stateward ti get` and `stateward storage list` show what is there"),
        "FORBIDDEN" => (Exit::Denied, "check that the token is current and that its grants cover this"),
        "LOCKED" => (Exit::Locked, "give the owner of the lock with --owner, wait, or `stateward ti unlock --force`"),
        "CONFLICT" => (Exit::Conflict, "somebody else was first: look at the present state, then try again"),
        "IN_USE" => (Exit::Conflict, "end what uses it first; `stateward ti get -o yaml` shows usedBy"),
        "RETRY" => {
            (Exit::Unavailable, "it is being changed: try again in a moment, or look at `stateward ti journal ls`")
        }
        "BACKEND" => (Exit::Unavailable, "`stateward storage list` shows which storage backends answer"),
        "UNAVAILABLE" | "BUSY" => {
            (Exit::Unavailable, "try again later; `/readyz?verbose` of the server says what is not ready")
        }
        "TOO_LARGE" => (Exit::Failed, SMALLER),
        _ => (Exit::Failed, "correct what the message names, and try again"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_error_gives_message_and_exit_code() {
        let table = [
            ("NOT_FOUND", Exit::NotFound),
            ("FORBIDDEN", Exit::Denied),
            ("LOCKED", Exit::Locked),
            ("CONFLICT", Exit::Conflict),
            ("IN_USE", Exit::Conflict),
            ("RETRY", Exit::Unavailable),
            ("BACKEND", Exit::Unavailable),
            ("BUSY", Exit::Unavailable),
            ("INVALID", Exit::Failed),
            ("TOO_LARGE", Exit::Failed),
        ];
        for (code, exit) in table {
            let body = format!(
                r#"{{"data":null,"errors":[{{"message":"a:\n\t* \u001b[31mb","extensions":{{"code":"{code}"}}}},{{"message":"c"}}]}}"#
            );
            let failure = failure(body.as_bytes()).unwrap();
            assert_eq!((failure.exit, failure.message.as_str()), (exit, "a:\n\t* \u{fffd}[31mb"), "{code}");
            assert_eq!(is_too_large(&failure), code == "TOO_LARGE");
        }
        assert!(failure(br#"{"errors":[{"message":"m"}]}"#).is_some());
        for fine in [&b"{\"data\":{}}"[..], b"{\"data\":{},\"errors\":[]}", b"no JSON"] {
            assert!(failure(fine).is_none());
        }
    }
}
