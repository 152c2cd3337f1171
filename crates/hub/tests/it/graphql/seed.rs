//! The documents and forms of the proposal that this began with, as they are written there. What it leaves out is supplied:
//! the fragment `TypeInstance`, and payloads where it has dots.

use serde_json::{Value, json};

use super::ids;
use crate::front::{Front, Person, file_backend};
use crate::place::{Place, on_both};

on_both!(
    every_document_of_the_proposal_is_accepted_as_written,
    a_backend_of_the_very_revision_of_its_type_is_accepted_with_any_address,
    the_default_is_chosen_by_its_attribute,
);

/// How a Type of storage backends is written there, with comments in its JSON.
const STORAGE_TYPE: &str = r##"
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
          "url": { # url of hosted app, which implements `BackendStorage` ProtocolBuffers interface.
            "$id": "#/properties/url",
            "type": "string",
            "format": "uri"
          },
          "additionalParametersSchema": { # JSON schema which describes additional properties passed in Capact workflow
            "const": { # see http://json-schema.org/draft/2019-09/json-schema-validation.html#rfc.section.6.1.3
              "$id": "#/properties/additionalParameters",
              "type": "object",
              "required": [
                "name",
                "namespace"
              ],
              "properties": {
                "name": {
                  "$id": "#/properties/additionalParameters/properties/name",
                  "type": "string"
                },
                "namespace": {
                  "$id": "#/properties/additionalParameters/properties/namespace",
                  "type": "string"
                }
              },
              "additionalProperties": false
            }
          }
        },
        "additionalProperties": false
      }
"##;

const LIST_TYPES: &str = r#"
query {
   types(filter: { pathPattern: "cap.core.hub.storage.*" }) {
        name
        prefix
        path
    }
}
"#;

const LIST_BY_TYPE: &str = r#"
# Ideally, but it could be too complicated:
query ListTypeInstancesWithTypeRefFilter {
  typeInstances(
    filter: { typeRef: { path: "cap.core.hub.storage.*" } } # queries public Hub to fetch all Types attached to `cap.core.hub.storage` and return all TypeInstances which are of one of these TypeRefs
  ) {
    ...TypeInstance
  }
}
"#;

const LIST_BY_ATTRIBUTE: &str = r#"
# Alternatively: introduce `cap.core.attribute.hub.storage.backend` Attribute and simply do:

query ListTypeInstancesWithAttributesAndTypeRefFilter {
  typeInstances(
    filter: {
      attributes: [
        { path: "cap.core.attribute.hub.storage.backend", rule: INCLUDE }
      ]
    }
  ) {
    ...TypeInstance
  }
}
"#;

const LIST_ALL: &str = r"
query ListTypeInstances {
  typeInstances {
    id
    typeRef {
      path
      revision
    }
    lockedBy # resolver which calls proper backend storage service to ask for lock status
    latestResourceVersion {
      resourceVersion
      createdBy
      metadata {
        attributes {
          path
          revision
        }
      }
      spec {
        value # resolver which calls proper backend storage service to ask for a given ResourceVersion value
        additionalParameters
      }
    }
    backend
  }
}
";

const FRAGMENT: &str = "fragment TypeInstance on TypeInstance { id name }";

/// What a backend's record has as its value there.
fn storage_value(address: &str) -> Value {
    json!({
        "url": address,
        "additionalParametersSchema": {
            "$id": "#/properties/additionalParametersSchema",
            "type": "object",
            "required": ["name", "namespace"],
            "properties": {
                "name": { "$id": "#/properties/additionalParametersSchema/properties/name", "type": "string" },
                "namespace": { "$id": "#/properties/additionalParametersSchema/properties/namespace", "type": "string" },
            },
            "additionalProperties": false,
        },
    })
}

async fn register(admin: &Person<'_>, address: &str) -> String {
    admin.data("mutation($m: [String!]!) { applyTypes(manifests: $m) { path } }", json!({ "m": [STORAGE_TYPE] })).await;
    admin
        .create(json!({
            "name": "helm-storage",
            "typeRef": { "path": "cap.type.helm.storage", "revision": "0.1.0" },
            "attributes": [{ "path": "cap.core.attribute.hub.storage.backend", "revision": "0.1.0" }],
            "value": storage_value(address),
            "backend": "builtin",
        }))
        .await
}

async fn every_document_of_the_proposal_is_accepted_as_written(place: Place) {
    let address = file_backend(&place).await;
    let front = Front::open(place).await;
    let admin = front.admin().await;
    let backend = register(&admin, &address).await;

    // The payload of the injected step, in the mutation where the proposal has dots.
    let payload = r#"
      typeInstances: [{
        alias: "helm-release"
        attributes: []
        createdBy: "default/act-l49vh-30c7a078-6a77-475c-94dd-7466f56447ce"
        typeRef: { path: "cap.type.helm.chart.release", revision: "0.1.0" }
        value: null
        additionalParameters: { name: "release-name", namespace: "release-namespace" }
        backend: "BACKEND"
      }]
      usesRelations: []
    "#;
    let mutation = r"
    mutation CreateTypeInstances {
      createTypeInstances(
        in: {
          # ... payload
          PAYLOAD
        }
      ) {
        id
        alias
      }
    }
    ";
    let mut made = Vec::new();
    for named in [backend.as_str(), "helm-storage"] {
        let document = mutation.replace("PAYLOAD", &payload.replace("BACKEND", named));
        let created = admin.data(&document, json!({})).await["createTypeInstances"].clone();
        assert_eq!(created[0]["alias"], "helm-release");
        made.extend(ids(&created));
    }
    // Option 1, a value; option 3, a value and parameters.
    let parameters = json!({ "name": "release-name", "namespace": "release-namespace" });
    let plain = admin.create(json!({ "value": "foo" })).await;
    let both =
        admin.create(json!({ "value": "foo", "additionalParameters": parameters, "backend": "helm-storage" })).await;

    let types = admin.data(LIST_TYPES, json!({})).await;
    let storage = json!({ "name": "storage", "prefix": "cap.type.helm", "path": "cap.type.helm.storage" });
    assert_eq!(types["types"], json!([storage]));
    for document in [LIST_BY_TYPE, LIST_BY_ATTRIBUTE] {
        let listed = admin.data(&format!("{document}{FRAGMENT}"), json!({})).await;
        let names: Vec<&str> =
            listed["typeInstances"].as_array().unwrap().iter().filter_map(|item| item["name"].as_str()).collect();
        assert_eq!(names, ["builtin", "helm-storage"]);
    }
    let listed = admin.data(LIST_ALL, json!({})).await["typeInstances"].clone();
    let found = |id: &str| listed.as_array().unwrap().iter().find(|record| record["id"] == id).unwrap().clone();
    for id in &made {
        let release = json!({
            "id": id, "typeRef": { "path": "cap.type.helm.chart.release", "revision": "0.1.0" }, "lockedBy": null,
            "latestResourceVersion": {
                "resourceVersion": 1, "createdBy": "default/act-l49vh-30c7a078-6a77-475c-94dd-7466f56447ce",
                "metadata": { "attributes": [] }, "spec": { "value": null, "additionalParameters": parameters },
            },
            "backend": backend,
        });
        assert_eq!(found(id), release);
    }
    assert_eq!(
        found(&both)["latestResourceVersion"]["spec"],
        json!({ "value": "foo", "additionalParameters": parameters })
    );
    assert_eq!(found(&plain)["backend"], hub::model::BUILT_IN);
    // Update, with `value`, with `additionalParameters`, with both.
    let update = "mutation($in: [UpdateTypeInstancesInput]!) { updateTypeInstances(in: $in) { latestResourceVersion { spec { value additionalParameters } } } }";
    let other = json!({ "name": "other", "namespace": "release-namespace" });
    for (change, expected) in [
        (json!({ "value": "bar" }), json!({ "value": "bar", "additionalParameters": parameters })),
        (json!({ "additionalParameters": other }), json!({ "value": "bar", "additionalParameters": other })),
        (
            json!({ "value": "baz", "additionalParameters": parameters }),
            json!({ "value": "baz", "additionalParameters": parameters }),
        ),
    ] {
        let updated = admin.data(update, json!({ "in": [{ "id": both, "typeInstance": change }] })).await;
        assert_eq!(updated["updateTypeInstances"][0]["latestResourceVersion"]["spec"], expected);
    }
    let (code, text) = admin
        .refused(
            crate::front::CREATE,
            json!({ "in": {
            "typeRef": { "path": "cap.type.helm.chart.release", "revision": "0.1.0" },
            "additionalParameters": { "name": "x" }, "backend": "helm-storage",
        } }),
        )
        .await;
    assert!(code == "INVALID" && text.contains("must have required property 'namespace'"), "{text}");
}

/// The proposal's Type has revision 0.0.1 and its record 0.1.0, so that there the one does not check the other.
async fn a_backend_of_the_very_revision_of_its_type_is_accepted_with_any_address(place: Place) {
    let address = file_backend(&place).await;
    assert!(address.starts_with("127.0.0.1:"), "{address} is no uri");
    let front = Front::open(place).await;
    let admin = front.admin().await;
    let manifest = STORAGE_TYPE.replace("revision: 0.0.1", "revision: 0.1.0");
    admin.data("mutation($m: [String!]!) { applyTypes(manifests: $m) { path } }", json!({ "m": [manifest] })).await;
    let backend = register(&admin, &address).await;
    let parameters = json!({ "name": "release-name", "namespace": "release-namespace" });
    let record = json!({ "value": "foo", "additionalParameters": parameters, "backend": backend });
    admin.create(record).await;
    // What it says otherwise holds.
    let mut other = storage_value(&address);
    other["additionalParametersSchema"]["required"] = json!(["name"]);
    for (value, fault) in [
        (other, "value/additionalParametersSchema must be equal to constant"),
        (json!({ "url": address }), "value must have required property 'additionalParametersSchema'"),
        (json!({ "url": 7, "additionalParametersSchema": {} }), "value/url must be string"),
    ] {
        let record = json!({ "typeRef": { "path": "cap.type.helm.storage", "revision": "0.1.0" }, "value": value });
        let (code, text) = admin.refused(crate::front::CREATE, json!({ "in": record })).await;
        assert!(code == "INVALID" && text.contains(fault), "{text}");
    }
}

async fn the_default_is_chosen_by_its_attribute(place: Place) {
    let address = file_backend(&place).await;
    let front = Front::open(place).await;
    let admin = front.admin().await;
    // As the proposal preregisters one: `additionalParameters: null`, and both attributes.
    let default = admin
        .create(json!({
            "name": "capact-redis",
            "typeRef": { "path": "cap.core.type.hub.storage.redis", "revision": "0.1.0" },
            "attributes": [
                { "path": "cap.core.attribute.default", "revision": "0.1.0" },
                { "path": "cap.core.attribute.hub.storage.backend", "revision": "0.1.0" },
            ],
            "value": { "url": address, "additionalParameters": null },
            "backend": "builtin",
        }))
        .await;
    let id = admin.create(json!({ "value": "foo" })).await;
    let query = "query($id: ID!) { typeInstance(id: $id) { backend latestResourceVersion { spec { value } } } }";
    let found = admin.data(query, json!({ "id": id })).await["typeInstance"].clone();
    assert_eq!(found, json!({ "backend": default, "latestResourceVersion": { "spec": { "value": "foo" } } }));
    // A backend that needs parameters cannot be the default.
    let mut value = storage_value(&address);
    value["acceptValue"] = json!(true);
    let record = json!({
        "typeRef": { "path": "cap.core.type.hub.storage.redis", "revision": "0.1.0" }, "value": value,
        "attributes": [{ "path": "cap.core.attribute.default", "revision": "0.1.0" }],
    });
    let (code, text) = admin.refused(crate::front::CREATE, json!({ "in": record })).await;
    assert!(code == "INVALID" && text.contains("it requires a context"), "{text}");
}
