//! Type manifests, as the original ships them and as the draft of delegated storage writes them.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::schema::{Schema, SchemaError};
use crate::model::{NodePath, ReferenceError, TypeRef};

/// A revision of a Type.
#[derive(Clone, Debug, PartialEq)]
pub struct Type {
    pub reference: TypeRef,
    pub display_name: Option<String>,
    pub description: Option<String>,
    /// What values must look like; without one they may be anything.
    pub schema: Option<Value>,
    /// The nodes that it is attached to beside the one in its path.
    pub additional_refs: Vec<NodePath>,
}

/// Why a manifest is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ManifestError {
    #[error("the manifest is not YAML of a Type: {0}")]
    Form(String),
    #[error("{field}: {fault}")]
    Field { field: &'static str, fault: String },
    #[error("spec: {0}")]
    Schema(#[from] SchemaError),
}

const LARGEST: usize = 512 << 10;

impl Type {
    /// Reads a manifest and checks that its schema can be used.
    pub fn parse(manifest: &str) -> Result<Type, ManifestError> {
        if manifest.len() > LARGEST {
            return Err(ManifestError::Form(format!("it is larger than {LARGEST} bytes")));
        }
        // Without the lines that it is about: what is sent is not repeated.
        let options = serde_saphyr::options! { with_snippet: false };
        let manifest: Manifest = serde_saphyr::from_str_with_options(manifest, options)
            .map_err(|error| ManifestError::Form(error.to_string()))?;
        let Manifest { ocf_version, kind, revision, metadata, spec, .. } = manifest;
        require("ocfVersion", ocf_version == "0.0.1", "it must be 0.0.1")?;
        require("kind", kind == "Type", "it must be Type")?;
        let path = match (metadata.path, metadata.prefix, metadata.name) {
            (Some(path), None, None) => path,
            (None, Some(prefix), Some(name)) => format!("{prefix}.{name}"),
            _ => return Err(wrong("metadata", "it needs prefix and name, or path alone")),
        };
        let schema = match (spec.json_schema, spec.value) {
            (Some(text), None) => {
                let schema = serde_json::from_str(&text.value);
                Some(schema.map_err(|_| wrong("spec.jsonSchema.value", "it is not the text of a JSON schema"))?)
            }
            (None, value) => value,
            (Some(_), Some(_)) => return Err(wrong("spec", "it has both jsonSchema and value; leave one out")),
        };
        if let Some(schema) = &schema {
            Schema::compile(schema)?;
        }
        let mut additional_refs = Vec::new();
        for node in spec.additional_refs {
            let node: NodePath = node.parse().map_err(|error| named("spec.additionalRefs", &error))?;
            let under = ["cap.type.", "cap.core."].iter().any(|root| node.as_str().starts_with(root));
            require("spec.additionalRefs", under, "a node must be under cap.type or cap.core.type")?;
            require("spec.additionalRefs", !additional_refs.contains(&node), "a node is there twice")?;
            additional_refs.push(node);
        }
        let path = path.parse().map_err(|error| named("metadata", &error))?;
        let revision = revision.parse().map_err(|error| named("revision", &error))?;
        let Metadata { display_name, description, .. } = metadata;
        Ok(Type { reference: TypeRef { path, revision }, display_name, description, schema, additional_refs })
    }
}

fn require(field: &'static str, holds: bool, fault: &str) -> Result<(), ManifestError> {
    if holds { Ok(()) } else { Err(wrong(field, fault)) }
}

fn wrong(field: &'static str, fault: &str) -> ManifestError {
    ManifestError::Field { field, fault: fault.to_owned() }
}

fn named(field: &'static str, error: &ReferenceError) -> ManifestError {
    ManifestError::Field { field, fault: error.to_string() }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Manifest {
    ocf_version: String,
    kind: String,
    revision: String,
    metadata: Metadata,
    #[serde(default)]
    spec: Spec,
    #[serde(default, rename = "signature")]
    _signature: Option<Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Metadata {
    path: Option<String>,
    prefix: Option<String>,
    name: Option<String>,
    display_name: Option<String>,
    description: Option<String>,
    #[serde(default, rename = "documentationURL")]
    _documentation: Option<String>,
    #[serde(default, rename = "supportURL")]
    _support: Option<String>,
    #[serde(default, rename = "iconURL")]
    _icon: Option<String>,
    #[serde(default, rename = "maintainers")]
    _maintainers: Option<Value>,
    #[serde(default, rename = "attributes")]
    _attributes: Option<Value>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Spec {
    json_schema: Option<SchemaText>,
    value: Option<Value>,
    #[serde(default)]
    additional_refs: Vec<String>,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct SchemaText {
    value: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHIPPED: &str = r#"
ocfVersion: 0.0.1
revision: 0.1.0
kind: Type
metadata:
  prefix: cap.type.aws
  name: user
  displayName: AWS user
  description: Somebody at AWS
  documentationURL: https://example.com
  supportURL: https://example.com
  maintainers: [{email: a@example.com, name: A, url: https://example.com}]
spec:
  additionalRefs: [cap.core.type.platform]
  jsonSchema:
    value: |-
      {"type": "object", "required": ["key"]}
"#;

    #[test]
    fn a_shipped_manifest_is_read() {
        let read = Type::parse(SHIPPED).unwrap();
        assert_eq!(read.reference.to_string(), "cap.type.aws.user:0.1.0");
        assert_eq!(read.display_name.as_deref(), Some("AWS user"));
        assert_eq!(read.schema, Some(serde_json::json!({"type": "object", "required": ["key"]})));
        assert_eq!(read.additional_refs, ["cap.core.type.platform".parse().unwrap()]);
    }

    #[test]
    fn a_manifest_of_the_draft_is_read() {
        // As the proposal writes it: JSON with comments, ids that are no anchors, a node of the older spelling.
        let draft = r##"
ocfVersion: 0.0.1
revision: 0.0.1
kind: Type
metadata:
  path: cap.type.helm.storage
spec:
  additionalRefs:
    - "cap.core.hub.storage"
  value: # JSON schema with:
    {
    "$schema": "http://json-schema.org/draft-07/schema",
    "$id": "http://example.com/example.json",
    "type": "object",
    "title": "The root schema",
    "required": [
      "url",
      "additionalParametersSchema"
    ],
    "properties": {
      "url": { # url of hosted app
        "$id": "#/properties/url",
        "type": "string",
        "format": "uri"
      },
      "additionalParametersSchema": {
        "const": {
          "$id": "#/properties/additionalParameters",
          "type": "object"
        }
      }
    },
    "additionalProperties": false
  }
"##;
        let read = Type::parse(draft).unwrap();
        assert_eq!(read.reference.to_string(), "cap.type.helm.storage:0.0.1");
        assert!(read.schema.is_some());
    }

    #[test]
    fn what_is_wrong_is_named() {
        let table = [
            (SHIPPED.replace("0.0.1", "0.0.2"), "ocfVersion: it must be 0.0.1"),
            (SHIPPED.replace("kind: Type", "kind: Interface"), "kind: it must be Type"),
            (SHIPPED.replace("  name: user\n", ""), "metadata: it needs prefix and name, or path alone"),
            (SHIPPED.replace("0.1.0", "one"), "revision: a revision is three numbers"),
            (SHIPPED.replace("cap.core.type.platform", "com.example"), "spec.additionalRefs: a node must be under"),
            (SHIPPED.replace("[cap.core.type.platform]", "[cap.type.a, cap.type.a]"), "a node is there twice"),
            (SHIPPED.replace("\"object\"", "\"thing\""), "spec: the schema"),
            (SHIPPED.replace("{\"type\"", "{type"), "spec.jsonSchema.value: it is not the text"),
            (SHIPPED.replace("kind:", "kin:"), "the manifest is not YAML of a Type"),
            ("a".repeat(LARGEST + 1), "larger than"),
            ("typeRef: {}\nvalue: canary".to_owned(), "unknown field `typeRef`"),
        ];
        for (manifest, fault) in table {
            let error = Type::parse(&manifest).unwrap_err().to_string();
            assert!(error.contains(fault) && !error.contains("canary"), "{error}");
        }
    }
}
