//! A fresh, empty database of either engine, which a test may open as often as it likes.

use db::{Config, Db, Migrations, params};
use testbed::Postgres;

/// Where a database is, in a form that a child process can be given, too.
#[derive(Clone, Debug)]
pub(crate) enum Place {
    Sqlite(String),
    Postgres(String),
}

impl Place {
    pub(crate) fn sqlite() -> Place {
        let directory = testbed::process::scratch("db").unwrap();
        Place::Sqlite(directory.join("test.db").to_str().unwrap().to_owned())
    }

    pub(crate) fn postgres() -> Place {
        let server = Postgres::shared().unwrap();
        Place::Postgres(server.url(&server.create_database().unwrap()))
    }

    pub(crate) fn config(&self) -> Config {
        match self {
            Place::Sqlite(path) => Config::sqlite(path),
            Place::Postgres(url) => Config::postgres(url),
        }
    }

    pub(crate) async fn open(&self) -> Db {
        Db::open(self.config()).await.unwrap()
    }

    /// Opens it with the table `pairs`.
    pub(crate) async fn with_pairs(&self) -> Db {
        let db = self.open().await;
        db.migrate(&[PAIRS]).await.unwrap();
        db
    }
}

/// What most tests write to.
pub(crate) const PAIRS: Migrations = Migrations {
    set: "pairs",
    steps: &[
        "CREATE TABLE pairs (name TEXT PRIMARY KEY, number BIGINT NOT NULL CHECK (number > -1000000), data BYTEA)",
    ],
};

pub(crate) async fn put(db: &Db, name: &str, number: i64) {
    let name = name.to_owned();
    db.write(move |tx| tx.execute("INSERT INTO pairs (name, number) VALUES ($1, $2)", params![&name, number]))
        .await
        .unwrap();
}

pub(crate) async fn number(db: &Db, name: &str) -> Option<i64> {
    let name = name.to_owned();
    let row = db.read(move |tx| tx.query_opt("SELECT number FROM pairs WHERE name = $1", params![&name])).await;
    row.unwrap().map(|row| row.get(0).unwrap())
}

pub(crate) async fn names(db: &Db) -> Vec<String> {
    let rows = db.read(|tx| tx.query("SELECT name FROM pairs ORDER BY name", &[])).await.unwrap();
    rows.iter().map(|row| row.get(0).unwrap()).collect()
}

pub(crate) use testbed::on_both;
