//! The reference pages and the schema of the hub, as the program itself writes them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

const PAGES: &str = "docs/reference";
/// What belongs beside its code, and not to the pages.
const ELSEWHERE: &[(&str, &str)] = &[("schema.graphql", "crates/hub/schema.graphql")];

/// Writes the pages.
pub(crate) fn write(root: &Path) -> Result<()> {
    let pages = root.join(PAGES);
    generate(root, &pages)?;
    for (name, place) in ELSEWHERE {
        let (from, to) = (pages.join(name), root.join(place));
        fs::rename(&from, &to).with_context(|| format!("failed to write {}", to.display()))?;
    }
    Ok(())
}

/// Compares the committed pages with fresh ones; the error names the stale files.
pub(crate) fn check(root: &Path) -> Result<()> {
    let fresh = Scratch::new()?;
    generate(root, &fresh.0)?;
    let mut stale = Vec::new();
    for (name, place) in ELSEWHERE {
        let made = fresh.0.join(name);
        if fs::read(&made).ok() != fs::read(root.join(place)).ok() {
            stale.push((*place).to_owned());
        }
        fs::remove_file(&made).with_context(|| format!("failed to remove {}", made.display()))?;
    }
    let pages = differences(&fresh.0, &root.join(PAGES))?;
    stale.extend(pages.iter().map(|name| format!("{PAGES}/{name}")));
    ensure!(stale.is_empty(), "stale, run `cargo xtask generate`:\n  {}", stale.join("\n  "));
    Ok(())
}

fn generate(root: &Path, directory: &Path) -> Result<()> {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    // With the features that tests build with, so that a test run does not compile the program twice.
    command.args(["run", "--quiet", "--locked", "--package=stateward", "--all-features", "--", "generate-docs"]);
    let status = command.arg(directory).current_dir(root).status().context("failed to run cargo")?;
    ensure!(status.success(), "stateward generate-docs failed");
    Ok(())
}

/// Names of files that are not the same in both directories.
fn differences(fresh: &Path, committed: &Path) -> Result<Vec<String>> {
    let mut names = names(fresh)?;
    names.extend(self::names(committed).unwrap_or_default());
    names.sort();
    names.dedup();
    names.retain(|name| fs::read(fresh.join(name)).ok() != fs::read(committed.join(name)).ok());
    Ok(names)
}

fn names(directory: &Path) -> Result<Vec<String>> {
    let entries = fs::read_dir(directory).with_context(|| format!("failed to list {}", directory.display()))?;
    entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
}

/// A directory that goes away again.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Result<Scratch> {
        let path = std::env::temp_dir().join(format!("stateward-generate-{}", std::process::id()));
        fs::create_dir_all(&path).with_context(|| format!("failed to make {}", path.display()))?;
        Ok(Scratch(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_missing_and_left_over_pages_are_stale() {
        let scratch = Scratch::new().unwrap();
        let (fresh, committed) = (scratch.0.join("fresh"), scratch.0.join("committed"));
        for (directory, pages) in [
            (&fresh, [("same.md", "a"), ("changed.md", "b"), ("new.md", "c")]),
            (&committed, [("same.md", "a"), ("changed.md", "B"), ("old.md", "d")]),
        ] {
            fs::create_dir(directory).unwrap();
            for (name, text) in pages {
                fs::write(directory.join(name), text).unwrap();
            }
        }
        assert_eq!(differences(&fresh, &committed).unwrap(), ["changed.md", "new.md", "old.md"]);
        assert_eq!(differences(&fresh, &scratch.0.join("absent")).unwrap(), ["changed.md", "new.md", "same.md"]);
    }
}
