//! Both sides against somebody who knows only the original: a backend written by hand from its fields, and a hub's calls.

use std::collections::BTreeMap;
use std::sync::Mutex;

use ::bytes::Bytes;
use backends::{Client, Code, Driver, Endpoint, Mode, ServerLimits, Target, Update};
use tokio::net::TcpListener;
use tonic::client::Grpc;
use tonic::transport::Channel;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status};
use tonic_prost::ProstCodec;

use crate::place::{PATIENCE, document, file, serve, target, text};

#[allow(clippy::pedantic, dead_code, missing_debug_implementations, unreachable_pub)]
mod wire {
    include!(concat!(env!("OUT_DIR"), "/original/storage_backend.rs"));
}

use wire::value_and_context_storage_backend_server::{
    ValueAndContextStorageBackend, ValueAndContextStorageBackendServer,
};

/// Keeps whatever bytes it gets, and refuses a second lock, as the original's do.
#[derive(Debug, Default)]
struct Backend {
    values: Mutex<BTreeMap<(String, u32), Bytes>>,
    locks: Mutex<BTreeMap<String, String>>,
}

type Answer<T> = Result<Response<T>, Status>;

#[tonic::async_trait]
impl ValueAndContextStorageBackend for Backend {
    async fn get_value(&self, request: Request<wire::GetValueRequest>) -> Answer<wire::GetValueResponse> {
        let wire::GetValueRequest { type_instance_id: id, resource_version, .. } = request.into_inner();
        let value = self.values.lock().unwrap().get(&(id.clone(), resource_version)).cloned();
        let missing = || Status::not_found(format!("TypeInstance {id:?} in revision {resource_version} was not found"));
        Ok(Response::new(wire::GetValueResponse { value: Some(value.ok_or_else(missing)?) }))
    }

    async fn on_create(
        &self,
        request: Request<wire::OnCreateValueAndContextRequest>,
    ) -> Answer<wire::OnCreateResponse> {
        let wire::OnCreateValueAndContextRequest { type_instance_id, value, context } = request.into_inner();
        self.values.lock().unwrap().insert((type_instance_id, 1), value);
        Ok(Response::new(wire::OnCreateResponse { context }))
    }

    async fn on_update(
        &self,
        request: Request<wire::OnUpdateValueAndContextRequest>,
    ) -> Answer<wire::OnUpdateResponse> {
        let message = request.into_inner();
        let place = (message.type_instance_id, message.new_resource_version);
        self.values.lock().unwrap().insert(place, message.new_value);
        let context = message.owner_id.map(|owner| Bytes::from(format!("{{\"by\":\"{owner}\"}}")));
        Ok(Response::new(wire::OnUpdateResponse { context }))
    }

    async fn on_delete(
        &self,
        request: Request<wire::OnDeleteValueAndContextRequest>,
    ) -> Answer<wire::OnDeleteResponse> {
        let id = request.into_inner().type_instance_id;
        self.values.lock().unwrap().retain(|(other, _), _| *other != id);
        Ok(Response::new(wire::OnDeleteResponse {}))
    }

    async fn on_delete_revision(
        &self,
        request: Request<wire::OnDeleteRevisionValueAndContextRequest>,
    ) -> Answer<wire::OnDeleteRevisionResponse> {
        let message = request.into_inner();
        let place = (message.type_instance_id, message.resource_version);
        let removed = self.values.lock().unwrap().remove(&place);
        removed.map(|_| Response::new(wire::OnDeleteRevisionResponse {})).ok_or_else(|| Status::not_found("gone"))
    }

    async fn get_locked_by(&self, request: Request<wire::GetLockedByRequest>) -> Answer<wire::GetLockedByResponse> {
        let locked_by = self.locks.lock().unwrap().get(&request.into_inner().type_instance_id).cloned();
        Ok(Response::new(wire::GetLockedByResponse { locked_by }))
    }

    async fn on_lock(&self, request: Request<wire::OnLockRequest>) -> Answer<wire::OnLockResponse> {
        let wire::OnLockRequest { type_instance_id, locked_by, .. } = request.into_inner();
        let before = self.locks.lock().unwrap().insert(type_instance_id, locked_by);
        let locked = |owner| Err(Status::failed_precondition(format!("typeInstance locked: {owner:?}")));
        before.map_or(Ok(Response::new(wire::OnLockResponse {})), locked)
    }

    async fn on_unlock(&self, request: Request<wire::OnUnlockRequest>) -> Answer<wire::OnUnlockResponse> {
        self.locks.lock().unwrap().remove(&request.into_inner().type_instance_id);
        Ok(Response::new(wire::OnUnlockResponse {}))
    }
}

async fn original() -> Client {
    let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = socket.local_addr().unwrap().to_string();
    let service = ValueAndContextStorageBackendServer::new(Backend::default());
    let serving = tonic::transport::Server::builder().add_service(service);
    tokio::spawn(serving.serve_with_incoming(TcpIncoming::from(socket)));
    Client::new(&Endpoint::new(address, Mode::Value)).unwrap()
}

#[tokio::test]
async fn a_backend_that_knows_only_the_originals_fields_works() {
    let client = original().await;
    client.health(PATIENCE).await.expect("a backend without the health service is alive if it answers");
    let context = document(r#"{"provider":"dotenv"}"#);
    let target = Target { id: "r", context: Some(&context), key: "k", within: PATIENCE };
    let values = [
        r#""text""#,
        "null",
        "[]",
        r#"[1,null,"x"]"#,
        r#"{"a":{"b":null}}"#,
        "12345678901234567890123",
        "1.50",
        r#"{"a":[1.50,12345678901234567890123]}"#,
    ];
    for (number, value) in values.iter().enumerate() {
        let id = format!("v{number}");
        let target = Target { id: &id, ..target };
        let kept = client.on_create(target, Some(&document(value))).await.unwrap();
        assert_eq!(kept.as_ref(), Some(&context));
        assert_eq!(text(client.get_value(target, 1).await.unwrap()).as_deref(), Some(*value));
    }

    let two = document("2");
    client.on_create(target, Some(&two)).await.unwrap();
    let update = Update { version: 2, value: Some(&two), owner: Some("me"), old_version: 1, old_context: None };
    let kept = client.on_update(target, update).await.unwrap();
    assert_eq!(text(kept).as_deref(), Some(r#"{"by":"me"}"#));
    client.on_delete_revision(target, 2, None).await.unwrap();
    assert_eq!(client.on_delete_revision(target, 2, None).await.unwrap_err().code, Code::NotFound);
    client.on_lock(target, "me").await.unwrap();
    assert_eq!(client.get_locked_by(target).await.unwrap().as_deref(), Some("me"));
    let failure = client.on_lock(target, "me").await.unwrap_err();
    let expected =
        r#"/storage_backend.ValueAndContextStorageBackend/OnLock FAILED_PRECONDITION: typeInstance locked: "me""#;
    assert_eq!((failure.code, failure.text.as_str()), (Code::FailedPrecondition, expected));
    client.on_unlock(target).await.unwrap();
    assert_eq!(client.get_locked_by(target).await.unwrap(), None);
    client.on_delete(target, None).await.unwrap();
    let failure = client.get_value(target, 1).await.unwrap_err();
    let expected = "/storage_backend.ValueAndContextStorageBackend/GetValue NOT_FOUND: TypeInstance \"r\" in revision 1 \
                    was not found";
    assert_eq!((failure.code, failure.text.as_str()), (Code::NotFound, expected));
}

/// What a hub sends that was written against the original: no deadline, no key, a plain string without quotes.
#[tokio::test]
async fn a_hub_that_knows_only_the_originals_fields_is_served() {
    let driver = file();
    let running = serve(driver.clone(), None, ServerLimits::default()).await;
    let channel = Channel::from_shared(format!("http://{}", running.address)).unwrap().connect_lazy();
    let call = async |rpc: &'static str, message: wire::OnCreateValueAndContextRequest| {
        let mut grpc = Grpc::new(channel.clone());
        grpc.ready().await.unwrap();
        let path = http::uri::PathAndQuery::from_static(rpc);
        let codec: ProstCodec<_, wire::OnCreateResponse> = ProstCodec::default();
        grpc.unary(Request::new(message), path, codec).await.map(Response::into_inner)
    };
    let create = "/storage_backend.ValueAndContextStorageBackend/OnCreate";
    let context = Some(Bytes::from_static(br#"{"provider":"dotenv"}"#));
    let message = wire::OnCreateValueAndContextRequest {
        type_instance_id: "r".to_owned(),
        value: Bytes::from_static(b"a plain string"),
        context,
    };
    assert_eq!(call(create, message.clone()).await.unwrap().context, None);
    assert_eq!(text(driver.get_value(target("r", ""), 1).await.unwrap()).as_deref(), Some("a plain string"));
    let again = call(create, message).await.err().unwrap();
    assert_eq!(again.code(), tonic::Code::AlreadyExists);
    assert_eq!(again.message(), r#"TypeInstance "r" in revision 1 already exists"#);
}
