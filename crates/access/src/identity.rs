//! What the gate knows of a caller.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;

use crate::authorize::roles::Grant;

/// The group that every caller is in once somebody has vouched for them.
pub(crate) const AUTHENTICATED: &str = "system:authenticated";
pub(crate) const UNAUTHENTICATED: &str = "system:unauthenticated";
pub(crate) const ANONYMOUS: &str = "system:anonymous";

/// A caller that somebody vouched for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Identity {
    pub user: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    pub groups: Vec<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub extra: BTreeMap<String, Vec<String>>,
    pub source: Source,
    /// What a static token grants; empty for everybody else.
    #[serde(skip)]
    pub grants: Arc<[Grant]>,
}

/// Who vouched for a caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Source {
    TokenReview,
    StaticToken,
    Certificate,
    FrontProxy,
}

impl Source {
    pub fn as_str(self) -> &'static str {
        match self {
            Source::TokenReview => "token-review",
            Source::StaticToken => "static-token",
            Source::Certificate => "certificate",
            Source::FrontProxy => "front-proxy",
        }
    }
}

impl Identity {
    /// An identity as its source tells it; [`Identity::admitted`] makes it one that the gate hands out.
    pub(crate) fn new(source: Source, user: String) -> Identity {
        Identity { user, uid: None, groups: Vec::new(), extra: BTreeMap::new(), source, grants: Arc::new([]) }
    }

    /// Adds `system:authenticated`; an anonymous caller is no identity at all, since authentication is always on.
    pub(crate) fn admitted(mut self) -> Option<Identity> {
        let anonymous = self.user == ANONYMOUS || self.groups.iter().any(|group| group == UNAUTHENTICATED);
        if self.user.is_empty() || anonymous {
            return None;
        }
        if !self.groups.iter().any(|group| group == AUTHENTICATED) {
            self.groups.push(AUTHENTICATED.to_owned());
        }
        Some(self)
    }

    /// Drops what only Kubernetes itself may say of a caller: a `system:` user is refused whole, `system:` groups go.
    pub(crate) fn without_system(mut self) -> Option<Identity> {
        if is_system(&self.user) {
            return None;
        }
        self.groups.retain(|group| !is_system(group));
        Some(self)
    }
}

pub(crate) fn is_system(name: &str) -> bool {
    name.starts_with("system:")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(user: &str, groups: &[&str]) -> Identity {
        let mut identity = Identity::new(Source::Certificate, user.to_owned());
        identity.groups = groups.iter().map(|&group| group.to_owned()).collect();
        identity
    }

    #[test]
    fn system_names_are_dropped_and_the_authenticated_group_is_added_once() {
        type Groups = &'static [&'static str];
        let cases: &[(&str, Groups, Option<Groups>)] = &[
            ("jane", &[], Some(&[AUTHENTICATED])),
            ("jane", &["dev"], Some(&["dev", AUTHENTICATED])),
            ("jane", &["dev", "system:masters"], Some(&["dev", AUTHENTICATED])),
            ("jane", &["system:masters", "system:authenticated"], Some(&[AUTHENTICATED])),
            ("system:admin", &["dev"], None),
            ("system:serviceaccount:a:b", &[], None),
            ("", &["dev"], None),
            ("systems", &["system"], Some(&["system", AUTHENTICATED])),
        ];
        for (user, groups, expected) in cases {
            let admitted = identity(user, groups).without_system().and_then(Identity::admitted);
            let found = admitted.map(|identity| identity.groups);
            let expected = expected.map(|groups| groups.iter().map(|&group| group.to_owned()).collect::<Vec<_>>());
            assert_eq!(found, expected, "{user} {groups:?}");
        }
    }

    #[test]
    fn trusted_system_names_stay_but_nobody_is_anonymous() {
        let kept = identity("system:admin", &["system:masters"]).admitted().unwrap();
        assert_eq!(kept.groups, ["system:masters", AUTHENTICATED]);
        assert_eq!(identity(ANONYMOUS, &[]).admitted(), None);
        assert_eq!(identity("jane", &[UNAUTHENTICATED]).admitted(), None);
    }
}
