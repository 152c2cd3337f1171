//! The OpenAPI document of some operations.
//!
//! LOCK and UNLOCK are no methods that OpenAPI 3.1 knows: they stand beside the others under `x-methods`.

use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use super::input::{Input, Kind};
use super::operation::{Answer, Body, Operation};

/// A document to be.
#[derive(Debug)]
pub struct Document<'a> {
    pub title: &'a str,
    pub version: &'a str,
    pub about: &'a str,
    pub operations: Vec<&'a Operation>,
    /// Parameters that an operation takes beside its own.
    pub shared: fn(&Operation) -> &'static [Input],
    /// Failures that an operation has beside its own and those of every route.
    pub failures: fn(&Operation) -> &'static [u16],
    /// What a status means here, and the schema of its body, where it is not what it means everywhere.
    pub failure: fn(u16) -> Option<(&'static str, &'static str)>,
    /// Schemas beside those of the answers.
    pub schemas: Vec<(&'static str, Value)>,
}

impl Document<'_> {
    /// The document, laid out for people.
    pub fn text(&self) -> String {
        let settings = SchemaSettings::draft2020_12().with(|settings| {
            settings.definitions_path = "/components/schemas".into();
            settings.meta_schema = None;
        });
        let mut generator = settings.into_generator();
        let mut paths: Map<String, Value> = Map::new();
        for operation in &self.operations {
            let path = paths.entry(operation.path).or_insert_with(|| json!({ "parameters": in_path(operation.path) }));
            let described = self.describe(operation, &mut generator);
            match operation.method {
                method @ ("LOCK" | "UNLOCK") => path["x-methods"][method] = described,
                method => path[method.to_ascii_lowercase()] = described,
            }
        }
        let mut schemas: Map<String, Value> = generator.take_definitions(true);
        schemas.insert("Error".to_owned(), error_schema());
        schemas.extend(self.schemas.iter().map(|(name, schema)| ((*name).to_owned(), schema.clone())));
        let document = json!({
            "openapi": "3.1.0",
            "info": {
                "title": self.title,
                "version": self.version,
                "description": self.about,
                "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
            },
            "security": [{ "bearer": [] }, { "basic": [] }, { "certificate": [] }],
            "paths": paths,
            "components": {
                "schemas": schemas,
                "securitySchemes": {
                    "bearer": { "type": "http", "scheme": "bearer" },
                    "basic": { "type": "http", "scheme": "basic", "description": "The password is the token." },
                    "certificate": { "type": "mutualTLS" },
                },
            },
        });
        format!("{document:#}\n")
    }

    fn describe(&self, operation: &Operation, generator: &mut SchemaGenerator) -> Value {
        let mut responses = Map::from_iter([("200".to_owned(), success(operation.answer, generator))]);
        for status in [400, 401, 403, 429, 503].iter().chain(operation.failures).chain((self.failures)(operation)) {
            // Nothing is asked of a document that everybody gets.
            if !(matches!(operation.answer, Answer::Document) && matches!(status, 400 | 403)) {
                responses.insert(status.to_string(), self.failed(*status));
            }
        }
        let query = operation.query.iter().chain((self.shared)(operation));
        let query: Vec<Value> = query.map(|input| parameter(input, "query")).collect();
        let mut described = json!({
            "operationId": operation.id,
            "summary": operation.about,
            "description": format!("Permission: {}.", operation.permission),
            "responses": responses,
        });
        if !query.is_empty() {
            described["parameters"] = query.into();
        }
        let (schema, needed) = match operation.body {
            Body::Nothing => return described,
            Body::Other { schema, needed } => (schema(), needed),
            Body::Fields(fields) => (fields_schema(fields), true),
            Body::Json(schema) => (schema(generator).to_value(), true),
        };
        described["requestBody"] = json!({ "content": { "application/json": { "schema": schema } } });
        if needed {
            described["requestBody"]["required"] = true.into();
        }
        described
    }

    fn failed(&self, status: u16) -> Value {
        let (description, schema) = (self.failure)(status).unwrap_or_else(|| usual(status));
        json!({ "description": description, "content": { "application/json": { "schema": reference(schema) } } })
    }
}

fn success(answer: Answer, generator: &mut SchemaGenerator) -> Value {
    let content = |schema: Value| json!({ "application/json": { "schema": schema } });
    match answer {
        Answer::Nothing => json!({ "description": "Done" }),
        Answer::Document => {
            json!({ "description": "An OpenAPI document", "content": content(json!({ "type": "object" })) })
        }
        Answer::Json(schema) => json!({ "description": "Done", "content": content(schema(generator).to_value()) }),
        Answer::Other(response) => response(),
    }
}

fn usual(status: u16) -> (&'static str, &'static str) {
    let description = match status {
        400 => "The request is wrong; the message names the field",
        401 => "No credentials, or wrong ones",
        403 => "Not allowed; the message names verb, resource and namespace",
        404 => "There is no such thing, or none that the caller may see",
        409 => "It contradicts what is there",
        413 => "Too large; the hint names the setting",
        415 => "A Content-Encoding that is not known",
        429 => "Too many requests; see Retry-After",
        _ => "Not available at the moment; see Retry-After",
    };
    (description, "Error")
}

/// The parameters that a path has between braces.
fn in_path(path: &str) -> Vec<Value> {
    let between = |part: &str| part.strip_prefix('{')?.strip_suffix('}').map(str::to_owned);
    let names = path.split('/').filter_map(between);
    names
        .map(|name| {
            let schema = if name == "version" { json!({ "type": "integer" }) } else { json!({ "type": "string" }) };
            json!({ "name": name, "in": "path", "required": true, "schema": schema })
        })
        .collect()
}

fn parameter(input: &Input, place: &str) -> Value {
    json!({
        "name": input.name, "in": place, "description": input.about, "required": input.needed,
        "schema": kind(input.kind),
    })
}

fn kind(kind: Kind) -> Value {
    match kind {
        Kind::Text => json!({ "type": "string" }),
        Kind::Texts => json!({ "type": "array", "items": { "type": "string" } }),
        Kind::Number => json!({ "type": "integer", "minimum": 0 }),
        Kind::Flag => json!({ "type": "boolean" }),
    }
}

fn fields_schema(fields: &[Input]) -> Value {
    let properties: Map<String, Value> = fields
        .iter()
        .map(|field| {
            let mut schema = kind(field.kind);
            schema["description"] = field.about.into();
            (field.name.to_owned(), schema)
        })
        .collect();
    let required: Vec<&str> = fields.iter().filter(|field| field.needed).map(|field| field.name).collect();
    json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false })
}

/// A reference to a schema of the document.
pub fn reference(schema: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{schema}") })
}

fn error_schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "error": {
                "type": "object",
                "properties": {
                    "status": { "type": "integer" },
                    "reason": { "type": "string" },
                    "message": { "type": "string", "description": "What is wrong" },
                    "hint": { "type": "string", "description": "What to do about it" },
                    "request_id": { "type": "string", "format": "uuid" },
                },
                "required": ["status", "reason", "message", "hint"],
            },
        },
        "required": ["error"],
    })
}
