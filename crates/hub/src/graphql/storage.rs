//! Storage backends and the journal as the schema shows them.

use async_graphql::{Enum, ID, Object, Result, SimpleObject};

use super::instance::{TypeInstance, TypeInstanceTypeReference};
use super::scalars::{Any, DateTime};
use super::session::{Session, told};
use crate::guard::Failure;
use crate::{JournalEntry as Entry, Json, LeftKind, Retired, StorageBackend as Backend};

/// A registered storage backend.
pub(super) struct StorageBackend {
    session: Session,
    backend: Backend,
}

/// Whether a backend answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum)]
enum StorageBackendStatus {
    Ready,
    Failing,
}

#[derive(SimpleObject)]
struct StorageBackendHealth {
    status: StorageBackendStatus,
    /// Why it is not ready.
    message: Option<String>,
}

impl StorageBackend {
    pub(super) fn new(session: &Session, backend: Backend) -> StorageBackend {
        StorageBackend { session: session.clone(), backend }
    }
}

#[Object]
impl StorageBackend {
    async fn id(&self) -> ID {
        ID(self.backend.record.id.clone())
    }

    async fn name(&self) -> Option<&str> {
        self.backend.record.name.as_deref()
    }

    async fn namespace(&self) -> &str {
        &self.backend.record.namespace
    }

    async fn type_ref(&self) -> TypeInstanceTypeReference {
        TypeInstanceTypeReference::of(&self.backend.record.type_ref)
    }

    /// Where it listens; null for the built-in one, and where its record does not tell.
    async fn url(&self) -> Option<&str> {
        self.backend.url.as_deref()
    }

    /// Whether it keeps values; else it makes them from contexts.
    async fn accept_value(&self) -> bool {
        self.backend.accept_value
    }

    /// What contexts must look like; null where it takes none.
    async fn context_schema(&self) -> Option<Any> {
        let schema = self.backend.context_schema.as_ref()?;
        Json::parse(&schema.to_string()).ok().map(Any)
    }

    /// Whether it takes new records that name no backend, where no policy says otherwise.
    async fn default(&self) -> Result<bool> {
        let record = &self.backend.record;
        let default = self.session.guard().default_backend().await.map_err(told)?;
        Ok(default.map_or_else(|| record.is_built_in(), |default| default == record.id))
    }

    /// How many records are kept there, as far as the caller may list them.
    async fn type_instance_count(&self) -> Result<u64> {
        self.session.guard().kept_there(&self.backend.record).await.map_err(told)
    }

    async fn health(&self) -> StorageBackendHealth {
        match &self.backend.health {
            Ok(()) => StorageBackendHealth { status: StorageBackendStatus::Ready, message: None },
            Err(error) => {
                let message = Failure::told(error);
                StorageBackendHealth { status: StorageBackendStatus::Failing, message: Some(message) }
            }
        }
    }

    /// Its record, if the caller may get it.
    async fn type_instance(&self) -> Result<Option<TypeInstance>> {
        let seen = self.session.guard().seen(vec![self.backend.record.clone()]).await.map_err(told)?;
        Ok(seen.into_iter().next().map(|record| TypeInstance::new(&self.session, record)))
    }
}

/// What was begun with a storage backend and is not over.
#[derive(SimpleObject)]
pub(super) struct JournalEntry {
    id: ID,
    /// What was begun: CREATE, UPDATE, DELETE, LOCK, UNLOCK or MOVE.
    operation: String,
    /// CALLED by whoever began it, UNDO or FORWARD since.
    state: String,
    /// A selection of `backend` alone means this.
    #[graphql(name = "backendID")]
    backend_id: ID,
    type_instances: Vec<ID>,
    started_at: DateTime,
    /// When it is tried again, or taken over.
    next_at: DateTime,
    attempts: u32,
    /// The gRPC code of the last failure.
    error: Option<String>,
}

impl JournalEntry {
    pub(super) fn of(entry: Entry) -> JournalEntry {
        JournalEntry {
            id: ID(entry.id),
            operation: entry.kind.as_str().to_uppercase(),
            state: entry.state.as_str().to_uppercase(),
            backend_id: ID(entry.backend),
            type_instances: vec![ID(entry.record)],
            started_at: DateTime(entry.since),
            next_at: DateTime(entry.next),
            attempts: entry.attempts,
            error: entry.fault,
        }
    }
}

/// What became of the records of a backend that ended.
#[derive(SimpleObject)]
pub(super) struct RetireStorageBackendOutput {
    id: ID,
    /// The records that were moved.
    moved: Vec<ID>,
    /// The records whose values are left outside.
    left: Vec<ID>,
    left_outside: Vec<LeftOutside>,
}

/// What is left at a backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum)]
enum LeftOutsideKind {
    Values,
    Lock,
}

/// What stays at a backend, because its record or an entry of the journal went without it.
#[derive(SimpleObject)]
pub(super) struct LeftOutside {
    /// Of the record, by which the backend knows it.
    id: ID,
    name: Option<String>,
    #[graphql(name = "backendID")]
    backend_id: ID,
    what: LeftOutsideKind,
    /// How many versions there were, or may be.
    versions: u32,
    /// What the newest context has; what is under these keys may be secret.
    context_keys: Vec<String>,
    /// What the backend said, if it was asked.
    error: Option<String>,
}

impl RetireStorageBackendOutput {
    pub(super) fn of(id: ID, retired: Retired) -> RetireStorageBackendOutput {
        RetireStorageBackendOutput {
            id,
            moved: retired.moved.into_iter().map(|moved| ID(moved.id)).collect(),
            left: retired.left.iter().map(|left| ID(left.id.clone())).collect(),
            left_outside: LeftOutside::all(retired.left),
        }
    }
}

impl LeftOutside {
    fn all(left: Vec<crate::LeftOutside>) -> Vec<LeftOutside> {
        let one = |left: crate::LeftOutside| LeftOutside {
            id: ID(left.id),
            name: left.name,
            backend_id: ID(left.backend),
            what: match left.what {
                LeftKind::Values => LeftOutsideKind::Values,
                LeftKind::Lock => LeftOutsideKind::Lock,
            },
            versions: left.versions,
            context_keys: left.context_keys,
            error: left.fault,
        };
        left.into_iter().map(one).collect()
    }
}

/// What became of records that went whatever their backends say.
#[derive(SimpleObject)]
pub(super) struct OrphanTypeInstancesOutput {
    ids: Vec<ID>,
    left_outside: Vec<LeftOutside>,
}

impl OrphanTypeInstancesOutput {
    pub(super) fn of(ids: Vec<ID>, left: Vec<crate::LeftOutside>) -> OrphanTypeInstancesOutput {
        OrphanTypeInstancesOutput { ids, left_outside: LeftOutside::all(left) }
    }
}

/// What became of an entry of the journal that was given up.
#[derive(SimpleObject)]
pub(super) struct AbandonJournalEntryOutput {
    id: ID,
    left_outside: Vec<LeftOutside>,
}

impl AbandonJournalEntryOutput {
    pub(super) fn of(id: ID, left: Vec<crate::LeftOutside>) -> AbandonJournalEntryOutput {
        AbandonJournalEntryOutput { id, left_outside: LeftOutside::all(left) }
    }
}
