//! A fresh hub on either database, and short ways to fill it.

use std::path::PathBuf;
use std::sync::Arc;

use backends::{Code, Driver, Failure};
use db::{Config, Db};
use hub::model::{AttributeRef, TypeRef};
use hub::{Batch, Connect, Endpoint, Hub, Json, MIGRATIONS, NewRecord, Settings};
use keys::{Key, Keyring, Sharing, key_file};
use testbed::Postgres;
use testbed::process::scratch;

/// Where a hub lives; it may be opened more than once.
pub(crate) struct Place {
    config: Config,
    /// Of the database, if it is PostgreSQL.
    url: Option<String>,
    /// Of the embedded database.
    pub(crate) directory: PathBuf,
    pub(crate) key: PathBuf,
}

impl Place {
    pub(crate) fn sqlite() -> Place {
        Place::new("sqlite")
    }

    pub(crate) fn postgres() -> Place {
        let server = Postgres::shared().unwrap();
        Place::new(&server.url(&server.create_database().unwrap()))
    }

    pub(crate) fn new(database: &str) -> Place {
        let place = Place::described(&format!("{database}\n{}", scratch("hub").unwrap().display()));
        key_file::create(&place.key).unwrap();
        place
    }

    /// For another process, which opens the same place by it.
    pub(crate) fn description(&self) -> String {
        let database = match &self.url {
            Some(url) => url.clone(),
            None => "sqlite".to_owned(),
        };
        format!("{database}\n{}", self.directory.display())
    }

    pub(crate) fn described(description: &str) -> Place {
        let (database, directory) = description.split_once('\n').unwrap();
        let directory = PathBuf::from(directory);
        let (config, url) = match database {
            "sqlite" => (Config::sqlite(directory.join("hub.db")), None),
            url => (Config::postgres(url), Some(url.to_owned())),
        };
        let key = directory.join("hub.key");
        Place { config, url, directory, key }
    }

    pub(crate) async fn db(&self) -> Db {
        let db = Db::open(self.config.clone()).await.unwrap();
        db.migrate(&[MIGRATIONS]).await.unwrap();
        db
    }

    /// In no column of no table, nor in what is beside the tables of the embedded database.
    pub(crate) async fn holds_nothing_of(&self, canary: &str) {
        let holds = |bytes: &[u8], text: &str| bytes.windows(text.len()).any(|window| window == text.as_bytes());
        if self.url.is_some() {
            // Bytes are written in hexadecimal there.
            let coded = canary.bytes().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().concat();
            let mut seen = Vec::new();
            for (table, row) in self.rows().await {
                assert!(!row.contains(canary) && !row.contains(&coded), "{table}: {row}");
                seen.push(table);
            }
            assert!(seen.iter().any(|table| table == "hub_versions"), "{seen:?}");
        }
        for file in std::fs::read_dir(&self.directory).unwrap() {
            let path = file.unwrap().path();
            if path.is_file() {
                assert!(!holds(&std::fs::read(&path).unwrap(), canary), "{}", path.display());
            }
        }
    }

    /// Every row of every table of a PostgreSQL database, as a text.
    async fn rows(&self) -> Vec<(String, String)> {
        let db = self.db().await;
        let read = |db: Db, sql: String| async move {
            let rows = db.read(move |tx| tx.query(&sql, &[])).await.map_err(|error: db::Error| error).unwrap();
            rows.iter().map(|row| row.get::<String>(0).unwrap()).collect::<Vec<_>>()
        };
        let tables = "SELECT CAST(tablename AS TEXT) FROM pg_tables WHERE schemaname = current_schema()";
        let mut found = Vec::new();
        for table in read(db.clone(), tables.to_owned()).await {
            let rows = read(db.clone(), format!("SELECT CAST(t AS TEXT) FROM {table} AS t")).await;
            found.extend(rows.into_iter().map(|row| (table.clone(), row)));
        }
        found
    }

    /// With nothing of the key remembered, so that what is wrapped must open.
    pub(crate) fn keyring(&self) -> Keyring {
        let key = Key::file(&self.key, Sharing::Private);
        Keyring::new([("hub".to_owned(), key)], keys::Settings::default()).unwrap()
    }

    pub(crate) async fn hub(&self) -> Hub {
        self.hub_with(settings()).await
    }

    pub(crate) async fn hub_with(&self, settings: Settings) -> Hub {
        self.hub_on(settings, Arc::new(NoBackends)).await
    }

    pub(crate) async fn hub_on(&self, settings: Settings, connect: Arc<dyn Connect>) -> Hub {
        Hub::open(self.db().await, self.keyring(), settings, connect).await.unwrap()
    }
}

pub(crate) fn settings() -> Settings {
    Settings::new("default", "hub")
}

/// For hubs that have none.
#[derive(Debug)]
pub(crate) struct NoBackends;

impl Connect for NoBackends {
    fn connect(&self, endpoint: &Endpoint) -> Result<Arc<dyn Driver>, Failure> {
        Err(Failure::new(Code::Unavailable, format!("nothing is at {}", endpoint.url)))
    }
}

pub(crate) fn type_ref(path: &str, revision: &str) -> TypeRef {
    TypeRef { path: path.parse().unwrap(), revision: revision.parse().unwrap() }
}

pub(crate) fn attribute(path: &str, revision: &str) -> AttributeRef {
    AttributeRef { path: path.parse().unwrap(), revision: revision.parse().unwrap() }
}

pub(crate) fn json(text: &str) -> Json {
    Json::parse(text).unwrap()
}

/// A record of `cap.type.test` with a value.
pub(crate) fn new(value: &str) -> NewRecord {
    NewRecord { value: Some(json(value)), ..NewRecord::new(type_ref("cap.type.test", "0.1.0")) }
}

pub(crate) async fn create(hub: &Hub, record: NewRecord) -> String {
    let batch = Batch { records: vec![record], ..Batch::default() };
    hub.create(batch).await.unwrap().remove(0).id
}

pub(crate) async fn value(hub: &Hub, id: &str, version: u32) -> String {
    hub.value(id, version).await.unwrap().map_or("none".to_owned(), |value| value.text().to_owned())
}

pub(crate) use testbed::on_both;
