//! The hub of a server, through its GraphQL API.
//!
//! The door is [`Hub`]. [`documents`] has every document that is sent; variables and answers are [`Document`]s, so that no
//! number of a value is read as one on the way.

mod documents;
mod model;
mod refusal;

pub use model::{Backend, LeftOutside, Row, TypeRef};

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::Client;
use crate::cli::failure::{Exit, Failure};
use crate::document::Document;

/// The path under which the server answers.
pub const PATH: &str = "graphql";

/// How many records of a table one answer holds, and how many with their values.
const ROWS: u32 = 500;
const RECORDS: u32 = 100;
/// How many relations of a record are asked for: one more than are shown, so that it is known whether there are others.
const RELATED_IN_TABLE: u32 = 1 + model::SHOWN;
const RELATED: u32 = 1 + MOST_RELATED;
/// How many relations of a record are shown whole.
const MOST_RELATED: u32 = 100;

/// A server's hub.
#[derive(Clone, Copy, Debug)]
pub struct Hub<'a> {
    client: &'a Client,
}

/// Which version of a record is meant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Revision {
    #[default]
    Latest,
    Previous,
    Number(u32),
}

/// How much one answer is to have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Asked {
    records: u32,
    related: u32,
}

impl Asked {
    /// What to ask for when it was more than the server gives at once: fewer records first.
    fn less(self) -> Option<Asked> {
        match self {
            Asked { records: 0 | 1, related: 0 } => None,
            Asked { records: 0 | 1, related } => {
                if related == RELATED || related == RELATED_IN_TABLE {
                    let why = "this server gives few records at once (hub.answer_records)";
                    crate::cli::output::talk(format_args!("{why}: not all relations are shown"));
                }
                Some(Asked { related: related / 4, ..self })
            }
            Asked { records, .. } => Some(Asked { records: (records / 4).max(1), ..self }),
        }
    }
}

#[derive(Clone, Debug, Deserialize)]
pub struct Created {
    pub id: String,
    pub alias: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Page {
    items: Vec<Document>,
    end_cursor: Option<String>,
    #[serde(rename = "hasNextPage")]
    goes_on: bool,
}

impl<'a> Hub<'a> {
    pub fn new(client: &'a Client) -> Hub<'a> {
        Hub { client }
    }

    /// The rows of a table, of all pages.
    pub async fn rows(&self, filter: &Document) -> Result<Vec<Row>, Failure> {
        let items = self.pages(documents::ROW, filter, Asked { records: ROWS, related: RELATED_IN_TABLE }).await?;
        items.into_iter().map(|item| self.read(&item)).collect()
    }

    pub async fn row(&self, id: &str) -> Result<Row, Failure> {
        self.read(&self.one(documents::ROW, id, RELATED_IN_TABLE).await?)
    }

    /// Records with a version of each, of all pages.
    pub async fn records(&self, filter: &Document, revision: Revision) -> Result<Vec<Document>, Failure> {
        let asked = Asked { records: RECORDS, related: RELATED };
        let records = self.pages(&revision.select(documents::WHOLE), filter, asked).await?;
        Ok(records.into_iter().map(cut).collect())
    }

    /// A record, by id or name, with a version.
    pub async fn record(&self, id: &str, revision: Revision) -> Result<Document, Failure> {
        let record = cut(self.one(&revision.select(documents::WHOLE), id, RELATED).await?);
        if record.at(&[revision.field()]).is_none() {
            let message = format!("TypeInstance \"{id}\" has no version {revision}");
            return Err(Failure::new(Exit::NotFound, message, "`stateward ti get` shows its newest one"));
        }
        Ok(record)
    }

    /// The id of a record, and of the backend that keeps its values.
    pub async fn backend_of(&self, id: &str) -> Result<(String, String), Failure> {
        let found = self.ask(documents::BACKEND_OF, [("id", id.into())], "typeInstance").await?;
        let record = there(found, id)?;
        let text = |keys: &[&str]| record.at(keys).and_then(Document::as_str).map(str::to_owned);
        text(&["id"]).zip(text(&["backend", "id"])).ok_or_else(|| self.client.not_understood())
    }

    /// The ids of records that are called by id or name. One that is not found stays as it is: the hub's own words are better.
    pub async fn ids(&self, names: &[String]) -> Result<Vec<String>, Failure> {
        let mut ids = Vec::with_capacity(names.len());
        for name in names {
            ids.push(self.id(name).await?);
        }
        Ok(ids)
    }

    pub async fn id(&self, name: &str) -> Result<String, Failure> {
        if uuid::Uuid::parse_str(name).is_ok() {
            return Ok(name.to_owned());
        }
        let found = self.ask(documents::BACKEND_OF, [("id", name.into())], "typeInstance").await?;
        Ok(found.at(&["id"]).and_then(Document::as_str).unwrap_or(name).to_owned())
    }

    pub async fn create(&self, input: Document) -> Result<Vec<Created>, Failure> {
        let created = self.ask(documents::CREATE, [("in", input)], "createTypeInstances").await?;
        self.read(&created)
    }

    /// The records that have new versions.
    pub async fn update(&self, changes: Vec<Document>) -> Result<Document, Failure> {
        self.ask(documents::UPDATE, [("in", Document::List(changes))], "updateTypeInstances").await
    }

    pub async fn delete(&self, id: &str, owner: Option<&str>) -> Result<(), Failure> {
        let variables = [("id", id.into()), ("owner", owner.into())];
        self.ask(documents::DELETE, variables, "deleteTypeInstance").await.map(|_id| ())
    }

    /// Deletes a record whatever its backend says; tells what is left there.
    pub async fn orphan(&self, id: &str, owner: Option<&str>) -> Result<Vec<LeftOutside>, Failure> {
        let variables = [("ids", list(&[id.to_owned()])), ("owner", owner.into())];
        self.left(self.ask(documents::ORPHAN, variables, "orphanTypeInstances").await?)
    }

    fn left(self, mut answer: Document) -> Result<Vec<LeftOutside>, Failure> {
        self.read(&answer.take("leftOutside").unwrap_or_default())
    }

    pub async fn lock(&self, ids: &[String], owner: &str, expires_in: Option<&str>) -> Result<Document, Failure> {
        let input = Document::map([("ids", list(ids)), ("ownerID", owner.into()), ("expiresIn", expires_in.into())]);
        self.ask(documents::LOCK, [("in", input)], "lockTypeInstances").await
    }

    pub async fn unlock(&self, ids: &[String], owner: &str) -> Result<Document, Failure> {
        let input = Document::map([("ids", list(ids)), ("ownerID", owner.into())]);
        self.ask(documents::UNLOCK, [("in", input)], "unlockTypeInstances").await
    }

    pub async fn force_unlock(&self, ids: &[String]) -> Result<Document, Failure> {
        self.ask(documents::FORCE_UNLOCK, [("ids", list(ids))], "forceUnlockTypeInstances").await
    }

    pub async fn move_to(&self, ids: &[String], backend: &str, owner: Option<&str>) -> Result<Document, Failure> {
        let variables = [("ids", list(ids)), ("to", backend.into()), ("owner", owner.into())];
        self.ask(documents::MOVE, variables, "moveTypeInstances").await
    }

    pub async fn journal(&self) -> Result<Document, Failure> {
        self.ask(documents::JOURNAL, [], "journal").await
    }

    pub async fn retry_journal(&self, id: &str) -> Result<(), Failure> {
        self.ask(documents::RETRY_JOURNAL, [("id", id.into())], "retryJournalEntry").await.map(|_id| ())
    }

    /// Tells what is left at its backend.
    pub async fn abandon_journal(&self, id: &str) -> Result<Vec<LeftOutside>, Failure> {
        self.left(self.ask(documents::ABANDON_JOURNAL, [("id", id.into())], "abandonJournalEntry").await?)
    }

    /// The storage backends with their health.
    pub async fn backends(&self) -> Result<Document, Failure> {
        self.ask(documents::BACKENDS, [], "storageBackends").await
    }

    pub async fn backend(&self, id: &str) -> Result<Document, Failure> {
        let found = self.ask(documents::BACKEND, [("id", id.into())], "storageBackend").await?;
        let missing = || Failure::new(Exit::NotFound, format!("storage backend \"{id}\" was not found"), SHOW_BACKENDS);
        if found.is_null() { Err(missing()) } else { Ok(found) }
    }

    /// The storage backends as rules need them, without asking any how it is.
    pub async fn known_backends(&self) -> Result<Vec<Backend>, Failure> {
        let found = self.ask(documents::KNOWN_BACKENDS, [], "storageBackends").await?;
        self.read(&found)
    }

    pub async fn retire(&self, id: &str, move_to: Option<&str>) -> Result<Document, Failure> {
        let orphan = Document::Bool(move_to.is_none());
        let variables = [("id", id.into()), ("to", move_to.into()), ("orphan", orphan)];
        self.ask(documents::RETIRE, variables, "retireStorageBackend").await
    }

    pub async fn pre_create_value(&self, backend: &str, context: Document) -> Result<Document, Failure> {
        let variables = [("backend", backend.into()), ("context", context)];
        self.ask(documents::PRE_CREATE_VALUE, variables, "preCreateValue").await
    }

    pub async fn apply_types(&self, manifests: Vec<String>) -> Result<Document, Failure> {
        let manifests = manifests.into_iter().map(Document::Text).collect();
        self.ask(documents::APPLY_TYPES, [("manifests", Document::List(manifests))], "applyTypes").await
    }

    pub async fn types(&self, pattern: Option<&str>) -> Result<Document, Failure> {
        let filter = Document::map([("pathPattern", pattern.into())]);
        self.ask(documents::TYPES, [("filter", filter)], "types").await
    }

    /// Reads a part of an answer into a type; one that does not fit is the server's fault.
    pub fn read<T: DeserializeOwned>(self, answer: &Document) -> Result<T, Failure> {
        serde_json::from_str(&answer.to_json()).map_err(|_| self.client.not_understood())
    }

    async fn one(&self, fields: &str, id: &str, related: u32) -> Result<Document, Failure> {
        let document = format!("{}{fields}", documents::RECORD);
        let mut asked = Asked { records: 1, related };
        loop {
            let variables = [("id", id.into()), ("related", asked.related.into())];
            match self.ask(&document, variables, "typeInstance").await {
                Err(failure) if refusal::is_too_large(&failure) => asked = asked.less().ok_or(failure)?,
                found => return there(found?, id),
            }
        }
    }

    async fn pages(&self, fields: &str, filter: &Document, mut asked: Asked) -> Result<Vec<Document>, Failure> {
        let document = format!("{}{fields}", documents::PAGE);
        let (mut items, mut after) = (Vec::new(), None::<String>);
        loop {
            let variables = [
                ("filter", filter.clone()),
                ("first", asked.records.into()),
                ("after", after.as_deref().into()),
                ("related", asked.related.into()),
            ];
            let page: Page = match self.ask(&document, variables, "typeInstancesPage").await {
                Err(failure) if refusal::is_too_large(&failure) => {
                    asked = asked.less().ok_or(failure)?;
                    continue;
                }
                page => self.read(&page?)?,
            };
            // A server that promises more and gives nothing must not keep us here.
            let more = page.goes_on && !page.items.is_empty();
            items.extend(page.items);
            match page.end_cursor.filter(|_| more) {
                Some(cursor) => after = Some(cursor),
                None => return Ok(items),
            }
        }
    }

    /// Sends a document, and gives what the answer has in one field.
    async fn ask<const N: usize>(
        &self,
        document: &str,
        variables: [(&str, Document); N],
        field: &str,
    ) -> Result<Document, Failure> {
        let body = Document::map([("query", document.into()), ("variables", Document::map(variables))]).to_json();
        let answer = self.client.post_text(&[PATH], body, refusal::failure).await?;
        if let Some(failure) = refusal::failure(&answer) {
            return Err(failure);
        }
        let mut answer: Document = serde_json::from_slice(&answer).map_err(|_| self.client.not_understood())?;
        let data = answer.take("data").and_then(|mut data| data.take(field));
        data.ok_or_else(|| self.client.not_understood())
    }
}

const SHOW_BACKENDS: &str = "`stateward storage list` shows which there are";

fn there(found: Document, id: &str) -> Result<Document, Failure> {
    if found.is_null() {
        let message = format!("TypeInstance \"{}\" was not found", crate::cli::output::plain(id));
        return Err(Failure::new(Exit::NotFound, message, "`stateward ti get` shows which there are"));
    }
    Ok(found)
}

/// Leaves out relations beyond what is shown, and says so.
fn cut(mut record: Document) -> Document {
    let most = usize::try_from(MOST_RELATED).unwrap_or(usize::MAX);
    for key in ["uses", "usedBy"] {
        let Some(Document::List(mut related)) = record.get(key).cloned() else { continue };
        if related.len() > most {
            related.truncate(most);
            let id = record.get("id").and_then(Document::as_str).unwrap_or_default();
            let name = crate::cli::output::plain(id);
            crate::cli::output::talk(format_args!("{key} of {name} has more than the {most} that are shown"));
            record.put(key, Document::List(related));
        }
    }
    record
}

fn list(ids: &[String]) -> Document {
    ids.iter().map(String::as_str).collect()
}

impl Revision {
    /// The field of a record that has this version.
    pub fn field(self) -> &'static str {
        match self {
            Revision::Latest => "latestResourceVersion",
            Revision::Previous => "previousResourceVersion",
            Revision::Number(_) => "resourceVersion",
        }
    }

    fn select(self, fields: &str) -> String {
        let argument = match self {
            Revision::Number(number) => format!("(resourceVersion: {number})"),
            Revision::Latest | Revision::Previous => String::new(),
        };
        fields.replace("VERSION", &format!("{}{argument}", self.field()))
    }
}

impl std::fmt::Display for Revision {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Revision::Latest => formatter.write_str("@latest"),
            Revision::Previous => formatter.write_str("@previous"),
            Revision::Number(number) => write!(formatter, "{number}"),
        }
    }
}

impl std::str::FromStr for Revision {
    type Err = String;

    fn from_str(text: &str) -> Result<Revision, String> {
        match text {
            "@latest" => Ok(Revision::Latest),
            "@previous" => Ok(Revision::Previous),
            number => match number.parse::<u32>() {
                Ok(number) if (1..=i32::MAX.cast_unsigned()).contains(&number) => Ok(Revision::Number(number)),
                _ => Err("a version is @latest, @previous or a number from 1".to_owned()),
            },
        }
    }
}
