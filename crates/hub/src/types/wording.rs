//! Faults in the words of the validator that the original uses (Ajv 8), because clients show and compare them.

use jsonschema::ValidationError;
use jsonschema::error::{TypeKind, ValidationErrorKind as Kind};

/// What one error says; additional properties are told one by one. Texts name fields, never what is in them.
pub(super) fn faults(name: &str, error: &ValidationError<'_>) -> Vec<String> {
    let place = format!("{name}{}", error.instance_path());
    let fault = match error.kind() {
        Kind::AdditionalProperties { unexpected } | Kind::UnevaluatedProperties { unexpected } => {
            return unexpected.iter().map(|_| format!("{place} must NOT have additional properties")).collect();
        }
        Kind::Type { kind } => format!("must be {}", types(kind)),
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

fn types(kind: &TypeKind) -> String {
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
            (json!({ "type": ["string", "null"] }), json!(1), &["context must be null,string"]),
            (json!({ "type": "object" }), json!({}), &[]),
        ];
        for (schema, value, expected) in cases {
            let faults = Schema::compile(schema).unwrap().faults("context", value);
            assert_eq!(faults, *expected, "{schema}");
            assert!(!faults.concat().contains("secret"));
        }
    }
}
