//! What the management API answers. Field names are a public format: the OpenAPI document is made of these types.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::bytes_text::hex_text;
use crate::codec::{self, Value};
use crate::engine::{FoundState, State};
use crate::head::{self, Head};
use crate::lock;
use crate::lock_info::LockInfo;

/// A list in pages.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "{T}Page")]
pub(super) struct Page<T> {
    pub(super) items: Vec<T>,
    /// Send this as `continue` to get the next page; null at the end.
    pub(super) r#continue: Option<String>,
    /// How many there are on all pages.
    pub(super) total: u64,
}

/// A whole list.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "{T}List")]
pub(super) struct Items<T> {
    pub(super) items: Vec<T>,
}

/// A state, as far as it is known without reading it.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "State")]
pub(super) struct StateAnswer {
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) store: String,
    /// The number of the current version; null while there is none.
    version: Option<u64>,
    /// The digits as the client wrote them.
    serial: Option<String>,
    lineage: Option<String>,
    terraform_version: Option<String>,
    /// In bytes.
    size: Option<u64>,
    sha256: Option<String>,
    /// OpenTofu encrypted it: diff, resources and outputs cannot be told.
    encrypted_by_client: bool,
    /// Encrypted at rest by this server.
    sealed: bool,
    updated_at: Option<String>,
    /// Null when another program wrote it.
    updated_by: Option<String>,
    /// How many versions are kept, the current one included.
    versions: u64,
    lock: Option<LockAnswer>,
    deleted: Option<Deleted>,
    moved: Option<Moved>,
    /// What stands in the store is not understood: nothing else is known of it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    damaged: bool,
}

/// Who deleted the state, and when; it can be restored.
#[derive(Debug, Serialize, JsonSchema)]
struct Deleted {
    by: String,
    at: String,
}

/// Where the state went; a restore takes the tombstone back.
#[derive(Debug, Serialize, JsonSchema)]
struct Moved {
    to: String,
    by: String,
    at: String,
}

/// A lock, with what its holder said of itself.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Lock")]
pub(super) struct LockAnswer {
    namespace: String,
    name: String,
    store: String,
    pub(super) id: String,
    operation: Option<String>,
    info: Option<String>,
    who: Option<String>,
    created: Option<String>,
    version: Option<String>,
    path: Option<String>,
    /// The authenticated user who took it; null when another program did.
    user: Option<String>,
    taken_at: String,
    /// The holder's last request.
    active_at: String,
    /// The next LOCK may take it over.
    expired: bool,
}

/// One version of a state.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Version")]
pub(super) struct VersionAnswer {
    version: u64,
    serial: Option<String>,
    lineage: Option<String>,
    terraform_version: Option<String>,
    size: u64,
    sha256: String,
    written_at: String,
    written_by: Option<String>,
    encrypted_by_client: bool,
    current: bool,
}

/// What changed between two versions. Attributes are named, their values never shown.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Diff")]
pub(super) struct DiffAnswer {
    pub(super) from: u64,
    pub(super) to: u64,
    pub(super) resources: Vec<ResourceChange>,
    pub(super) outputs: Vec<OutputChange>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct ResourceChange {
    address: String,
    change: Change,
    /// Paths inside of the instance; null when it was added or removed, or when too much changed to list.
    paths: Option<Vec<String>>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct OutputChange {
    name: String,
    change: Change,
    /// In one of the two versions at least: then no value is shown.
    sensitive: bool,
    /// Left out when it is sensitive, very long, or was not there.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<serde_json::Value>")]
    before: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<serde_json::Value>")]
    after: Option<Box<RawValue>>,
}

#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Change {
    Added,
    Changed,
    Removed,
}

/// One instance of a resource.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Resource")]
pub(super) struct ResourceAnswer {
    address: String,
    r#type: String,
    provider: String,
    id: Option<String>,
}

/// One output; its type and value are as the state has them.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Output")]
pub(super) struct OutputAnswer {
    name: String,
    #[schemars(with = "Option<serde_json::Value>")]
    r#type: Option<Box<RawValue>>,
    /// Left out when it is sensitive and the caller may not see that, or when it is too long.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<serde_json::Value>")]
    value: Option<Box<RawValue>>,
    /// There is a value that is too long to be shown here.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    too_long: bool,
    sensitive: bool,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Written {
    /// The number of the new version; null when the state had the same bytes already.
    pub(super) version: Option<u64>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct RolledBack {
    /// The number of the new version.
    pub(super) version: u64,
    pub(super) serial: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Unlocked {
    /// False when it was not locked, or not any more by this lock.
    pub(super) unlocked: bool,
}

impl StateAnswer {
    /// `None` where there is nothing to be shown.
    pub(super) fn of(FoundState { state, head }: &FoundState) -> Option<StateAnswer> {
        match head {
            Some(head) => head.is_something().then(|| StateAnswer::made(state, head)),
            None => Some(StateAnswer { damaged: true, ..StateAnswer::made(state, &Head::new()) }),
        }
    }

    fn made(state: &State, head: &Head) -> StateAnswer {
        let (namespace, name, store) = state.order();
        let (version, facts) = (head.current.as_ref(), head.current.as_ref().map(|version| &version.facts));
        StateAnswer {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            store: store.to_owned(),
            version: version.map(|version| version.number),
            serial: facts.and_then(|facts| facts.serial.clone()),
            lineage: facts.and_then(|facts| facts.lineage.clone()),
            terraform_version: facts.and_then(|facts| facts.terraform_version.clone()),
            size: facts.map(|facts| facts.size),
            sha256: facts.map(|facts| hex_text::encode(&facts.sha256)),
            encrypted_by_client: facts.is_some_and(|facts| facts.encrypted),
            sealed: version.is_some_and(head::Version::is_sealed),
            updated_at: version.map(|version| version.at.to_string()),
            updated_by: version.and_then(|version| version.by.clone()),
            versions: head.version_count(),
            lock: head.lock.as_ref().map(|lock| LockAnswer::of(state, lock)),
            deleted: head
                .deleted
                .as_ref()
                .map(|head::Deleted { by, at }| Deleted { by: by.clone(), at: at.to_string() }),
            damaged: false,
            moved: head.moved.as_ref().map(|head::Moved { to, by, at }| Moved {
                to: to.clone(),
                by: by.clone(),
                at: at.to_string(),
            }),
        }
    }

    pub(super) fn is_deleted(&self) -> bool {
        self.deleted.is_some()
    }

    pub(super) fn order(&self) -> (&str, &str, &str) {
        (&self.namespace, &self.name, &self.store)
    }
}

impl LockAnswer {
    pub(super) fn of(state: &State, lock: &lock::Lock) -> LockAnswer {
        let info = LockInfo { id: lock.id.clone(), text: lock.info.clone() };
        let field = |name| info.field(name).filter(|text| !text.is_empty());
        let (namespace, name, store) = state.order();
        LockAnswer {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            store: store.to_owned(),
            id: lock.id.clone(),
            operation: field("Operation"),
            info: field("Info"),
            who: field("Who"),
            created: field("Created"),
            version: field("Version"),
            path: field("Path"),
            user: lock.user.clone(),
            taken_at: lock.taken.to_string(),
            active_at: lock.active.to_string(),
            expired: state.is_expired(lock),
        }
    }
}

impl VersionAnswer {
    pub(super) fn of(version: &head::Version, current: Option<u64>) -> VersionAnswer {
        let head::Version { number, facts, by, at, .. } = version;
        VersionAnswer {
            version: *number,
            serial: facts.serial.clone(),
            lineage: facts.lineage.clone(),
            terraform_version: facts.terraform_version.clone(),
            size: facts.size,
            sha256: hex_text::encode(&facts.sha256),
            written_at: at.to_string(),
            written_by: by.clone(),
            encrypted_by_client: facts.encrypted,
            current: current == Some(*number),
        }
    }
}

impl From<codec::Change> for Change {
    fn from(change: codec::Change) -> Change {
        match change {
            codec::Change::Added => Change::Added,
            codec::Change::Changed => Change::Changed,
            codec::Change::Removed => Change::Removed,
        }
    }
}

impl From<codec::ResourceChange> for ResourceChange {
    fn from(codec::ResourceChange { address, change, paths }: codec::ResourceChange) -> ResourceChange {
        ResourceChange { address, change: change.into(), paths }
    }
}

impl From<codec::OutputChange> for OutputChange {
    fn from(changed: codec::OutputChange) -> OutputChange {
        let codec::OutputChange { name, change, sensitive, before, after } = changed;
        OutputChange { name, change: change.into(), sensitive, before: shown(before), after: shown(after) }
    }
}

impl From<codec::Resource> for ResourceAnswer {
    fn from(codec::Resource { address, kind, provider, id }: codec::Resource) -> ResourceAnswer {
        ResourceAnswer { address, r#type: kind, provider, id }
    }
}

impl From<codec::Output> for OutputAnswer {
    fn from(codec::Output { name, kind, value, sensitive }: codec::Output) -> OutputAnswer {
        let too_long = value == Value::TooLong;
        OutputAnswer { name, r#type: kind.and_then(json), value: shown(value), too_long, sensitive }
    }
}

fn shown(value: Value) -> Option<Box<RawValue>> {
    match value {
        Value::Shown(text) => json(text),
        Value::Hidden | Value::TooLong => None,
    }
}

fn json(text: String) -> Option<Box<RawValue>> {
    RawValue::from_string(text).ok()
}
