//! Statements on SQLite. `$1` is the name of a parameter there, not its number: it is bound by what the name says.

use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{CachedStatement, Connection, ToSql};

use super::connection::fault;
use crate::tx::Fault;
use crate::value::Columns;
use crate::{Error, Row, Value};

pub(crate) fn execute(connection: &Connection, sql: &str, params: &[Value]) -> Result<u64, Fault> {
    let mut statement = bound(connection, sql, params)?;
    let changed = statement.raw_execute().map_err(|error| fault(&error))?;
    Ok(u64::try_from(changed).unwrap_or(u64::MAX))
}

pub(crate) fn query(connection: &Connection, sql: &str, params: &[Value]) -> Result<Vec<Row>, Fault> {
    let mut statement = bound(connection, sql, params)?;
    let (columns, count) = (Columns::new(statement.column_names()), statement.column_count());
    let mut rows = statement.raw_query();
    let mut found = Vec::new();
    while let Some(row) = rows.next().map_err(|error| fault(&error))? {
        let values = (0..count).map(|index| value(row, index, &columns)).collect::<Result<Vec<_>, _>>()?;
        found.push(Row::new(columns.clone(), values));
    }
    Ok(found)
}

/// Begins or ends a transaction or a part of it. Kept ready as all others are: SQLite takes longer to read such a statement
/// than to carry it out.
pub(super) fn control(connection: &Connection, sql: &str) -> rusqlite::Result<()> {
    connection.prepare_cached(sql)?.raw_execute().map(drop)
}

pub(crate) fn batch(connection: &Connection, sql: &str) -> Result<(), Fault> {
    connection.execute_batch(sql).map_err(|error| fault(&error))
}

fn bound<'c>(connection: &'c Connection, sql: &str, params: &[Value]) -> Result<CachedStatement<'c>, Fault> {
    let mut statement = connection.prepare_cached(sql).map_err(|error| fault(&error))?;
    let mut highest = 0;
    for index in 1..=statement.parameter_count() {
        let name = statement.parameter_name(index).unwrap_or("?");
        let number =
            name.strip_prefix('$').and_then(|digits| digits.parse::<usize>().ok()).filter(|&number| number > 0);
        let Some(number) = number else {
            return Err(wrong(format!("the placeholder '{name}' is not one of $1, $2, ...")));
        };
        highest = highest.max(number);
        let Some(value) = params.get(number - 1) else {
            return Err(wrong(format!("it has the placeholder ${number} but was given {} parameters", params.len())));
        };
        statement.raw_bind_parameter(index, value).map_err(|error| fault(&error))?;
    }
    // PostgreSQL refuses parameters that no placeholder uses.
    if highest == params.len() {
        Ok(statement)
    } else {
        Err(wrong(format!("it has {highest} placeholders but was given {} parameters", params.len())))
    }
}

fn value(row: &rusqlite::Row<'_>, index: usize, columns: &Columns) -> Result<Value, Fault> {
    let value = row.get_ref(index).map_err(|error| fault(&error))?;
    let other = |found| Error::Column { column: columns.name(index), found, wanted: "an integer, text or bytes" };
    match value {
        ValueRef::Null => Ok(Value::Null),
        ValueRef::Integer(number) => Ok(Value::Int(number)),
        ValueRef::Blob(bytes) => Ok(Value::Blob(bytes.to_vec())),
        ValueRef::Text(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => Ok(Value::Text(text.to_owned())),
            Err(_) => Err(Fault::last(other("text that is not UTF-8"))),
        },
        ValueRef::Real(_) => Err(Fault::last(other("a floating-point number"))),
    }
}

fn wrong(reason: String) -> Fault {
    Fault::last(Error::Sql { reason })
}

impl ToSql for Value {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Value::Null => ValueRef::Null,
            Value::Int(number) => ValueRef::Integer(*number),
            Value::Text(text) => ValueRef::Text(text.as_bytes()),
            Value::Blob(bytes) => ValueRef::Blob(bytes),
        }))
    }
}
