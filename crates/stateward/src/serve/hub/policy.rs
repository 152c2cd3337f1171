//! The policy file: which storage backend keeps records that name none.

use std::path::Path;

use anyhow::{Context, Result};
use hub::PolicyRule;
use serde::Deserialize;

/// Reads the rules of a file.
pub(super) fn read(path: &Path) -> Result<Vec<PolicyRule>> {
    let text = std::fs::read_to_string(path).with_context(|| format!("hub.policy_file: failed to read {}", path.display()))?;
    parse(&text).with_context(|| format!("hub.policy_file: {}", path.display()))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
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
    let file: File = serde_saphyr::from_str(text)
        .context("it is not YAML with `rules`, each with `typeRef` (path, maybe revision) and `backend` (id)")?;
    let rule = |Rule { type_ref, backend }: Rule| {
        let revision = type_ref.revision.map(|revision| {
            revision.parse().with_context(|| format!("the rule for {}: revision", type_ref.path))
        });
        Ok(PolicyRule { path: type_ref.path, revision: revision.transpose()?, backend: backend.id })
    };
    file.rules.into_iter().map(rule).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_read_in_the_form_of_the_original() {
        let text = "rules:\n- typeRef: {path: cap.type.aws.*, revision: 0.1.0}\n  backend: {id: vault, description: for secrets}\n\
                    - typeRef: {path: cap.type.x}\n  backend: {id: 3ef2e4ac-9070-4093-a3ce-142139fd4a16}\n";
        let rules = parse(text).unwrap();
        let shown: Vec<_> = rules.iter().map(|rule| (rule.path.as_str(), rule.revision.is_some(), rule.backend.as_str())).collect();
        assert_eq!(shown, [("cap.type.aws.*", true, "vault"), ("cap.type.x", false, "3ef2e4ac-9070-4093-a3ce-142139fd4a16")]);
        for bad in ["", "rules: 1", "rules: [{typeRef: {path: a}}]", "rules: [{typeRef: {path: a, revision: one}, backend: {id: b}}]", "rule: []"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
