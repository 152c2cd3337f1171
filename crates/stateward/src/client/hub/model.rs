//! What the hub answers, as far as tables and rules need it. Programs get the answers whole.

use std::fmt;

use serde::Deserialize;

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct TypeRef {
    pub path: String,
    pub revision: String,
}

/// How many relations a table shows.
pub const SHOWN: u32 = 3;

/// A record in a table.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Row {
    pub id: String,
    pub name: Option<String>,
    pub locked_by: Option<String>,
    pub lock_error: Option<String>,
    pub type_ref: TypeRef,
    uses: Vec<Reference>,
    used_by: Vec<Reference>,
    latest_resource_version: Option<Version>,
}

#[derive(Clone, Debug, Deserialize)]
struct Reference {
    id: String,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Version {
    resource_version: u32,
}

/// A storage backend, as rules need it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Backend {
    pub id: String,
    pub name: Option<String>,
    pub accept_value: bool,
    /// Where it listens; the built-in store does nowhere.
    url: Option<String>,
    #[serde(rename = "default", default)]
    pub is_default: bool,
    pub type_ref: TypeRef,
    #[serde(default)]
    type_instance: Option<Age>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Age {
    created_at: Option<String>,
}

impl Row {
    pub const HEADER: [&'static str; 7] = ["TYPE INSTANCE ID", "NAME", "TYPE", "USES", "USED BY", "REVISION", "LOCKED"];

    pub fn cells(&self) -> Vec<String> {
        let locked = match (&self.locked_by, &self.lock_error) {
            (Some(owner), None) => format!("by {owner}"),
            (Some(owner), Some(_)) => format!("by {owner} (the backend cannot say)"),
            (None, Some(_)) => "unknown".to_owned(),
            (None, None) => "no".to_owned(),
        };
        let revision = self.latest_resource_version.as_ref();
        vec![
            self.id.clone(),
            self.name.clone().unwrap_or_else(|| "-".to_owned()),
            self.type_ref.to_string(),
            joined(&self.uses),
            joined(&self.used_by),
            revision.map_or_else(|| "-".to_owned(), |version| version.resource_version.to_string()),
            locked,
        ]
    }
}

/// A few ids; the built-in store is used by everything.
fn joined(records: &[Reference]) -> String {
    let shown = usize::try_from(SHOWN).unwrap_or(usize::MAX);
    let ids: Vec<&str> = records.iter().take(shown).map(|record| record.id.as_str()).collect();
    match records.len() {
        0 => "-".to_owned(),
        all if all > shown => format!("{} and more", ids.join(",")),
        _ => ids.join(","),
    }
}

/// What stays at a storage backend, because its record or an entry of the journal went without it.
#[derive(Clone, Debug, Deserialize, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LeftOutside {
    pub id: String,
    pub name: Option<String>,
    #[serde(rename = "backendID")]
    pub backend: String,
    what: String,
    versions: u32,
    context_keys: Vec<String>,
    error: Option<String>,
}

impl LeftOutside {
    pub const HEADER: [&'static str; 6] =
        ["LEFT OUTSIDE", "AT BACKEND", "WHAT", "VERSIONS", "CONTEXT HAS", "BACKEND SAID"];

    pub fn cells(&self) -> Vec<String> {
        let or_none = |text: String| if text.is_empty() { "-".to_owned() } else { text };
        vec![
            self.id.clone(),
            self.backend.clone(),
            self.what.to_lowercase(),
            self.versions.to_string(),
            or_none(self.context_keys.join(",")),
            or_none(self.error.clone().unwrap_or_default()),
        ]
    }
}

impl Backend {
    #[cfg(test)]
    pub fn new(id: &str, path: &str, revision: &str) -> Backend {
        let type_ref = TypeRef { path: path.to_owned(), revision: revision.to_owned() };
        let url = Some("host:50051".to_owned());
        Backend {
            id: id.to_owned(),
            name: None,
            accept_value: true,
            url,
            is_default: false,
            type_ref,
            type_instance: None,
        }
    }

    /// Whether this is the backend that somebody means.
    pub fn is_called(&self, id_or_name: &str) -> bool {
        self.id == id_or_name || self.name.as_deref() == Some(id_or_name)
    }

    /// Whether values leave the hub. The built-in store keeps them whatever its record says.
    pub fn is_external(&self) -> bool {
        self.url.is_some()
    }

    /// Sorts backends by age, where it is known.
    pub fn age(&self) -> (&str, &str) {
        let created = self.type_instance.as_ref().and_then(|record| record.created_at.as_deref());
        (created.unwrap_or_default(), &self.id)
    }
}

impl fmt::Display for TypeRef {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}", self.path, self.revision)
    }
}
