//! `stateward step resolve`

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Args;

use super::artifact::Artifact;
use super::needed;
use crate::cli::failure::{Exit, Failure};
use crate::cli::files;
use crate::client::hub::Hub;
use crate::config::Environment;
use crate::document::Document;

/// Fill in the value that a record will have, for the steps before it is created
///
/// An artifact that has a value, or whose backend takes values, is copied as it is. Else the backend says what the value of this context is.
#[derive(Args, Default)]
pub struct Resolve {
    /// The artifact of the record [env: APP_INPUT_TI_FILE_PATH]
    #[arg(long, value_name = "FILE")]
    input: Option<PathBuf>,
    /// The downloaded record of its storage backend [env: APP_INPUT_BACKEND_TI_FILE_PATH]
    #[arg(long, value_name = "FILE")]
    backend: Option<PathBuf>,
    /// Where the artifact with its value goes [env: APP_OUTPUT_FILE_PATH]
    #[arg(long, value_name = "FILE")]
    to: Option<PathBuf>,
}

impl Resolve {
    pub async fn run(self, hub: Hub<'_>, environment: &Environment) -> anyhow::Result<()> {
        let input = needed(self.input.as_ref(), environment, "APP_INPUT_TI_FILE_PATH", "--input")?;
        let backend = needed(self.backend.as_ref(), environment, "APP_INPUT_BACKEND_TI_FILE_PATH", "--backend")?;
        let output = needed(self.to.as_ref(), environment, "APP_OUTPUT_FILE_PATH", "--to")?;
        let text = files::text(&input)?;
        let artifact = Artifact::of(document(&input, &text)?).map_err(|fault| files::unreadable(&input, &fault))?;
        let backend_text = files::text(&backend)?;
        let resolved = match Asked::of(&artifact, &document(&backend, &backend_text)?) {
            Ok(Asked::Nothing) => text,
            Ok(Asked::Backend(id)) => {
                let context = artifact.context.unwrap_or_default();
                let value = hub.pre_create_value(&id, context.clone()).await?;
                if value.is_null() {
                    let message =
                        format!("storage backend \"{id}\" has no value for the context of {}", input.display());
                    return Err(Failure::new(Exit::NotFound, message, "check what the context names").into());
                }
                Document::map([("value", value), ("backend", Document::map([("context", context)]))]).to_yaml()
            }
            Err(fault) => return Err(files::unreadable(&backend, &fault).into()),
        };
        std::fs::write(&output, resolved).with_context(|| format!("failed to write {}", output.display()))
    }
}

fn document(file: &Path, text: &str) -> Result<Document, Failure> {
    Document::read(text).map_err(|fault| files::unreadable(file, &fault.to_string()))
}

/// Who is asked for the value.
#[derive(Debug, PartialEq, Eq)]
enum Asked {
    Nothing,
    Backend(String),
}

impl Asked {
    /// A backend that does not say whether it takes values does, as in the draft.
    fn of(artifact: &Artifact, backend: &Document) -> Result<Asked, String> {
        let takes_values = backend.at(&["value", "acceptValue"]) != Some(&Document::Bool(false));
        if artifact.value.is_some() || takes_values {
            return Ok(Asked::Nothing);
        }
        let id = backend.at(&["id"]).and_then(Document::as_str);
        id.map(|id| Asked::Backend(id.to_owned()))
            .ok_or_else(|| "id: it is needed: download the backend's record".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_context_of_a_backend_without_values_needs_an_answer() {
        let table = [
            ("value: 1", "{id: b, value: {acceptValue: false}}", Ok(Asked::Nothing)),
            ("host: legacy", "{id: b, value: {acceptValue: false}}", Ok(Asked::Nothing)),
            ("backend: {context: {a: 1}}", "{id: b, value: {acceptValue: true}}", Ok(Asked::Nothing)),
            ("backend: {context: {a: 1}}", "{id: b, value: {url: x}}", Ok(Asked::Nothing)),
            ("backend: {context: {a: 1}}", "{id: b, value: {acceptValue: false}}", Ok(Asked::Backend("b".to_owned()))),
            (
                "additionalParameters: {a: 1}",
                "{id: b, value: {acceptValue: false}}",
                Ok(Asked::Backend("b".to_owned())),
            ),
            ("additionalParameters: {a: 1}", "{value: {acceptValue: false}}", Err(())),
        ];
        for (artifact, backend, expected) in table {
            let artifact = Artifact::of(Document::read(artifact).unwrap()).unwrap();
            let asked = Asked::of(&artifact, &Document::read(backend).unwrap());
            assert_eq!(asked.map_err(|_fault| ()), expected, "{backend}");
        }
    }
}
