//! The checks as `cargo xtask` runs them, on this tree and on small workspaces with a fault.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A workspace of empty crates that lasts as long as a test.
struct Workspace(PathBuf);

impl Workspace {
    /// `manifests` gives, for each crate, the rest of its manifest.
    fn new(test: &str, manifests: &[(&str, &str)]) -> Workspace {
        let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{test}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        for (name, rest) in manifests {
            let directory = root.join("crates").join(name);
            fs::create_dir_all(directory.join("src")).unwrap();
            fs::write(directory.join("src/lib.rs"), "").unwrap();
            let manifest = format!("[package]\nname = \"{name}\"\nversion = \"0.17.0\"\nedition = \"2024\"\n{rest}");
            fs::write(directory.join("Cargo.toml"), manifest).unwrap();
        }
        // A crate outside `crates` stands for one of somebody else.
        fs::write(
            root.join("Cargo.toml"),
            "[workspace]\nresolver = \"3\"\nmembers = [\"crates/*\"]\nexclude = [\"foreign\"]\n",
        )
        .unwrap();
        Workspace(root)
    }

    fn foreign(self, name: &str) -> Workspace {
        let directory = self.0.join("foreign").join(name);
        fs::create_dir_all(directory.join("src")).unwrap();
        fs::write(directory.join("src/lib.rs"), "").unwrap();
        let manifest = format!("[package]\nname = \"{name}\"\nversion = \"0.17.0\"\n[features]\nv1_33 = []\n");
        fs::write(directory.join("Cargo.toml"), manifest).unwrap();
        self
    }

    fn directions(&self) -> Result<(), String> {
        let lock =
            Command::new(env!("CARGO")).args(["generate-lockfile", "--offline"]).current_dir(&self.0).output().unwrap();
        assert!(lock.status.success(), "{}", String::from_utf8_lossy(&lock.stderr));
        xtask(&["directions", "--root", self.0.to_str().unwrap()])
    }
}

impl Drop for Workspace {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn xtask(arguments: &[&str]) -> Result<(), String> {
    let output = Command::new(env!("CARGO_BIN_EXE_xtask")).args(arguments).output().unwrap();
    if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).into_owned()) }
}

#[track_caller]
fn names(result: Result<(), String>, edge: &str) {
    let error = result.expect_err("the check must fail");
    assert!(error.contains(edge), "'{edge}' is not in: {error}");
}

#[test]
fn this_tree_follows_the_directions() {
    assert_eq!(xtask(&["directions"]), Ok(()));
}

#[test]
fn a_small_tree_that_follows_the_directions_passes() {
    let workspace = Workspace::new(
        "good",
        &[
            ("db", ""),
            (
                "access",
                "[dependencies]\ndb = { path = \"../db\" }\n[dev-dependencies]\ntestbed = { path = \"../testbed\" }\n",
            ),
            ("testbed", ""),
            ("stateward", "[dependencies]\naccess = { path = \"../access\" }\n"),
        ],
    );
    assert_eq!(workspace.directions(), Ok(()));
}

#[test]
fn a_deliberately_wrong_dependency_fails_and_is_named() {
    let table = [
        ("capability-on-capability", "hub", "states", "[dependencies]"),
        ("foundation-on-capability", "access", "hub", "[dependencies]"),
        ("foundation-on-foundation", "access", "escrow", "[dependencies]"),
        ("product-on-testbed", "access", "testbed", "[dependencies]"),
        ("build-on-testbed", "access", "testbed", "[build-dependencies]"),
        ("test-on-capability", "hub", "states", "[dev-dependencies]"),
        ("target-on-capability", "hub", "states", "[target.'cfg(unix)'.dependencies]"),
    ];
    for (test, user, used, section) in table {
        let manifest = format!("{section}\n{used} = {{ path = \"../{used}\" }}\n");
        let workspace = Workspace::new(test, &[(user, &manifest), (used, "")]);
        names(workspace.directions(), &format!("{user} -> {used}"));
    }
}

#[test]
fn a_renamed_or_optional_dependency_is_found_too() {
    let manifest = "[dependencies]\nfriend = { path = \"../states\", package = \"states\", optional = true }\n";
    let workspace = Workspace::new("renamed", &[("hub", manifest), ("states", "")]);
    names(workspace.directions(), "hub -> states");
}

#[test]
fn a_crate_that_no_rule_knows_is_an_error() {
    names(Workspace::new("unknown", &[("gadgets", "")]).directions(), "gadgets is in no layer: add it to LAYERS");
}

#[test]
fn a_version_of_the_kubernetes_api_in_a_library_is_named() {
    let manifest = |section: &str| {
        format!("[{section}]\nk8s-openapi = {{ path = \"../../foreign/k8s-openapi\", features = [\"v1_33\"] }}\n")
    };
    let workspace = Workspace::new("version", &[("access", &manifest("dependencies"))]).foreign("k8s-openapi");
    names(workspace.directions(), "access -> k8s-openapi");
    for (name, section) in [("access", "dev-dependencies"), ("stateward", "dependencies")] {
        let workspace = Workspace::new("version-allowed", &[(name, &manifest(section))]).foreign("k8s-openapi");
        assert_eq!(workspace.directions(), Ok(()));
    }
}

#[test]
fn ring_in_the_built_tree_is_named_and_in_tests_is_not() {
    let manifest = |section: &str| format!("[{section}]\nring = {{ path = \"../../foreign/ring\" }}\n");
    let workspace = Workspace::new("ring", &[("access", &manifest("dependencies"))]).foreign("ring");
    names(workspace.directions(), "ring is in the built tree");
    let workspace = Workspace::new("ring-tests", &[("access", &manifest("dev-dependencies"))]).foreign("ring");
    assert_eq!(workspace.directions(), Ok(()));
}

#[test]
fn a_file_that_is_too_long_is_named_and_this_tree_has_none() {
    assert_eq!(xtask(&["lint-sizes"]), Ok(()));
    let workspace = Workspace::new("sizes", &[("db", "")]);
    let root = workspace.0.to_str().unwrap();
    let file = workspace.0.join("crates/db/src/lib.rs");
    fs::write(&file, "//\n".repeat(600)).unwrap();
    assert_eq!(xtask(&["lint-sizes", "--root", root]), Ok(()));
    fs::write(&file, "//\n".repeat(601)).unwrap();
    names(xtask(&["lint-sizes", "--root", root]), "crates/db/src/lib.rs: 601 lines");
}

#[test]
fn wrong_usage_is_told() {
    names(xtask(&["nonsense"]), "usage:");
}

#[test]
fn every_suite_runs_where_its_package_is_and_a_failed_one_is_named() {
    let test = |name: &str, body: &str| format!("#[cfg(test)]\nmod tests {{ #[test] fn {name}() {{ {body} }} }}\n");
    let workspace = Workspace::new("suites", &[("db", ""), ("keys", "")]);
    let source = |package: &str| workspace.0.join("crates").join(package).join("src/lib.rs");
    // Each waits for the other: they run at the same time, each at home.
    let meet = |own: &str, other: &str| {
        let body = format!(
            "assert!(std::env::current_dir().unwrap().ends_with(\"crates/{own}\")); \
             std::fs::write(\"met\", \"\").unwrap(); \
             let other = std::path::Path::new(\"../{other}/met\"); \
             for _ in 0..1200 {{ if other.exists() {{ return; }} \
             std::thread::sleep(std::time::Duration::from_millis(50)); }} panic!()"
        );
        test("it_meets_the_other", &body)
    };
    fs::write(source("db"), meet("db", "keys")).unwrap();
    fs::write(source("keys"), meet("keys", "db")).unwrap();
    let run = || xtask(&["test", "--offline", "--workspace", "--root", workspace.0.to_str().unwrap()]);
    assert_eq!(run().map_err(|error| error.contains("failed:")), Ok(()));
    fs::write(source("keys"), test("it_is_not_well", "panic!()")).unwrap();
    names(run(), "failed:\n  keys: keys (lib)");
}
