//! What can be done to an object, and the patch that does it. Pure rules.

use serde_json::{Value, json};

use crate::row::Key;

/// Something that people do to many objects at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Deed {
    /// Look at it now, and not when its time has come.
    Reconcile,
    Suspend,
    Resume,
}

impl Deed {
    pub(super) const ALL: [Deed; 3] = [Deed::Reconcile, Deed::Suspend, Deed::Resume];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Deed::Reconcile => "reconcile",
            Deed::Suspend => "suspend",
            Deed::Resume => "resume",
        }
    }

    pub(super) fn parse(name: &str) -> Option<Deed> {
        Deed::ALL.into_iter().find(|deed| deed.name() == name)
    }

    /// The merge patch for an object with this uid; `None` where the kind knows no such thing. With the uid in it, an object that
    /// was made anew under the same name is not touched.
    pub(super) fn patch(self, key: &Key, uid: &str, now: &str) -> Option<Value> {
        let family = Family::of(key)?;
        let mut patch = match (self, family) {
            (Deed::Reconcile, Family::Flux) => annotated("reconcile.fluxcd.io/requestedAt", now),
            (Deed::Reconcile, Family::ExternalSecrets) => annotated("force-sync", now),
            (Deed::Suspend | Deed::Resume, Family::ExternalSecrets) | (Deed::Reconcile, Family::CronJob) => {
                return None;
            }
            (Deed::Suspend, _) => json!({ "metadata": {}, "spec": { "suspend": true } }),
            (Deed::Resume, _) => json!({ "metadata": {}, "spec": { "suspend": false } }),
        };
        patch["metadata"]["uid"] = uid.into();
        Some(patch)
    }
}

/// Kinds that are told what to do in the same way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Family {
    Flux,
    ExternalSecrets,
    CronJob,
}

impl Family {
    fn of(key: &Key) -> Option<Family> {
        match (key.group.as_str(), key.kind.as_str()) {
            (group, _) if group == "toolkit.fluxcd.io" || group.ends_with(".toolkit.fluxcd.io") => Some(Family::Flux),
            ("infra.contrib.fluxcd.io", "Terraform") | ("templates.weave.works", "GitOpsSet") => Some(Family::Flux),
            ("external-secrets.io", "ExternalSecret" | "PushSecret" | "ClusterExternalSecret") => {
                Some(Family::ExternalSecrets)
            }
            ("batch", "CronJob") => Some(Family::CronJob),
            _ => None,
        }
    }
}

fn annotated(annotation: &str, value: &str) -> Value {
    json!({ "metadata": { "annotations": { annotation: value } } })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_is_told_in_its_own_way_or_not_at_all() {
        const RELEASE: &str = "c/n/helm.toolkit.fluxcd.io/v2/HelmRelease/x";
        let uid = "u";
        let suspended = |is| json!({ "metadata": { "uid": uid }, "spec": { "suspend": is } });
        let note = |key: &str| json!({ "metadata": { "uid": uid, "annotations": { key: "now" } } });
        let flux = note("reconcile.fluxcd.io/requestedAt");
        let table = [
            (Deed::Reconcile, RELEASE, Some(flux.clone())),
            (Deed::Suspend, RELEASE, Some(suspended(true))),
            (Deed::Resume, RELEASE, Some(suspended(false))),
            (Deed::Reconcile, "c/n/infra.contrib.fluxcd.io/v1/Terraform/x", Some(flux)),
            (Deed::Reconcile, "c/n/external-secrets.io/v1/ExternalSecret/x", Some(note("force-sync"))),
            (Deed::Suspend, "c/n/external-secrets.io/v1/ExternalSecret/x", None),
            (Deed::Suspend, "c/n/batch/v1/CronJob/x", Some(suspended(true))),
            (Deed::Reconcile, "c/n/batch/v1/CronJob/x", None),
            (Deed::Suspend, "c/n/apps/v1/Deployment/x", None),
            (Deed::Reconcile, "c/n/evil-toolkit.fluxcd.io/v1/HelmRelease/x", None),
        ];
        for (deed, id, expected) in table {
            assert_eq!(deed.patch(&Key::from_id(id).unwrap(), uid, "now"), expected, "{deed:?} {id}");
            assert_eq!(Deed::parse(deed.name()), Some(deed));
        }
        assert_eq!(Deed::parse("delete"), None);
    }
}
