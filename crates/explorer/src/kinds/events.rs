//! Events: those that audit a policy, and those about objects that are collected. Others would only be noise.
//!
//! The cluster itself drops an Event after about an hour; here they are kept for a day.

use std::time::Duration;

use kube::api::DynamicObject;
use serde_json::Value;

use super::{KindSpec, Which};

pub(super) fn kinds() -> Vec<KindSpec> {
    let event = KindSpec { which: Which::Telling, ..KindSpec::new("", "Event") };
    vec![event.retained(Duration::from_hours(24))]
}

/// Whether an Event is kept: an audit of the policy agent, or about an object of one of these (group, kind).
pub(super) fn is_telling(event: &DynamicObject, others: &[(String, String)]) -> bool {
    let text = |pointer: &str| event.data.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let labels = event.metadata.labels.as_ref();
    let is_audit = labels.is_some_and(|labels| labels.get("pac.weave.works/type").is_some_and(|kind| kind == "Audit"))
        && text("/source/component") == "policy-agent";
    let group = text("/involvedObject/apiVersion").split_once('/').map_or("", |(group, _version)| group);
    let kind = text("/involvedObject/kind");
    is_audit || others.iter().any(|(of, named)| of == group && named == kind)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn events_count_when_they_audit_or_tell_of_a_collected_object() {
        let others = [("helm.toolkit.fluxcd.io".to_owned(), "HelmRelease".to_owned())];
        let about = |version: &str, kind: &str| json!({"involvedObject": {"apiVersion": version, "kind": kind}});
        let audit = |label: &str, component: &str| json!({"metadata": {"labels": {"pac.weave.works/type": label}}, "source": {"component": component}});
        let table = [
            (about("helm.toolkit.fluxcd.io/v2", "HelmRelease"), true),
            (about("helm.toolkit.fluxcd.io/v2beta1", "HelmRelease"), true),
            (about("v1", "HelmRelease"), false),
            (about("v1", "Pod"), false),
            (audit("Audit", "policy-agent"), true),
            (audit("Admission", "policy-agent"), false),
            (audit("Audit", "kubelet"), false),
            (json!({}), false),
        ];
        for (event, expected) in table {
            let mut object = event.clone();
            object["metadata"]["name"] = "e".into();
            let object: DynamicObject = serde_json::from_value(object).unwrap();
            assert_eq!(is_telling(&object, &others), expected, "{event}");
        }
    }
}
