//! JSON schemas that strangers may write: they fetch nothing, do not recurse, and stay small however they are unfolded.

use std::collections::HashMap;
use std::fmt;

use jsonschema::{Draft, Validator};
use serde_json::Value;

use super::expressions::{self, Expressions};
use super::{order, wording};
use crate::aside::aside;

/// A schema that is ready to be used.
pub struct Schema {
    validator: Validator,
    /// What it was made of.
    source: Value,
    /// How long it takes at most to compare one part of a value with it.
    steps: usize,
    bytes: usize,
}

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
    #[error("the schema has more than {most} {what}; use fewer or simpler ones in pattern and patternProperties")]
    Expressions { what: &'static str, most: usize },
    #[error("the schema uses {0}, which is not taken here")]
    Keyword(&'static str),
    #[error("the schema is not one: {0}")]
    Wrong(String),
}

const DEEPEST: usize = 64;
const LARGEST: usize = 10_000;
/// One with more parts takes some time to make.
const LARGE: usize = 200;
/// What a part of a schema takes in memory, about.
const PART_BYTES: usize = 1 << 10;
/// How many faults of one value are told.
const FAULTS: usize = 100;
/// Parts of a schema times parts of a value: beyond the first, others go on in the meantime; beyond the second, nobody is told
/// where the faults are, for all of them would have to be kept; beyond the third, nothing is compared.
const MUCH: usize = 100_000;
const TOO_MUCH_TO_TELL: usize = 1_000_000;
const TOO_MUCH: usize = 50_000_000;
/// As many letters count as one part of a value.
const LETTERS: usize = 64;

impl Schema {
    pub fn compile(schema: &Value) -> Result<Schema, SchemaError> {
        if parts(schema) > LARGE { aside(|| Schema::made_of(schema)) } else { Schema::made_of(schema) }
    }

    fn made_of(schema: &Value) -> Result<Schema, SchemaError> {
        let mut source = schema.clone();
        tidy(&mut source, Some(Role::Schema), DEEPEST)?;
        let expressions = Expressions::of(&source)?;
        let mut walk = Walk { root: &source, expressions: &expressions, sizes: HashMap::new(), open: Vec::new() };
        let Size { parts, steps } = walk.size(&source, Role::Schema)?;
        let bytes = parts.saturating_mul(PART_BYTES).saturating_add(expressions.bytes());
        let options = jsonschema::options().with_pattern_options(expressions::largest());
        let options = options.should_validate_formats(true).should_ignore_unknown_formats(true);
        // The original's validator takes schemas without a draft for draft 7.
        let options = if source.get("$schema").is_some() { options } else { options.with_draft(Draft::Draft7) };
        match options.build(&source) {
            Ok(validator) => Ok(Schema { validator, source, steps, bytes }),
            Err(error) => Err(SchemaError::Wrong(error.masked().to_string())),
        }
    }

    /// About how much memory it takes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// What is wrong with a value, in the words and in the order of the original's validator; `name` is what the value is called.
    pub fn faults(&self, name: &str, value: &Value) -> Vec<String> {
        let parts = parts(value);
        let comparisons = self.steps.saturating_mul(parts);
        if comparisons > TOO_MUCH {
            let steps = self.steps;
            return vec![format!(
                "{name} is too large for its schema: it has {parts} parts, the schema {steps}, and {TOO_MUCH} comparisons are made at \
                 most; make one of them smaller"
            )];
        }
        if comparisons > TOO_MUCH_TO_TELL {
            let is_valid = aside(|| self.validator.is_valid(value));
            let fault = || format!("{name} does not match its schema, and is too large to say where");
            return if is_valid { Vec::new() } else { vec![fault()] };
        }
        if comparisons > MUCH { aside(|| self.told(name, value)) } else { self.told(name, value) }
    }

    fn told(&self, name: &str, value: &Value) -> Vec<String> {
        let errors = order::sorted(&self.source, self.validator.iter_errors(value).collect());
        let mut faults: Vec<String> =
            errors.iter().flat_map(|error| wording::faults(name, error, &self.source)).collect();
        if let Some(more) = faults.len().checked_sub(FAULTS).filter(|more| *more > 0) {
            faults.truncate(FAULTS);
            faults.push(format!("and {more} more"));
        }
        faults
    }
}

/// How much there is to compare in a value.
fn parts(value: &Value) -> usize {
    match value {
        Value::String(text) => 1 + text.len() / LETTERS,
        Value::Array(items) => items.iter().fold(1, |sum, item| sum + parts(item)),
        Value::Object(fields) => fields.iter().fold(1, |sum, (name, field)| sum + name.len() / LETTERS + parts(field)),
        _ => 1,
    }
}

impl fmt::Debug for Schema {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Schema")
    }
}

/// What the fields of an object are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// Keywords.
    Schema,
    /// Names of the author's own, each with a schema.
    Named,
}

impl Role {
    /// What is under this field; `None` for mere data, where nothing is a schema or a reference.
    pub(super) fn of(self, field: &str) -> Option<Role> {
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

/// How large a part of a schema is, with all that it leads to.
#[derive(Clone, Copy)]
struct Size {
    parts: usize,
    /// Parts, and as many more as data and expressions make them slower.
    steps: usize,
}

impl Size {
    const ONE: Size = Size { parts: 1, steps: 1 };

    fn add(&mut self, more: Size) {
        self.parts = self.parts.saturating_add(more.parts);
        self.steps = self.steps.saturating_add(more.steps);
    }
}

/// Keywords that ask all schemas beside them once more for what they have looked at, and these in turn theirs.
const AGAIN: [&str; 2] = ["unevaluatedProperties", "unevaluatedItems"];
/// Keywords with schemas for the same value.
const IN_PLACE: [&str; 9] = ["$ref", "allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas"];

/// Follows a schema with its references.
struct Walk<'a> {
    root: &'a Value,
    expressions: &'a Expressions<'a>,
    /// Of targets that were followed already.
    sizes: HashMap<String, Size>,
    /// References that are being followed.
    open: Vec<String>,
}

impl Walk<'_> {
    fn size(&mut self, part: &Value, role: Role) -> Result<Size, SchemaError> {
        let mut size = Size::ONE;
        match part {
            Value::Object(fields) => {
                let looks_again = role == Role::Schema && AGAIN.iter().any(|keyword| fields.contains_key(*keyword));
                for (name, field) in fields {
                    let mut more = match (role, name.as_str(), field) {
                        (Role::Schema, "$ref", Value::String(target)) => self.follow(target)?,
                        (Role::Schema, "$dynamicRef" | "$recursiveRef", _) => {
                            return Err(SchemaError::Keyword("$dynamicRef or $recursiveRef"));
                        }
                        (Role::Schema, "$id", _) if !std::ptr::eq(part, self.root) => {
                            return Err(SchemaError::Keyword("a nested $id"));
                        }
                        (Role::Schema, "pattern", Value::String(text)) => {
                            Size { parts: 1, steps: 1 + self.expressions.steps(text) }
                        }
                        _ => match role.of(name) {
                            Some(role) => self.size(field, role)?,
                            None => Size { parts: 1, steps: parts(field) },
                        },
                    };
                    if looks_again && IN_PLACE.contains(&name.as_str()) {
                        more.steps = more.steps.saturating_mul(3);
                    }
                    size.add(more);
                    if let (Role::Schema, "patternProperties", Value::Object(named)) = (role, name.as_str(), field) {
                        let steps = named.keys().map(|text| self.expressions.steps(text)).sum();
                        size.add(Size { parts: 0, steps });
                    }
                }
            }
            Value::Array(items) => {
                for item in items {
                    size.add(self.size(item, role)?);
                }
            }
            _ => {}
        }
        if size.parts > LARGEST { Err(SchemaError::Size) } else { Ok(size) }
    }

    /// The size of what a reference names. Where it stands in the document counts, not how the reference is spelt.
    fn follow(&mut self, target: &str) -> Result<Size, SchemaError> {
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

    /// One thread alone would have to come to the end of each comparison before the next task has its turn.
    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn others_go_on_while_a_large_value_is_compared() {
        use std::sync::Arc;
        use std::sync::atomic::{AtomicBool, Ordering};
        let schema = Arc::new(Schema::compile(&json!({ "items": { "pattern": "^[a-z]+[0-9]$" } })).unwrap());
        let value = Arc::new(Value::from(vec!["abcdefgh1"; 200_000]));
        let compared = tokio::spawn(async move {
            for _again in 0..100 {
                let went_on = Arc::new(AtomicBool::new(false));
                let other = Arc::clone(&went_on);
                tokio::spawn(async move { other.store(true, Ordering::Relaxed) });
                assert!(schema.faults("value", &value).is_empty());
                if went_on.load(Ordering::Relaxed) {
                    return true;
                }
            }
            false
        });
        assert!(compared.await.unwrap());
    }

    #[test]
    fn letters_count_and_expressions_weigh_as_much_as_they_are() {
        let schema = Schema::compile(&json!({ "pattern": "^(a|b)*a(a|b){600}$" })).unwrap();
        let started = std::time::Instant::now();
        let fault = schema.faults("value", &json!("ab".repeat(4 << 20))).remove(0);
        assert!(fault.contains("too large for its schema"), "{fault}");
        assert!(schema.faults("value", &json!("ab".repeat(1000)))[0].starts_with("value must match pattern"));
        assert!(started.elapsed().as_secs() < 30, "{:?}", started.elapsed());
        let enumerated = Schema::compile(&json!({ "items": { "enum": (0..10_000).collect::<Vec<_>>() } })).unwrap();
        assert!(enumerated.faults("value", &Value::from(vec![1; 10_000]))[0].contains("too large for its schema"));
    }

    #[test]
    fn a_schema_that_looks_again_and_again_is_too_large_for_any_value() {
        for nested in ["anyOf", "allOf", "oneOf"] {
            let nest = |inner: Value, _level| json!({ nested: [inner], "unevaluatedProperties": false });
            let mut schema = (0..28).fold(json!({ "properties": { "a": {} } }), nest);
            schema["$schema"] = json!("https://json-schema.org/draft/2020-12/schema");
            let schema = Schema::compile(&schema).unwrap();
            assert!(
                schema.faults("value", &json!({ "a": 1, "b": 2 }))[0].contains("too large for its schema"),
                "{nested}"
            );
        }
        let nest = |inner: Value, _level| json!({ "properties": { "a": inner }, "allOf": [{ "properties": { "b": {} } }], "unevaluatedProperties": false });
        let mut schema = (0..28).fold(json!({}), nest);
        schema["$schema"] = json!("https://json-schema.org/draft/2020-12/schema");
        let schema = Schema::compile(&schema).unwrap();
        let value = (0..28).fold(json!(1), |inner, _level| json!({ "a": inner, "b": 1 }));
        assert!(schema.faults("value", &value).is_empty(), "objects within objects are no trouble");
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
