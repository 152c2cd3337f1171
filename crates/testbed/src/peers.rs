//! Where the real programs are: `peers/build` puts them into a cache outside the checkout.

use std::path::PathBuf;
use std::process::Command;
use std::sync::LazyLock;

use anyhow::{Context, Result, ensure};

static BIN: LazyLock<Result<PathBuf, String>> = LazyLock::new(|| {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../peers/build");
    let output = Command::new(script).arg("--where").output().map_err(|error| format!("{script} --where: {error}"))?;
    Ok(PathBuf::from(String::from_utf8_lossy(&output.stdout).trim()))
});

/// The path of one peer's program, for example `peer("etcd")`.
pub fn peer(name: &str) -> Result<PathBuf> {
    let path = bin()?.join(name);
    ensure!(path.exists(), "the peer '{name}' is not at {}: run `make peers`", path.display());
    Ok(path)
}

/// The directory that holds what belongs to the peers beside their programs (provider mirror, `tofu.rc`).
pub fn peers_root() -> Result<PathBuf> {
    bin()?.parent().map(PathBuf::from).context("the peers directory has no parent")
}

/// The file with the CustomResourceDefinitions of a module, for example `definitions("helm-controller")`.
pub(crate) fn definitions(name: &str) -> Result<PathBuf> {
    let path = peers_root()?.join("crds").join(format!("{name}.yaml"));
    ensure!(path.exists(), "the definitions of '{name}' are not at {}: run `make peers`", path.display());
    Ok(path)
}

fn bin() -> Result<PathBuf> {
    BIN.clone().map_err(anyhow::Error::msg)
}
