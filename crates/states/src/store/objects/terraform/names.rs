//! Which state is which Secret, in both directions. No IO here.
//!
//! The stock client calls the state of a workspace `tfstate-<workspace>-<suffix>`. Here the state's name is
//! `<workspace>.<suffix>`, cut at the first dot, and `<suffix>` alone for the workspace `default`. So that no state has
//! two names, `default.<suffix>` is for suffixes that have a dot themselves. A workspace with a dot has no name here.

use std::collections::BTreeMap;

use crate::key::Key;
use crate::store::StoreError;

const DEFAULT: &str = "default";
/// Labels of the stock client; it finds its Secrets by all four.
pub(super) const STATE: &str = "tfstate";
const SUFFIX: &str = "tfstateSecretSuffix";
const WORKSPACE: &str = "tfstateWorkspace";
const MANAGER: &str = "app.kubernetes.io/managed-by";
/// Kubernetes takes no longer label.
const LONGEST: usize = 63;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Names {
    workspace: String,
    suffix: String,
}

impl Names {
    pub(super) fn of(key: &Key) -> Result<Names, StoreError> {
        let (workspace, suffix) = key.name().split_once('.').unwrap_or((DEFAULT, key.name()));
        let refused = |what: String| Err(StoreError::refused(what));
        // A workspace is one label of a DNS name, and no longer than that.
        if suffix.len() > LONGEST {
            return refused(format!("what follows the workspace in a name has at most {LONGEST} characters"));
        }
        if is_part(suffix) {
            return refused("a name that ends in -part-NUMBER is a part of another state there".to_owned());
        }
        let names = Names { workspace: workspace.to_owned(), suffix: suffix.to_owned() };
        match names.name() {
            Some(name) if name == key.name() => Ok(names),
            _ => refused("the workspace 'default' is left out of a name: use the suffix alone".to_owned()),
        }
    }

    /// The state whose Secret has this name and these labels; `None` for parts, and for what is no state.
    pub(super) fn found(secret: &str, labels: &BTreeMap<String, String>) -> Option<Names> {
        let label = |name: &str| labels.get(name).cloned();
        let names = Names { workspace: label(WORKSPACE)?, suffix: label(SUFFIX)? };
        (names.secret() == secret).then_some(names)
    }

    /// As a path names it, if it can.
    pub(super) fn name(&self) -> Option<String> {
        let Names { workspace, suffix } = self;
        match (workspace.as_str(), suffix.contains('.')) {
            (DEFAULT, false) => Some(suffix.clone()),
            (workspace, _) if workspace.contains('.') => None,
            (workspace, _) => Some(format!("{workspace}.{suffix}")),
        }
    }

    pub(super) fn secret(&self) -> String {
        format!("tfstate-{}-{}", self.workspace, self.suffix)
    }

    /// Where Terraform puts what does not fit the first Secret, from 1 on.
    pub(super) fn part(&self, number: usize) -> String {
        format!("{}-part-{number}", self.secret())
    }

    pub(super) fn lease(&self) -> String {
        format!("lock-{}", self.secret())
    }

    pub(super) fn labels(&self) -> BTreeMap<String, String> {
        let labels = [(STATE, "true"), (SUFFIX, &*self.suffix), (WORKSPACE, &*self.workspace), (MANAGER, "terraform")];
        labels.map(|(name, text)| (name.to_owned(), text.to_owned())).into()
    }

    /// Whether the labels of a Secret with our name say that it belongs to another state: `a-b` and `c` make the same
    /// name as `a` and `b-c`.
    pub(super) fn is_other(&self, labels: &BTreeMap<String, String>) -> bool {
        let differs = |name: &str, own: &str| labels.get(name).is_some_and(|text| text != own);
        differs(WORKSPACE, &self.workspace) || differs(SUFFIX, &self.suffix)
    }
}

fn is_part(suffix: &str) -> bool {
    let number = suffix.rsplit_once("-part-").map(|(_, number)| number);
    number.is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_one_secret_and_back() {
        let cases = [
            ("app", "tfstate-default-app"),
            ("prod.app", "tfstate-prod-app"),
            ("prod.my.app", "tfstate-prod-my.app"),
            ("default.my.app", "tfstate-default-my.app"),
            ("app-7", "tfstate-default-app-7"),
        ];
        for (name, secret) in cases {
            let names = Names::of(&Key::new("team-a", name).unwrap()).unwrap();
            assert_eq!((names.secret(), names.lease()), (secret.to_owned(), format!("lock-{secret}")));
            assert_eq!(Names::found(secret, &names.labels()), Some(names.clone()));
            assert_eq!(Names::found(&names.part(1), &names.labels()), None);
            assert_eq!(names.name().as_deref(), Some(name));
        }
        let long = format!("prod.{0}.{0}", "a".repeat(32));
        for name in ["default.app", "app-part-1", "prod.app-part-12", &long] {
            let refused = Names::of(&Key::new("team-a", name).unwrap());
            assert!(matches!(refused, Err(StoreError::Refused(_))), "{name}: {refused:?}");
        }
    }

    #[test]
    fn two_states_with_one_secret_are_told_apart() {
        let of = |name: &str| Names::of(&Key::new("team-a", name).unwrap()).unwrap();
        let (one, other) = (of("a-b.c"), of("a.b-c"));
        assert_eq!(one.secret(), other.secret());
        assert!(one.is_other(&other.labels()) && !one.is_other(&one.labels()) && !one.is_other(&BTreeMap::new()));
    }
}
