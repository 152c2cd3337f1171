//! `stateward step`: payloads, artifacts and variables of the original.

use std::os::unix::fs::symlink;
use std::process::Command;

use super::backend::{FileBackend, Projection, register};
use super::desk::{Created, Desk, cells};
use crate::run::Run;

const PAYLOAD: &str = "
typeInstances:
- alias: config
  attributes: []
  backend: null
  createdBy: default/act-l49vh-30c7a078
  typeRef: {path: cap.type.config, revision: 0.1.0}
  value: null
- alias: release
  attributes: []
  backend: null
  createdBy: default/act-l49vh-30c7a078
  typeRef: {path: cap.type.release, revision: 0.1.0}
  value: null
usesRelations:
- {from: config, to: release}
";

/// The variables of the original for an action.
fn action(desk: &Desk, action: &str) -> Command {
    let mut command = desk.command(&["step"]);
    command.env_remove("STATEWARD_SERVER").env("APP_LOCAL_HUB_ENDPOINT", format!("{}/graphql", desk.server.url));
    command.env("APP_ACTION", action);
    for kind in ["upload", "update"] {
        let upper = kind.to_uppercase();
        command.env(format!("APP_{upper}_CONFIG_PAYLOAD_FILEPATH"), desk.path(&format!("{kind}/payload")));
        command.env(format!("APP_{upper}_CONFIG_TYPE_INSTANCES_DIR"), desk.path(&format!("{kind}/typeInstances")));
    }
    command
}

fn value(desk: &Desk, id: &str) -> String {
    desk.ok(&["ti", "get", id, "-o", "jsonpath={.latestResourceVersion.spec.value}"]).trim().to_owned()
}

#[test]
fn the_actions_of_the_original_run_by_their_variables() {
    let desk = Desk::new();
    desk.file("upload/payload", PAYLOAD);
    desk.file("upload/typeInstances/config", "value:\n  price: 1.50\n  big: 12345678901234567890123\n");
    desk.file("upload/typeInstances/release", "{\"name\": \"legacy\"}");
    let table = Run::of(&mut action(&desk, "UploadAction")).ok();
    let rows = cells(&table);
    assert_eq!((rows[0][0], rows[1][0]), ("config", "release"), "{table}");
    let (config, release) = (rows[0][1], rows[1][1]);
    assert_eq!(value(&desk, config), r#"{"price":1.50,"big":12345678901234567890123}"#);
    assert_eq!(value(&desk, release), r#"{"name":"legacy"}"#);
    let shown = desk.json(&["ti", "get", release]);
    assert_eq!(shown["usedBy"][0]["id"], config);
    assert_eq!(shown["latestResourceVersion"]["createdBy"], "default/act-l49vh-30c7a078");

    desk.ok(&["ti", "lock", config, "--owner", "act"]);
    desk.file(
        "update/payload",
        &format!("- {{id: {config}, ownerID: act, createdBy: act, typeInstance: {{attributes: []}}}}\n"),
    );
    desk.file(&format!("update/typeInstances/{config}"), "value: {price: 2.50}\n");
    let table = Run::of(&mut action(&desk, "UpdateAction")).ok();
    assert_eq!(cells(&table)[0], [config, "-", "2"], "{table}");
    assert_eq!(value(&desk, config), r#"{"price":2.50}"#);

    let (first, second) = (desk.path("in/config.yaml"), desk.path("in/release.yaml"));
    let wanted = format!("{{{config},{}}},{{{release},{}}}", first.display(), second.display());
    let run = Run::of(action(&desk, "DownloadAction").env("APP_DOWNLOAD_CONFIG", &wanted));
    assert_eq!(run.code, Some(0), "{run:#?}");
    assert_eq!(desk.read("in/config.yaml"), format!("id: {config}\nvalue:\n  price: 2.50\n"));
    // What is downloaded is an artifact again.
    let changes = desk.file("update/payload", &format!("- {{id: {config}, ownerID: act}}\n- {{id: {release}}}\n"));
    std::fs::copy(&first, desk.path(&format!("update/typeInstances/{config}"))).unwrap();
    std::fs::copy(&second, desk.path(&format!("update/typeInstances/{release}"))).unwrap();
    desk.ok(&["step", "update", "--payload", &changes, "--type-instances", "update/typeInstances"]);
    assert_eq!(
        (value(&desk, config), value(&desk, release)),
        (r#"{"price":2.50}"#.to_owned(), r#"{"name":"legacy"}"#.to_owned())
    );
}

#[test]
fn the_binary_answers_to_the_names_of_the_original() {
    let desk = Desk::new();
    desk.file("upload/payload", "typeInstances: []\nusesRelations: []\n");
    let named = |name: &str| {
        let path = desk.path(name);
        symlink(env!("CARGO_BIN_EXE_stateward"), &path).unwrap();
        let prepared = action(&desk, "UploadAction");
        let mut command = Command::new(path);
        command.env_clear();
        command.envs(prepared.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command
    };
    assert_eq!(Run::of(&mut named("argo-actions")).ok().lines().count(), 1, "no records, no fault");
    desk.file("ti.yaml", "value: 1.50 # kept\n");
    desk.file("backend.yaml", "id: b\nvalue: {url: x, acceptValue: false}\n");
    let mut fetcher = named("ti-value-fetcher");
    fetcher.env("APP_INPUT_TI_FILE_PATH", desk.path("ti.yaml")).env("APP_OUTPUT_FILE_PATH", desk.path("out.yaml"));
    fetcher.env("APP_INPUT_BACKEND_TI_FILE_PATH", desk.path("backend.yaml"));
    assert_eq!(Run::of(&mut fetcher).ok(), "");
    assert_eq!(desk.read("out.yaml"), "value: 1.50 # kept\n", "copied as it is");
}

#[test]
fn an_upload_is_whole_unless_a_part_is_asked_for() {
    let desk = Desk::new();
    desk.file("payload", PAYLOAD);
    desk.file("artifacts/config", "value: 1\n");
    let upload = ["step", "upload", "--payload", "payload", "--type-instances", "artifacts"];
    let count = || cells(&desk.ok(&["ti", "get", "--type", "cap.type.*"])).len();
    desk.fails(3, "nothing was sent: artifacts has no artifact for release", &upload);
    assert_eq!(count(), 0);

    let run = desk.run(&[&upload[..], &["--partial"]].concat());
    assert_eq!(run.code, Some(10), "{run:#?}");
    assert!(run.err.contains("left out for want of an artifact: release"), "{run:#?}");
    let config = cells(&run.out)[0][1].to_owned();
    let used = desk.json(&["ti", "get", &config]);
    assert_eq!(used["uses"].as_array().unwrap().iter().filter(|used| used["name"] != "builtin").count(), 0, "{used}");
    assert_eq!(count(), 1);
    // The same again is the same upload, and with the rest it is another.
    let again = desk.run(&[&upload[..], &["--partial"]].concat());
    assert_eq!((again.code, cells(&again.out)[0][1]), (Some(10), config.as_str()), "{again:#?}");
    assert_eq!(count(), 1);
    desk.file("artifacts/release", "value: 2\n");
    let whole = desk.ok(&upload);
    assert_eq!(desk.ok(&[&upload[..], &["--partial"]].concat()), whole, "nothing is left out: the same upload");
    assert_eq!(count(), 3);

    std::fs::remove_dir_all(desk.path("artifacts")).unwrap();
    let none = desk.run(&[&upload[..], &["--partial"]].concat());
    assert_eq!((none.code, none.out.as_str()), (Some(10), ""), "{none:#?}");
    desk.fails(3, "failed to read absent", &["step", "upload", "--payload", "absent"]);
    desk.fails(3, "failed to read /update/payload", &["step", "update"]);
}

#[test]
fn a_repeated_upload_creates_nothing_twice() {
    let desk = Desk::new();
    desk.file("payload", PAYLOAD);
    desk.file("artifacts/config", "value: 1\n");
    desk.file("artifacts/release", "value: 2\n");
    let upload = ["step", "upload", "--payload", "payload", "--type-instances", "artifacts"];
    let first = desk.ok(&upload);
    assert_eq!(desk.ok(&upload), first, "the same ids");
    assert_eq!(cells(&desk.ok(&["ti", "get", "--type", "cap.type.*"])).len(), 2);
    desk.file("artifacts/release", "value: 3\n");
    assert_ne!(desk.ok(&upload), first, "other artifacts are another upload");
    desk.file("artifacts/release", "value: 2\n");
    assert_eq!(desk.ok(&upload), first, "it is remembered still");
    desk.file("payload", &PAYLOAD.replace("l49vh", "other"));
    assert_ne!(desk.ok(&upload), first, "another run is another upload");
    let own = desk.ok(&[&upload[..], &["--idempotency-key", "mine"]].concat());
    assert_eq!(desk.ok(&[&upload[..], &["--idempotency-key", "mine"]].concat()), own);
}

#[test]
fn an_update_is_whole_unless_a_part_is_asked_for() {
    let desk = Desk::new();
    let created = desk.create(
        "typeInstances:\n- {alias: a, typeRef: {path: cap.type.x, revision: 0.1.0}, value: 1}\n- {alias: b, typeRef: {path: cap.type.x, revision: 0.1.0}, value: 1}\n",
    );
    let (a, b) = (created.id("a"), created.id("b"));
    desk.file("payload", &format!("- {{id: {a}}}\n- {{id: {b}}}\n"));
    desk.file(&format!("artifacts/{a}"), "value: 2\n");
    let update = ["step", "update", "--payload", "payload", "--type-instances", "artifacts"];
    desk.fails(3, &format!("artifacts has no artifact for {b}"), &update);
    assert_eq!(value(&desk, a), "1");
    let run = desk.run(&[&update[..], &["--partial"]].concat());
    assert!(run.code == Some(10) && run.out.contains(a) && run.err.contains(b), "{run:#?}");
    assert_eq!((value(&desk, a).as_str(), value(&desk, b).as_str()), ("2", "1"));
}

#[test]
fn what_is_wrong_with_a_step_is_named() {
    let desk = Desk::new();
    Run::of(desk.command(&["step"]).env("APP_ACTION", "DeleteAction")).fails(2, "APP_ACTION names no action");
    desk.fails(2, "neither a command nor APP_ACTION", &["step"]);
    desk.fails(2, "neither --config nor APP_DOWNLOAD_CONFIG", &["step", "download"]);
    desk.fails(2, "not written as they must be", &["step", "download", "--config", "a,/b"]);
    desk.fails(3, "TypeInstance \"nobody\" was not found", &["step", "download", "--config", "{nobody,/b}"]);
    desk.fails(2, "neither --input nor APP_INPUT_TI_FILE_PATH", &["step", "resolve"]);
    let payload = desk.file("payload", "typeInstances: [{alias: ../../etc/passwd}]");
    desk.fails(1, "it names no file in the directory", &["step", "upload", "--payload", &payload]);
    desk.file("payload", PAYLOAD);
    desk.file("artifacts/release", "a: [\n");
    desk.file("artifacts/config", "value: canary\nbackend: {context: {a: 1}}\nadditionalParameters: {a: 2}\n");
    let run = desk.run(&["step", "upload", "--payload", &payload, "--type-instances", "artifacts"]);
    run.fails(1, "artifacts/config: backend.context and additionalParameters differ");
    assert!(!run.err.contains("canary"), "{run:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn backends_get_what_they_take_and_nothing_else() {
    let (desk, files, projection) = (Desk::new(), FileBackend::start(), Projection::start().await);
    let files_id = files.register(&desk, "files");
    let shown_id = register(&desk, "shown", &projection.address, false);
    let payload = PAYLOAD.replacen("backend: null", &format!("backend: {{id: {files_id}, context: null}}"), 1);
    // The draft's form: a text, and parameters beside it.
    desk.file("payload", &payload.replacen("backend: null", &format!("backend: {shown_id}"), 1));
    desk.file("artifacts/config", "value: {password: canary}\nadditionalParameters: {name: both}\n");
    desk.file(
        "artifacts/release",
        "value: dropped\nadditionalParameters:\n  name: release-name\n  namespace: release-namespace\n",
    );
    let created = Created::of(&desk.json(&["step", "upload", "--payload", "payload", "--type-instances", "artifacts"]));
    assert!(files.has("canary"));
    let (config, release) = (created.id("config"), created.id("release"));
    assert_eq!(value(&desk, release), r#"{"release":"release-name","size":1.50}"#);
    let spec = |id: &str| desk.json(&["ti", "get", id])["latestResourceVersion"]["spec"].clone();
    assert_eq!(spec(config)["backend"]["context"]["name"], "both");

    desk.file("changes", &format!("- {{id: {release}}}\n- {{id: {config}}}\n"));
    desk.file(&format!("changed/{release}"), "value: dropped again\nadditionalParameters: {name: other}\n");
    desk.file(&format!("changed/{config}"), "value: second\n");
    desk.ok(&["step", "update", "--payload", "changes", "--type-instances", "changed"]);
    assert_eq!(
        (value(&desk, release), value(&desk, config)),
        (r#"{"release":"other","size":1.50}"#.to_owned(), "second".to_owned())
    );

    // Download what the next steps need, and fill in a value before its record is there.
    let config = format!(
        "{{{shown_id},{}}},{{{release},{}}}",
        desk.path("backend.yaml").display(),
        desk.path("release.yaml").display()
    );
    assert_eq!(desk.run(&["step", "download", "--config", &config]).code, Some(0));
    assert!(
        desk.read("release.yaml").contains("backend:\n  context:\n    name: other\n"),
        "{}",
        desk.read("release.yaml")
    );
    desk.file("new.yaml", "additionalParameters: {name: new}\n");
    let resolve = ["step", "resolve", "--input", "new.yaml", "--backend", "backend.yaml", "--to", "resolved.yaml"];
    assert_eq!(desk.ok(&resolve), "");
    assert_eq!(
        desk.read("resolved.yaml"),
        "value:\n  release: new\n  size: 1.50\nbackend:\n  context:\n    name: new\n"
    );
    desk.file("new.yaml", "additionalParameters: {name: absent}\n");
    desk.fails(3, "has no value for the context of new.yaml", &resolve);
}

/// As the proposal shows it, with its comment; only the id is the one of a backend that is there.
const DRAFT_PAYLOAD: &str = "    typeInstances:
    - alias: helm-release
      attributes: []
      createdBy: default/act-l49vh-30c7a078-6a77-475c-94dd-7466f56447ce
      typeRef:
        path: cap.type.helm.chart.release
        revision: 0.1.0
      value: null
      additionalParameters:
        name: release-name
        namespace: release-namespace 
      backend: 3ef2e4ac-9070-4093-a3ce-142139fd4a16 # helm-release backend - resolved UUID based on the injected TypeInstance
    usesRelations: []
";

#[tokio::test(flavor = "multi_thread")]
async fn a_payload_with_parameters_needs_no_artifacts() {
    let (desk, projection) = (Desk::new(), Projection::start().await);
    let helm = register(&desk, "helm", &projection.address, false);
    desk.file("payload", &DRAFT_PAYLOAD.replace("3ef2e4ac-9070-4093-a3ce-142139fd4a16", &helm));
    let upload = ["step", "upload", "--payload", "payload", "--type-instances", "nowhere"];
    let first = Created::of(&desk.json(&upload));
    let release = first.id("helm-release");
    assert_eq!(value(&desk, release), r#"{"release":"release-name","size":1.50}"#);
    assert_eq!(Created::of(&desk.json(&upload)).id("helm-release"), release, "the same upload");

    desk.file("changes", &format!("- {{id: {release}, typeInstance: {{additionalParameters: {{name: other}}}}}}\n"));
    let update = ["step", "update", "--payload", "changes", "--type-instances", "nowhere"];
    desk.ok(&update);
    assert_eq!(value(&desk, release), r#"{"release":"other","size":1.50}"#);
    // A file counts before what the payload has.
    desk.file(&format!("changed/{release}"), "additionalParameters: {name: third}\n");
    desk.ok(&["step", "update", "--payload", "changes", "--type-instances", "changed"]);
    assert_eq!(value(&desk, release), r#"{"release":"third","size":1.50}"#);
    desk.file("changes", &format!("- {{id: {release}, typeInstance: {{attributes: []}}}}\n"));
    desk.fails(3, &format!("nowhere has no artifact for {release}"), &update);
}
