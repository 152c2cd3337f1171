//! Which database the settings name.

use db::Error;

use super::settings::Settings;
use super::{Problem, Secret};

/// SQLite in the data directory unless the settings say otherwise. What is wrong with a URL is told without its text,
/// which may hold a password.
pub fn read(settings: &Settings) -> Result<db::Config, Problem> {
    let Some(url) = settings.database.url.as_ref().map(Secret::expose) else {
        return Ok(db::Config::sqlite(settings.data_dir.join("stateward.db")));
    };
    let wrong = |fault: &str, cure: &str| Problem::new("database.url", fault, cure);
    if let Some(path) = url.strip_prefix("sqlite:") {
        let path = path.trim_start_matches("//");
        let named = !path.is_empty() && !path.ends_with('/');
        return if named {
            Ok(db::Config::sqlite(path))
        } else {
            Err(wrong("names no file", "write it as sqlite:/PATH, or leave it out for SQLite in the data directory"))
        };
    }
    let db::Config::Postgres(mut config) = db::Config::postgres(url) else {
        return Err(wrong("is not the URL of a database that is known here", "write postgres://... or sqlite:/PATH"));
    };
    config.tls_ca_file.clone_from(&settings.database.tls_ca_file);
    config.pool = settings.database.pool;
    config.deadline = settings.database.deadline;
    match config.check() {
        Ok(()) => Ok(db::Config::Postgres(config)),
        Err(Error::TlsOff) => Err(Problem::new(
            "database.tls_ca_file",
            "contradicts sslmode=disable in database.url: the connection would be in clear",
            "leave one of them out",
        )),
        Err(Error::Open { reason, .. }) => {
            Err(wrong(&format!("cannot be used: {reason}"), "write postgres://USER:PASSWORD@HOST/DATABASE"))
        }
        Err(error) => Err(wrong(&error.to_string(), "write postgres://USER:PASSWORD@HOST/DATABASE")),
    }
}

/// Whether the database is PostgreSQL.
pub fn is_postgres(settings: &Settings) -> bool {
    settings.database.url.as_ref().map(Secret::expose).is_some_and(|url| url.starts_with("postgres"))
}
