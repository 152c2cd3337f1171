//! No Rust file grows beyond what one can read at a sitting.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};

const LONGEST: usize = 600;

/// Directories that hold no code of ours.
const SKIPPED: &[&str] = &["target", "node_modules"];

/// Checks every `.rs` file under `root`; the error lists the long ones.
pub(crate) fn check(root: &Path) -> Result<()> {
    let mut faults = Vec::new();
    visit(root, root, &mut faults)?;
    faults.sort();
    ensure!(faults.is_empty(), "split these files before {LONGEST} lines:\n  {}", faults.join("\n  "));
    Ok(())
}

fn visit(root: &Path, directory: &Path, faults: &mut Vec<String>) -> Result<()> {
    for entry in fs::read_dir(directory).with_context(|| format!("failed to list {}", directory.display()))? {
        let entry = entry?;
        let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
        if entry.file_type()?.is_dir() {
            if !name.starts_with('.') && !SKIPPED.contains(&name.as_str()) {
                visit(root, &path, faults)?;
            }
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let lines = fs::read_to_string(&path)
                .with_context(|| format!("failed to read {}", path.display()))?
                .lines()
                .count();
            if lines > LONGEST {
                faults.push(format!("{}: {lines} lines", path.strip_prefix(root).unwrap_or(&path).display()));
            }
        }
    }
    Ok(())
}
