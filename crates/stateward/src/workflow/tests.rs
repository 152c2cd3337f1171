//! Workflows as manifests have them, and what becomes of them.

use super::*;
use crate::document::Document;

/// The proposal's requirement and outputs, in a whole Implementation.
const SEED: &str = r"
ocfVersion: 0.0.1
revision: 0.1.0
kind: Implementation
metadata:
  prefix: cap.implementation.mattermost
  name: install
spec:
  implements:
  - path: cap.interface.productivity.mattermost.install
    revision: 0.1.0
  additionalOutput:
    typeInstances:
      mattermost-config:
        typeRef: {path: cap.type.mattermost.config, revision: 0.1.0}
      helm-release:
        typeRef: {path: cap.type.helm.chart.release, revision: 0.1.0}
  outputTypeInstanceRelations:
    mattermost-config:
      uses: [helm-release]
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
        entrypoint: main
        templates:
        - name: main
          steps:
          - - name: deploy
              template: deploy
              # default - static
              capact-outputTypeInstances:
                - name: mattermost-config
                  from: additional
                  # no backend definition -> used default (default storage backend (TypeInstance) is annotated with `cap.core.attribute.default`)
          - - name: register
              template: deploy
              capact-outputTypeInstances:
                - name: helm-release
                  from: helm-release
                  backend: helm-storage # new property -> alias defined in the `requires` section
";

fn manifests(texts: &[&str]) -> Manifests {
    let mut manifests = Manifests::default();
    for document in texts.iter().flat_map(|text| Document::read_all(text).unwrap()) {
        manifests.add(&document).unwrap();
    }
    manifests
}

fn known() -> Vec<Backend> {
    vec![
        Backend::new("helm-id", "cap.type.helm.storage", "0.0.1"),
        Backend::new("vault-id", "cap.type.vault.storage", "0.1.0"),
    ]
}

fn plan(texts: &[&str], run: &Run) -> Result<Plan, String> {
    Plan::of(&manifests(texts), &known(), run).map_err(|fault| fault.to_string())
}

fn backends(plan: &Plan) -> Vec<(&str, Option<&str>)> {
    plan.outputs.iter().map(|output| (output.name.as_str(), output.backend.as_deref())).collect()
}

#[test]
fn the_proposals_create_workflow_gets_its_payload() {
    let run = Run { created_by: Some("default/act-1".to_owned()), download_dir: "/".to_owned(), ..Run::default() };
    let plan = plan(&[SEED], &run).unwrap();
    assert_eq!(
        plan.upload(&run).to_yaml(),
        "typeInstances:\n- alias: mattermost-config\n  attributes: []\n  backend: null\n  createdBy: default/act-1\n  typeRef:\n    \
         path: cap.type.mattermost.config\n    revision: 0.1.0\n  value: null\n- alias: helm-release\n  attributes: []\n  backend:\n    \
         id: helm-id\n    context: null\n  createdBy: default/act-1\n  typeRef:\n    path: cap.type.helm.chart.release\n    revision: 0.1.0\n  \
         value: null\nusesRelations:\n- from: mattermost-config\n  to: helm-release\n"
    );
    assert_eq!(plan.update(&run).to_yaml(), "[]\n");
    assert_eq!(plan.download(&run), "{helm-id,/helm-storage.yaml}");
}

#[test]
fn the_proposals_update_workflow_gets_its_payload() {
    let text = "kind: Implementation\nspec:\n  action:\n    args:\n      workflow:\n        templates:\n        - steps:\n          - - name: change\n              \
                capact-updateTypeInstances:\n              - name: testUpdate\n                from: update\n";
    let mut run = Run { created_by: Some("me".to_owned()), ..Run::default() };
    assert!(plan(&[text], &run).unwrap_err().contains("--type-instance testUpdate=ID"));
    run.inputs.insert("testUpdate".to_owned(), "id-1".to_owned());
    let plan = plan(&[text], &run).unwrap();
    assert_eq!(plan.update(&run).to_json(), r#"[{"id":"id-1","ownerID":"me","createdBy":"me","typeInstance":{}}]"#);
    assert_eq!((plan.updates[0].step.as_str(), plan.updates[0].from.as_str()), ("change", "update"));
    assert_eq!(plan.download(&run), "{id-1,/testUpdate.yaml}");
}

#[test]
fn requirements_are_met_by_registered_backends_or_the_workflow_cannot_be_run() {
    let shipped = "- name: cap.type.helm.storage\n          revision: 0.1.0\n          alias: helm-storage";
    let draft = "- typeRef:\n            path: cap.type.helm.storage\n            revision: 0.1.0\n            alias: helm-storage";
    let with = |list: &str, item: &str| SEED.replace("allOf:", list).replace(draft, item);
    let missing = "- name: redis\n          revision: 0.1.0\n          alias: redis";
    let either = format!("{missing}\n        {shipped}");
    let table = [
        (with("allOf:", shipped), Ok(Some("helm-id"))),
        (with("anyOf:", &either), Ok(Some("helm-id"))),
        (with("oneOf:", &either), Ok(Some("helm-id"))),
        (
            with("allOf:", &either),
            Err(
                "the workflow cannot be run: spec.requires.cap.core.type.hub.storage.allOf: no storage backend of Type \
                 cap.core.type.hub.storage.redis is registered",
            ),
        ),
        (
            with("oneOf:", missing),
            Err(
                "the workflow cannot be run: spec.requires.cap.core.type.hub.storage.oneOf: no storage backend of Type \
                 cap.core.type.hub.storage.redis is registered",
            ),
        ),
        (
            SEED.replace("backend: helm-storage", "backend: nowhere"),
            Err("cannot find backend storage for specified \"nowhere\" alias"),
        ),
        (SEED.replace("cap.core.type.hub.storage:", "cap.core.hub.storage:"), Ok(Some("helm-id"))),
        (
            SEED.replace("cap.core.type.hub.storage:", "cap.core.type.platform:")
                .replace("cap.type.helm.storage", "kubernetes"),
            Err("TypeInstance with \"helm-storage\" alias is not a Hub storage"),
        ),
        (SEED.replace("                  backend: helm-storage", "                  #"), Ok(None)),
    ];
    for (text, expected) in table {
        let planned = plan(&[&text], &Run::default());
        let found = planned.as_ref().map(|plan| plan.outputs[1].backend.as_deref()).map_err(String::as_str);
        assert_eq!(found, expected, "{text}");
    }
}

#[test]
fn of_several_backends_the_chosen_one_counts_then_revision_then_default() {
    let mut several = known();
    several.push(Backend::new("same-revision", "cap.type.helm.storage", "0.1.0"));
    let mut default = Backend::new("other-default", "cap.type.helm.storage", "0.2.0");
    default.is_default = true;
    several.push(default);
    let chosen = |run: &Run, backends: &[Backend]| {
        Plan::of(&manifests(&[SEED]), backends, run)
            .map(|plan| plan.outputs[1].backend.clone().unwrap())
            .map_err(|fault| fault.to_string())
    };
    assert_eq!(chosen(&Run::default(), &several).unwrap(), "same-revision");
    several.retain(|backend| backend.id != "same-revision");
    assert_eq!(chosen(&Run::default(), &several).unwrap(), "other-default");
    let run = |id: &str| Run { backends: [("helm-storage".to_owned(), id.to_owned())].into(), ..Run::default() };
    assert_eq!(chosen(&run("helm-id"), &several).unwrap(), "helm-id");
    assert!(chosen(&run("vault-id"), &several).unwrap_err().contains("cannot be run"), "it is of another Type");
}

/// Runs the seed's Implementation as an action; `OUTPUT` is what it makes of the inner record.
fn outer(output: &str) -> String {
    format!(
        r"
kind: Implementation
metadata: {{prefix: cap.implementation.suite, name: install}}
spec:
  implements: [{{path: cap.interface.suite.install}}]
  imports:
  - interfaceGroupPath: cap.interface.productivity.mattermost
    alias: mattermost
    methods: [{{name: install, revision: 0.1.0}}]
  requires:
    cap.core.type.hub.storage:
      allOf: [{{name: cap.type.vault.storage, revision: 0.1.0, alias: vault}}, {{name: cap.type.helm.storage, revision: 0.1.0, alias: helm-storage}}]
  outputTypeInstanceRelations:
    renamed: {{uses: [cluster]}}
  action: {{args: {{workflow: {{templates: [{{steps: [[{{name: inner, capact-action: mattermost.install, capact-outputTypeInstances: [{output}]}}]]}}]}}}}}}
"
    )
}

#[test]
fn a_nested_alias_is_kept_when_an_outer_step_renames_the_output() {
    let run = Run { inputs: [("cluster".to_owned(), "cluster-id".to_owned())].into(), ..Run::default() };
    let table = [
        ("{name: renamed, from: helm-release}", Ok(Some("helm-id"))),
        ("{name: renamed, from: helm-release, backend: helm-storage}", Ok(Some("helm-id"))),
        ("{name: renamed, from: mattermost-config, backend: vault}", Ok(Some("vault-id"))),
        ("{name: renamed, from: mattermost-config}", Ok(None)),
        (
            "{name: renamed, from: helm-release, backend: vault}",
            Err("backend is \"vault\" here and \"helm-storage\" in the action"),
        ),
        ("{name: renamed, from: helm-release, backend: nowhere}", Err("backend is \"nowhere\" here")),
        (
            "{name: renamed, from: mattermost-config, backend: nowhere}",
            Err("cannot find backend storage for specified \"nowhere\" alias"),
        ),
        ("{name: renamed, from: unheard-of}", Err("its Type is not known")),
    ];
    for (output, expected) in table {
        let planned = plan(&[&outer(output), SEED], &run);
        match (planned, expected) {
            (Ok(plan), Ok(backend)) => assert_eq!(backends(&plan)[0], ("renamed", backend), "{output}"),
            (Err(told), Err(words)) => assert!(told.contains(words), "{told}"),
            (planned, _) => panic!("{output}: {planned:?}"),
        }
    }
}

#[test]
fn outputs_and_relations_of_an_action_come_along_under_the_names_of_here() {
    let run = Run { inputs: [("cluster".to_owned(), "cluster-id".to_owned())].into(), ..Run::default() };
    let plan = plan(&[&outer("{name: renamed, from: helm-release}"), SEED], &run).unwrap();
    assert_eq!(backends(&plan), [("renamed", Some("helm-id")), ("inner-mattermost-config", None)]);
    assert_eq!(
        plan.relations,
        [("inner-mattermost-config", "renamed"), ("renamed", "cluster-id")]
            .map(|(from, to)| (from.to_owned(), to.to_owned()))
    );
    assert_eq!(plan.outputs[0].type_ref.path, "cap.type.helm.chart.release");
}

#[test]
fn inputs_of_an_action_are_followed_to_what_they_are_here() {
    let inner = r"
kind: Implementation
metadata: {name: inner}
spec:
  implements: [{path: cap.interface.inner}]
  additionalOutput: {typeInstances: {app: {typeRef: {path: cap.type.app, revision: 0.1.0}}}}
  outputTypeInstanceRelations: {app: {uses: [db, cluster]}}
  action: {args: {workflow: {templates: [{steps: [[{name: s, capact-outputTypeInstances: [{name: app, from: app}], capact-updateTypeInstances: [{name: cluster, from: c}]}]]}]}}}
";
    let outer = r"
kind: Implementation
metadata: {name: outer}
spec:
  additionalOutput: {typeInstances: {database: {typeRef: {path: cap.type.db, revision: 0.1.0}}}}
  action:
    args:
      workflow:
        templates:
        - dag:
            tasks:
            - {name: make, capact-outputTypeInstances: [{name: database, from: db}]}
            - name: use
              capact-action: cap.interface.inner
              capact-outputTypeInstances: [{name: app, from: app}]
              arguments:
                artifacts:
                - {name: db, from: '{{tasks.make.outputs.artifacts.db}}'}
                - {name: cluster, from: '{{inputs.artifacts.k8s}}'}
";
    let run = Run { inputs: [("k8s".to_owned(), "k8s-id".to_owned())].into(), ..Run::default() };
    let planned = plan(&[outer, inner], &run).unwrap();
    assert_eq!(
        planned.relations,
        [("app", "database"), ("app", "k8s-id")].map(|(from, to)| (from.to_owned(), to.to_owned()))
    );
    assert_eq!(planned.updates.iter().map(|update| update.id.as_str()).collect::<Vec<_>>(), ["k8s-id"]);
    let itself = inner.replace("{name: s,", "{name: s, capact-action: cap.interface.inner,");
    assert!(plan(&[&itself], &run).unwrap_err().contains("runs itself"));
    assert!(plan(&[outer, inner], &Run::default()).unwrap_err().contains("--type-instance k8s=ID"));
}

#[test]
fn branches_may_put_out_the_same_record_and_not_another_one_under_its_name() {
    let twice = |second: &str| {
        format!(
            "kind: Implementation\nspec:\n  requires: {{cap.core.type.hub.storage: {{allOf: [{{name: cap.type.helm.storage, alias: h}}]}}}}\n  \
             additionalOutput: {{typeInstances: {{a: {{typeRef: {{path: t, revision: 0.1.0}}}}}}}}\n  action: {{args: {{workflow: {{templates: \
             [{{steps: [[{{name: one, capact-when: x, capact-outputTypeInstances: [{{name: a, from: x}}]}}], [{{name: two, \
             capact-outputTypeInstances: [{second}]}}]]}}]}}}}}}\n"
        )
    };
    assert_eq!(plan(&[&twice("{name: a, from: y}")], &Run::default()).unwrap().outputs.len(), 1);
    let told = plan(&[&twice("{name: a, from: y, backend: h}")], &Run::default()).unwrap_err();
    assert!(told.contains("the steps one and two put it out"), "{told}");
}

#[test]
fn manifests_of_other_kinds_are_left_alone_and_nameless_ones_refused() {
    let mut manifests = Manifests::default();
    manifests.add(&Document::read("kind: Type\nspec: 1").unwrap()).unwrap();
    assert!(manifests.main().is_none());
    assert!(manifests.add(&Document::read("spec: {}").unwrap()).unwrap_err().to_string().starts_with("kind:"));
    assert!(manifests.add(&Document::read("kind: Implementation\nspec: 1").unwrap()).is_err());
    assert!(
        Plan::of(&manifests, &[], &Run::default())
            .unwrap_err()
            .to_string()
            .contains("no manifest of an Implementation")
    );
}
