//! A record as the schema shows it.

use std::sync::Arc;

use async_graphql::{Enum, ID, Object, Result, SimpleObject};

use super::inputs;
use super::instrumentation::TypeInstanceInstrumentation;
use super::scalars::{Any, DateTime, LockOwnerID, NodePath, Version};
use super::session::{Held, Session, told};
use crate::VersionId;
use crate::model::{self, Record, TypeRef};
use crate::rules::locks::holds;
use crate::store::Direction;

/// A typed record.
pub(super) struct TypeInstance {
    session: Session,
    record: Arc<Record>,
}

/// Whom lockedBy asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum)]
pub(super) enum LockSource {
    Backend,
    Hub,
}

#[derive(SimpleObject)]
pub(super) struct TypeInstanceTypeReference {
    path: NodePath,
    revision: Version,
}

impl TypeInstanceTypeReference {
    pub(super) fn of(reference: &TypeRef) -> TypeInstanceTypeReference {
        let TypeRef { path, revision } = reference;
        TypeInstanceTypeReference { path: NodePath(path.to_string()), revision: Version(revision.to_string()) }
    }
}

#[derive(SimpleObject)]
pub(super) struct TypeInstanceBackendReference {
    id: String,
    /// Whether it is the built-in one.
    r#abstract: bool,
}

#[derive(SimpleObject)]
pub(super) struct AttributeReference {
    path: NodePath,
    revision: Version,
}

impl TypeInstance {
    pub(super) fn new(session: &Session, record: Record) -> TypeInstance {
        TypeInstance { session: session.clone(), record: Arc::new(record) }
    }

    /// Counts them, too.
    pub(super) fn all(session: &Session, records: Vec<Record>) -> Result<Vec<TypeInstance>> {
        session.spend(records.len())?;
        Ok(records.into_iter().map(|record| TypeInstance::new(session, record)).collect())
    }

    async fn version(&self, number: u32) -> Result<Option<TypeInstanceResourceVersion>> {
        let id = VersionId { record: self.record.id.clone(), number };
        Ok(self.session.version(id).await?.map(|version| self.wrap(version)))
    }

    async fn related(&self, direction: Direction, first: Option<i32>) -> Result<Vec<TypeInstance>> {
        let (first, _) = inputs::page(first, None).map_err(|error| told(error.into()))?;
        let related = self.session.related(&self.record.id, direction, first).await?;
        self.session.spend(related.len())?;
        let related = related.iter();
        Ok(related.map(|record| TypeInstance { session: self.session.clone(), record: record.clone() }).collect())
    }

    fn wrap(&self, version: model::Version) -> TypeInstanceResourceVersion {
        TypeInstanceResourceVersion { session: self.session.clone(), record: self.record.clone(), version }
    }

    fn held(&self) -> Option<&model::Lock> {
        self.record.lock.as_ref().filter(|lock| holds(lock, self.session.guard().hub().now()))
    }
}

#[Object]
impl TypeInstance {
    async fn id(&self) -> ID {
        ID(self.record.id.clone())
    }

    /// Unique and for ever, if there is one.
    async fn name(&self) -> Option<&str> {
        self.record.name.as_deref()
    }

    async fn namespace(&self) -> &str {
        &self.record.namespace
    }

    async fn created_at(&self) -> Option<DateTime> {
        Some(DateTime(self.record.created_at))
    }

    async fn locked_by(
        &self,
        #[graphql(default_with = "Some(LockSource::Backend)", desc = "BACKEND asks the storage backend, HUB does not")]
        source: Option<LockSource>,
    ) -> Result<Option<LockOwnerID>> {
        let hub = || self.held().map(|lock| lock.owner.clone());
        let owner = match source.unwrap_or(LockSource::Backend) {
            LockSource::Hub => hub(),
            LockSource::Backend => match self.session.held(&self.record).await? {
                Some(Held { backend: Ok(owner), .. }) => owner,
                Some(Held { hub, .. }) => hub.map(|lock| lock.owner),
                None => hub(),
            },
        };
        Ok(owner.map(LockOwnerID))
    }

    /// Why the backend could not say who holds it; lockedBy is then what the hub knows.
    async fn lock_error(&self) -> Result<Option<String>> {
        Ok(self.session.held(&self.record).await?.and_then(|held| held.backend.err()))
    }

    async fn locked_at(&self) -> Option<DateTime> {
        self.held().map(|lock| DateTime(lock.since))
    }

    /// Null: it holds until it is released.
    async fn lock_expires_at(&self) -> Option<DateTime> {
        self.held().and_then(|lock| lock.expires).map(DateTime)
    }

    async fn type_ref(&self) -> TypeInstanceTypeReference {
        TypeInstanceTypeReference::of(&self.record.type_ref)
    }

    /// What it uses, its storage backend among it, as far as the caller may get it.
    async fn uses(
        &self,
        #[graphql(desc = "So many at most; all unless it is given")] first: Option<i32>,
    ) -> Result<Vec<TypeInstance>> {
        self.related(Direction::Uses, first).await
    }

    /// What uses it, as far as the caller may get it.
    async fn used_by(
        &self,
        #[graphql(desc = "So many at most; all unless it is given")] first: Option<i32>,
    ) -> Result<Vec<TypeInstance>> {
        self.related(Direction::UsedBy, first).await
    }

    async fn backend(&self) -> TypeInstanceBackendReference {
        TypeInstanceBackendReference { id: self.record.backend.clone(), r#abstract: self.record.is_kept_here() }
    }

    /// The same as backend.id; a selection of `backend` alone means this.
    #[graphql(name = "backendID")]
    async fn backend_id(&self) -> &str {
        &self.record.backend
    }

    async fn latest_resource_version(&self) -> Result<Option<TypeInstanceResourceVersion>> {
        self.version(self.record.latest).await
    }

    async fn first_resource_version(&self) -> Result<Option<TypeInstanceResourceVersion>> {
        self.version(1).await
    }

    /// The one before the latest.
    async fn previous_resource_version(&self) -> Result<Option<TypeInstanceResourceVersion>> {
        match self.record.latest.checked_sub(1) {
            Some(number) if number > 0 => self.version(number).await,
            _ => Ok(None),
        }
    }

    async fn resource_version(&self, resource_version: i32) -> Result<Option<TypeInstanceResourceVersion>> {
        match u32::try_from(resource_version) {
            Ok(number) => self.version(number).await,
            Err(_) => Ok(None),
        }
    }

    /// The oldest first.
    async fn resource_versions(&self) -> Result<Vec<TypeInstanceResourceVersion>> {
        let versions = self.session.versions(&self.record.id).await?;
        self.session.spend(versions.len())?;
        Ok(versions.iter().map(|version| self.wrap(version.clone())).collect())
    }
}

/// A version of a record, which never changes.
#[derive(Clone)]
pub(super) struct TypeInstanceResourceVersion {
    session: Session,
    record: Arc<Record>,
    version: model::Version,
}

#[Object]
impl TypeInstanceResourceVersion {
    async fn resource_version(&self) -> u32 {
        self.version.number
    }

    async fn created_by(&self) -> Option<&str> {
        self.version.created_by.as_deref()
    }

    async fn created_at(&self) -> Option<DateTime> {
        Some(DateTime(self.version.created_at))
    }

    async fn metadata(&self) -> TypeInstanceResourceVersionMetadata {
        let attributes = self.version.attributes.iter().map(|attribute| AttributeReference {
            path: NodePath(attribute.path.to_string()),
            revision: Version(attribute.revision.to_string()),
        });
        TypeInstanceResourceVersionMetadata { attributes: Some(attributes.collect()) }
    }

    async fn spec(&self) -> TypeInstanceResourceVersionSpec {
        TypeInstanceResourceVersionSpec(self.clone())
    }
}

#[derive(SimpleObject)]
pub(super) struct TypeInstanceResourceVersionMetadata {
    attributes: Option<Vec<AttributeReference>>,
}

pub(super) struct TypeInstanceResourceVersionSpec(TypeInstanceResourceVersion);

#[Object]
impl TypeInstanceResourceVersionSpec {
    /// Null where there is none, where the caller may not see it, or where valueError says why.
    async fn value(&self) -> Result<Option<Any>> {
        let TypeInstanceResourceVersion { session, record, version } = &self.0;
        session.shown(session.value(record, version.number).await?)
    }

    /// Why there is no value, where there should be one.
    async fn value_error(&self) -> Result<Option<String>> {
        let TypeInstanceResourceVersion { session, record, version } = &self.0;
        Ok(session.value(record, version.number).await?.and_then(Result::err))
    }

    async fn backend(&self) -> TypeInstanceResourceVersionSpecBackend {
        TypeInstanceResourceVersionSpecBackend(self.0.clone())
    }

    /// The same as backend.context.
    async fn additional_parameters(&self) -> Result<Option<Any>> {
        context(&self.0).await
    }

    /// Declared by the original and never there.
    async fn instrumentation(&self) -> Option<TypeInstanceInstrumentation> {
        None
    }
}

pub(super) struct TypeInstanceResourceVersionSpecBackend(TypeInstanceResourceVersion);

#[Object]
impl TypeInstanceResourceVersionSpecBackend {
    /// Null where there is none, and where the caller may not see values.
    async fn context(&self) -> Result<Option<Any>> {
        context(&self.0).await
    }
}

async fn context(of: &TypeInstanceResourceVersion) -> Result<Option<Any>> {
    let TypeInstanceResourceVersion { session, record, version } = of;
    session.shown(session.context(record, version.number).await?)
}
