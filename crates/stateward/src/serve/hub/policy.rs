//! The policy file: which storage backend keeps records that name none.

use std::path::Path;

use anyhow::{Context, Result, bail};
use hub::PolicyRule;
use serde::Deserialize;
use serde::de::IgnoredAny;

/// Reads the rules of a file.
pub(super) fn read(path: &Path) -> Result<Vec<PolicyRule>> {
    let text =
        std::fs::read_to_string(path).with_context(|| format!("hub.policy_file: failed to read {}", path.display()))?;
    parse(&text).with_context(|| format!("hub.policy_file: {}", path.display()))
}

/// The rules alone, or the policy of the original, which has rules of other kinds beside them.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct File {
    rules: Option<Vec<Rule>>,
    type_instance: Option<Rules>,
    /// Which Implementation is taken for an Interface: no matter of a hub.
    #[serde(default, rename = "interface")]
    _interface: Option<IgnoredAny>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Rules {
    rules: Vec<Rule>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Rule {
    type_ref: TypeRef,
    backend: Backend,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TypeRef {
    path: String,
    revision: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Backend {
    id: String,
    #[serde(default, rename = "description")]
    _description: Option<String>,
}

fn parse(text: &str) -> Result<Vec<PolicyRule>> {
    const FORM: &str = "it is not YAML with `rules`, alone or below `typeInstance`, each with `typeRef` (path, maybe revision) and \
                        `backend` (id)";
    let file: File = serde_saphyr::from_str(text).context(FORM)?;
    let rules = match (file.rules, file.type_instance) {
        (Some(rules), None) | (None, Some(Rules { rules })) => rules,
        (Some(_), Some(_)) => bail!("it has rules alone and below `typeInstance`; leave one of them out"),
        (None, None) => bail!(FORM),
    };
    let rule = |Rule { type_ref, backend }: Rule| {
        let revision = type_ref
            .revision
            .map(|revision| revision.parse().with_context(|| format!("the rule for {}: revision", type_ref.path)));
        Ok(PolicyRule { path: type_ref.path, revision: revision.transpose()?, backend: backend.id })
    };
    rules.into_iter().map(rule).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> Vec<(String, bool, String)> {
        let rules = parse(text).unwrap().into_iter();
        rules.map(|rule| (rule.path, rule.revision.is_some(), rule.backend)).collect()
    }

    #[test]
    fn rules_are_read_in_the_form_of_the_original() {
        let policy = "
interface:
  default:
    inject:
      requiredTypeInstances: [{id: 4b3bd2d4, description: GCP}]
  rules:
  - interface: {path: cap.*}
    oneOf:
    - implementationConstraints: {requires: [{path: cap.core.type.platform.kubernetes}]}
typeInstance:
  rules:
  - typeRef:
      path: cap.type.aws.*
      revision: 0.1.0
    backend:
      id: 31bb8355-10d7-49ce-a739-4554d8a40b63
      description: for secrets
  - typeRef: {path: cap.type.x}
    backend: {id: vault}
";
        let expected = [
            ("cap.type.aws.*".to_owned(), true, "31bb8355-10d7-49ce-a739-4554d8a40b63".to_owned()),
            ("cap.type.x".to_owned(), false, "vault".to_owned()),
        ];
        assert_eq!(shown(policy), expected);
        assert_eq!(shown("typeInstance: {rules: []}"), []);
    }

    #[test]
    fn rules_alone_are_read() {
        let text = "rules:\n- typeRef: {path: cap.type.aws.*, revision: 0.1.0}\n  backend: {id: vault, description: for secrets}\n";
        assert_eq!(shown(text), [("cap.type.aws.*".to_owned(), true, "vault".to_owned())]);
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        for bad in [
            "",
            "rules: 1",
            "rules: [{typeRef: {path: a}}]",
            "rules: [{typeRef: {path: a, revision: one}, backend: {id: b}}]",
            "rule: []",
            "interface: {}",
            "typeInstance: {}",
            "typeInstance: []",
            "typeInstance: {rules: [], more: 1}",
            "rules: []\ntypeInstance: {rules: []}",
        ] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
