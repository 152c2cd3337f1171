//! `stateward workflow`: the proposal's create and update workflows, rendered and run.

use super::backend::FileBackend;
use super::desk::{Created, Desk, cells};

/// The Type of a backend as the proposal writes it.
const SEED_TYPE: &str = r##"
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

/// The record of a backend as the proposal writes it; `URL` and the name of the built-in store are filled in.
const SEED_BACKEND: &str = r##"
id: 3ef2e4ac-9070-4093-a3ce-142139fd4a16
metadata:
  name: helm-storage
typeRef:
  path: cap.type.helm.storage
  revision: 0.1.0
latestResourceVersion:
  metadata:
    attributes:
    - path: cap.core.attribute.hub.storage.backend # related to GrapHQL implementation
      revision: 0.1.0
  value:
    url: "URL"
    additionalParametersSchema: {
      "$id": "#/properties/additionalParametersSchema",
      "type": "object",
      "required": [
        "name",
        "namespace"
      ],
      "properties": {
        "name": {
          "$id": "#/properties/additionalParametersSchema/properties/name",
          "type": "string"
        },
        "namespace": {
          "$id": "#/properties/additionalParametersSchema/properties/namespace",
          "type": "string"
        }
      },
      "additionalProperties": false
    }
backend: builtin # immutable - contains TypeInstance ID or unique alias
"##;

/// The proposal's requirement, outputs and update, in whole manifests.
const CREATE: &str = r"
ocfVersion: 0.0.1
revision: 0.1.0
kind: Implementation
metadata: {prefix: cap.implementation.mattermost, name: install}
spec:
  implements: [{path: cap.interface.mattermost.install, revision: 0.1.0}]
  additionalOutput:
    typeInstances:
      mattermost-config: {typeRef: {path: cap.type.mattermost.config, revision: 0.1.0}}
      helm-release: {typeRef: {path: cap.type.helm.chart.release, revision: 0.1.0}}
  outputTypeInstanceRelations:
    mattermost-config: {uses: [helm-release]}
  requires:
    cap.core.type.hub.storage: # Content Dev specifies such requirement only if he/she wants to force use a given backend
      allOf:
        - typeRef:
            path: cap.type.helm.storage
            revision: 0.1.0
            alias: helm-storage
  action:
    runnerInterface: argo.run
    args:
      workflow:
        templates:
        - name: main
          steps:
          - - name: configure
              # default - static
              capact-outputTypeInstances:
                - name: mattermost-config
                  from: additional
          - - name: deploy
              # option 2 - specific backend (referred in requires)
              capact-outputTypeInstances:
                - name: helm-release
                  from: helm-release
                  backend: helm-storage # new property -> alias defined in the `requires` section
";

const UPDATE: &str = "
kind: Implementation
metadata: {name: update}
spec:
  action:
    args:
      workflow:
        templates:
        - name: main
          steps:
          - - name: change
              capact-updateTypeInstances:
              - name: testUpdate
                from: update
";

const OUTER: &str = "
kind: Implementation
metadata: {name: outer}
spec:
  imports: [{interfaceGroupPath: cap.interface.mattermost, alias: mattermost, methods: [{name: install, revision: 0.1.0}]}]
  action:
    args:
      workflow:
        templates:
        - steps:
          - - name: inner
              capact-action: mattermost.install
              capact-outputTypeInstances:
              - {name: renamed, from: helm-release}
";

/// A server that knows the proposal's backend, which the real one plays.
fn desk_with_helm_storage() -> (Desk, FileBackend, String) {
    let (desk, backend) = (Desk::new(), FileBackend::start());
    desk.ok(&["type", "apply", "-f", &desk.file("type.yaml", SEED_TYPE)]);
    let record = desk.file("backend.yaml", &SEED_BACKEND.replace("URL", &backend.address));
    let created = desk.run(&["storage", "register", "-f", &record, "-o", "json"]);
    let id = serde_json::from_str::<serde_json::Value>(&created.ok()).unwrap()["items"][0]["id"]
        .as_str()
        .unwrap()
        .to_owned();
    (desk, backend, id)
}

fn context_of(desk: &Desk, id: &str) -> serde_json::Value {
    desk.json(&["ti", "get", id])["latestResourceVersion"]["spec"]["backend"]["context"].clone()
}

#[test]
fn the_proposals_create_workflow_is_rendered_and_run() {
    let (desk, backend, id) = desk_with_helm_storage();
    let manifest = desk.file("create.yaml", CREATE);
    let checked = desk.ok(&["workflow", "check", "-f", &manifest]);
    assert_eq!(
        cells(&checked),
        [
            vec![
                "create",
                "mattermost-config",
                "configure",
                "additional",
                "cap.type.mattermost.config:0.1.0",
                "(default)"
            ],
            vec![
                "create",
                "helm-release",
                "deploy",
                "helm-release",
                "cap.type.helm.chart.release:0.1.0",
                &format!("{id} (helm-storage)")
            ],
        ],
        "{checked}"
    );
    desk.ok(&[
        "workflow",
        "render",
        "-f",
        &manifest,
        "--out",
        "out",
        "--created-by",
        "default/act-1",
        "--download-dir",
        "in",
    ]);
    assert!(
        desk.read("out/upload/payload").contains(&format!("  backend:\n    id: {id}\n")),
        "{}",
        desk.read("out/upload/payload")
    );
    assert_eq!(desk.read("out/download/config"), format!("{{{id},in/helm-storage.yaml}}"));
    assert_eq!(desk.read("out/update/payload"), "[]\n");

    let downloaded = desk.run(&["step", "download", "--config", &desk.read("out/download/config")]);
    assert_eq!(downloaded.code, Some(0), "{downloaded:#?}");
    assert!(desk.read("in/helm-storage.yaml").contains(&backend.address));
    // The proposal's options: a value alone, and a value with parameters.
    desk.file(
        "out/upload/typeInstances/mattermost-config",
        "value: foo # option 1: save a specific value on an external backend\n",
    );
    desk.file(
        "out/upload/typeInstances/helm-release",
        "value: canary\nadditionalParameters: # option 2\n  name: release-name\n  namespace: release-namespace\n",
    );
    let upload = ["step", "upload", "--payload", "out/upload/payload", "--type-instances", "out/upload/typeInstances"];
    let created = Created::of(&desk.json(&upload));
    assert_eq!(
        desk.json(&["ti", "get", created.id("mattermost-config")])["latestResourceVersion"]["spec"]["value"],
        "foo"
    );
    assert!(backend.has("canary"));
    let release = created.id("helm-release");
    assert_eq!(
        context_of(&desk, release),
        serde_json::json!({"name": "release-name", "namespace": "release-namespace"})
    );
    assert_eq!(desk.json(&["ti", "get", release])["usedBy"][0]["id"], created.id("mattermost-config"));
    assert_eq!(Created::of(&desk.json(&upload)).id("helm-release"), release, "a step that runs again");
}

#[test]
fn the_proposals_update_workflow_is_rendered_and_run() {
    let (desk, backend, _) = desk_with_helm_storage();
    let created = desk.create(
        "typeRef: {path: cap.type.x, revision: 0.1.0}\nalias: x\nbackend: helm-storage\nvalue: one\n\
         additionalParameters: {name: a, namespace: b}\n",
    );
    let id = created.id("x");
    let manifest = desk.file("update.yaml", UPDATE);
    desk.fails(1, "--type-instance testUpdate=ID", &["workflow", "check", "-f", &manifest]);
    let input = format!("testUpdate={id}");
    desk.ok(&["ti", "lock", id, "--owner", "act-1"]);
    desk.ok(&[
        "workflow",
        "render",
        "-f",
        &manifest,
        "--out",
        "out",
        "--type-instance",
        &input,
        "--created-by",
        "act-1",
    ]);
    desk.file(&format!("out/update/typeInstances/{id}"), "value: two\nadditionalParameters: {name: c, namespace: d}\n");
    desk.ok(&["step", "update", "--payload", "out/update/payload", "--type-instances", "out/update/typeInstances"]);
    let shown = desk.json(&["ti", "get", id]);
    assert_eq!(shown["latestResourceVersion"]["spec"]["value"], "two");
    assert_eq!(shown["latestResourceVersion"]["createdBy"], "act-1");
    assert_eq!(context_of(&desk, id), serde_json::json!({"name": "c", "namespace": "d"}));
    assert!(backend.has("two"));
}

#[test]
fn a_nested_alias_is_kept_and_what_is_unknown_or_not_installed_is_told() {
    let (desk, _backend, id) = desk_with_helm_storage();
    let (outer, inner) = (desk.file("outer.yaml", OUTER), desk.file("inner.yaml", CREATE));
    let rendered = desk.json(&["workflow", "render", "-f", &outer, "-f", &inner]);
    let records = rendered["upload"]["typeInstances"].as_array().unwrap();
    let backends: Vec<_> =
        records.iter().map(|record| (record["alias"].as_str().unwrap(), record["backend"]["id"].as_str())).collect();
    assert_eq!(backends, [("renamed", Some(id.as_str())), ("inner-mattermost-config", None)]);
    assert_eq!(rendered["upload"]["usesRelations"][0]["to"], "renamed");

    let unknown = desk.file("unknown.yaml", &CREATE.replace("backend: helm-storage", "backend: nowhere"));
    desk.fails(
        1,
        "cannot find backend storage for specified \"nowhere\" alias",
        &["workflow", "check", "-f", &unknown],
    );
    let other = CREATE
        .replace("cap.core.type.hub.storage:", "cap.core.type.platform:")
        .replace("cap.type.helm.storage", "kubernetes");
    desk.fails(
        1,
        "TypeInstance with \"helm-storage\" alias is not a Hub storage",
        &["workflow", "render", "-f", &desk.file("other.yaml", &other)],
    );
    let absent = CREATE.replace("cap.type.helm.storage", "cap.type.vault.storage");
    let run = desk.run(&["workflow", "render", "-f", &desk.file("absent.yaml", &absent), "--out", "nothing"]);
    run.fails(3, "the workflow cannot be run: spec.requires.cap.core.type.hub.storage.allOf: no storage backend of Type cap.type.vault.storage");
    assert!(!desk.path("nothing").exists());
    desk.fails(1, "kind: it is needed", &["workflow", "check", "-f", &desk.file("no.yaml", "a: 1")]);
}
