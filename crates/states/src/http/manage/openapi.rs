//! The OpenAPI document of everything that is served about states, made of the routes themselves.
//!
//! The door is [`document`]. LOCK and UNLOCK are no methods that OpenAPI 3.1 knows: they stand beside the others under
//! `x-methods`.

use std::sync::LazyLock;

use access::http::{Caller, Problem};
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use super::input::{Input, Kind, STORE};
use super::operation::{Answer, Body, Operation, Route};
use super::{FAMILIES, protocol};

pub(super) const ROUTES: &[Route] = &[Route(
    || get(show),
    Operation::new("GET", "/api/states/openapi.json", "getOpenApi", "This document")
        .needs("none: any authenticated caller")
        .answers(Answer::Document),
)];

async fn show(_caller: Caller) -> Result<Response, Problem> {
    static TEXT: LazyLock<String> = LazyLock::new(document);
    Ok(([(CONTENT_TYPE, "application/json")], TEXT.as_str()).into_response())
}

/// The document, laid out for people.
pub fn document() -> String {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.definitions_path = "/components/schemas".into();
        settings.meta_schema = None;
    });
    let mut generator = settings.into_generator();
    let mut paths: Map<String, Value> = Map::new();
    let described = FAMILIES.iter().copied().flatten().map(|Route(_, operation)| operation);
    for operation in described.chain(protocol::OPERATIONS) {
        let path = paths.entry(operation.path).or_insert_with(|| json!({ "parameters": in_path(operation.path) }));
        let described = describe(operation, &mut generator);
        match operation.method {
            method @ ("LOCK" | "UNLOCK") => path["x-methods"][method] = described,
            method => path[method.to_ascii_lowercase()] = described,
        }
    }
    let mut schemas: Map<String, Value> = generator.take_definitions(true);
    schemas.insert("Error".to_owned(), error_schema());
    schemas.insert("LockInfo".to_owned(), lock_info_schema());
    let document = json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Stateward: states",
            "version": env!("CARGO_PKG_VERSION"),
            "description": ABOUT,
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

const ABOUT: &str = "Terraform and OpenTofu states: the protocol of the clients under /state, and their management \
    under /api/states. Permissions are asked on the resource that a state is kept in (configmaps, secrets, or states \
    of stateward.dev), unless the operation names another. Made by `cargo xtask generate` from the routes; edits are \
    lost.";

fn describe(operation: &Operation, generator: &mut SchemaGenerator) -> Value {
    let mut responses = Map::from_iter([("200".to_owned(), success(operation.answer, generator))]);
    for status in [400, 401, 403, 429, 503].iter().chain(operation.failures) {
        // Nothing is asked of a document that everybody gets.
        if !(matches!(operation.answer, Answer::Document) && matches!(status, 400 | 403)) {
            responses.insert(status.to_string(), failure(*status));
        }
    }
    let one_state = operation.path.starts_with("/api/states/{namespace}");
    let query: Vec<Value> = operation
        .query
        .iter()
        .chain(Some(&STORE).filter(|_| one_state))
        .map(|input| parameter(input, "query"))
        .collect();
    let mut described = json!({
        "operationId": operation.id,
        "summary": operation.about,
        "description": format!("Permission: {}.", operation.permission),
        "responses": responses,
    });
    if !query.is_empty() {
        described["parameters"] = query.into();
    }
    let content = |schema: Value| json!({ "content": { "application/json": { "schema": schema } } });
    match operation.body {
        Body::Nothing => {}
        Body::State => {
            described["requestBody"] = content(state_schema());
            described["requestBody"]["required"] = true.into();
        }
        Body::LockInfo => described["requestBody"] = content(reference("LockInfo")),
        Body::Fields(fields) => {
            described["requestBody"] = content(fields_schema(fields));
            described["requestBody"]["required"] = true.into();
        }
    }
    described
}

fn success(answer: Answer, generator: &mut SchemaGenerator) -> Value {
    let content = |schema: Value| json!({ "application/json": { "schema": schema } });
    match answer {
        Answer::Nothing => json!({ "description": "Done" }),
        Answer::Document => {
            json!({ "description": "An OpenAPI document", "content": content(json!({ "type": "object" })) })
        }
        Answer::Json(schema) => json!({ "description": "Done", "content": content(schema(generator).to_value()) }),
        Answer::State => json!({
            "description": "A Terraform state",
            "content": content(state_schema()),
            "headers": {
                "Content-MD5": { "description": "The base64 of the MD5 of the body", "schema": { "type": "string" } },
            },
        }),
    }
}

fn failure(status: u16) -> Value {
    let (description, schema) = match status {
        400 => ("The request is wrong; the message names the field", "Error"),
        401 => ("No credentials, or wrong ones", "Error"),
        403 => ("Not allowed; the message names verb, resource and namespace", "Error"),
        404 => ("There is no such state or version", "Error"),
        409 => ("The state was moved, or it cannot be read because the client encrypted it", "Error"),
        413 => ("Too large; the hint names the setting", "Error"),
        415 => ("A Content-Encoding that is not known", "Error"),
        423 => ("Locked by another, or the caller's lock is gone: the LockInfo of the holder", "LockInfo"),
        429 => ("Too many requests; see Retry-After", "Error"),
        _ => ("Not available at the moment; see Retry-After", "Error"),
    };
    json!({ "description": description, "content": { "application/json": { "schema": reference(schema) } } })
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

fn reference(schema: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{schema}") })
}

fn state_schema() -> Value {
    json!({ "type": "object", "description": "A Terraform or OpenTofu state, byte for byte" })
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

fn lock_info_schema() -> Value {
    let text = json!({ "type": "string" });
    json!({
        "type": "object",
        "description": "What a client says of itself when it locks; it comes back as it was sent",
        "properties": {
            "ID": text, "Operation": text, "Info": text, "Who": text, "Version": text, "Path": text,
            "Created": { "type": "string", "format": "date-time" },
        },
        "required": ["ID"],
    })
}
