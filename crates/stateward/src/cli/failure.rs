//! How a command fails: an exit code that means something, a message, a hint.
//!
//! A command returns `anyhow::Result`. A [`Failure`] in the chain gives code and hint; an error without one is a
//! plain failure and gets a hint of its own, so that every error ends with one. This is the only place that prints
//! errors.

use std::process::ExitCode;

use access::audit::LeaseError;

use crate::config::Invalid;

/// The exit codes, as `--help` and the reference page show them.
pub const EXIT_CODES: &str = "\
Exit codes:
  0  done
  1  failed
  2  wrong usage or configuration
  3  not found
  4  not authenticated, or not allowed
  5  conflict with what is there
  6  not reachable, not ready, or out of time
  7  verification failed
  8  locked by somebody else
  9  there are differences (only where asked for by --exit-code)
 10  done in part (only where asked for by --partial)
130  interrupted";

/// Why a process ends other than well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    Failed = 1,
    Usage = 2,
    NotFound = 3,
    Denied = 4,
    Conflict = 5,
    Unavailable = 6,
    Unverified = 7,
    Locked = 8,
    Different = 9,
    Partial = 10,
    Interrupted = 130,
}

/// A failure with its exit code and a hint.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    pub exit: Exit,
    pub message: String,
    pub hint: String,
}

impl Failure {
    pub fn new(exit: Exit, message: impl Into<String>, hint: impl Into<String>) -> Failure {
        Failure { exit, message: message.into(), hint: hint.into() }
    }

    pub fn usage(message: impl Into<String>, hint: impl Into<String>) -> Failure {
        Failure::new(Exit::Usage, message, hint)
    }
}

/// Whoever read our output went away, as `head` does: an end, not an error.
#[derive(Debug, thiserror::Error)]
#[error("the reader of the output went away")]
pub struct ReaderGone;

/// The command has said all that there is to say, and ends with this code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("ended with {0}")]
pub struct Ended(pub u8);

/// Prints the error, if there is one, and gives the exit code.
pub fn exit_code(result: anyhow::Result<()>) -> ExitCode {
    let Err(error) = result else { return ExitCode::SUCCESS };
    if error.is::<ReaderGone>() {
        return ExitCode::SUCCESS;
    }
    if let Some(Ended(code)) = error.downcast_ref() {
        return ExitCode::from(*code);
    }
    let (exit, hint) = verdict(&error);
    super::output::talk(format_args!("error: {error:#}\nhint: {hint}"));
    ExitCode::from(exit as u8)
}

fn verdict(error: &anyhow::Error) -> (Exit, &str) {
    for cause in error.chain() {
        if let Some(failure) = cause.downcast_ref::<Failure>() {
            return (failure.exit, &failure.hint);
        }
        if cause.is::<Invalid>() {
            return (Exit::Usage, "`stateward config check` shows every value and where it came from");
        }
        if let Some(db::Error::Unavailable { .. }) = cause.downcast_ref() {
            return (Exit::Unavailable, "see that the database runs and can be reached at the address of database.url");
        }
        if let Some(LeaseError::Deadline | LeaseError::Kubernetes(_)) = cause.downcast_ref() {
            return (Exit::Unavailable, "check that the API server answers and lets you get Leases, then try again");
        }
    }
    (Exit::Failed, "`stateward help` lists the commands; STATEWARD_LOG_LEVEL=debug makes `serve` say more")
}

#[cfg(test)]
mod tests {
    use anyhow::Context;

    use super::*;

    #[test]
    fn code_and_hint_are_found_under_any_context() {
        let failure = Err::<(), _>(Failure::new(Exit::Conflict, "locked", "wait")).context("failed to write");
        assert_eq!(verdict(&failure.unwrap_err()), (Exit::Conflict, "wait"));
        assert_eq!(verdict(&Invalid(Vec::new()).into()).0, Exit::Usage);
        let away = db::Error::Unavailable { reason: "connection refused".to_owned() };
        let away = Err::<(), _>(away).context("failed to open the database").unwrap_err();
        assert_eq!(verdict(&away).0, Exit::Unavailable);
        let (exit, hint) = (Exit::Failed, "lists the commands");
        let plain = anyhow::anyhow!("plain");
        assert!(verdict(&plain).0 == exit && verdict(&plain).1.contains(hint));
    }
}
