//! JSON schemas that strangers may write: they fetch nothing, do not recurse, and stay small however they are unfolded.

use std::collections::HashMap;
use std::fmt;

use jsonschema::{Draft, PatternOptions, Validator};
use serde_json::Value;

use super::wording;

/// A schema that is ready to be used.
pub struct Schema(Validator);

/// Why a schema cannot be used. Texts name places in the schema.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SchemaError {
    #[error("the schema is nested more than {DEEPEST} levels deep; make it flatter")]
    Depth,
    #[error("the schema has more than {LARGEST} parts when its references are followed; make it smaller")]
    Size,
    #[error("the schema refers to '{0}', which is not in it; only references that begin with '#' are followed")]
    Remote(String),
    #[error("the schema refers to '{0}' from within it; such a schema could take for ever")]
    Recursive(String),
    #[error("the schema uses {0}, which is not taken here")]
    Keyword(&'static str),
    #[error("the schema is not one: {0}")]
    Wrong(String),
}

const DEEPEST: usize = 64;
const LARGEST: usize = 10_000;
const EXPRESSION_BYTES: usize = 256 << 10;
/// How many faults of one value are told.
const FAULTS: usize = 16;

impl Schema {
    pub fn compile(schema: &Value) -> Result<Schema, SchemaError> {
        let mut schema = schema.clone();
        tidy(&mut schema, Some(Role::Schema), DEEPEST)?;
        Walk { root: &schema, sizes: HashMap::new(), open: Vec::new() }.size(&schema, Role::Schema)?;
        let options = jsonschema::options().with_pattern_options(
            PatternOptions::regex().size_limit(EXPRESSION_BYTES).dfa_size_limit(EXPRESSION_BYTES),
        );
        let options = options.should_validate_formats(true).should_ignore_unknown_formats(true);
        // The original's validator takes schemas without a draft for draft 7.
        let options = if schema.get("$schema").is_some() { options } else { options.with_draft(Draft::Draft7) };
        let built = options.build(&schema);
        built.map(Schema).map_err(|error| SchemaError::Wrong(error.masked().to_string()))
    }

    /// What is wrong with a value, in the words of the original's validator; `name` is what the value is called.
    pub fn faults(&self, name: &str, value: &Value) -> Vec<String> {
        self.0.iter_errors(value).take(FAULTS).flat_map(|error| wording::faults(name, &error)).collect()
    }
}

impl fmt::Debug for Schema {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Schema")
    }
}

/// What the fields of an object are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    /// Keywords.
    Schema,
    /// Names of the author's own, each with a schema.
    Named,
}

impl Role {
    /// What is under this field; `None` for mere data, where nothing is a schema or a reference.
    fn of(self, field: &str) -> Option<Role> {
        match (self, field) {
            (Role::Schema, "const" | "enum" | "default" | "examples") => None,
            (
                Role::Schema,
                "properties" | "patternProperties" | "definitions" | "$defs" | "dependentSchemas" | "dependencies",
            ) => Some(Role::Named),
            (Role::Schema | Role::Named, _) => Some(Role::Schema),
        }
    }
}

/// Drops ids that are mere fragments, as the draft writes them everywhere; they name nothing that a reference needs.
fn tidy(schema: &mut Value, role: Option<Role>, levels: usize) -> Result<(), SchemaError> {
    let levels = levels.checked_sub(1).ok_or(SchemaError::Depth)?;
    match schema {
        Value::Object(fields) => {
            if role == Some(Role::Schema) {
                for id in ["$id", "id"] {
                    if fields.get(id).and_then(Value::as_str).is_some_and(|id| id.starts_with('#')) {
                        fields.remove(id);
                    }
                }
            }
            let mut fields = fields.iter_mut();
            fields.try_for_each(|(name, field)| tidy(field, role.and_then(|role| role.of(name)), levels))
        }
        Value::Array(items) => items.iter_mut().try_for_each(|item| tidy(item, role, levels)),
        _ => Ok(()),
    }
}

/// Follows a schema with its references.
struct Walk<'a> {
    root: &'a Value,
    /// Of targets that were followed already.
    sizes: HashMap<String, usize>,
    /// References that are being followed.
    open: Vec<String>,
}

impl Walk<'_> {
    fn size(&mut self, part: &Value, role: Role) -> Result<usize, SchemaError> {
        let mut size = 1_usize;
        match part {
            Value::Object(fields) => {
                for (name, field) in fields {
                    let more = match (role, name.as_str(), field) {
                        (Role::Schema, "$ref", Value::String(target)) => self.follow(target)?,
                        (Role::Schema, "$dynamicRef" | "$recursiveRef", _) => {
                            return Err(SchemaError::Keyword("$dynamicRef or $recursiveRef"));
                        }
                        (Role::Schema, "$id", _) if !std::ptr::eq(part, self.root) => {
                            return Err(SchemaError::Keyword("a nested $id"));
                        }
                        _ => match role.of(name) {
                            Some(role) => self.size(field, role)?,
                            None => 1,
                        },
                    };
                    size = size.saturating_add(more);
                }
            }
            Value::Array(items) => {
                for item in items {
                    size = size.saturating_add(self.size(item, role)?);
                }
            }
            _ => {}
        }
        if size > LARGEST { Err(SchemaError::Size) } else { Ok(size) }
    }

    /// The size of what a reference names. Where it stands in the document counts, not how the reference is spelt.
    fn follow(&mut self, target: &str) -> Result<usize, SchemaError> {
        let Some(pointer) = target.strip_prefix('#') else { return Err(SchemaError::Remote(shown(target))) };
        let pointer = percent_decoded(pointer);
        if pointer.is_empty() || self.open.contains(&pointer) {
            return Err(SchemaError::Recursive(shown(target)));
        }
        if let Some(known) = self.sizes.get(&pointer) {
            return Ok(*known);
        }
        // A reference by the name of an anchor is not followed either: nothing would tell where it leads.
        let found = self.root.pointer(&pointer).ok_or_else(|| SchemaError::Remote(shown(target)))?;
        self.open.push(pointer.clone());
        let size = self.size(found, Role::Schema)?;
        self.open.pop();
        self.sizes.insert(pointer, size);
        Ok(size)
    }
}

fn percent_decoded(pointer: &str) -> String {
    let mut bytes = Vec::with_capacity(pointer.len());
    let mut rest = pointer.as_bytes();
    while let [first, tail @ ..] = rest {
        let code = tail.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        if let (b'%', Some(byte)) = (first, code.and_then(|digits| u8::from_str_radix(digits, 16).ok())) {
            bytes.push(byte);
            rest = &tail[2..];
        } else {
            bytes.push(*first);
            rest = tail;
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn shown(target: &str) -> String {
    target.chars().filter(|letter| !letter.is_control()).take(80).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn hostile_schemas_are_refused() {
        let deep = (0..70).fold(json!({}), |inner, _| json!({ "properties": { "a": inner } }));
        // Each definition applies the next one twice: 2^40 steps for one value.
        let mut doubling = serde_json::Map::new();
        for level in 0..40 {
            let next = json!({ "$ref": format!("#/definitions/d{}", level + 1) });
            doubling.insert(format!("d{level}"), json!({ "allOf": [next, next] }));
        }
        doubling.insert("d40".to_owned(), json!({}));
        let table = [
            (json!({ "$ref": "http://127.0.0.1:1/schema" }), "refers to 'http://127.0.0.1:1/schema'"),
            (json!({ "properties": { "a": { "$ref": "file:///etc/passwd" } } }), "refers to 'file:///etc/passwd'"),
            (json!({ "$ref": "other.json" }), "refers to 'other.json'"),
            (json!({ "$ref": "#/definitions/none" }), "which is not in it"),
            (json!({ "$ref": "#" }), "from within it"),
            (json!({ "items": { "$ref": "#" } }), "from within it"),
            (json!({ "properties": { "const": { "$ref": "#" } } }), "from within it"),
            (
                json!({ "definitions": { "a": { "$ref": "#/definitions/b" }, "b": { "not": { "$ref": "#/definitions/a" } } } }),
                "from within it",
            ),
            (json!({ "definitions": { "a": { "$ref": "#/definitions/%61" } } }), "from within it"),
            (json!({ "$schema": "https://json-schema.org/draft/2020-12/schema", "$dynamicRef": "#x" }), "$dynamicRef"),
            (json!({ "properties": { "a": { "$id": "http://example.com/x" } } }), "a nested $id"),
            (deep, "nested more than 64"),
            (json!({ "definitions": doubling }), "more than 10000 parts"),
            (json!({ "pattern": "(a{1000}){1000}" }), "the schema is not one"),
            (json!({ "pattern": "(?=a)" }), "the schema is not one"),
            (json!({ "type": "thing" }), "the schema is not one"),
            (json!({ "$schema": "http://example.com/meta" }), "the schema"),
        ];
        for (schema, fault) in table {
            let error = Schema::compile(&schema).unwrap_err().to_string();
            assert!(error.contains(fault), "{fault}: {error}");
        }
    }

    #[test]
    fn an_expression_that_blows_up_elsewhere_is_quick() {
        let schema = Schema::compile(&json!({ "pattern": "^(a+)+$" })).unwrap();
        let started = std::time::Instant::now();
        assert_eq!(schema.faults("value", &json!("a".repeat(50_000) + "!")).len(), 1);
        assert!(started.elapsed().as_secs() < 30, "{:?}", started.elapsed());
    }

    #[test]
    fn drafts_are_taken_by_their_name() {
        let exclusive =
            |schema: &str| Schema::compile(&json!({ "$schema": schema, "maximum": 5, "exclusiveMaximum": true }));
        assert_eq!(exclusive("http://json-schema.org/draft-04/schema#").unwrap().faults("value", &json!(5)).len(), 1);
        assert!(exclusive("http://json-schema.org/draft-07/schema#").is_err(), "a boolean there is draft 4");
        for draft in ["draft/2019-09/schema", "draft/2020-12/schema"] {
            let schema =
                json!({ "$schema": format!("https://json-schema.org/{draft}"), "dependentRequired": { "a": ["b"] } });
            assert_eq!(Schema::compile(&schema).unwrap().faults("value", &json!({ "a": 1 })).len(), 1, "{draft}");
        }
        let shared = json!({ "definitions": { "a/b": { "type": "string" } }, "properties": { "x": { "$ref": "#/definitions/a~1b" } } });
        assert_eq!(Schema::compile(&shared).unwrap().faults("value", &json!({ "x": 1 })), ["value/x must be string"]);
    }
}
