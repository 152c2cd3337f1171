//! A driver behind the wire: the client of a storage backend.
//!
//! The door is [`Client`]. `address` reads urls, `link` keeps the connection, `call` makes one call with its deadline and
//! its repetitions, `details` is what may be shown of somebody else's error text.
//!
//! # What is repeated
//! Every call is bounded by [`Target::within`], repetitions included, and is tried four times at most, with a pause that grows.
//!
//! | what happened | a read | a change |
//! |---|---|---|
//! | no connection, or the request was never written to one | again, else `Unavailable` | again, else `Unavailable` |
//! | written, and the connection ended before the answer | again, else `Unknown` | **not** again: `Unknown` |
//! | written, and no answer in time | `DeadlineExceeded` | `DeadlineExceeded` |
//! | the backend says UNAVAILABLE | again, else `Unavailable` | not again: `Unknown` |
//! | the same, and it is one of ours and sure that nothing took place | again, else `Unavailable` | again, else `Unavailable` |
//! | anything else that it says | its code | its code |
//!
//! A change whose answer was lost is not repeated here although it carries a key: nobody can tell whether a backend minds
//! keys, and one that does not would say `AlreadyExists` of our own work. The caller knows what it wrote and reads back.

mod address;
mod call;
mod details;
mod link;

use std::sync::Arc;
use std::time::Duration;

use crate::wire::storage_backend as wire;
use crate::wire::{bytes, document, health, optional_bytes};
use crate::{Answer, Code, Document, Driver, Error, Failure, Mode, Pem, Target, Update, json};
use call::{Call, Kind};
use link::Link;

/// Where a backend is and how it is spoken to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// `host:port`, `http://host:port`, `https://host:port`, `grpc://host:port`, `unix:/path`.
    pub url: String,
    pub mode: Mode,
    pub encoding: Encoding,
    /// Without it only `https://` and `grpcs://` speak TLS, and trust whom this machine trusts.
    pub tls: Option<ClientTls>,
    pub limits: Limits,
}

/// What bytes of a backend may be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Encoding {
    /// JSON, or it is an error.
    #[default]
    Strict,
    /// As the original took them: what is not JSON is a text.
    Legacy,
}

/// Whom we trust and who we are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientTls {
    /// Authorities; without them, those of this machine.
    pub authorities: Option<Pem>,
    /// Our certificate with its intermediates, and its key.
    pub identity: Option<(Pem, Pem)>,
    /// The name in the backend's certificate, where it is not the host of the url.
    pub server_name: Option<String>,
}

/// Bounds of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// For one connection, with its handshakes.
    pub connect_within: Duration,
    /// The longest message, either way.
    pub message_bytes: usize,
    /// How often a call is tried.
    pub attempts: u32,
    /// How long a connection under load may be silent before it is asked whether it is there; it has as long to answer.
    pub ping_every: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            connect_within: Duration::from_secs(3),
            message_bytes: 32 << 20,
            attempts: 4,
            ping_every: Duration::from_secs(10),
        }
    }
}

impl Endpoint {
    /// With the usual limits, JSON only, and TLS only if the url says so.
    pub fn new(url: impl Into<String>, mode: Mode) -> Endpoint {
        Endpoint { url: url.into(), mode, encoding: Encoding::Strict, tls: None, limits: Limits::default() }
    }
}

/// A storage backend of somebody else. Connects when first called.
#[derive(Clone, Debug)]
pub struct Client {
    link: Arc<Link>,
    mode: Mode,
    encoding: Encoding,
}

impl Client {
    /// Fails if the url or the certificates make no sense; whether somebody is there, calls tell.
    pub fn new(endpoint: &Endpoint) -> Result<Client, Error> {
        let link = Arc::new(Link::new(endpoint)?);
        Ok(Client { link, mode: endpoint.mode, encoding: endpoint.encoding })
    }

    fn call<'a>(&'a self, rpc: &'static str, kind: Kind, target: &Target<'a>) -> Call<'a> {
        let service = match self.mode {
            Mode::Value => "storage_backend.ValueAndContextStorageBackend",
            Mode::Context => "storage_backend.ContextStorageBackend",
        };
        Call { link: &self.link, service, rpc, kind, within: target.within, sent: vec![target.context] }
    }

    /// A change takes its own time over the wire, so that what arrives too late is not done.
    fn change<'a>(&'a self, rpc: &'static str, target: &Target<'a>) -> (Call<'a>, u64) {
        (self.call(rpc, Kind::Change, target), crate::wire::deadline_ms(target.within))
    }

    /// What a backend answered, as JSON.
    fn received(&self, call: &Call<'_>, id: &str, what: &str, bytes: Option<bytes::Bytes>) -> Received {
        let Some(Document(bytes)) = document(bytes) else { return Ok(None) };
        if json::is_json(&bytes) {
            return Ok(Some(Document(bytes)));
        }
        let text = match self.encoding {
            Encoding::Strict => None,
            Encoding::Legacy => std::str::from_utf8(&bytes).ok(),
        };
        let refused = || {
            let cure = match self.encoding {
                Encoding::Strict => "register the backend with `encoding: legacy` if it keeps plain texts",
                Encoding::Legacy => "only JSON and UTF-8 text can be read",
            };
            let of = if id.is_empty() { String::new() } else { format!(" of TypeInstance \"{id}\"") };
            let details = format!("the {what}{of} is not JSON ({} bytes): {cure}", bytes.len());
            Failure::new(Code::Internal, call.text("INTERNAL", &details))
        };
        text.map(|text| Some(Document(json::string(text)))).ok_or_else(refused)
    }
}

type Received = Result<Option<Document>, Failure>;

impl Driver for Client {
    fn mode(&self) -> Mode {
        self.mode
    }

    fn get_value<'a>(&'a self, target: Target<'a>, version: u32) -> Answer<'a, Option<Document>> {
        Box::pin(async move {
            let call = self.call("GetValue", Kind::Read, &target);
            let request = wire::GetValueRequest {
                type_instance_id: target.id.to_owned(),
                resource_version: version,
                context: bytes(target.context),
            };
            let answer: wire::GetValueResponse = call.run(request).await?;
            self.received(&call, target.id, "value", answer.value)
        })
    }

    fn get_pre_create_value<'a>(&'a self, target: Target<'a>) -> Answer<'a, Option<Document>> {
        Box::pin(async move {
            let call = self.call("GetPreCreateValue", Kind::Read, &target);
            if self.mode == Mode::Value {
                return Err(call.unfit(Code::Unimplemented, "a backend that takes values has none before"));
            }
            let request = wire::GetPreCreateValueRequest { context: bytes(target.context) };
            let answer: wire::GetPreCreateValueResponse = call.run(request).await?;
            self.received(&call, target.id, "value", answer.value)
        })
    }

    fn on_create<'a>(&'a self, target: Target<'a>, value: Option<&'a Document>) -> Answer<'a, Option<Document>> {
        Box::pin(async move {
            let (mut call, deadline_ms) = self.change("OnCreate", &target);
            call.sent.push(value);
            let (type_instance_id, idempotency_key) = (target.id.to_owned(), target.key.to_owned());
            let context = match self.mode {
                Mode::Value => {
                    let (value, context) = (bytes(value), optional_bytes(target.context));
                    let request = wire::OnCreateValueAndContextRequest {
                        type_instance_id,
                        value,
                        context,
                        deadline_ms,
                        idempotency_key,
                    };
                    call.run::<_, wire::OnCreateResponse>(request).await?.context
                }
                Mode::Context => {
                    call.without_value(value)?;
                    let context = bytes(target.context);
                    let request = wire::OnCreateRequest { type_instance_id, context, deadline_ms, idempotency_key };
                    call.run::<_, wire::OnCreateResponse>(request).await?.context
                }
            };
            self.received(&call, target.id, "context", context)
        })
    }

    fn on_update<'a>(&'a self, target: Target<'a>, update: Update<'a>) -> Answer<'a, Option<Document>> {
        Box::pin(async move {
            let (mut call, deadline_ms) = self.change("OnUpdate", &target);
            call.sent.extend([update.value, update.old_context]);
            let (type_instance_id, idempotency_key) = (target.id.to_owned(), target.key.to_owned());
            let (new_resource_version, old_resource_version) = (update.version, update.old_version);
            let (owner_id, old_context) = (update.owner.map(str::to_owned), optional_bytes(update.old_context));
            let context = match self.mode {
                Mode::Value => {
                    let request = wire::OnUpdateValueAndContextRequest {
                        type_instance_id,
                        new_resource_version,
                        new_value: bytes(update.value),
                        context: optional_bytes(target.context),
                        owner_id,
                        deadline_ms,
                        idempotency_key,
                        old_resource_version,
                        old_context,
                    };
                    call.run::<_, wire::OnUpdateResponse>(request).await?.context
                }
                Mode::Context => {
                    call.without_value(update.value)?;
                    let request = wire::OnUpdateRequest {
                        type_instance_id,
                        new_resource_version,
                        context: bytes(target.context),
                        owner_id,
                        deadline_ms,
                        idempotency_key,
                        old_resource_version,
                        old_context,
                    };
                    call.run::<_, wire::OnUpdateResponse>(request).await?.context
                }
            };
            self.received(&call, target.id, "context", context)
        })
    }

    fn on_delete<'a>(&'a self, target: Target<'a>, owner: Option<&'a str>) -> Answer<'a, ()> {
        Box::pin(async move {
            let (call, deadline_ms) = self.change("OnDelete", &target);
            let (type_instance_id, idempotency_key) = (target.id.to_owned(), target.key.to_owned());
            let owner_id = owner.map(str::to_owned);
            let answered: Result<wire::OnDeleteResponse, _> = match self.mode {
                Mode::Value => {
                    let context = optional_bytes(target.context);
                    let request = wire::OnDeleteValueAndContextRequest {
                        type_instance_id,
                        context,
                        owner_id,
                        deadline_ms,
                        idempotency_key,
                    };
                    call.run(request).await
                }
                Mode::Context => {
                    let context = bytes(target.context);
                    let request =
                        wire::OnDeleteRequest { type_instance_id, context, owner_id, deadline_ms, idempotency_key };
                    call.run(request).await
                }
            };
            answered.map(drop)
        })
    }

    fn on_delete_revision<'a>(&'a self, target: Target<'a>, version: u32, owner: Option<&'a str>) -> Answer<'a, ()> {
        Box::pin(async move {
            let (call, deadline_ms) = self.change("OnDeleteRevision", &target);
            let (type_instance_id, idempotency_key) = (target.id.to_owned(), target.key.to_owned());
            let (owner_id, resource_version) = (owner.map(str::to_owned), version);
            let answered: Result<wire::OnDeleteRevisionResponse, _> = match self.mode {
                Mode::Value => {
                    let context = optional_bytes(target.context);
                    let request = wire::OnDeleteRevisionValueAndContextRequest {
                        type_instance_id,
                        context,
                        owner_id,
                        resource_version,
                        deadline_ms,
                        idempotency_key,
                    };
                    call.run(request).await
                }
                Mode::Context => {
                    let request = wire::OnDeleteRevisionRequest {
                        type_instance_id,
                        owner_id,
                        resource_version,
                        deadline_ms,
                        idempotency_key,
                    };
                    call.run(request).await
                }
            };
            answered.map(drop)
        })
    }

    fn get_locked_by<'a>(&'a self, target: Target<'a>) -> Answer<'a, Option<String>> {
        Box::pin(async move {
            let call = self.call("GetLockedBy", Kind::Read, &target);
            let (type_instance_id, context) = (target.id.to_owned(), bytes(target.context));
            let request = wire::GetLockedByRequest { type_instance_id, context };
            let answer: wire::GetLockedByResponse = call.run(request).await?;
            Ok(answer.locked_by.filter(|owner| !owner.is_empty()))
        })
    }

    fn on_lock<'a>(&'a self, target: Target<'a>, owner: &'a str) -> Answer<'a, ()> {
        Box::pin(async move {
            let (call, deadline_ms) = self.change("OnLock", &target);
            let request = wire::OnLockRequest {
                type_instance_id: target.id.to_owned(),
                context: bytes(target.context),
                locked_by: owner.to_owned(),
                deadline_ms,
                idempotency_key: target.key.to_owned(),
            };
            call.run::<_, wire::OnLockResponse>(request).await.map(drop)
        })
    }

    fn on_unlock<'a>(&'a self, target: Target<'a>) -> Answer<'a, ()> {
        Box::pin(async move {
            let (call, deadline_ms) = self.change("OnUnlock", &target);
            let request = wire::OnUnlockRequest {
                type_instance_id: target.id.to_owned(),
                context: bytes(target.context),
                deadline_ms,
                idempotency_key: target.key.to_owned(),
            };
            call.run::<_, wire::OnUnlockResponse>(request).await.map(drop)
        })
    }

    /// A backend without the health service, as the original's are, is alive if it says so itself.
    fn health(&self, within: Duration) -> Answer<'_, ()> {
        Box::pin(async move {
            let (service, rpc) = ("grpc.health.v1.Health", "Check");
            let call = Call { link: &self.link, service, rpc, kind: Kind::Read, within, sent: Vec::new() };
            let request = health::HealthCheckRequest { service: String::new() };
            match call.run::<_, health::HealthCheckResponse>(request).await {
                Ok(answer) if answer.status() == health::health_check_response::ServingStatus::Serving => Ok(()),
                Ok(_) => {
                    Err(Failure::new(Code::Unavailable, call.text("UNAVAILABLE", "it says that it does not serve")))
                }
                Err(failure) if matches!(failure.code, Code::Unimplemented | Code::NotFound) => Ok(()),
                Err(failure) => Err(failure),
            }
        })
    }
}
