//! Faults in the words of the validator that the original uses (Ajv 8), because clients show and compare them.

use jsonschema::ValidationError;
use jsonschema::error::{TypeKind, ValidationErrorKind as Kind};
use serde_json::Value;

/// What one error says; additional properties are told one by one. Texts name fields, never what is in them.
pub(super) fn faults(name: &str, error: &ValidationError<'_>, schema: &Value) -> Vec<String> {
    let place = format!("{name}{}", error.instance_path());
    let fault = match error.kind() {
        Kind::AdditionalProperties { unexpected } | Kind::UnevaluatedProperties { unexpected } => {
            return unexpected.iter().map(|_| format!("{place} must NOT have additional properties")).collect();
        }
        Kind::Type { kind } => format!("must be {}", types(kind, schema.pointer(error.schema_path().as_str()))),
        Kind::Required { property } => {
            format!("must have required property '{}'", property.as_str().unwrap_or_default())
        }
        Kind::Enum { .. } => "must be equal to one of the allowed values".to_owned(),
        Kind::Constant { .. } => "must be equal to constant".to_owned(),
        Kind::AnyOf { .. } => "must match a schema in anyOf".to_owned(),
        Kind::OneOfNotValid { .. } | Kind::OneOfMultipleValid { .. } => {
            "must match exactly one schema in oneOf".to_owned()
        }
        Kind::Not { .. } => "must NOT be valid".to_owned(),
        Kind::FalseSchema => "boolean schema is false".to_owned(),
        Kind::Format { format } => format!("must match format \"{format}\""),
        Kind::Pattern { pattern } => format!("must match pattern \"{pattern}\""),
        Kind::Minimum { limit } => format!("must be >= {limit}"),
        Kind::Maximum { limit } => format!("must be <= {limit}"),
        Kind::ExclusiveMinimum { limit } => format!("must be > {limit}"),
        Kind::ExclusiveMaximum { limit } => format!("must be < {limit}"),
        Kind::MinLength { limit } => format!("must NOT have fewer than {limit} characters"),
        Kind::MaxLength { limit } => format!("must NOT have more than {limit} characters"),
        Kind::MinItems { limit } => format!("must NOT have fewer than {limit} items"),
        Kind::MaxItems { limit } => format!("must NOT have more than {limit} items"),
        Kind::MinProperties { limit } => format!("must NOT have fewer than {limit} properties"),
        Kind::MaxProperties { limit } => format!("must NOT have more than {limit} properties"),
        Kind::MultipleOf { multiple_of } => format!("must be multiple of {multiple_of}"),
        Kind::UniqueItems => "must NOT have duplicate items".to_owned(),
        Kind::Contains => "must contain at least 1 valid item(s)".to_owned(),
        Kind::PropertyNames { .. } => "property name must be valid".to_owned(),
        other => format!("must pass \"{}\" keyword validation", other.keyword()),
    };
    vec![format!("{place} {fault}")]
}

/// In the order in which the schema names them, which the error does not keep.
fn types(kind: &TypeKind, written: Option<&Value>) -> String {
    if let Some(Value::Array(written)) = written {
        let names: Vec<&str> = written.iter().filter_map(Value::as_str).collect();
        return names.join(",");
    }
    match kind {
        TypeKind::Single(one) => one.to_string(),
        TypeKind::Multiple(several) => {
            let names: Vec<String> = several.iter().map(|one| one.to_string()).collect();
            names.join(",")
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::types::Schema;

    #[test]
    fn faults_are_told_as_the_original_tells_them() {
        let cases: &[(Value, Value, &[&str])] = &[
            (json!({ "type": "object" }), json!("secret"), &["context must be object"]),
            (
                json!({ "properties": { "provider": { "type": "string" } } }),
                json!({ "provider": 7 }),
                &["context/provider must be string"],
            ),
            (json!({ "required": ["url"] }), json!({}), &["context must have required property 'url'"]),
            (
                json!({ "required": ["a", "b"] }),
                json!({}),
                &["context must have required property 'a'", "context must have required property 'b'"],
            ),
            (json!({ "enum": ["a", "b"] }), json!("secret"), &["context must be equal to one of the allowed values"]),
            (json!({ "const": { "a": 1 } }), json!({ "a": 2 }), &["context must be equal to constant"]),
            (
                json!({ "properties": { "a": {} }, "additionalProperties": false }),
                json!({ "a": 1, "b": 2, "c": 3 }),
                &["context must NOT have additional properties", "context must NOT have additional properties"],
            ),
            (json!({ "items": { "minimum": 3 } }), json!([5, 1]), &["context/1 must be >= 3"]),
            (json!({ "format": "uri" }), json!("secret thing"), &["context must match format \"uri\""]),
            (json!({ "type": ["string", "null"] }), json!(1), &["context must be string,null"]),
            (
                json!({ "definitions": { "a~/b": { "type": ["object", "array", "integer"] } }, "items": { "$ref": "#/definitions/a~0~1b" } }),
                json!([true]),
                &["context/0 must be object,array,integer"],
            ),
            (json!({ "type": "object" }), json!({}), &[]),
        ];
        for (schema, value, expected) in cases {
            let faults = Schema::compile(schema).unwrap().faults("context", value);
            assert_eq!(faults, *expected, "{schema}");
            assert!(!faults.concat().contains("secret"));
        }
    }

    #[test]
    fn several_faults_are_told_in_the_order_of_the_original() {
        let strict = json!({
            "type": "object", "required": ["c", "d"], "additionalProperties": false,
            "properties": { "a": { "type": "string" }, "c": {}, "d": {}, "e": { "type": "string" } },
        });
        let nested = json!({
            "properties": { "a": strict, "b": strict }, "required": ["z"], "additionalProperties": false, "maxProperties": 1,
            "patternProperties": { "^p": { "type": "null" } },
        });
        let cases: &[(Value, Value, &[&str])] = &[
            (
                strict.clone(),
                json!({ "a": 1, "b": 2, "e": 3 }),
                &[
                    "value must have required property 'c'",
                    "value must have required property 'd'",
                    "value must NOT have additional properties",
                    "value/a must be string",
                    "value/e must be string",
                ],
            ),
            (
                nested,
                json!({ "a": { "x": 1, "a": 1 }, "b": { "c": 1, "d": 1, "a": 2, "y": 3 }, "p": 1, "q": 2 }),
                &[
                    "value must NOT have more than 1 properties",
                    "value must have required property 'z'",
                    "value must NOT have additional properties",
                    "value/a must have required property 'c'",
                    "value/a must have required property 'd'",
                    "value/a must NOT have additional properties",
                    "value/a/a must be string",
                    "value/b must NOT have additional properties",
                    "value/b/a must be string",
                    "value/p must be null",
                ],
            ),
            (
                json!({
                    "items": { "required": ["a"], "properties": { "b": { "type": "string" } } }, "minItems": 3, "uniqueItems": true,
                    "allOf": [{ "items": { "properties": { "b": { "enum": [9] } } } }],
                }),
                json!([{ "b": 1 }, { "b": 1 }]),
                &[
                    "value/0/b must be equal to one of the allowed values",
                    "value/1/b must be equal to one of the allowed values",
                    "value must NOT have fewer than 3 items",
                    "value/0 must have required property 'a'",
                    "value/0/b must be string",
                    "value/1 must have required property 'a'",
                    "value/1/b must be string",
                    "value must NOT have duplicate items",
                ],
            ),
            (
                json!({ "type": "object", "enum": [{}], "properties": { "a": {} } }),
                json!(1),
                &["value must be equal to one of the allowed values", "value must be object"],
            ),
            (
                json!({ "enum": [{}], "type": ["object", "null"], "minimum": 5, "multipleOf": 2 }),
                json!(1),
                &[
                    "value must be object,null",
                    "value must be >= 5",
                    "value must be multiple of 2",
                    "value must be equal to one of the allowed values",
                ],
            ),
            (
                json!({ "maxLength": 2, "pattern": "^b", "format": "uri", "const": "b" }),
                json!("abc"),
                &[
                    "value must NOT have more than 2 characters",
                    "value must match pattern \"^b\"",
                    "value must match format \"uri\"",
                    "value must be equal to constant",
                ],
            ),
        ];
        for (schema, value, expected) in cases {
            assert_eq!(Schema::compile(schema).unwrap().faults("value", value), *expected, "{schema}");
        }
    }

    #[test]
    fn a_hundred_faults_are_told_and_the_number_of_the_others() {
        let schema = Schema::compile(&json!({ "items": { "type": "string" } })).unwrap();
        let told = |count: usize| schema.faults("value", &Value::from(vec![1; count]));
        assert_eq!(told(100).len(), 100);
        let faults = told(117);
        assert_eq!(
            (faults.len(), faults[99].as_str(), faults[100].as_str()),
            (101, "value/99 must be string", "and 17 more")
        );
    }
}
