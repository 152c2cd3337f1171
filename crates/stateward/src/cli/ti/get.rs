//! `stateward ti get`

use clap::Args;

use super::export::{self, Takes};
use crate::cli::failure::{Exit, Failure};
use crate::cli::output::{self, Format};
use crate::client::hub::{Backend, Hub, Revision, Row};
use crate::document::Document;

/// Show records: those that are named, or all that you may list
///
/// The table fetches no values; json, yaml and jsonpath show one version of each record with its value. A value that could not be
/// read is null, and valueError says why.
#[derive(Args)]
pub struct Get {
    /// Ids or names
    #[arg(value_name = "ID|NAME", conflicts_with_all = ["type_ref", "attribute", "backend", "namespace", "created_by"])]
    records: Vec<String>,
    /// Only records of this Type: a path, or a regular expression for whole paths such as cap.type.aws.*, which also finds
    /// Types by the nodes that they are attached to
    #[arg(long = "type", value_name = "PATTERN")]
    type_ref: Option<String>,
    /// Only records with this attribute, or with a ! before it, without; may be repeated
    #[arg(long, value_name = "[!]PATH")]
    attribute: Vec<String>,
    /// Only records that this storage backend keeps
    #[arg(long, value_name = "ID|NAME")]
    backend: Option<String>,
    /// Only this namespace
    #[arg(short, long)]
    namespace: Option<String>,
    /// Only records of which this author made a version
    #[arg(long, value_name = "TEXT")]
    created_by: Option<String>,
    /// Which version: @latest, @previous or a number
    #[arg(long, value_name = "VERSION", default_value = "@latest")]
    revision: Revision,
    /// Show records in the form that `ti apply` takes; not as a table
    #[arg(long)]
    export: bool,
}

impl Get {
    pub async fn run(self, hub: Hub<'_>, format: Format) -> anyhow::Result<()> {
        if format == Format::Table {
            return self.table(hub).await;
        }
        let (mut records, failure) = if self.records.is_empty() {
            (hub.records(&self.filter(), self.revision).await?, None)
        } else {
            named(&self.records, async |name| hub.record(name, self.revision).await).await
        };
        if self.export {
            let backends = hub.known_backends().await?;
            records = records.iter().map(|record| self.exported(record, &backends)).collect::<Result<_, Failure>>()?;
        }
        let data = match (self.records.as_slice(), records.len()) {
            ([_], 1) => records.remove(0),
            ([_], _) => Document::Null,
            // Documents that `ti apply` takes as they are.
            _ if self.export => Document::List(records),
            _ => Document::map([("items", Document::List(records))]),
        };
        if !data.is_null() {
            output::show_exactly(format, &data, String::new)?;
        }
        failure.map_or(Ok(()), |failure| Err(failure.into()))
    }

    async fn table(&self, hub: Hub<'_>) -> anyhow::Result<()> {
        if self.export {
            let hint = "add -o yaml or -o json";
            return Err(Failure::usage("--export has no table", hint).into());
        }
        if self.revision != Revision::Latest {
            return Err(Failure::usage("--revision has no table", "add -o yaml or -o json").into());
        }
        let (rows, failure) = if self.records.is_empty() {
            (hub.rows(&self.filter()).await?, None)
        } else {
            named(&self.records, async |name| hub.row(name).await).await
        };
        if !rows.is_empty() || failure.is_none() {
            let rows: Vec<Vec<String>> = rows.iter().map(Row::cells).collect();
            output::print(&output::table(&Row::HEADER, &rows))?;
        }
        failure.map_or(Ok(()), |failure| Err(failure.into()))
    }

    fn filter(&self) -> Document {
        let attributes = self.attribute.iter().map(|path| match path.strip_prefix('!') {
            Some(path) => Document::map([("path", path.into()), ("rule", "EXCLUDE".into())]),
            None => Document::map([("path", path.as_str().into())]),
        });
        let type_ref = self.type_ref.as_deref().map(|path| Document::map([("path", path.into())]));
        Document::map([
            ("typeRef", type_ref.unwrap_or_default()),
            ("attributes", attributes.collect()),
            ("backend", self.backend.as_deref().into()),
            ("namespace", self.namespace.as_deref().into()),
            ("createdBy", self.created_by.as_deref().into()),
        ])
    }

    fn exported(&self, record: &Document, backends: &[Backend]) -> Result<Document, Failure> {
        export::update(record, self.revision.field(), takes(record, backends)).map_err(|fault| {
            let id = record.at(&["id"]).and_then(Document::as_str).unwrap_or_default();
            Failure::new(
                Exit::Unavailable,
                format!("{id}: {fault}"),
                "`stateward storage list` shows which backends answer",
            )
        })
    }
}

/// What the backend of a record takes. One that nobody may see is taken for one that takes values.
pub fn takes(record: &Document, backends: &[Backend]) -> Takes {
    let backend = record.at(&["backend", "id"]).and_then(Document::as_str).unwrap_or_default();
    match backends.iter().find(|known| known.id == backend) {
        Some(known) if !known.accept_value && known.is_external() => Takes::ContextAlone,
        _ => Takes::Values,
    }
}

/// Goes on to the end of the list; the first failure is kept for the end.
async fn named<T>(names: &[String], get: impl AsyncFn(&str) -> Result<T, Failure>) -> (Vec<T>, Option<Failure>) {
    let (mut found, mut failure) = (Vec::new(), None);
    for name in names {
        match get(name).await {
            Ok(record) => found.push(record),
            Err(missing) => {
                if names.len() > 1 {
                    output::talk(format_args!("{missing}"));
                }
                failure = failure.or(Some(missing));
            }
        }
    }
    (found, failure)
}
