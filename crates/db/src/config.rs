//! Where the database is and how long to wait for it.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use crate::Error;

/// Which engine, with its settings.
#[derive(Clone, Debug)]
pub enum Config {
    Sqlite(SqliteConfig),
    Postgres(PostgresConfig),
}

impl Config {
    /// SQLite in the file `path`, with the default settings.
    pub fn sqlite(path: impl Into<PathBuf>) -> Config {
        Config::Sqlite(SqliteConfig {
            path: path.into(),
            readers: 4,
            deadline: Duration::from_secs(10),
            #[cfg(feature = "testing")]
            synchronous: Synchronous::Full,
        })
    }

    /// PostgreSQL at `url` (`postgres://user:password@host:port/database?sslmode=...`), with the default settings.
    pub fn postgres(url: impl Into<String>) -> Config {
        Config::Postgres(PostgresConfig {
            url: url.into(),
            tls_ca_file: None,
            pool: 10,
            deadline: Duration::from_secs(10),
        })
    }
}

/// Settings of the embedded engine.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SqliteConfig {
    /// The file. It is created with mode 0600, and its directory, where missing, with mode 0700.
    pub path: PathBuf,
    /// How many reads go on at once.
    pub readers: usize,
    /// How long a call waits for its turn and for other processes on the same file.
    pub deadline: Duration,
    /// How hard a commit is pushed to the disk. Anything but `Full` loses acknowledged writes.
    #[cfg(feature = "testing")]
    pub synchronous: Synchronous,
}

/// What `PRAGMA synchronous` is set to, so that a test can see its own check fail.
#[cfg(feature = "testing")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Synchronous {
    Full,
    Off,
}

/// Settings of the engine on a server.
///
/// `sslmode` in the URL: `disable` never uses TLS; `prefer` (the default) uses it when the server offers it; `require`,
/// `verify-ca` and `verify-full` mean the same: no connection without TLS. Whenever TLS is used, the certificate and
/// the host name are verified, against `tls_ca_file` or else the roots of the platform. Who gives a `tls_ca_file` wants
/// TLS: `prefer` is `require` then, and `disable` an error.
#[derive(Clone)]
#[non_exhaustive]
pub struct PostgresConfig {
    /// Holds a password, hence kept out of Debug and of every error.
    pub url: String,
    /// PEM file of the authorities that may sign the server's certificate.
    pub tls_ca_file: Option<PathBuf>,
    /// How many connections, hence transactions, at once.
    pub pool: usize,
    /// How long a call may take, repetitions included. Finding out about a COMMIT of unknown outcome may take as long
    /// once more.
    pub deadline: Duration,
}

impl PostgresConfig {
    /// What can be told to be wrong without a connection and without reading a file.
    pub fn check(&self) -> Result<(), Error> {
        crate::postgres::check(self)
    }
}

impl fmt::Debug for PostgresConfig {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("PostgresConfig")
            .field("url", &"(hidden)")
            .field("tls_ca_file", &self.tls_ca_file)
            .field("pool", &self.pool)
            .field("deadline", &self.deadline)
            .finish()
    }
}
