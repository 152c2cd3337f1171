//! What can be read.

use async_graphql::{Context, ID, Object, Result};

use super::inputs::{self, TypeFilter, TypeInstanceFilter};
use super::instance::TypeInstance;
use super::scalars::{Any, Given, NodePath};
use super::session::{Session, told};
use super::storage::{JournalEntry, StorageBackend};
use super::types::Type;
use crate::{Cursor, Filter, Json};

pub(super) struct Query;

#[Object]
impl Query {
    /// By path, the newest revision first, the newest record first. Without `first` it is all of them, unless they are more
    /// than the setting hub.list_records.
    async fn type_instances(
        &self,
        context: &Context<'_>,
        #[graphql(default)] filter: Given<TypeInstanceFilter>,
        first: Option<i32>,
        #[graphql(desc = "An endCursor of typeInstancesPage")] after: Option<String>,
    ) -> Result<Vec<TypeInstance>> {
        let session = context.data::<Session>()?;
        let filter = TypeInstanceFilter::read(filter.0).map_err(|error| told(error.into()))?;
        let (first, after) = inputs::page(first, after.as_deref()).map_err(|error| told(error.into()))?;
        let listed = session.guard().list(filter, first, after).await.map_err(told)?;
        TypeInstance::all(session, listed.records)
    }

    /// A page of the same list, and where the next one begins.
    async fn type_instances_page(
        &self,
        context: &Context<'_>,
        #[graphql(default)] filter: Given<TypeInstanceFilter>,
        #[graphql(desc = "100 unless it is given")] first: Option<i32>,
        #[graphql(desc = "The endCursor of the page before")] after: Option<String>,
    ) -> Result<TypeInstancePage> {
        let session = context.data::<Session>()?;
        let filter = TypeInstanceFilter::read(filter.0).map_err(|error| told(error.into()))?;
        let (first, after) = inputs::page(first, after.as_deref()).map_err(|error| told(error.into()))?;
        let first = first.unwrap_or(PAGE);
        let listed = session.guard().list(filter.clone(), Some(first), after).await.map_err(told)?;
        let end_cursor = listed.records.last().map(|record| Cursor::of(record).to_string());
        let items = TypeInstance::all(session, listed.records)?;
        Ok(TypeInstancePage { session: session.clone(), filter, items, end_cursor, has_next_page: listed.has_more })
    }

    async fn type_instance_count(
        &self,
        context: &Context<'_>,
        #[graphql(default)] filter: Given<TypeInstanceFilter>,
    ) -> Result<u64> {
        let session = context.data::<Session>()?;
        let filter = TypeInstanceFilter::read(filter.0).map_err(|error| told(error.into()))?;
        session.guard().count(filter).await.map_err(told)
    }

    /// By id or unique name.
    async fn type_instance(&self, context: &Context<'_>, id: ID) -> Result<Option<TypeInstance>> {
        let session = context.data::<Session>()?;
        let found = session.guard().find(&id).await.map_err(told)?;
        Ok(found.map(|record| TypeInstance::new(session, record)))
    }

    /// Every storage backend that the caller may list, and how it is.
    async fn storage_backends(&self, context: &Context<'_>) -> Result<Vec<StorageBackend>> {
        let session = context.data::<Session>()?;
        let backends = session.guard().storage_backends().await.map_err(told)?;
        Ok(backends.into_iter().map(|backend| StorageBackend::new(session, backend)).collect())
    }

    /// By id or unique name.
    async fn storage_backend(&self, context: &Context<'_>, id: ID) -> Result<Option<StorageBackend>> {
        let session = context.data::<Session>()?;
        let found = session.guard().storage_backend(&id).await.map_err(told)?;
        Ok(found.map(|backend| StorageBackend::new(session, backend)))
    }

    /// What a backend that takes no values would give for this context.
    async fn pre_create_value(
        &self,
        context: &Context<'_>,
        #[graphql(desc = "Its id or unique name")] backend: ID,
        #[graphql(name = "context")] given: Option<Any>,
    ) -> Result<Option<Any>> {
        let session = context.data::<Session>()?;
        let empty = || Json::parse("{}").map_err(|_| async_graphql::Error::new("there is no context"));
        let given = inputs::document(given).map_or_else(empty, Ok)?;
        Ok(session.guard().pre_create_value(&backend, &given).await.map_err(told)?.map(Any))
    }

    /// What was begun with storage backends and is not over, the oldest first.
    async fn journal(&self, context: &Context<'_>) -> Result<Vec<JournalEntry>> {
        let session = context.data::<Session>()?;
        Ok(session.guard().journal().await.map_err(told)?.into_iter().map(JournalEntry::of).collect())
    }

    /// The Types whose path matches, and those that are attached to a node that does.
    async fn types(&self, context: &Context<'_>, #[graphql(default)] filter: Given<TypeFilter>) -> Result<Vec<Type>> {
        let session = context.data::<Session>()?;
        let pattern = TypeFilter::read(filter.0).map_err(|error| told(error.into()))?;
        Ok(Type::group(session.guard().types(&pattern).await.map_err(told)?))
    }

    async fn r#type(&self, context: &Context<'_>, path: NodePath) -> Result<Option<Type>> {
        let session = context.data::<Session>()?;
        let path = inputs::parsed("path", &path.0).map_err(|error| told(error.into()))?;
        Ok(Type::group(session.guard().type_named(&path).await.map_err(told)?).pop())
    }
}

const PAGE: usize = 100;

/// A page of a list.
struct TypeInstancePage {
    session: Session,
    filter: Filter,
    items: Vec<TypeInstance>,
    end_cursor: Option<String>,
    has_next_page: bool,
}

#[Object]
impl TypeInstancePage {
    async fn items(&self) -> &[TypeInstance] {
        &self.items
    }

    /// How many there are on all pages.
    async fn count(&self) -> Result<u64> {
        self.session.guard().count(self.filter.clone()).await.map_err(told)
    }

    /// Goes into `after` for the next page; null on an empty one.
    async fn end_cursor(&self) -> Option<&str> {
        self.end_cursor.as_deref()
    }

    async fn has_next_page(&self) -> bool {
        self.has_next_page
    }
}
