//! What Flux applies and where it comes from.

use super::KindSpec;

pub(super) fn kinds() -> Vec<KindSpec> {
    vec![
        KindSpec::new("helm.toolkit.fluxcd.io", "HelmRelease"),
        KindSpec::new("kustomize.toolkit.fluxcd.io", "Kustomization"),
        KindSpec::new("source.toolkit.fluxcd.io", "GitRepository"),
        KindSpec::new("source.toolkit.fluxcd.io", "HelmRepository"),
        KindSpec::new("source.toolkit.fluxcd.io", "HelmChart"),
        KindSpec::new("source.toolkit.fluxcd.io", "OCIRepository"),
        KindSpec::new("source.toolkit.fluxcd.io", "Bucket"),
    ]
}
