//! What the server's errors mean. Its own words are passed on only where they speak about the statement: those about
//! data (SQLSTATE class 22, details of constraints) quote it.

use tokio_postgres::error::{DbError, Severity, SqlState};

use crate::tx::{Failure, Fault};
use crate::{Engine, Error, Violation};

/// A failed statement.
pub(super) fn fault(error: &tokio_postgres::Error) -> Fault {
    let Some(answer) = error.as_db_error() else {
        // Parameters and rows are checked before the driver sees them: what is left is the connection.
        return lost(&format!("the connection to PostgreSQL was lost: {error}"));
    };
    let code = answer.code();
    if ends_connection(answer) {
        return lost(&format!("PostgreSQL ended the connection (SQLSTATE {})", code.code()));
    }
    match (code.code(), code.code().get(..2)) {
        ("40001" | "40P01" | "55P03", _) => {
            Fault { error: Error::Conflict { attempts: 1 }, failure: Failure::Conflict }
        }
        ("57014", _) => Fault::last(Error::Unavailable { reason: "a statement took longer than allowed".to_owned() }),
        ("53100", _) => Fault::last(Error::Full),
        ("25006", _) => Fault::last(Error::ReadOnly),
        ("25P02", _) => Fault::last(Error::Aborted),
        (_, Some("23")) => Fault::last(violated(answer)),
        (_, Some("53")) => Fault::last(Error::Unavailable { reason: format!("SQLSTATE {}", code.code()) }),
        (_, Some("42" | "0A" | "3F")) => Fault::last(Error::Sql { reason: answer.message().to_owned() }),
        _ => Fault::last(Error::Sql { reason: format!("SQLSTATE {}", code.code()) }),
    }
}

/// A connection that was not made.
pub(super) fn connecting(error: &tokio_postgres::Error) -> Fault {
    let open = |reason: String| Fault::last(Error::Open { engine: Engine::Postgres, reason });
    let Some(answer) = error.as_db_error() else {
        return match std::error::Error::source(error) {
            Some(source) if is_certificate(source) => {
                open(format!("the server's certificate is not accepted: {source}"))
            }
            Some(source) => lost(&format!("{error}: {source}")),
            None if error.is_closed() => lost("PostgreSQL closed a new connection"),
            None => lost(&error.to_string()),
        };
    };
    match answer.code().code().get(..2) {
        // Role, password, rule of pg_hba.conf, database. The words name them and no password.
        Some("28" | "3D") => open(answer.message().to_owned()),
        _ => lost(&format!("PostgreSQL does not accept connections: {}", answer.message())),
    }
}

pub(super) fn lost(reason: &str) -> Fault {
    Fault { error: Error::Unavailable { reason: reason.to_owned() }, failure: Failure::Lost(reason.to_owned()) }
}

/// Whether this answer to COMMIT says for certain that nothing was committed. A server process that is being ended
/// may have committed just before.
pub(super) fn refused(error: &tokio_postgres::Error) -> bool {
    error
        .as_db_error()
        .is_some_and(|answer| !ends_connection(answer) && *answer.code() != SqlState::T_R_STATEMENT_COMPLETION_UNKNOWN)
}

fn ends_connection(answer: &DbError) -> bool {
    let code = answer.code();
    // A plan or a prepared statement that went out of date by a migration: a new connection has none.
    let stale = *code == SqlState::INVALID_SQL_STATEMENT_NAME
        || (*code == SqlState::FEATURE_NOT_SUPPORTED && answer.routine() == Some("RevalidateCachedQuery"));
    let ended = code.code().starts_with("08") || code.code().starts_with("57P") || code.code() == "25P03";
    stale || ended || !matches!(answer.parsed_severity(), Some(Severity::Error))
}

fn violated(answer: &DbError) -> Error {
    let violation = match answer.code().code() {
        "23505" => Violation::Unique,
        "23503" => Violation::ForeignKey,
        "23502" => Violation::NotNull,
        "23514" => Violation::Check,
        _ => Violation::Other,
    };
    let name = match (answer.constraint(), answer.table(), answer.column()) {
        (Some(constraint), ..) => constraint.to_owned(),
        (None, Some(table), Some(column)) => format!("{table}.{column}"),
        (None, Some(table), None) => table.to_owned(),
        (None, None, _) => "unnamed".to_owned(),
    };
    Error::Constraint { violation, name }
}

fn is_certificate(error: &(dyn std::error::Error + 'static)) -> bool {
    let inner = error.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
    let tls = inner.and_then(|inner| inner.downcast_ref::<rustls::Error>());
    matches!(tls, Some(rustls::Error::InvalidCertificate(_)))
}
