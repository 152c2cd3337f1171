//! A row per client in PostgreSQL, over as many connections as the server's pool has.

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use testbed::Postgres;
use tokio::sync::Mutex;
use tokio_postgres::{Client, NoTls, Statement};

/// The default of `database.pool`.
const POOL: usize = 8;

pub(crate) struct Table {
    connections: Vec<Mutex<Connection>>,
}

struct Connection {
    client: Client,
    select: Statement,
    update: Statement,
}

impl Table {
    pub(super) async fn new(server: &Postgres, clients: usize, payload: &Bytes) -> Result<Table> {
        let database = server.create_database()?;
        let schema = "CREATE TABLE floor (client BIGINT PRIMARY KEY, revision BIGINT NOT NULL, payload BYTEA NOT NULL)";
        server.sql(&database, schema)?;
        let mut connections = Vec::new();
        for _connection in 0..clients.min(POOL) {
            connections.push(Mutex::new(Connection::open(&server.url(&database)).await?));
        }
        let table = Table { connections };
        for client in 0..clients {
            let insert = "INSERT INTO floor (client, revision, payload) VALUES ($1, 0, $2)";
            let connection = table.connection(client)?.lock().await;
            connection.client.execute(insert, &[&key(client)?, &payload.as_ref()]).await?;
        }
        Ok(table)
    }

    fn connection(&self, client: usize) -> Result<&Mutex<Connection>> {
        self.connections.get(client % self.connections.len()).context("no connections")
    }

    pub(super) async fn read(&self, client: usize) -> Result<()> {
        let connection = self.connection(client)?.lock().await;
        let row = connection.client.query_one(&connection.select, &[&key(client)?]).await?;
        std::hint::black_box(row.try_get::<_, Vec<u8>>(1)?);
        Ok(())
    }

    pub(super) async fn rewrite(&self, client: usize, payload: &Bytes) -> Result<()> {
        let mut connection = self.connection(client)?.lock().await;
        let Connection { client: session, select, update } = &mut *connection;
        let (key, transaction) = (key(client)?, session.transaction().await?);
        let row = transaction.query_one(&*select, &[&key]).await?;
        let (revision, before) = (row.try_get::<_, i64>(0)?, row.try_get::<_, Vec<u8>>(1)?);
        std::hint::black_box(before);
        let updated = transaction.execute(&*update, &[&key, &revision, &payload.as_ref()]).await?;
        ensure!(updated == 1, "the row has another revision");
        Ok(transaction.commit().await?)
    }
}

impl Connection {
    async fn open(url: &str) -> Result<Connection> {
        let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
        tokio::spawn(connection);
        let select = client.prepare("SELECT revision, payload FROM floor WHERE client = $1").await?;
        let update = "UPDATE floor SET revision = revision + 1, payload = $3 WHERE client = $1 AND revision = $2";
        let update = client.prepare(update).await?;
        Ok(Connection { client, select, update })
    }
}

fn key(client: usize) -> Result<i64> {
    Ok(i64::try_from(client)?)
}
