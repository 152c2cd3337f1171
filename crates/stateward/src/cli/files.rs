//! Files that commands take with `-f`: read whole, cut into documents.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use crate::cli::failure::{Exit, Failure};
use crate::document::Document;

/// The documents of files, each with where it came from; `-` is the standard input. Empty documents count for nothing.
pub fn documents(files: &[PathBuf]) -> Result<Vec<(String, Document)>, Failure> {
    let mut documents = Vec::new();
    for file in files {
        let text = text(file)?;
        let found = Document::read_all(&text).map_err(|fault| unreadable(file, &fault.to_string()))?;
        let found: Vec<Document> = found.into_iter().filter(|document| !document.is_null()).collect();
        if found.is_empty() {
            return Err(unreadable(file, "it holds no document"));
        }
        let several = found.len() > 1;
        documents.extend(found.into_iter().enumerate().map(|(index, document)| {
            let number = if several { format!(" document {}", index + 1) } else { String::new() };
            (format!("{}{number}", file.display()), document)
        }));
    }
    Ok(documents)
}

/// The text of a file.
pub fn text(file: &Path) -> Result<String, Failure> {
    let mut text = String::new();
    let read = if file == Path::new("-") {
        std::io::stdin().lock().read_to_string(&mut text)
    } else {
        std::fs::File::open(file).and_then(|mut opened| opened.read_to_string(&mut text))
    };
    match read {
        Ok(_) => Ok(text),
        Err(error) => {
            let exit = if error.kind() == std::io::ErrorKind::NotFound { Exit::NotFound } else { Exit::Failed };
            Err(Failure::new(exit, format!("failed to read {}: {error}", file.display()), "check the path"))
        }
    }
}

pub fn unreadable(file: &Path, fault: &str) -> Failure {
    Failure::new(Exit::Failed, format!("failed to read {}: {fault}", file.display()), "write it as YAML or JSON")
}

/// What is wrong with a document of a file.
pub fn misfit(place: &str, fault: &impl std::fmt::Display) -> Failure {
    Failure::new(Exit::Failed, format!("{place}: {fault}"), "docs/hub.md shows the forms that are taken")
}
