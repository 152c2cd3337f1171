//! Values that go into statements and rows that come out of them.

use std::fmt;
use std::sync::Arc;

use crate::Error;

/// A parameter or a column. Debug tells the kind and size only: what is inside may be a secret.
#[derive(Clone, PartialEq, Eq)]
pub enum Value {
    Null,
    Int(i64),
    Text(String),
    Blob(Vec<u8>),
}

impl Value {
    /// What an error may say about it.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Value::Null => "NULL",
            Value::Int(_) => "an integer",
            Value::Text(_) => "text",
            Value::Blob(_) => "bytes",
        }
    }
}

impl fmt::Debug for Value {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Null => formatter.write_str("Null"),
            Value::Int(number) => write!(formatter, "Int({number})"),
            Value::Text(text) => write!(formatter, "Text({} bytes)", text.len()),
            Value::Blob(bytes) => write!(formatter, "Blob({} bytes)", bytes.len()),
        }
    }
}

impl From<i64> for Value {
    fn from(number: i64) -> Value {
        Value::Int(number)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Value {
        Value::Text(text.to_owned())
    }
}

impl From<&String> for Value {
    fn from(text: &String) -> Value {
        Value::Text(text.clone())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Value {
        Value::Text(text)
    }
}

impl From<Vec<u8>> for Value {
    fn from(bytes: Vec<u8>) -> Value {
        Value::Blob(bytes)
    }
}

impl From<&[u8]> for Value {
    fn from(bytes: &[u8]) -> Value {
        Value::Blob(bytes.to_vec())
    }
}

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Value {
        value.map_or(Value::Null, Into::into)
    }
}

/// The parameters of a statement: `params![7, "text", bytes]`.
#[macro_export]
macro_rules! params {
    ($($value:expr),* $(,)?) => { &[$($crate::Value::from($value)),*] as &[$crate::Value] };
}

/// One row of a result.
#[derive(Clone, Debug)]
pub struct Row {
    columns: Columns,
    values: Vec<Value>,
}

/// The names of columns, for errors alone: one text of them all costs less than a text of each.
#[derive(Clone, Debug)]
pub(crate) struct Columns(Arc<str>);

impl Columns {
    pub(crate) fn new<'a>(names: impl Iterator<Item = &'a str>) -> Columns {
        let mut all = String::new();
        for name in names {
            all.push_str(name);
            all.push('\n');
        }
        Columns(all.into())
    }

    pub(crate) fn name(&self, index: usize) -> String {
        self.0.lines().nth(index).map_or_else(|| format!("number {index}"), str::to_owned)
    }
}

impl Row {
    pub(crate) fn new(columns: Columns, values: Vec<Value>) -> Row {
        Row { columns, values }
    }

    /// The column at `index`, counted from 0, as `i64`, `String`, `Vec<u8>` or an `Option` of these.
    pub fn get<T: FromValue>(&self, index: usize) -> Result<T, Error> {
        let value = self.value(index, T::WANTED)?;
        T::from_value(value).ok_or_else(|| self.wrong(index, value.kind(), T::WANTED))
    }

    /// The bytes of the column at `index`, without a copy.
    pub fn bytes(&self, index: usize) -> Result<&[u8], Error> {
        match self.value(index, Vec::<u8>::WANTED)? {
            Value::Blob(bytes) => Ok(bytes),
            other => Err(self.wrong(index, other.kind(), Vec::<u8>::WANTED)),
        }
    }

    fn value(&self, index: usize, wanted: &'static str) -> Result<&Value, Error> {
        self.values.get(index).ok_or_else(|| self.wrong(index, "nothing: there are fewer columns", wanted))
    }

    fn wrong(&self, index: usize, found: &'static str, wanted: &'static str) -> Error {
        Error::Column { column: self.columns.name(index), found, wanted }
    }
}

/// What [`Row::get`] can make of a column.
pub trait FromValue: Sized {
    /// How an error names it.
    const WANTED: &'static str;

    /// `None` when the value is of another kind.
    fn from_value(value: &Value) -> Option<Self>;
}

impl FromValue for i64 {
    const WANTED: &'static str = "an integer";

    fn from_value(value: &Value) -> Option<i64> {
        match value {
            Value::Int(number) => Some(*number),
            _ => None,
        }
    }
}

impl FromValue for String {
    const WANTED: &'static str = "text";

    fn from_value(value: &Value) -> Option<String> {
        match value {
            Value::Text(text) => Some(text.clone()),
            _ => None,
        }
    }
}

impl FromValue for Vec<u8> {
    const WANTED: &'static str = "bytes";

    fn from_value(value: &Value) -> Option<Vec<u8>> {
        match value {
            Value::Blob(bytes) => Some(bytes.clone()),
            _ => None,
        }
    }
}

impl<T: FromValue> FromValue for Option<T> {
    const WANTED: &'static str = T::WANTED;

    fn from_value(value: &Value) -> Option<Option<T>> {
        match value {
            Value::Null => Some(None),
            other => T::from_value(other).map(Some),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_tells_kind_and_size_and_hides_what_is_inside() {
        let row = Row::new(
            Columns::new(["a", "b"].into_iter()),
            vec![Value::from("canary-text"), Value::from(b"canary-bytes".as_slice())],
        );
        let shown = format!("{row:?}");
        assert!(!shown.contains("canary") && !shown.contains("99, 97"), "{shown}");
        assert!(shown.contains("Text(11 bytes)") && shown.contains("Blob(12 bytes)"), "{shown}");
    }

    #[test]
    fn a_column_of_another_kind_is_named_without_its_content() {
        let row = Row::new(Columns::new(["secret"].into_iter()), vec![Value::from("canary")]);
        let error = row.get::<i64>(0).unwrap_err().to_string();
        assert_eq!(error, "column 'secret' holds text, not an integer");
        let error = row.bytes(0).unwrap_err().to_string();
        assert_eq!(error, "column 'secret' holds text, not bytes");
        assert!(row.get::<Option<String>>(7).unwrap_err().to_string().contains("number 7"));
        let null = Row::new(Columns::new(["n"].into_iter()), vec![Value::Null]);
        assert_eq!(null.get::<Option<i64>>(0).unwrap(), None);
        assert!(null.get::<i64>(0).is_err());
    }
}
