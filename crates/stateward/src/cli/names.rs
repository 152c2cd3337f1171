//! Other names of the binary: called by a name of the original programs, it is the command that replaces them.

use std::ffi::OsString;
use std::path::Path;

/// A name, and the arguments that it stands for.
const NAMES: &[(&str, &[&str])] = &[
    ("argo-actions", &["step"]),
    ("ti-value-fetcher", &["step", "resolve"]),
    ("tf-kubernetes-configmap-backend", &["configmap-backend"]),
    (
        "tf-kubernetes-configmap-backend-file-generator",
        &["state", "backend-config", "--mode=0444", "--skip-cert-verification"],
    ),
];

/// The command line as `stateward` takes it.
pub fn arguments(given: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut given = given.into_iter();
    let program = given.next().unwrap_or_else(|| "stateward".into());
    let name = Path::new(&program).file_name().unwrap_or_default();
    let meant = NAMES.iter().find(|(known, _)| name == *known).map_or(&[][..], |(_, meant)| meant);
    let program = if meant.is_empty() { program } else { "stateward".into() };
    std::iter::once(program).chain(meant.iter().map(Into::into)).chain(given).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_of_the_original_programs_are_commands() {
        let table = [
            (&["stateward", "serve"][..], &["stateward", "serve"][..]),
            (&["./bin/stateward"], &["./bin/stateward"]),
            (
                &["/usr/bin/tf-kubernetes-configmap-backend", "--minify"],
                &["stateward", "configmap-backend", "--minify"],
            ),
            (
                &["tf-kubernetes-configmap-backend-file-generator", "--output-file=a"],
                &["stateward", "state", "backend-config", "--mode=0444", "--skip-cert-verification", "--output-file=a"],
            ),
            (&["/argo-actions"], &["stateward", "step"]),
            (&["ti-value-fetcher"], &["stateward", "step", "resolve"]),
            (&[], &["stateward"]),
        ];
        for (given, expected) in table {
            assert_eq!(arguments(given.iter().map(Into::into)), expected, "{given:?}");
        }
    }
}
