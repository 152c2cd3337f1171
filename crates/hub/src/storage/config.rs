//! What the value of a backend's record says of it, in either vocabulary. Pure.
//!
//! The shipped one is `{url, acceptValue, contextSchema}`; the draft writes `additionalParametersSchema` (or
//! `additionalParameters`) and leaves `acceptValue` out, which there means that values are taken.

use std::fmt;

use backends::Mode;
use serde_json::{Map, Value};

use crate::Json;
use crate::rules::texts;
use crate::types::Schema;

/// How a backend is reached and what it takes.
#[derive(Debug)]
pub(crate) struct Config {
    pub(crate) url: String,
    pub(crate) mode: Mode,
    /// What contexts must look like; without one, none is taken.
    pub(crate) context: Option<ContextSchema>,
    pub(crate) encoding: Encoding,
}

/// What bytes that are no JSON mean.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Encoding {
    /// A fault.
    #[default]
    Json,
    /// A text, as backends of the original send it.
    Legacy,
}

/// A schema of contexts, as it was written and ready for use.
pub(crate) struct ContextSchema {
    pub(crate) source: Value,
    compiled: Schema,
}

/// The fields that hold a schema of contexts, the shipped one first.
pub(crate) const SCHEMA_FIELDS: [&str; 3] = ["contextSchema", "additionalParametersSchema", "additionalParameters"];

const URL: &str = "url";

/// What a text says of a schema and not of what it accepts.
const ANNOTATIONS: [&str; 3] = ["$id", "$schema", "title"];

impl Config {
    /// Reads the value of a backend's record. The faults are in the words of the original's validator.
    pub(crate) fn parse(value: Option<&Json>) -> Result<Config, Vec<String>> {
        let value = value.map(Json::value);
        let Some(Value::Object(fields)) = value else { return Err(vec!["spec/value must be object".to_owned()]) };
        let is_draft = !fields.contains_key(SCHEMA_FIELDS[0])
            && SCHEMA_FIELDS[1..].iter().any(|field| fields.contains_key(*field));
        let mut faults = Vec::new();
        let url = match fields.get(URL) {
            Some(Value::String(url)) => url.clone(),
            Some(_) => noted(&mut faults, "spec/value/url must be string"),
            None => noted(&mut faults, "spec/value must have required property 'url'"),
        };
        let mode = match fields.get("acceptValue") {
            Some(Value::Bool(false)) => Mode::Context,
            Some(Value::Bool(true)) => Mode::Value,
            Some(_) => {
                faults.push("spec/value/acceptValue must be boolean".to_owned());
                Mode::Value
            }
            None => {
                if !is_draft {
                    faults.push("spec/value must have required property 'acceptValue'".to_owned());
                }
                Mode::Value
            }
        };
        let context = context_schema(&fields, &mut faults);
        let encoding = match fields.get("encoding").and_then(Value::as_str) {
            Some("legacy") => Encoding::Legacy,
            _ => Encoding::Json,
        };
        if faults.is_empty() { Ok(Config { url, mode, context, encoding }) } else { Err(faults) }
    }

    /// What is wrong with what somebody wants to keep there.
    pub(crate) fn input_faults(&self, value: Option<&Json>, context: Option<&Json>) -> Vec<String> {
        let mut faults = self.value_faults(value);
        if self.context.is_none() && context.is_some() {
            faults.push("input context not allowed".to_owned());
        }
        let misfits = self.context_faults(context);
        if !misfits.is_empty() {
            faults.push(format!("invalid input: {}", misfits.join(", ")));
        }
        faults
    }

    /// About how much memory it takes.
    pub(crate) fn bytes(&self) -> usize {
        self.context.as_ref().map_or(0, |schema| schema.compiled.bytes())
    }

    pub(crate) fn value_faults(&self, value: Option<&Json>) -> Vec<String> {
        let is_wrong = value.is_some() && self.mode == Mode::Context;
        if is_wrong { vec!["input value not allowed".to_owned()] } else { Vec::new() }
    }

    /// What is wrong with a context. One that is missing is as good as an empty one: what is required is missed.
    pub(crate) fn context_faults(&self, context: Option<&Json>) -> Vec<String> {
        let Some(schema) = &self.context else { return Vec::new() };
        match context.map_or_else(|| Some(Value::Object(Map::new())), Json::comparable) {
            Some(context) => schema.compiled.faults("context", &context),
            None => vec![texts::incomparable("context")],
        }
    }

    /// Why it cannot be the backend of those who name none.
    pub(crate) fn default_fault(&self) -> Option<&'static str> {
        if self.mode == Mode::Context {
            return Some("it takes no values (acceptValue is false), so that it cannot be the default");
        }
        let is_required = !self.context_faults(None).is_empty();
        is_required.then_some("it requires a context, which records without a backend do not have")
    }
}

fn noted(faults: &mut Vec<String>, fault: &str) -> String {
    faults.push(fault.to_owned());
    String::new()
}

fn context_schema(fields: &Map<String, Value>, faults: &mut Vec<String>) -> Option<ContextSchema> {
    let (field, source) = SCHEMA_FIELDS.iter().find_map(|field| Some((*field, fields.get(*field)?)))?;
    match source {
        Value::Null => None,
        Value::Object(_) => match Schema::compile(source) {
            Ok(compiled) => Some(ContextSchema { source: source.clone(), compiled }),
            Err(error) => {
                faults.push(format!("spec/value/{field}: {error}"));
                None
            }
        },
        _ => {
            faults.push(format!("spec/value/{field} must be object"));
            None
        }
    }
}

/// Whether a value has anything of what the record of a backend says.
pub(crate) fn describes_backend(value: &Value) -> bool {
    value.get(URL).is_some() || SCHEMA_FIELDS.iter().any(|field| value.get(field).is_some())
}

/// The value of a backend's record with the schemas in it as they compare: constants are written with other ids and titles than
/// what is registered.
pub(crate) fn comparable_value(mut value: Value) -> Value {
    if let Value::Object(fields) = &mut value {
        for field in SCHEMA_FIELDS {
            if let Some(schema) = fields.get_mut(field) {
                drop_annotations(schema);
            }
        }
    }
    value
}

/// The schema of a backends' Type with such constants as they compare, and without the format of addresses: `uri`, as the draft
/// has it, would refuse 10.0.0.1:50051. What may be an address is told by [`super::AllowedUrls`].
pub(crate) fn comparable_schema(mut schema: Value) -> Value {
    for field in SCHEMA_FIELDS {
        if let Some(constant) = schema.pointer_mut(&format!("/properties/{field}/const")) {
            drop_annotations(constant);
        }
    }
    let url = schema.pointer_mut(&format!("/properties/{URL}")).and_then(Value::as_object_mut);
    if let Some(url) = url.filter(|url| url.get("format").is_some_and(|format| format == "uri")) {
        url.remove("format");
    }
    schema
}

/// A property of that name stays: it is described by an object and not by a text.
fn drop_annotations(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            fields.retain(|name, field| !(ANNOTATIONS.contains(&name.as_str()) && field.is_string()));
            fields.values_mut().for_each(drop_annotations);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_annotations),
        _ => {}
    }
}

impl fmt::Debug for ContextSchema {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("ContextSchema")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Config, Vec<String>> {
        Config::parse(Some(&Json::parse(text).unwrap()))
    }

    #[test]
    fn both_vocabularies_are_read() {
        let table = [
            (r#"{"url":"h:1","acceptValue":true,"contextSchema":null}"#, Mode::Value, false, Encoding::Json),
            (
                r#"{"url":"h:1","acceptValue":false,"contextSchema":{"type":"object"},"more":1}"#,
                Mode::Context,
                true,
                Encoding::Json,
            ),
            (r#"{"url":"h:1","acceptValue":true,"encoding":"legacy"}"#, Mode::Value, false, Encoding::Legacy),
            (r#"{"url":"h:1","additionalParameters":null}"#, Mode::Value, false, Encoding::Json),
            (r#"{"url":"h:1","additionalParametersSchema":{}}"#, Mode::Value, true, Encoding::Json),
            (
                r#"{"url":"h:1","additionalParametersSchema":{},"acceptValue":false}"#,
                Mode::Context,
                true,
                Encoding::Json,
            ),
        ];
        for (text, mode, has_schema, encoding) in table {
            let config = parse(text).unwrap();
            let found = (config.url.as_str(), config.mode, config.context.is_some(), config.encoding);
            assert_eq!(found, ("h:1", mode, has_schema, encoding), "{text}");
        }
    }

    #[test]
    fn what_is_wrong_is_told_in_the_words_of_the_original() {
        let table: &[(&str, &[&str])] = &[
            (
                "{}",
                &[
                    "spec/value must have required property 'url'",
                    "spec/value must have required property 'acceptValue'",
                ],
            ),
            (r#"{"acceptValue":true}"#, &["spec/value must have required property 'url'"]),
            (
                r#"{"url":1,"acceptValue":"x"}"#,
                &["spec/value/url must be string", "spec/value/acceptValue must be boolean"],
            ),
            (r#"{"url":"h:1","acceptValue":true,"contextSchema":"x"}"#, &["spec/value/contextSchema must be object"]),
            (
                r#"{"url":"h:1","additionalParametersSchema":7}"#,
                &["spec/value/additionalParametersSchema must be object"],
            ),
            ("[1]", &["spec/value must be object"]),
        ];
        for (text, expected) in table {
            assert_eq!(parse(text).unwrap_err(), *expected, "{text}");
        }
        assert_eq!(Config::parse(None).unwrap_err(), ["spec/value must be object"]);
        let hostile = r#"{"url":"h:1","acceptValue":true,"contextSchema":{"$ref":"http://example.com"}}"#;
        assert!(parse(hostile).unwrap_err()[0].starts_with("spec/value/contextSchema: the schema refers to"));
    }

    #[test]
    fn input_is_checked_as_the_original_does_and_a_missing_context_is_noticed() {
        type Case<'a> = (bool, &'a str, Option<&'a str>, Option<&'a str>, &'a [&'a str]);
        let strict = r#"{"type":"object","required":["provider"],"properties":{"provider":{"type":"string"}}}"#;
        let config = |mode: bool, schema: &str| {
            parse(&format!(r#"{{"url":"h:1","acceptValue":{mode},"contextSchema":{schema}}}"#)).unwrap()
        };
        let table: &[Case<'_>] = &[
            (true, "null", Some("1"), None, &[]),
            (false, "null", Some("1"), None, &["input value not allowed"]),
            (true, "null", None, Some("{}"), &["input context not allowed"]),
            (true, strict, None, Some("1"), &["invalid input: context must be object"]),
            (true, strict, None, Some(r#"{"provider":1}"#), &["invalid input: context/provider must be string"]),
            (true, strict, None, None, &["invalid input: context must have required property 'provider'"]),
            (true, strict, Some("1"), Some(r#"{"provider":"a"}"#), &[]),
            (true, r#"{"type":"object"}"#, None, None, &[]),
            (
                true,
                r#"{"properties":{"a":{"type":"string"}}}"#,
                None,
                Some(r#"{"a":1e999999}"#),
                &[
                    "invalid input: context has a number that is out of range or half of a surrogate pair, and cannot be compared with its schema",
                ],
            ),
        ];
        for (mode, schema, value, context, expected) in table {
            let json = |text: Option<&str>| text.map(|text| Json::parse(text).unwrap());
            let faults = config(*mode, schema).input_faults(json(*value).as_ref(), json(*context).as_ref());
            assert_eq!(faults, *expected, "{mode} {schema} {value:?} {context:?}");
        }
        assert!(config(true, "null").default_fault().is_none());
        assert!(config(true, r#"{"type":"object"}"#).default_fault().is_none());
        assert!(config(true, strict).default_fault().unwrap().contains("requires a context"));
        assert!(config(false, "null").default_fault().unwrap().contains("acceptValue is false"));
    }

    #[test]
    fn constants_compare_without_ids_and_titles() {
        let schema = serde_json::json!({"properties": {"contextSchema": {"const": {
            "$id": "#/a", "title": "A", "type": "object", "properties": {"title": {"$id": "#/b", "type": "string"}}}}}});
        let value = serde_json::json!({"contextSchema": {
            "$id": "#/c", "type": "object", "properties": {"title": {"type": "string"}}}});
        let compiled = Schema::compile(&comparable_schema(schema.clone())).unwrap();
        assert!(compiled.faults("value", &comparable_value(value.clone())).is_empty());
        assert!(!Schema::compile(&schema).unwrap().faults("value", &value).is_empty(), "they do differ");
        let other = serde_json::json!({"contextSchema": {"type": "object", "properties": {}}});
        assert_eq!(
            compiled.faults("value", &comparable_value(other)),
            ["value/contextSchema must be equal to constant"]
        );
    }

    #[test]
    fn addresses_without_a_scheme_are_no_fault_of_their_format() {
        let schema = |url: Value| serde_json::json!({ "properties": { "url": url } });
        let value = serde_json::json!({ "url": "127.0.0.1:50051" });
        let table = [
            (serde_json::json!({ "type": "string", "format": "uri" }), 0),
            (serde_json::json!({ "type": "string", "format": "ipv4" }), 1),
            (serde_json::json!({ "type": "string", "format": "uri", "maxLength": 3 }), 1),
        ];
        for (url, faults) in table {
            let compiled = Schema::compile(&comparable_schema(schema(url.clone()))).unwrap();
            assert_eq!(compiled.faults("value", &value).len(), faults, "{url}");
        }
    }
}
