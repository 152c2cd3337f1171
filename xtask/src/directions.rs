//! Which crate may use which. The rules are the table [`LAYERS`] and [`may_use`]; a new crate is a word in the table.
//!
//! Foundations carry capabilities, capabilities carry the binary, and nothing points the other way. What `deny.toml` bans is
//! in no build.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;

/// What a crate of ours is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Layer {
    /// Uses nothing of ours; anybody may use it.
    Leaf,
    /// The two foundations that other foundations may use.
    Base,
    Foundation,
    Capability,
    Binary,
    /// For tests only.
    Testbed,
    Bench,
    Tool,
}

const LAYERS: &[(Layer, &[&str])] = &[
    (Layer::Leaf, &["failpoint"]),
    (Layer::Base, &["db", "keys"]),
    (Layer::Foundation, &["access", "escrow", "watch", "backends"]),
    (Layer::Capability, &["states", "hub", "terraform", "secrets", "explorer"]),
    (Layer::Binary, &["stateward"]),
    (Layer::Testbed, &["testbed"]),
    (Layer::Bench, &["bench"]),
    (Layer::Tool, &["xtask"]),
];

/// Crates that may fix the version of the Kubernetes API in a normal build: exactly one feature may be on in a graph.
const SETS_KUBERNETES_VERSION: &[&str] = &["stateward", "testbed", "bench"];

/// How a crate uses another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    /// In the product: normal and build dependencies.
    Product,
    Tests,
}

/// Checks the workspace at `root`; the error lists every wrong edge.
pub(crate) fn check(root: &Path) -> Result<()> {
    let metadata: Metadata = serde_json::from_slice(&cargo(root, &["metadata", "--no-deps", "--format-version=1"])?)?;
    let mut faults = faults(&metadata);
    let tree = cargo(root, &["tree", "--workspace", "--all-features", "--edges=normal,build", "--prefix=none"])?;
    faults.extend(banned(&String::from_utf8_lossy(&tree)));
    ensure!(faults.is_empty(), "the directions between crates are broken:\n  {}", faults.join("\n  "));
    Ok(())
}

/// The rules of cargo-deny, which not every machine has: the crates that it bans are looked for here too.
const RULES: &str = include_str!("../../deny.toml");

/// The banned crates that a tree of `cargo tree --prefix=none` has.
fn banned(tree: &str) -> Vec<String> {
    let found = bans(RULES).filter(|(name, _)| {
        tree.lines().any(|line| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(" v")))
    });
    let fault = |(name, reason)| {
        let way = format!("`cargo tree --workspace --all-features --edges=normal,build --invert {name}` shows the way");
        format!("{name} is in the built tree, but deny.toml bans it ({reason}); {way}")
    };
    found.map(fault).collect()
}

/// Name and reason of each line `{ crate = "...", reason = "..." }`.
fn bans(rules: &str) -> impl Iterator<Item = (&str, &str)> {
    rules.lines().filter_map(|line| {
        let (name, rest) = line.trim().strip_prefix("{ crate = \"")?.split_once('"')?;
        let (_, rest) = rest.split_once("reason = \"")?;
        Some((name, rest.split_once('"')?.0))
    })
}

fn cargo(root: &Path, arguments: &[&str]) -> Result<Vec<u8>> {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    let output = command.args(arguments).arg("--locked").current_dir(root).output().context("failed to run cargo")?;
    if !output.status.success() {
        bail!("cargo {} failed: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr));
    }
    Ok(output.stdout)
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    dependencies: Vec<Dependency>,
}

#[derive(Deserialize)]
struct Dependency {
    name: String,
    /// `None` is a normal dependency.
    kind: Option<String>,
    features: Vec<String>,
}

impl Dependency {
    fn usage(&self) -> Use {
        if self.kind.as_deref() == Some("dev") { Use::Tests } else { Use::Product }
    }
}

fn faults(metadata: &Metadata) -> Vec<String> {
    let ours = |name: &str| metadata.packages.iter().any(|package| package.name == name);
    let mut faults = Vec::new();
    for package in &metadata.packages {
        let Some(layer) = layer(&package.name) else {
            faults.push(format!(
                "the crate {} is in no layer: add it to LAYERS in xtask/src/directions.rs",
                package.name
            ));
            continue;
        };
        for dependency in &package.dependencies {
            let usage = dependency.usage();
            let edge = format!("{} -> {}", package.name, dependency.name);
            if ours(&dependency.name) {
                // One without a layer has been named already.
                if self::layer(&dependency.name)
                    .is_some_and(|used| !may_use(layer, &package.name, used, &dependency.name, usage))
                {
                    let why = reason(layer);
                    faults.push(format!("{edge}{}: {why}", if usage == Use::Tests { " (dev)" } else { "" }));
                }
            }
            let fixed = dependency.name == "k8s-openapi"
                && dependency.features.iter().any(|feature| feature.starts_with("v1_"));
            if fixed && usage == Use::Product && !SETS_KUBERNETES_VERSION.contains(&package.name.as_str()) {
                faults.push(format!("{edge}: only binaries and tests set a version feature of k8s-openapi"));
            }
        }
    }
    faults
}

fn layer(name: &str) -> Option<Layer> {
    LAYERS.iter().find(|(_, names)| names.contains(&name)).map(|(layer, _)| *layer)
}

/// The rule.
fn may_use(user: Layer, user_name: &str, used: Layer, used_name: &str, usage: Use) -> bool {
    match (user, used) {
        (_, Layer::Testbed) => usage == Use::Tests || user == Layer::Bench,
        (_, Layer::Binary | Layer::Bench | Layer::Tool) | (Layer::Leaf | Layer::Tool, _) => false,
        (Layer::Binary, _) | (_, Layer::Leaf) => true,
        // keys keeps its names in db; never the other way.
        (Layer::Base, Layer::Base) => user_name == "keys" && used_name == "db",
        (Layer::Base | Layer::Testbed, _) => false,
        (Layer::Foundation, used) => used == Layer::Base,
        (Layer::Capability, used) => matches!(used, Layer::Base | Layer::Foundation),
        // Parts of a capability are measured without a server around them.
        (Layer::Bench, used) => matches!(used, Layer::Base | Layer::Foundation | Layer::Capability),
    }
}

fn reason(user: Layer) -> &'static str {
    match user {
        Layer::Leaf => "a leaf uses nothing of ours",
        Layer::Base => "db uses only failpoint of ours, keys only db and failpoint",
        Layer::Foundation => "a foundation uses only db, keys and failpoint of ours, and testbed in tests",
        Layer::Capability => "a capability uses foundations, never another capability, and testbed only in tests",
        Layer::Binary => "stateward uses testbed only in tests",
        Layer::Testbed => "testbed uses nothing of the product",
        Layer::Bench => "bench uses foundations, capabilities and testbed, never the binary",
        Layer::Tool => "xtask uses nothing of ours",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Edge = (&'static str, &'static str, Option<&'static str>, &'static str);

    /// A workspace with one edge: user, used, kind of dependency, feature.
    fn metadata((user, used, kind, feature): Edge) -> Metadata {
        let features = [feature].into_iter().filter(|feature| !feature.is_empty()).map(str::to_owned).collect();
        let dependency = Dependency { name: used.to_owned(), kind: kind.map(str::to_owned), features };
        let mut packages = vec![Package { name: user.to_owned(), dependencies: vec![dependency] }];
        if used != "k8s-openapi" {
            packages.push(Package { name: used.to_owned(), dependencies: Vec::new() });
        }
        Metadata { packages }
    }

    #[test]
    fn edges_that_follow_the_direction_pass() {
        let good: &[Edge] = &[
            ("access", "db", None, ""),
            ("access", "keys", None, ""),
            ("access", "failpoint", None, ""),
            ("access", "testbed", Some("dev"), ""),
            ("access", "k8s-openapi", Some("dev"), "v1_33"),
            ("access", "k8s-openapi", None, ""),
            ("keys", "db", None, ""),
            ("hub", "backends", None, ""),
            ("hub", "escrow", None, ""),
            ("stateward", "hub", None, ""),
            ("stateward", "access", None, ""),
            ("stateward", "testbed", Some("dev"), ""),
            ("stateward", "k8s-openapi", None, "v1_33"),
            ("bench", "testbed", None, ""),
            ("bench", "db", None, ""),
            ("bench", "hub", None, ""),
        ];
        for edge in good {
            assert_eq!(faults(&metadata(*edge)), Vec::<String>::new(), "{edge:?}");
        }
    }

    #[test]
    fn edges_against_the_direction_are_named() {
        let bad: &[Edge] = &[
            ("access", "watch", None, ""),
            ("access", "hub", None, ""),
            ("access", "hub", Some("dev"), ""),
            ("access", "testbed", None, ""),
            ("access", "testbed", Some("build"), ""),
            ("access", "k8s-openapi", None, "v1_33"),
            ("db", "keys", None, ""),
            ("db", "access", None, ""),
            ("keys", "access", None, ""),
            ("hub", "states", None, ""),
            ("hub", "states", Some("dev"), ""),
            ("hub", "stateward", None, ""),
            ("stateward", "testbed", None, ""),
            ("bench", "stateward", None, ""),
            ("testbed", "db", None, ""),
            ("failpoint", "db", None, ""),
            ("xtask", "db", None, ""),
        ];
        for edge in bad {
            let faults = faults(&metadata(*edge));
            assert_eq!(faults.len(), 1, "{edge:?}: {faults:?}");
            assert!(faults[0].starts_with(&format!("{} -> {}", edge.0, edge.1)), "{faults:?}");
        }
    }

    #[test]
    fn every_crate_that_the_rules_ban_is_found_and_no_other() {
        let names: Vec<&str> = bans(RULES).map(|(name, _)| name).collect();
        let in_text = RULES.lines().filter(|line| line.contains("crate = ")).count();
        assert!(names.contains(&"ring") && names.contains(&"openssl-sys"), "{names:?}");
        assert_eq!(names.len(), in_text, "a ban in another form than `{{ crate = \"...\", reason = \"...\" }}`");
        let tree = "stateward v0.1.0 (/a)\nring v0.17.14\nring-like v1.0.0\nnative-tls v0.2.0 (*)\n";
        let faults = banned(tree);
        assert_eq!(faults.len(), 2, "{faults:?}");
        assert!(faults[0].starts_with("ring is") && faults[1].starts_with("native-tls is"), "{faults:?}");
    }

    #[test]
    fn a_crate_without_a_layer_is_told_where_to_go() {
        let faults = faults(&metadata(("gadgets", "db", None, "")));
        assert!(faults.len() == 1 && faults[0].contains("gadgets") && faults[0].contains("LAYERS"), "{faults:?}");
    }
}
