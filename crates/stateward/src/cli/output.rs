//! Data to stdout, talk to stderr.
//!
//! Commands never use `println!`: it panics when the reader of a pipe goes away.

use std::fmt;
use std::io::Write;

use clap::builder::{PossibleValue, TypedValueParser};
use serde::Serialize;

use super::failure::ReaderGone;
use crate::document::Document;
use crate::document::path::Template;

/// How a command shows its data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    #[default]
    Table,
    Json,
    Yaml,
    /// What a template picks out. A command line has one of them, which lives as long as the process.
    JsonPath(&'static Template),
}

/// Reads the value of `--output`.
#[derive(Clone, Copy, Debug)]
pub struct FormatParser;

impl TypedValueParser for FormatParser {
    type Value = Format;

    fn parse_ref(
        &self,
        command: &clap::Command,
        argument: Option<&clap::Arg>,
        value: &std::ffi::OsStr,
    ) -> Result<Format, clap::Error> {
        let read = |text: &str| match text {
            "table" => Ok(Format::Table),
            "json" => Ok(Format::Json),
            "yaml" => Ok(Format::Yaml),
            _ => match text.strip_prefix("jsonpath=") {
                Some(template) => {
                    Template::parse(template).map(|template| Format::JsonPath(Box::leak(Box::new(template))))
                }
                None => Err("a format is table, json, yaml or jsonpath=TEMPLATE".to_owned()),
            },
        };
        clap::builder::StringValueParser::new().try_map(move |text| read(&text)).parse_ref(command, argument, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(["table", "json", "yaml", "jsonpath=TEMPLATE"].into_iter().map(PossibleValue::new)))
    }
}

impl fmt::Display for Format {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Format::Table => "table",
            Format::Json => "json",
            Format::Yaml => "yaml",
            Format::JsonPath(_) => "jsonpath",
        })
    }
}

/// Shows data: as the given text for people, or whole for programs.
pub fn show<T: Serialize>(format: Format, data: &T, table: impl FnOnce() -> String) -> anyhow::Result<()> {
    match format {
        Format::Table => print(&table()),
        Format::Json => print(&serde_json::to_string_pretty(data)?),
        Format::Yaml => print(&serde_saphyr::to_string(data)?),
        Format::JsonPath(template) => {
            let document: Document = serde_json::from_str(&serde_json::to_string(data)?)?;
            print(&template.render(&document))
        }
    }
}

/// Shows data with values that stay as they were written.
pub fn show_exactly<T: Serialize>(format: Format, data: &T, table: impl FnOnce() -> String) -> anyhow::Result<()> {
    match format {
        Format::Table | Format::Json | Format::JsonPath(_) => show(format, data, table),
        Format::Yaml => {
            let document: Document = serde_json::from_str(&serde_json::to_string(data)?)?;
            print(&document.to_yaml())
        }
    }
}

/// Prints text to stdout, ended by a newline.
pub fn print(text: &str) -> anyhow::Result<()> {
    let newline = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
    let mut stdout = std::io::stdout().lock();
    match stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.write_all(newline.as_bytes()))
        .and_then(|()| stdout.flush())
    {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Err(ReaderGone.into()),
        other => Ok(other?),
    }
}

/// Says something to whoever sits there; nobody listening is fine.
pub fn talk(message: fmt::Arguments<'_>) {
    let _ = writeln!(std::io::stderr().lock(), "{message}");
}

/// Lines up columns. Control characters are replaced, as cells may hold names that others chose and a terminal obeys.
pub fn table(header: &[&str], rows: &[Vec<String>]) -> String {
    let header = header.iter().map(|cell| (*cell).to_owned()).collect();
    let rows: Vec<Vec<String>> =
        std::iter::once(header).chain(rows.iter().map(|row| row.iter().map(|cell| plain(cell)).collect())).collect();
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max();
    let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
    let mut text = String::new();
    for row in &rows {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        text.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
        text.push('\n');
    }
    text
}

/// The text without what a terminal would obey.
pub fn plain(text: &str) -> String {
    text.chars().map(|letter| if letter.is_control() { '\u{fffd}' } else { letter }).collect()
}

/// Digits as the server shows a hash.
pub fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_and_cells_cannot_drive_the_terminal() {
        let rows = [vec!["a".to_owned(), "long name".to_owned()], vec!["\u{1b}[31mred".to_owned(), "b".to_owned()]];
        let shown = table(&["ID", "NAME"], &rows);
        assert_eq!(shown, "ID        NAME\na         long name\n\u{fffd}[31mred  b\n");
    }

    #[test]
    fn an_empty_table_still_has_its_header() {
        assert_eq!(table(&["ID", "NAME"], &[]), "ID  NAME\n");
    }
}
