//! What can be changed.

use async_graphql::{Context, Enum, ID, Object, Result, SimpleObject};

use super::inputs::{
    CreateTypeInstanceInput, CreateTypeInstancesInput, LockTypeInstancesInput, UnlockTypeInstancesInput,
    UpdateTypeInstancesInput, texts,
};
use super::instance::TypeInstance;
use super::scalars::LockOwnerID;
use super::session::{Session, told};
use super::storage::{AbandonJournalEntryOutput, OrphanTypeInstancesOutput, RetireStorageBackendOutput};
use super::types::Type;
use crate::guard::Failure;
use crate::{Batch, Created, Deletion, Error, LeftOutside, OnBackendFailure, Retire, types};

pub(super) struct Mutation;

/// What becomes of a record whose backend does not take it away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum)]
#[graphql(name = "OnBackendFailure")]
enum BackendFailure {
    /// It stays.
    Fail,
    /// It goes, and what its backend has of it stays there.
    Orphan,
}

#[derive(SimpleObject)]
struct CreateTypeInstanceOutput {
    id: ID,
    alias: String,
}

#[Object]
impl Mutation {
    /// All of them or none; the answer is in the order of the input.
    async fn create_type_instances(
        &self,
        context: &Context<'_>,
        r#in: CreateTypeInstancesInput,
    ) -> Result<Vec<CreateTypeInstanceOutput>> {
        let created = create(context, r#in.read()).await.map_err(told)?;
        Ok(created.into_iter().map(|Created { id, alias }| CreateTypeInstanceOutput { id: ID(id), alias }).collect())
    }

    async fn create_type_instance(
        &self,
        context: &Context<'_>,
        r#in: CreateTypeInstanceInput,
        #[graphql(desc = "A request of the same caller with the same key is answered as the first time, for a day")]
        idempotency_key: Option<String>,
    ) -> Result<ID> {
        let batch = r#in.read().map(|record| Batch { records: vec![record], relations: Vec::new(), idempotency_key });
        let created = create(context, batch).await.map_err(single).map_err(told)?;
        let created = created.into_iter().next().ok_or_else(|| async_graphql::Error::new("nothing was created"))?;
        Ok(ID(created.id))
    }

    /// Every record gets a new version, even where nothing changes; all of them or none.
    async fn update_type_instances(
        &self,
        context: &Context<'_>,
        r#in: Vec<Option<UpdateTypeInstancesInput>>,
    ) -> Result<Vec<TypeInstance>> {
        let session = context.data::<Session>()?;
        let changes =
            r#in.into_iter().flatten().map(UpdateTypeInstancesInput::read).collect::<std::result::Result<_, _>>();
        let changes = changes.map_err(|error: Error| told(error.into()))?;
        TypeInstance::all(&session.anew(), session.guard().update(changes).await.map_err(told)?)
    }

    /// With all its versions, unless another record uses it.
    async fn delete_type_instance(
        &self,
        context: &Context<'_>,
        id: ID,
        #[graphql(name = "ownerID")] owner_id: Option<LockOwnerID>,
        #[graphql(
            default_with = "Some(BackendFailure::Fail)",
            desc = "ORPHAN lets the record go although its backend does not answer; its value stays there"
        )]
        on_backend_failure: Option<BackendFailure>,
    ) -> Result<ID> {
        delete(context, vec![id.0.clone()], owner_id, on_backend_failure).await?;
        Ok(id)
    }

    /// All of them or none, unless a backend refuses: then those go whose values are gone, and what uses them. What one that
    /// stays uses stays, too. What one of them uses may go with it.
    async fn delete_type_instances(
        &self,
        context: &Context<'_>,
        ids: Vec<ID>,
        #[graphql(name = "ownerID")] owner_id: Option<LockOwnerID>,
        #[graphql(default_with = "Some(BackendFailure::Fail)")] on_backend_failure: Option<BackendFailure>,
    ) -> Result<Vec<ID>> {
        delete(context, texts(ids.clone()), owner_id, on_backend_failure).await?;
        Ok(ids)
    }

    /// The same with ORPHAN, and tells what is left at their backends.
    async fn orphan_type_instances(
        &self,
        context: &Context<'_>,
        ids: Vec<ID>,
        #[graphql(name = "ownerID")] owner_id: Option<LockOwnerID>,
    ) -> Result<OrphanTypeInstancesOutput> {
        let left = delete(context, texts(ids.clone()), owner_id, Some(BackendFailure::Orphan)).await?;
        Ok(OrphanTypeInstancesOutput::of(ids, left))
    }

    /// All of them or none. Who holds a lock renews it with another lease.
    async fn lock_type_instances(&self, context: &Context<'_>, r#in: LockTypeInstancesInput) -> Result<Vec<ID>> {
        let session = context.data::<Session>()?;
        let lease = r#in.lease().map_err(|error| told(error.into()))?;
        let LockTypeInstancesInput { ids, owner_id: LockOwnerID(owner), .. } = r#in;
        session.guard().lock(texts(ids.clone()), owner, lease).await.map_err(told)?;
        Ok(ids)
    }

    async fn unlock_type_instances(&self, context: &Context<'_>, r#in: UnlockTypeInstancesInput) -> Result<Vec<ID>> {
        let session = context.data::<Session>()?;
        let UnlockTypeInstancesInput { ids, owner_id: LockOwnerID(owner) } = r#in;
        session.guard().unlock(texts(ids.clone()), owner).await.map_err(told)?;
        Ok(ids)
    }

    /// Whoever holds them.
    async fn force_unlock_type_instances(&self, context: &Context<'_>, ids: Vec<ID>) -> Result<Vec<ID>> {
        let session = context.data::<Session>()?;
        session.guard().force_unlock(texts(ids.clone())).await.map_err(told)?;
        Ok(ids)
    }

    /// To another storage backend, with all their versions; one after another.
    async fn move_type_instances(
        &self,
        context: &Context<'_>,
        ids: Vec<ID>,
        #[graphql(desc = "The id or the name of a storage backend")] to: ID,
        #[graphql(name = "ownerID")] owner_id: Option<LockOwnerID>,
    ) -> Result<Vec<TypeInstance>> {
        let session = context.data::<Session>()?;
        let owner = owner_id.map(|LockOwnerID(owner)| owner);
        let moved = session.guard().move_records(texts(ids), to.0, owner).await.map_err(told)?;
        TypeInstance::all(&session.anew(), moved)
    }

    /// Ends a storage backend: with moveTo its records go there first, with orphan they go and their values stay outside.
    async fn retire_storage_backend(
        &self,
        context: &Context<'_>,
        id: ID,
        move_to: Option<ID>,
        #[graphql(default_with = "Some(false)")] orphan: Option<bool>,
    ) -> Result<RetireStorageBackendOutput> {
        let session = context.data::<Session>()?;
        let how = match (move_to, orphan.unwrap_or_default()) {
            (Some(ID(to)), false) => Retire::MoveTo(to),
            (None, true) => Retire::Orphan,
            _ => {
                let text =
                    "moveTo: say where the records go, or that they are left outside with orphan: true; one of both";
                return Err(told(Error::invalid(text).into()));
            }
        };
        let retired = session.guard().retire(&id, how).await.map_err(told)?;
        Ok(RetireStorageBackendOutput::of(id, retired))
    }

    /// Tries an entry of the journal now.
    async fn retry_journal_entry(&self, context: &Context<'_>, id: ID) -> Result<ID> {
        context.data::<Session>()?.guard().journal_retry(&id).await.map_err(told)?;
        Ok(id)
    }

    /// Gives an entry of the journal up; tells what its backend may have of it, which stays there.
    async fn abandon_journal_entry(&self, context: &Context<'_>, id: ID) -> Result<AbandonJournalEntryOutput> {
        let left = context.data::<Session>()?.guard().journal_abandon(&id).await.map_err(told)?;
        Ok(AbandonJournalEntryOutput::of(id, left))
    }

    /// Manifests of Types, each as YAML or JSON text; all of them or none. A revision never changes.
    async fn apply_types(&self, context: &Context<'_>, manifests: Vec<String>) -> Result<Vec<Type>> {
        let session = context.data::<Session>()?;
        let mut applied = Vec::with_capacity(manifests.len());
        for (index, manifest) in manifests.iter().enumerate() {
            let parsed = types::Type::parse(manifest);
            applied.push(parsed.map_err(|fault| told(Error::invalid(format!("manifests[{index}]: {fault}")).into()))?);
        }
        session.guard().apply_types(applied.clone()).await.map_err(told)?;
        applied.sort_by(|left, right| left.reference.path.cmp(&right.reference.path));
        Ok(Type::group(applied))
    }
}

async fn create(
    context: &Context<'_>,
    batch: std::result::Result<Batch, Error>,
) -> std::result::Result<Vec<Created>, Failure> {
    let session = context.data::<Session>().map_err(|_| Error::damaged("the request", "it has no session"))?;
    session.guard().create(batch?).await
}

/// Where one record is created, the original puts its own words before whatever the hub says.
fn single(failure: Failure) -> Failure {
    match failure {
        Failure::Hub(Error::Refused { reason, message }) => {
            Failure::Hub(Error::Refused { reason, message: format!("failed to create TypeInstance: {message}") })
        }
        other => other,
    }
}

async fn delete(
    context: &Context<'_>,
    ids: Vec<String>,
    owner: Option<LockOwnerID>,
    on_backend_failure: Option<BackendFailure>,
) -> Result<Vec<LeftOutside>> {
    let session = context.data::<Session>()?;
    let on_backend_failure = match on_backend_failure {
        None | Some(BackendFailure::Fail) => OnBackendFailure::Fail,
        Some(BackendFailure::Orphan) => OnBackendFailure::Orphan,
    };
    let deletion = Deletion { ids, owner: owner.map(|LockOwnerID(owner)| owner), on_backend_failure };
    session.guard().delete(deletion).await.map_err(told)
}
