//! Statements on PostgreSQL, one after the other, for a closure that waits on a thread of its own.

use std::time::Duration;

use deadpool_postgres::Object;
use tokio::runtime::Handle;
use tokio::time::timeout;
use tokio_postgres::Statement;
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, private::BytesMut, to_sql_checked};

use super::{Limits, faults};
use crate::tx::Fault;
use crate::value::Columns;
use crate::{Error, Row, Value};

/// A connection inside a transaction.
pub(crate) struct Session {
    client: Object,
    runtime: Handle,
    patience: Duration,
}

impl Session {
    pub(super) fn new(client: Object, patience: Duration) -> Session {
        Session { client, runtime: Handle::current(), patience }
    }

    pub(super) fn into_client(self) -> Object {
        self.client
    }

    pub(crate) fn execute(&self, sql: &str, params: &[Value]) -> Result<u64, Fault> {
        self.wait(change(&self.client, sql, params))
    }

    pub(crate) fn query(&self, sql: &str, params: &[Value]) -> Result<Vec<Row>, Fault> {
        self.wait(fetch(&self.client, sql, params))
    }

    pub(crate) fn batch(&self, sql: &str) -> Result<(), Fault> {
        self.wait(async { self.client.batch_execute(sql).await.map_err(Failed::Statement) })
    }

    fn wait<T>(&self, call: impl Future<Output = Result<T, Failed>>) -> Result<T, Fault> {
        match self.runtime.block_on(async { timeout(Limits::silence(self.patience), call).await }) {
            Ok(answer) => answer.map_err(Failed::fault),
            Err(_) => Err(faults::lost("PostgreSQL does not answer")),
        }
    }
}

/// Where a statement failed.
pub(super) enum Failed {
    /// Before it was sent.
    Before(Fault),
    Statement(tokio_postgres::Error),
}

impl Failed {
    fn fault(self) -> Fault {
        match self {
            Failed::Before(fault) => fault,
            Failed::Statement(error) => faults::fault(&error),
        }
    }
}

/// How many rows a statement changed.
pub(super) async fn change(client: &Object, sql: &str, params: &[Value]) -> Result<u64, Failed> {
    let statement = prepare(client, sql, params).await?;
    client.execute_raw(&statement, params.iter().map(Bound)).await.map_err(Failed::Statement)
}

/// The rows of a statement.
pub(super) async fn fetch(client: &Object, sql: &str, params: &[Value]) -> Result<Vec<Row>, Failed> {
    let statement = prepare(client, sql, params).await?;
    let params: Vec<Bound<'_>> = params.iter().map(Bound).collect();
    let params: Vec<&(dyn ToSql + Sync)> = params.iter().map(|bound| bound as _).collect();
    let rows = client.query(&statement, &params).await.map_err(Failed::Statement)?;
    let columns = Columns::new(statement.columns().iter().map(tokio_postgres::Column::name));
    rows.iter().map(|row| self::row(row, &columns).map_err(Failed::Before)).collect()
}

async fn prepare(client: &Object, sql: &str, params: &[Value]) -> Result<Statement, Failed> {
    let prepared = client.prepare_cached(sql).await;
    let statement = prepared.map_err(|error| Failed::Before(faults::fault(&error)))?;
    let wrong = |reason| Err(Failed::Before(Fault::last(Error::Sql { reason })));
    let wanted = statement.params();
    if wanted.len() != params.len() {
        return wrong(format!("it has {} placeholders but was given {} parameters", wanted.len(), params.len()));
    }
    for (index, (wanted, value)) in wanted.iter().zip(params).enumerate() {
        if !fits(value, wanted) {
            return wrong(format!("${} is {} where PostgreSQL expects {wanted}", index + 1, value.kind()));
        }
    }
    Ok(statement)
}

fn fits(value: &Value, wanted: &Type) -> bool {
    match value {
        Value::Null => true,
        Value::Int(_) if *wanted == Type::INT8 => true,
        Value::Int(number) if *wanted == Type::INT4 => i32::try_from(*number).is_ok(),
        Value::Int(number) if *wanted == Type::INT2 => i16::try_from(*number).is_ok(),
        Value::Int(_) => false,
        Value::Text(_) => <&str as ToSql>::accepts(wanted),
        Value::Blob(_) => *wanted == Type::BYTEA,
    }
}

fn row(row: &tokio_postgres::Row, columns: &Columns) -> Result<Row, Fault> {
    let values = (0..row.len()).map(|index| {
        row.try_get::<_, Option<Read>>(index).map(|read| read.map_or(Value::Null, |read| read.0)).map_err(|_| {
            let wanted = "an integer, text or bytes";
            Fault::last(Error::Column { column: columns.name(index), found: "another type", wanted })
        })
    });
    Ok(Row::new(columns.clone(), values.collect::<Result<_, _>>()?))
}

/// A parameter that [`fits`].
#[derive(Debug)]
struct Bound<'a>(&'a Value);

impl ToSql for Bound<'_> {
    fn to_sql(&self, wanted: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        match self.0 {
            Value::Null => Ok(IsNull::Yes),
            Value::Int(number) if *wanted == Type::INT4 => i32::try_from(*number)?.to_sql(wanted, out),
            Value::Int(number) if *wanted == Type::INT2 => i16::try_from(*number)?.to_sql(wanted, out),
            Value::Int(number) => number.to_sql(wanted, out),
            Value::Text(text) => text.to_sql(wanted, out),
            Value::Blob(bytes) => bytes.to_sql(wanted, out),
        }
    }

    fn accepts(_wanted: &Type) -> bool {
        true
    }

    to_sql_checked!();
}

/// A column that is not NULL.
struct Read(Value);

impl<'a> FromSql<'a> for Read {
    fn from_sql(found: &Type, raw: &'a [u8]) -> Result<Read, Box<dyn std::error::Error + Sync + Send>> {
        Ok(Read(match *found {
            Type::INT8 => Value::Int(i64::from_sql(found, raw)?),
            Type::INT4 => Value::Int(i32::from_sql(found, raw)?.into()),
            Type::INT2 => Value::Int(i16::from_sql(found, raw)?.into()),
            // `EXISTS(...)` is 0 or 1 on SQLite.
            Type::BOOL => Value::Int(bool::from_sql(found, raw)?.into()),
            Type::BYTEA => Value::Blob(raw.to_vec()),
            _ => Value::Text(String::from_sql(found, raw)?),
        }))
    }

    fn accepts(found: &Type) -> bool {
        matches!(*found, Type::INT8 | Type::INT4 | Type::INT2 | Type::BOOL | Type::BYTEA)
            || <String as FromSql>::accepts(found)
    }
}
