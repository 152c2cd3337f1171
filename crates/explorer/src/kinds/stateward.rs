//! What this project's own controllers reconcile, under the groups that their users know.

use super::KindSpec;

pub(super) fn kinds() -> Vec<KindSpec> {
    vec![
        KindSpec::new("infra.contrib.fluxcd.io", "Terraform"),
        KindSpec::new("external-secrets.io", "ExternalSecret"),
        KindSpec::new("external-secrets.io", "PushSecret"),
    ]
}
