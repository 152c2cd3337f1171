//! The kinds that are collected: a list of defaults, one file per family, and any other by configuration.
//!
//! The door is [`KindSpec`]. A kind is named by its group and its name, with or without a version; which plural it has, and
//! whether its objects have namespaces, each cluster tells by discovery. Pure: no call is made here.
//!
//! Adding a kind = a line in the file of its family; adding a family = a file here and a line in [`KindSpec::defaults`].

mod events;
mod flux;
mod stateward;
mod templates;

use std::time::Duration;

use kube::api::DynamicObject;

use crate::status;

/// A kind to collect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KindSpec {
    /// Empty for the core group.
    pub group: String,
    /// `None`: what the cluster prefers.
    pub version: Option<String>,
    pub kind: String,
    /// Where it is shown.
    pub category: String,
    /// Labels whose values are facets.
    pub labels: Vec<FacetLabel>,
    /// How long objects that are gone are still shown; `None`: not at all.
    pub retention: Option<Duration>,
    pub which: Which,
}

/// A label whose values are a facet, and what people call it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FacetLabel {
    pub key: String,
    pub name: String,
}

/// Which objects of a kind are collected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Which {
    #[default]
    All,
    /// Of Events: audits of the policy agent, and those about objects of other collected kinds.
    Telling,
}

/// Why a text names no kind.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{text}' is no kind: {fault}; write group/version/Kind, version/Kind for the core group, or Kind.group")]
pub struct KindError {
    text: String,
    fault: &'static str,
}

impl KindSpec {
    /// A kind in the version that the cluster prefers, in the category that it has in the original.
    pub fn new(group: &str, kind: &str) -> KindSpec {
        KindSpec {
            group: group.to_owned(),
            version: None,
            kind: kind.to_owned(),
            category: status::category(group, kind).to_owned(),
            labels: Vec::new(),
            retention: None,
            which: Which::All,
        }
    }

    /// What is collected unless the configuration says otherwise. A kind that a cluster does not have is waited for.
    pub fn defaults() -> Vec<KindSpec> {
        [flux::kinds(), stateward::kinds(), templates::kinds(), events::kinds()].concat()
    }

    /// Reads `group/version/Kind`, `version/Kind` or `Kind.group`. Of a default kind its category and labels are kept; whoever
    /// names a kind means all objects of it, for as long as they are there.
    pub fn parse(text: &str) -> Result<KindSpec, KindError> {
        let bad = |fault| KindError { text: text.to_owned(), fault };
        let parts: Vec<&str> = text.split('/').collect();
        let (group, version, kind) = match parts[..] {
            [group, version, kind] => (Some(group), Some(version), kind),
            [version, kind] => (None, Some(version), kind),
            [name] => match name.split_once('.') {
                Some((kind, group)) => (Some(group), None, kind),
                None => (None, None, name),
            },
            _ => return Err(bad("it has too many slashes")),
        };
        if !is_kind(kind) {
            return Err(bad("a kind begins with a capital letter and has letters and digits only"));
        }
        if group.is_some_and(|group| !is_group(group)) {
            return Err(bad("a group is a DNS name in small letters"));
        }
        if version.is_some_and(|version| !is_version(version)) {
            return Err(bad("a version is something like v1 or v2beta1"));
        }
        let group = group.unwrap_or_default();
        let known = KindSpec::defaults().into_iter().find(|spec| spec.is(group, kind));
        let spec = known.unwrap_or_else(|| KindSpec::new(group, kind));
        Ok(KindSpec { version: version.map(str::to_owned), retention: None, which: Which::All, ..spec })
    }

    pub fn is(&self, group: &str, kind: &str) -> bool {
        self.group == group && self.kind == kind
    }

    fn retained(self, retention: Duration) -> KindSpec {
        KindSpec { retention: Some(retention), ..self }
    }

    fn faceted(mut self, key: &str, name: &str) -> KindSpec {
        self.labels.push(FacetLabel { key: key.to_owned(), name: name.to_owned() });
        self
    }
}

/// What of a kind is collected, given all kinds that are.
pub(crate) fn filter(spec: &KindSpec, all: &[KindSpec]) -> watch::Filter {
    match spec.which {
        Which::All => watch::Filter::everything(),
        Which::Telling => {
            let others: Vec<(String, String)> = all
                .iter()
                .filter(|other| *other != spec)
                .map(|other| (other.group.clone(), other.kind.clone()))
                .collect();
            watch::Filter::by(move |event: &DynamicObject| events::is_telling(event, &others))
        }
    }
}

fn is_kind(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_uppercase())
        && text.len() <= 63
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

fn is_group(text: &str) -> bool {
    let is_label = |label: &str| {
        !label.is_empty()
            && label.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    text.len() <= 253 && text.split('.').all(is_label)
}

fn is_version(text: &str) -> bool {
    let rest = text.strip_prefix('v').unwrap_or_default();
    rest.starts_with(|first: char| first.is_ascii_digit())
        && rest.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_read_in_three_forms_and_bad_ones_are_told() {
        let table = [
            ("apps/v1/Deployment", "apps", Some("v1"), "Deployment"),
            ("v1/ConfigMap", "", Some("v1"), "ConfigMap"),
            ("ConfigMap", "", None, "ConfigMap"),
            ("HelmRelease.helm.toolkit.fluxcd.io", "helm.toolkit.fluxcd.io", None, "HelmRelease"),
        ];
        for (text, group, version, kind) in table {
            let spec = KindSpec::parse(text).unwrap();
            assert_eq!((spec.group.as_str(), spec.version.as_deref(), spec.kind.as_str()), (group, version, kind));
        }
        for bad in ["", "configmap", "a/b/c/D", "/v1/Kind", "Apps/v1/Kind", "apps/1/Kind", "v/Kind", "Kind.", "K-d"] {
            let fault = KindSpec::parse(bad).unwrap_err().to_string();
            assert!(fault.contains("Kind.group") && fault.contains(bad), "{fault}");
        }
    }

    #[test]
    fn a_default_kind_keeps_what_is_known_of_it_when_it_is_named_and_is_then_collected_as_a_whole() {
        let defaults = KindSpec::defaults();
        let events = defaults.iter().find(|spec| spec.is("", "Event")).unwrap();
        assert_eq!((events.retention, events.which), (Some(Duration::from_hours(24)), Which::Telling));
        let events = KindSpec::parse("v1/Event").unwrap();
        assert_eq!((events.retention, events.which), (None, Which::All));
        assert_eq!(events.category, "event");
        let template = KindSpec::parse("GitOpsTemplate.templates.weave.works").unwrap();
        assert_eq!(template.labels[0].name, "template-type");
    }

    #[test]
    fn no_default_kind_is_there_twice() {
        let all = KindSpec::defaults();
        for (at, spec) in all.iter().enumerate() {
            assert!(!all[at + 1..].iter().any(|other| other.is(&spec.group, &spec.kind)), "{spec:?}");
        }
    }
}
