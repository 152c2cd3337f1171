//! What makes other objects: sets, templates, discovered clusters.

use super::KindSpec;

pub(super) fn kinds() -> Vec<KindSpec> {
    vec![
        KindSpec::new("templates.weave.works", "GitOpsSet"),
        KindSpec::new("templates.weave.works", "GitOpsTemplate").faceted("weave.works/template-type", "template-type"),
        KindSpec::new("capi.weave.works", "CAPITemplate").faceted("weave.works/template-type", "template-type"),
        KindSpec::new("clusters.weave.works", "AutomatedClusterDiscovery"),
    ]
}
