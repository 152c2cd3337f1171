//! What is shown of an object beside its name: status, message, category. Pure rules over its JSON.
//!
//! The door is [`assess`]. The rules are those of the original, with one mended: an object without conditions is
//! [`Status::Unknown`], not failed; and one more: an object that is being deleted is [`Status::Terminating`] for as long as
//! it is there.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// In the order of their texts, which is the order in which they are sorted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Status {
    /// The object has no status: a template.
    #[serde(rename = "-")]
    None,
    Failed,
    PendingAction,
    Reconciling,
    Success,
    Suspended,
    Terminating,
    Unknown,
}

impl Status {
    pub const ALL: [Status; 8] = [
        Status::None,
        Status::Failed,
        Status::PendingAction,
        Status::Reconciling,
        Status::Success,
        Status::Suspended,
        Status::Terminating,
        Status::Unknown,
    ];

    pub const fn as_str(self) -> &'static str {
        match self {
            Status::None => "-",
            Status::Failed => "Failed",
            Status::PendingAction => "PendingAction",
            Status::Reconciling => "Reconciling",
            Status::Success => "Success",
            Status::Suspended => "Suspended",
            Status::Terminating => "Terminating",
            Status::Unknown => "Unknown",
        }
    }
}

/// What is shown of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assessment {
    pub status: Status,
    pub message: String,
}

/// Reads status and message out of an object of this kind, whose group is empty for the core one.
pub fn assess(group: &str, kind: &str, object: &Value) -> Assessment {
    let conditions = object.pointer("/status/conditions").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let telling = conditions.iter().find(|condition| TELLING.contains(&text(condition, "/type")));
    let of_event = || if text(object, "/type") == "Normal" { Status::Success } else { Status::Failed };
    let (status, message) = match (group, kind) {
        ("", "Event") => (of_event(), text(object, "/message")),
        ("events.k8s.io", "Event") => (of_event(), text(object, "/note")),
        ("templates.weave.works", "GitOpsTemplate") | ("capi.weave.works", "CAPITemplate") => {
            (Status::None, text(object, "/spec/description"))
        }
        _ => (of_conditions(object, conditions), telling.map_or("", |condition| text(condition, "/message"))),
    };
    let status = if is_terminating(object) { Status::Terminating } else { status };
    Assessment { status, message: message.to_owned() }
}

/// Whether its deletion has begun and something still holds it.
pub fn is_terminating(object: &Value) -> bool {
    !text(object, "/metadata/deletionTimestamp").is_empty()
}

/// Where a kind is shown. Kinds that the original did not have are `other`, unless they are configured.
pub fn category(group: &str, kind: &str) -> &'static str {
    let is_of = |suffix: &str| group == suffix || group.strip_suffix(suffix).is_some_and(|rest| rest.ends_with('.'));
    match kind {
        "HelmRelease" | "Kustomization" if is_of("toolkit.fluxcd.io") => "automation",
        "GitRepository" | "HelmRepository" | "HelmChart" | "OCIRepository" | "Bucket" if is_of("toolkit.fluxcd.io") => {
            "source"
        }
        "Terraform" => "automation",
        "Event" => "event",
        "GitOpsSet" => "gitopsset",
        "GitOpsTemplate" | "CAPITemplate" => "template",
        "AutomatedClusterDiscovery" => "clusterdiscovery",
        "Role" | "ClusterRole" | "RoleBinding" | "ClusterRoleBinding" if group == "rbac.authorization.k8s.io" => "rbac",
        _ => "other",
    }
}

/// Conditions that tell how an object is.
const TELLING: [&str; 2] = ["Ready", "Available"];

fn of_conditions(object: &Value, conditions: &[Value]) -> Status {
    if object.pointer("/spec/suspend").and_then(Value::as_bool) == Some(true) {
        return Status::Suspended;
    }
    if conditions.is_empty() {
        return Status::Unknown;
    }
    for condition in conditions {
        match text(condition, "/type") {
            "-" => return Status::None,
            kind if TELLING.contains(&kind) => return of_condition(condition),
            _ => {}
        }
    }
    Status::Failed
}

fn of_condition(condition: &Value) -> Status {
    match (text(condition, "/status"), text(condition, "/reason")) {
        ("True", _) => Status::Success,
        ("Unknown", "Progressing") => Status::Reconciling,
        ("Unknown", "TerraformPlannedWithChanges") => Status::PendingAction,
        _ => Status::Failed,
    }
}

fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn statuses_are_in_the_order_of_their_texts() {
        assert!(Status::ALL.is_sorted_by(|one, other| one.as_str() < other.as_str() && one < other));
        for status in Status::ALL {
            assert_eq!(serde_json::to_value(status).unwrap(), status.as_str());
        }
    }

    #[test]
    fn status_and_message_follow_from_suspend_and_the_first_telling_condition() {
        let condition = |kind: &str, status: &str, reason: &str| json!({ "type": kind, "status": status, "reason": reason, "message": format!("{kind} says") });
        let ready = |status, reason| condition("Ready", status, reason);
        let table = [
            (vec![], false, Status::Unknown, ""),
            (vec![], true, Status::Suspended, ""),
            (vec![ready("True", "Succeeded")], false, Status::Success, "Ready says"),
            (vec![ready("True", "Succeeded")], true, Status::Suspended, "Ready says"),
            (vec![ready("False", "Failed")], false, Status::Failed, "Ready says"),
            (vec![ready("False", "Progressing")], false, Status::Failed, "Ready says"),
            (vec![ready("Unknown", "Progressing")], false, Status::Reconciling, "Ready says"),
            (vec![ready("Unknown", "TerraformPlannedWithChanges")], false, Status::PendingAction, "Ready says"),
            (vec![ready("Unknown", "Other")], false, Status::Failed, "Ready says"),
            (vec![condition("Available", "True", "")], false, Status::Success, "Available says"),
            (vec![condition("Stalled", "True", "")], false, Status::Failed, ""),
            (vec![condition("-", "True", ""), ready("False", "")], false, Status::None, "Ready says"),
            (vec![ready("True", ""), condition("-", "True", "")], false, Status::Success, "Ready says"),
            (vec![condition("Released", "False", ""), ready("True", "")], false, Status::Success, "Ready says"),
            (vec![condition("Available", "False", ""), ready("True", "")], false, Status::Failed, "Available says"),
        ];
        for (conditions, suspend, status, message) in table {
            let object = json!({ "spec": { "suspend": suspend }, "status": { "conditions": conditions } });
            let found = assess("kustomize.toolkit.fluxcd.io", "Kustomization", &object);
            assert_eq!((found.status, found.message.as_str()), (status, message), "{object}");
        }
    }

    #[test]
    fn events_templates_and_objects_of_odd_shapes_have_rules_of_their_own() {
        let table = [
            ("", "Event", json!({ "type": "Normal", "message": "m" }), Status::Success, "m"),
            ("", "Event", json!({ "type": "Warning", "message": "m" }), Status::Failed, "m"),
            ("", "Event", json!({}), Status::Failed, ""),
            ("events.k8s.io", "Event", json!({ "type": "Normal", "note": "n" }), Status::Success, "n"),
            ("events.k8s.io", "Event", json!({ "type": "Warning", "note": "n" }), Status::Failed, "n"),
            // Of others the name is the same, and nothing else.
            ("other.example", "Event", json!({ "type": "Normal", "message": "m" }), Status::Unknown, ""),
            ("other.example", "GitOpsTemplate", json!({ "spec": { "description": "d" } }), Status::Unknown, ""),
            ("templates.weave.works", "GitOpsTemplate", json!({ "spec": { "description": "d" } }), Status::None, "d"),
            ("capi.weave.works", "CAPITemplate", json!({}), Status::None, ""),
            ("", "ConfigMap", json!({ "data": {} }), Status::Unknown, ""),
            ("odd.example", "Odd", json!({ "status": { "conditions": "none" } }), Status::Unknown, ""),
            ("odd.example", "Odd", json!({ "status": { "conditions": [7, { "type": 3 }] } }), Status::Failed, ""),
            ("odd.example", "Odd", json!({ "spec": { "suspend": "true" }, "status": 4 }), Status::Unknown, ""),
            ("odd.example", "Odd", json!(null), Status::Unknown, ""),
        ];
        for (group, kind, object, status, message) in table {
            let found = assess(group, kind, &object);
            assert_eq!((found.status, found.message.as_str()), (status, message), "{object}");
        }
    }

    #[test]
    fn an_object_that_is_being_deleted_is_terminating_whatever_else_it_says() {
        let object = json!({
            "metadata": { "deletionTimestamp": "2026-01-01T00:00:00Z" },
            "spec": { "suspend": true },
            "status": { "conditions": [{ "type": "Ready", "status": "False", "message": "held" }] },
        });
        let kinds = [
            ("kustomize.toolkit.fluxcd.io", "Kustomization"),
            ("", "Event"),
            ("templates.weave.works", "GitOpsTemplate"),
        ];
        for (group, kind) in kinds {
            assert_eq!(assess(group, kind, &object).status, Status::Terminating);
        }
        assert_eq!(assess("kustomize.toolkit.fluxcd.io", "Kustomization", &object).message, "held");
    }

    #[test]
    fn categories_are_those_of_the_original_and_other() {
        let table = [
            ("helm.toolkit.fluxcd.io", "HelmRelease", "automation"),
            ("example.org", "HelmRelease", "other"),
            ("eviltoolkit.fluxcd.io", "HelmRelease", "other"),
            ("source.toolkit.fluxcd.io", "Bucket", "source"),
            ("", "Event", "event"),
            ("rbac.authorization.k8s.io", "Role", "rbac"),
            ("templates.weave.works", "GitOpsTemplate", "template"),
            ("", "ConfigMap", "other"),
        ];
        for (group, kind, expected) in table {
            assert_eq!(category(group, kind), expected, "{group} {kind}");
        }
    }
}
