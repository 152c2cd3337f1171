//! Short names that people type for fields and kinds.

use super::Field;

/// The fields with all their names; the first is the one that messages use.
const FIELDS: &[(Field, &[&str])] = &[
    (Field::Cluster, &["cluster", "clustername"]),
    (Field::Namespace, &["namespace", "ns"]),
    (Field::Kind, &["kind"]),
    (Field::Group, &["group", "apigroup"]),
    (Field::Name, &["name"]),
    (Field::Status, &["status"]),
    (Field::Message, &["message", "msg"]),
    (Field::Tenant, &["tenant"]),
    (Field::Category, &["category"]),
    (Field::Uid, &["uid"]),
    (Field::Is, &["is"]),
    (Field::Text, &["text"]),
];

/// Kinds by the names that kubectl and flux have for them.
const KINDS: &[(&str, &[&str])] = &[
    ("Kustomization", &["ks", "kustomizations"]),
    ("HelmRelease", &["hr", "helmreleases"]),
    ("GitRepository", &["gitrepo", "gitrepositories"]),
    ("HelmRepository", &["helmrepo", "helmrepositories"]),
    ("HelmChart", &["hc", "helmcharts"]),
    ("OCIRepository", &["ocirepo", "ocirepositories"]),
    ("Bucket", &["buckets"]),
    ("Terraform", &["tf", "terraforms"]),
    ("ExternalSecret", &["es", "externalsecrets"]),
    ("PushSecret", &["ps", "pushsecrets"]),
    ("Pod", &["po", "pods"]),
    ("Deployment", &["deploy", "deployments"]),
    ("ReplicaSet", &["rs", "replicasets"]),
    ("StatefulSet", &["sts", "statefulsets"]),
    ("DaemonSet", &["ds", "daemonsets"]),
    ("CronJob", &["cj", "cronjobs"]),
    ("Job", &["jobs"]),
    ("Service", &["svc", "services"]),
    ("Ingress", &["ing", "ingresses"]),
    ("ConfigMap", &["cm", "configmaps"]),
    ("Secret", &["secrets"]),
    ("Namespace", &["ns", "namespaces"]),
    ("Node", &["no", "nodes"]),
    ("ServiceAccount", &["sa", "serviceaccounts"]),
    ("Event", &["ev", "events"]),
    ("PersistentVolume", &["pv"]),
    ("PersistentVolumeClaim", &["pvc"]),
    ("CustomResourceDefinition", &["crd", "crds"]),
];

/// What `is:` can ask.
pub(super) const STATES: &[&str] = &["deleted", "live", "stale", "terminating"];

pub(super) fn field(name: &str) -> Option<Field> {
    let lower = name.to_ascii_lowercase();
    if let Some(key) = ["label.", "labels."].iter().find_map(|prefix| lower.strip_prefix(prefix)) {
        // Keys are case-sensitive: take it from what was written.
        return Some(Field::Label(name[name.len() - key.len()..].to_owned())).filter(|_| !key.is_empty());
    }
    if let Some(path) = lower.strip_prefix("object.") {
        return Some(Field::Object(name[name.len() - path.len()..].to_owned())).filter(|_| !path.is_empty());
    }
    FIELDS.iter().find(|(_, names)| names.contains(&lower.as_str())).map(|(field, _)| field.clone())
}

/// What the field of any of its names is called.
pub(super) fn field_name(name: &str) -> Option<&'static str> {
    let lower = name.to_ascii_lowercase();
    FIELDS.iter().find(|(_, names)| names.contains(&lower.as_str())).map(|(_, names)| names[0])
}

pub(super) fn known_fields() -> String {
    let names = FIELDS.iter().map(|(_, names)| names[0]);
    names.chain(["label.KEY", "Object.PATH"]).collect::<Vec<_>>().join(", ")
}

/// The kind that a short name means, or the name itself.
pub(super) fn kind(name: &str) -> &str {
    let found = KINDS.iter().find(|(_, names)| names.iter().any(|alias| alias.eq_ignore_ascii_case(name)));
    found.map_or(name, |(kind, _)| kind)
}
