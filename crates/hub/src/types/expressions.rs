//! The regular expressions of a schema: small to write, and large when they are ready for use. What they come to is measured
//! before a schema is made of them.

use std::collections::{BTreeSet, HashMap};

use jsonschema::{Draft, PatternOptions, Regex};
use serde_json::{Value, json};

use super::schema::{Role, SchemaError};

/// How large each of them is when it is ready for use, in bytes; at least about so much.
#[derive(Debug, Default)]
pub(super) struct Expressions<'a>(HashMap<&'a str, usize>);

const MOST: usize = 256;
const TEXT_BYTES: usize = 64 << 10;
const READY_BYTES: usize = 4 << 20;
/// The sizes that are told apart; what is larger than the last is none.
const SIZES: [usize; 4] = [4 << 10, 16 << 10, 64 << 10, 256 << 10];
const LARGEST: usize = SIZES[SIZES.len() - 1];
/// A part of a schema is compared in about the time in which an expression of so many bytes looks at some letters.
const BYTES_PER_STEP: usize = 256;

impl<'a> Expressions<'a> {
    pub(super) fn of(schema: &'a Value) -> Result<Expressions<'a>, SchemaError> {
        let mut texts = Texts::default();
        texts.collect(schema, Role::Schema)?;
        let mut found = Expressions::default();
        for text in texts.found {
            found.0.insert(text, size(text));
            check("bytes of expressions when they are ready for use", READY_BYTES, found.bytes())?;
        }
        Ok(found)
    }

    /// Of all of them.
    pub(super) fn bytes(&self) -> usize {
        self.0.values().sum()
    }

    /// How much longer than a comparison it takes to look for one of them.
    pub(super) fn steps(&self, text: &str) -> usize {
        self.0.get(text).map_or(0, |size| size / BYTES_PER_STEP)
    }
}

/// What all expressions of a schema are made with.
pub(super) fn options(size: usize) -> PatternOptions<Regex> {
    PatternOptions::regex().size_limit(size).dfa_size_limit(size)
}

pub(super) fn largest() -> PatternOptions<Regex> {
    options(LARGEST)
}

/// One that cannot be made at all has the largest size: the schema is refused for it later, by its name.
fn size(text: &str) -> usize {
    let alone = json!({ "pattern": text });
    let fits = |size: &usize| {
        let made = jsonschema::options().with_draft(Draft::Draft7).with_pattern_options(options(*size)).build(&alone);
        made.is_ok()
    };
    SIZES.into_iter().find(fits).unwrap_or(LARGEST)
}

#[derive(Default)]
struct Texts<'a> {
    found: BTreeSet<&'a str>,
    bytes: usize,
}

impl<'a> Texts<'a> {
    fn collect(&mut self, part: &'a Value, role: Role) -> Result<(), SchemaError> {
        match part {
            Value::Object(fields) => fields.iter().try_for_each(|(name, field)| {
                match (role, name.as_str(), field) {
                    (Role::Schema, "pattern", Value::String(text)) => self.add(text)?,
                    (Role::Schema, "patternProperties", Value::Object(named)) => {
                        named.keys().try_for_each(|text| self.add(text))?;
                    }
                    _ => {}
                }
                role.of(name).map_or(Ok(()), |role| self.collect(field, role))
            }),
            Value::Array(items) => items.iter().try_for_each(|item| self.collect(item, role)),
            _ => Ok(()),
        }
    }

    fn add(&mut self, text: &'a str) -> Result<(), SchemaError> {
        if self.found.insert(text) {
            self.bytes += text.len();
        }
        check("expressions", MOST, self.found.len())?;
        check("bytes of expressions", TEXT_BYTES, self.bytes)
    }
}

fn check(what: &'static str, most: usize, found: usize) -> Result<(), SchemaError> {
    if found > most { Err(SchemaError::Expressions { what, most }) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(schema: &Value) -> String {
        Expressions::of(schema).map(|found| found.bytes()).unwrap_err().to_string()
    }

    #[test]
    fn expressions_are_counted_wherever_they_are() {
        let schema = json!({
            "patternProperties": { "^a": { "pattern": "^b+$" }, "^c": {} },
            "properties": { "pattern": { "pattern": "^b+$" }, "patternProperties": { "type": "string" } },
            "allOf": [{ "items": { "pattern": "d*" } }],
            "const": { "pattern": "no expression" },
        });
        let found = Expressions::of(&schema).unwrap();
        let mut texts: Vec<&str> = found.0.keys().copied().collect();
        texts.sort_unstable();
        assert_eq!(texts, ["^a", "^b+$", "^c", "d*"]);
    }

    #[test]
    fn neither_many_nor_long_nor_large_ones_are_taken() {
        let many: Vec<Value> = (0..=MOST).map(|number| json!({ "pattern": format!("^{number}+$") })).collect();
        assert!(fault(&json!({ "anyOf": many })).contains("more than 256 expressions"));
        let named: serde_json::Map<String, Value> =
            (0..=MOST).map(|number| (format!("^{number}+$"), json!({}))).collect();
        assert!(fault(&json!({ "patternProperties": named })).contains("more than 256 expressions"));
        let long: Vec<Value> =
            (0..9).map(|number| json!({ "pattern": format!("^{number}{}+$", "a".repeat(8 << 10)) })).collect();
        assert!(fault(&json!({ "anyOf": long })).contains("more than 65536 bytes of expressions"));
        // A dozen letters each, and some hundred thousand bytes when ready.
        let large: Vec<Value> =
            (0..100).map(|number| json!({ "pattern": format!("^{number}[a-z]{{2000}}+$") })).collect();
        let told = fault(&json!({ "anyOf": large }));
        assert!(told.contains("more than 4194304 bytes of expressions when they are ready"), "{told}");
    }

    #[test]
    fn large_expressions_are_told_from_small_ones() {
        let schema = json!({ "allOf": [{ "pattern": "^[a-z]+$" }, { "pattern": "^([a-z][0-9]){900}$" }] });
        let found = Expressions::of(&schema).unwrap();
        let (small, large) = (found.steps("^[a-z]+$"), found.steps("^([a-z][0-9]){900}$"));
        assert!(small * 8 < large, "{small} {large}");
    }
}
