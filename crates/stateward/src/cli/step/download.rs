//! `stateward step download`

use std::path::PathBuf;

use anyhow::Context as _;
use clap::Args;

use super::artifact::Artifact;
use crate::cli::failure::{Exit, Failure};
use crate::cli::output;
use crate::client::hub::{Hub, Revision};
use crate::config::Environment;

/// Write records into files for the steps of a workflow
///
/// A file has id, value and, where there is one, backend.context. All records are fetched before the first file is written.
#[derive(Args, Default)]
pub struct Download {
    /// Records and files, such as {ID,/path},{ID,/path} [env: APP_DOWNLOAD_CONFIG]
    #[arg(long, value_name = "{ID,PATH},...")]
    config: Option<String>,
}

impl Download {
    pub async fn run(self, hub: Hub<'_>, environment: &Environment) -> anyhow::Result<()> {
        let config = self.config.as_deref().or_else(|| environment.get("APP_DOWNLOAD_CONFIG"));
        let wrong = |fault: &str| Failure::usage(fault, "write {ID,/path},{ID,/path}");
        let config = config.ok_or_else(|| wrong("neither --config nor APP_DOWNLOAD_CONFIG is given"))?;
        let wanted = parse(config).ok_or_else(|| wrong("the records to download are not written as they must be"))?;
        let mut files = Vec::new();
        for (id, path) in wanted {
            let record = hub.record(&id, Revision::Latest).await?;
            let artifact = Artifact::of_record(&record, Revision::Latest.field()).map_err(|fault| {
                let message = format!("TypeInstance \"{}\": {fault}", output::plain(&id));
                Failure::new(Exit::Unavailable, message, "`stateward storage list` shows which backends answer")
            })?;
            files.push((id, path, artifact));
        }
        for (id, path, artifact) in files {
            let directory = path.parent().filter(|directory| !directory.as_os_str().is_empty());
            if let Some(directory) = directory {
                std::fs::create_dir_all(directory)
                    .with_context(|| format!("failed to make {}", directory.display()))?;
            }
            std::fs::write(&path, artifact.to_yaml()).with_context(|| format!("failed to write {}", path.display()))?;
            output::talk(format_args!("downloaded {} to {}", output::plain(&id), path.display()));
        }
        Ok(())
    }
}

/// Pairs of an id and a path.
fn parse(config: &str) -> Option<Vec<(String, PathBuf)>> {
    let mut pairs = Vec::new();
    let mut rest = config.trim();
    while !rest.is_empty() {
        let (inside, after) = rest.strip_prefix('{')?.split_once('}')?;
        let (id, path) = inside.split_once(',')?;
        let (id, path) = (id.trim(), path.trim());
        if id.is_empty() || path.is_empty() {
            return None;
        }
        pairs.push((id.to_owned(), PathBuf::from(path)));
        let after = after.trim();
        rest = match after.strip_prefix(',') {
            Some(more) if !more.trim().is_empty() => more.trim(),
            None if after.is_empty() => after,
            _ => return None,
        };
    }
    Some(pairs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_of_the_original_is_read() {
        let table = [
            ("{a,/x.yaml}", Some(vec![("a", "/x.yaml")])),
            ("{a,/x.yaml},{b,/y, z}", Some(vec![("a", "/x.yaml"), ("b", "/y, z")])),
            (" { a , /x } , { b , /y } ", Some(vec![("a", "/x"), ("b", "/y")])),
            ("", Some(vec![])),
            ("a,/x", None),
            ("{a}", None),
            ("{,/x}", None),
            ("{a,}", None),
            ("{a,/x}{b,/y}", None),
            ("{a,/x},", None),
        ];
        for (text, expected) in table {
            let expected =
                expected.map(|pairs| pairs.into_iter().map(|(id, path)| (id.to_owned(), path.into())).collect());
            assert_eq!(parse(text), expected, "{text}");
        }
    }
}
