//! The service `ValueAndContextStorageBackend`: messages to calls of the driver and back.

use tonic::{Request, Response, Status};

use super::calls::{Calls, Subject};
use crate::Update;
use crate::wire::storage_backend::value_and_context_storage_backend_server::ValueAndContextStorageBackend;
use crate::wire::storage_backend::{
    GetLockedByRequest, GetLockedByResponse, GetValueRequest, GetValueResponse, OnCreateResponse,
    OnCreateValueAndContextRequest, OnDeleteResponse, OnDeleteRevisionResponse, OnDeleteRevisionValueAndContextRequest,
    OnDeleteValueAndContextRequest, OnLockRequest, OnLockResponse, OnUnlockRequest, OnUnlockResponse, OnUpdateResponse,
    OnUpdateValueAndContextRequest,
};
use crate::wire::{document, optional_bytes};

#[tonic::async_trait]
impl ValueAndContextStorageBackend for Calls {
    async fn get_value(&self, request: Request<GetValueRequest>) -> Result<Response<GetValueResponse>, Status> {
        let (message, within) = self.open(request);
        let (subject, version) = (Subject::read(message.type_instance_id, message.context), message.resource_version);
        let value = self
            .run(within, move |driver, within| async move { driver.get_value(subject.target(within), version).await })
            .await?;
        Ok(Response::new(GetValueResponse { value: optional_bytes(value.as_ref()) }))
    }

    async fn on_create(
        &self,
        request: Request<OnCreateValueAndContextRequest>,
    ) -> Result<Response<OnCreateResponse>, Status> {
        let (message, within) = self.open_change(request, |message| message.deadline_ms)?;
        let subject = Subject::change(message.type_instance_id, message.context, message.idempotency_key);
        let value = document(message.value);
        let context =
            self.run(within, move |driver, within| async move {
                driver.on_create(subject.target(within), value.as_ref()).await
            })
            .await?;
        Ok(Response::new(OnCreateResponse { context: optional_bytes(context.as_ref()) }))
    }

    async fn on_update(
        &self,
        request: Request<OnUpdateValueAndContextRequest>,
    ) -> Result<Response<OnUpdateResponse>, Status> {
        let (message, within) = self.open_change(request, |message| message.deadline_ms)?;
        let subject = Subject::change(message.type_instance_id, message.context, message.idempotency_key);
        let value = document(message.new_value);
        let (old_context, owner) = (document(message.old_context), message.owner_id);
        let (version, old_version) = (message.new_resource_version, message.old_resource_version);
        let context = self
            .run(within, move |driver, within| async move {
                let update = Update {
                    version,
                    value: value.as_ref(),
                    owner: owner.as_deref(),
                    old_version,
                    old_context: old_context.as_ref(),
                };
                driver.on_update(subject.target(within), update).await
            })
            .await?;
        Ok(Response::new(OnUpdateResponse { context: optional_bytes(context.as_ref()) }))
    }

    async fn on_delete(
        &self,
        request: Request<OnDeleteValueAndContextRequest>,
    ) -> Result<Response<OnDeleteResponse>, Status> {
        let (message, within) = self.open_change(request, |message| message.deadline_ms)?;
        let subject = Subject::change(message.type_instance_id, message.context, message.idempotency_key);
        let owner = message.owner_id;
        self.run(within, move |driver, within| async move {
            driver.on_delete(subject.target(within), owner.as_deref()).await
        })
        .await?;
        Ok(Response::new(OnDeleteResponse {}))
    }

    async fn on_delete_revision(
        &self,
        request: Request<OnDeleteRevisionValueAndContextRequest>,
    ) -> Result<Response<OnDeleteRevisionResponse>, Status> {
        let (message, within) = self.open_change(request, |message| message.deadline_ms)?;
        let subject = Subject::change(message.type_instance_id, message.context, message.idempotency_key);
        let (version, owner) = (message.resource_version, message.owner_id);
        self.run(within, move |driver, within| async move {
            driver.on_delete_revision(subject.target(within), version, owner.as_deref()).await
        })
        .await?;
        Ok(Response::new(OnDeleteRevisionResponse {}))
    }

    async fn get_locked_by(
        &self,
        request: Request<GetLockedByRequest>,
    ) -> Result<Response<GetLockedByResponse>, Status> {
        let (message, within) = self.open(request);
        let subject = Subject::read(message.type_instance_id, message.context);
        let owner = self
            .run(within, move |driver, within| async move { driver.get_locked_by(subject.target(within)).await })
            .await?;
        Ok(Response::new(GetLockedByResponse { locked_by: owner }))
    }

    async fn on_lock(&self, request: Request<OnLockRequest>) -> Result<Response<OnLockResponse>, Status> {
        let (message, within) = self.open_change(request, |message| message.deadline_ms)?;
        let subject = Subject::change(message.type_instance_id, message.context, message.idempotency_key);
        let owner = message.locked_by;
        self.run(within, move |driver, within| async move { driver.on_lock(subject.target(within), &owner).await })
            .await?;
        Ok(Response::new(OnLockResponse {}))
    }

    async fn on_unlock(&self, request: Request<OnUnlockRequest>) -> Result<Response<OnUnlockResponse>, Status> {
        let (message, within) = self.open_change(request, |message| message.deadline_ms)?;
        let subject = Subject::change(message.type_instance_id, message.context, message.idempotency_key);
        self.run(within, move |driver, within| async move { driver.on_unlock(subject.target(within)).await }).await?;
        Ok(Response::new(OnUnlockResponse {}))
    }
}
