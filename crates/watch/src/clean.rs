//! What is taken off an object before anybody sees it. Pure.

use kube::api::{ApiResource, DynamicObject, TypeMeta};
use serde_json::Value;

const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Of which kind of object what is taken off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Caution {
    Usual,
    /// Nothing but metadata, and no annotation: tools copy data into those.
    Secret,
}

/// Drops what is noise or secret, and puts the kind where lists and metadata requests leave it out.
pub(crate) fn clean(object: &mut DynamicObject, resource: &ApiResource, caution: Caution) {
    object.types = Some(TypeMeta { api_version: resource.api_version.clone(), kind: resource.kind.clone() });
    object.metadata.managed_fields = None;
    match caution {
        Caution::Secret => {
            object.metadata.annotations = None;
            object.data = Value::Object(serde_json::Map::new());
        }
        Caution::Usual => {
            if let Some(annotations) = &mut object.metadata.annotations {
                annotations.remove(LAST_APPLIED);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn cleaned(kind: &str, caution: Caution) -> String {
        let resource = ApiResource {
            group: String::new(),
            version: "v1".to_owned(),
            api_version: "v1".to_owned(),
            kind: kind.to_owned(),
            plural: String::new(),
        };
        let mut object: DynamicObject = serde_json::from_value(json!({
            "metadata": {
                "name": "a",
                "labels": {"keep": "label"},
                "annotations": {LAST_APPLIED: "canary-applied", "other": "annotation"},
                "managedFields": [{"manager": "canary-manager"}],
            },
            "data": {"password": "canary-data"},
        }))
        .unwrap();
        clean(&mut object, &resource, caution);
        serde_json::to_string(&object).unwrap()
    }

    #[test]
    fn noise_goes_and_the_rest_stays() {
        let text = cleaned("ConfigMap", Caution::Usual);
        assert!(!text.contains("canary-applied") && !text.contains("canary-manager"), "{text}");
        for kept in ["annotation", "label", "canary-data", r#""kind":"ConfigMap""#] {
            assert!(text.contains(kept), "{kept}: {text}");
        }
    }

    #[test]
    fn of_a_secret_nothing_but_names_and_labels_is_left() {
        let text = cleaned("Secret", Caution::Secret);
        assert!(!text.contains("canary") && !text.contains("annotation") && text.contains("label"), "{text}");
    }
}
