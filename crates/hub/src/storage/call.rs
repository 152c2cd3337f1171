//! Calls of a backend: always with an end, and with what is known of whether they took place.

use std::time::{Duration, Instant};

use backends::{Answer, Code, Document, Failure, Mode, Target, Update};

use super::Backend;
use crate::Json;
use crate::rules::texts::Fault;
use crate::{Error, Reason};

/// What a call is about: a record, the key of all repetitions, and when it has to be over.
#[derive(Clone, Debug)]
pub(crate) struct Call<'a> {
    pub(crate) record: &'a str,
    pub(crate) key: String,
    pub(crate) until: Instant,
}

impl<'a> Call<'a> {
    /// A call that changes nothing needs no key.
    pub(crate) fn reading(record: &'a str, within: Duration) -> Call<'a> {
        Call { record, key: String::new(), until: Instant::now() + within }
    }

    /// Another call about the same, with a key of its own.
    pub(crate) fn after(&self, what: impl std::fmt::Display) -> Call<'a> {
        Call { key: format!("{}:{what}", self.key), ..self.clone() }
    }
}

/// A call that failed.
#[derive(Clone, Debug)]
pub(crate) struct Trouble {
    pub(crate) code: Code,
    pub(crate) text: String,
    /// Whether something of it may be left at the backend.
    pub(crate) landed: Landed,
}

/// What may be left of a call that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Landed {
    No,
    /// It may have taken place, and may still.
    Perhaps,
}

/// How much longer than its limit a driver may take before nobody waits for it any more.
const PATIENCE: Duration = Duration::from_millis(250);
/// Of a driver's text, this much is passed on.
const LONGEST_TEXT: usize = 1024;

impl Trouble {
    pub(crate) fn new(code: Code, text: String) -> Trouble {
        let landed = match code {
            Code::DeadlineExceeded | Code::Unknown | Code::Internal => Landed::Perhaps,
            _ => Landed::No,
        };
        Trouble { code, text, landed }
    }

    /// Of a call that changes nothing, nothing is left.
    pub(crate) fn without_traces(self) -> Trouble {
        Trouble { landed: Landed::No, ..self }
    }

    pub(crate) fn fault(&self) -> Fault {
        Fault::new(Reason::Backend, self.text.clone())
    }

    pub(crate) fn error(&self) -> Error {
        Error::refused(Reason::Backend, self.text.clone())
    }

    fn of(backend: &Backend, method: &str, failure: &Failure) -> Trouble {
        // The original's clients see the words of its own.
        let service = match backend.config.mode {
            Mode::Value => "ValueAndContextStorageBackend",
            Mode::Context => "ContextStorageBackend",
        };
        let told: String = failure.text.chars().take(LONGEST_TEXT).collect();
        // A client of the protocol has named the method already.
        let text = if told.starts_with('/') {
            format!("ClientError: {told}")
        } else {
            format!("ClientError: /storage_backend.{service}/{method} {}: {told}", code_name(failure.code))
        };
        Trouble::new(failure.code, text)
    }
}

/// As gRPC writes it.
pub(crate) fn code_name(code: Code) -> &'static str {
    match code {
        Code::InvalidArgument => "INVALID_ARGUMENT",
        Code::NotFound => "NOT_FOUND",
        Code::AlreadyExists => "ALREADY_EXISTS",
        Code::FailedPrecondition => "FAILED_PRECONDITION",
        Code::PermissionDenied => "PERMISSION_DENIED",
        Code::Unavailable => "UNAVAILABLE",
        Code::DeadlineExceeded => "DEADLINE_EXCEEDED",
        Code::Unknown => "UNKNOWN",
        Code::Internal => "INTERNAL",
        Code::Unimplemented => "UNIMPLEMENTED",
    }
}

/// What one version is to be at a backend.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    pub(crate) version: u32,
    pub(crate) value: Option<Json>,
    pub(crate) context: Option<Json>,
    pub(crate) old_context: Option<Json>,
    pub(crate) owner: Option<String>,
}

impl Backend {
    /// Creates a record there; the answer is the context to keep.
    pub(crate) async fn create(&self, call: &Call<'_>, wanted: &Wanted) -> Result<Option<Json>, Trouble> {
        let (context, value) = (document(wanted.context.as_ref()), document(wanted.value.as_ref()));
        let made = self.run("OnCreate", call, context.as_ref(), |target| self.driver.on_create(target, value.as_ref()));
        match made.await {
            // Nobody else has this id: it is an earlier attempt of the same call whose answer was lost.
            Err(trouble) if trouble.code == Code::AlreadyExists => {
                self.is_there(call, wanted).await.then_some(wanted.context.clone()).ok_or(trouble)
            }
            Err(trouble) => Err(trouble),
            Ok(answer) => self.accepted("OnCreate", wanted, answer),
        }
    }

    /// Adds a version there; the answer is the context to keep.
    pub(crate) async fn update(&self, call: &Call<'_>, wanted: &Wanted) -> Result<Option<Json>, Trouble> {
        match self.try_update(call, wanted).await {
            Err(trouble) if trouble.code == Code::AlreadyExists => {
                if self.is_there(call, wanted).await {
                    return Ok(wanted.context.clone());
                }
                // No version that the hub knows: something that was given up has landed late. Keys of their own, because
                // neither is a repetition of the call before.
                let (removal, again) = (call.after("remove"), call.after("again"));
                self.delete_version(&removal, wanted.version, wanted.context.as_ref(), wanted.owner.as_deref()).await?;
                self.try_update(&again, wanted).await
            }
            done => done,
        }
    }

    async fn try_update(&self, call: &Call<'_>, wanted: &Wanted) -> Result<Option<Json>, Trouble> {
        let (context, value) = (document(wanted.context.as_ref()), document(wanted.value.as_ref()));
        let old_context = document(wanted.old_context.as_ref());
        let update = Update {
            version: wanted.version,
            value: value.as_ref(),
            owner: wanted.owner.as_deref(),
            old_version: wanted.version.saturating_sub(1),
            old_context: old_context.as_ref(),
        };
        let answer = self.run("OnUpdate", call, context.as_ref(), |target| self.driver.on_update(target, update));
        self.accepted("OnUpdate", wanted, answer.await?)
    }

    /// Ends a record there. One that is not there has ended.
    pub(crate) async fn delete(
        &self,
        call: &Call<'_>,
        context: Option<&Json>,
        owner: Option<&str>,
    ) -> Result<(), Trouble> {
        let context = document(context);
        let done = self.run("OnDelete", call, context.as_ref(), |target| self.driver.on_delete(target, owner));
        without(Code::NotFound, done.await)
    }

    pub(crate) async fn delete_version(
        &self,
        call: &Call<'_>,
        version: u32,
        context: Option<&Json>,
        owner: Option<&str>,
    ) -> Result<(), Trouble> {
        let context = document(context);
        let done = self.run("OnDeleteRevision", call, context.as_ref(), |target| {
            self.driver.on_delete_revision(target, version, owner)
        });
        without(Code::NotFound, done.await)
    }

    /// Locks a record there; a backend that has no locks needs none.
    pub(crate) async fn lock(&self, call: &Call<'_>, context: Option<&Json>, owner: &str) -> Result<(), Trouble> {
        let given = document(context);
        let done = self.run("OnLock", call, given.as_ref(), |target| self.driver.on_lock(target, owner)).await;
        match without(Code::Unimplemented, done) {
            // An earlier attempt of the same call, perhaps.
            Err(trouble) if trouble.code == Code::FailedPrecondition => {
                let holder = self.locked_by(call, context).await.ok().flatten();
                if holder.as_deref() == Some(owner) { Ok(()) } else { Err(trouble) }
            }
            done => done,
        }
    }

    pub(crate) async fn unlock(&self, call: &Call<'_>, context: Option<&Json>) -> Result<(), Trouble> {
        let context = document(context);
        let done = self.run("OnUnlock", call, context.as_ref(), |target| self.driver.on_unlock(target)).await;
        without(Code::NotFound, without(Code::Unimplemented, done))
    }

    pub(crate) async fn locked_by(&self, call: &Call<'_>, context: Option<&Json>) -> Result<Option<String>, Trouble> {
        let context = document(context);
        let holder =
            self.run("GetLockedBy", call, context.as_ref(), |target| self.driver.get_locked_by(target)).await?;
        Ok(holder.filter(|holder| !holder.is_empty()))
    }

    pub(crate) async fn value(
        &self,
        call: &Call<'_>,
        version: u32,
        context: Option<&Json>,
    ) -> Result<Option<Json>, Trouble> {
        let context = document(context);
        let value = self.run("GetValue", call, context.as_ref(), |target| self.driver.get_value(target, version));
        self.readable("GetValue", value.await?)
    }

    /// The value of a version that the hub knows. Nothing is an answer only where nothing was written: what was is lost then,
    /// and a backend that makes values of contexts has made none.
    pub(crate) async fn kept_value(
        &self,
        call: &Call<'_>,
        version: u32,
        context: Option<&Json>,
        has_value: Option<bool>,
    ) -> Result<Option<Json>, Trouble> {
        let value = self.value(call, version, context).await?;
        let is_lost = match self.config.mode {
            Mode::Context => value.is_none(),
            // A value that is null is none.
            Mode::Value => has_value == Some(true) && value.as_ref().is_none_or(Json::is_null),
        };
        if !is_lost {
            return Ok(value);
        }
        let text =
            format!("External backend \"{}\": the answer to GetValue has no value of version {version}", self.id);
        Err(Trouble::new(Code::Internal, text))
    }

    pub(crate) async fn pre_create_value(&self, call: &Call<'_>, context: &Json) -> Result<Option<Json>, Trouble> {
        let context = document(Some(context));
        let value =
            self.run("GetPreCreateValue", call, context.as_ref(), |target| self.driver.get_pre_create_value(target));
        self.readable("GetPreCreateValue", value.await?)
    }

    pub(crate) async fn health(&self, within: Duration) -> Result<(), Trouble> {
        limited(within, self.driver.health(within)).await.map_err(|failure| Trouble::of(self, "Check", &failure))
    }

    /// Whether a version is there as it was wanted.
    async fn is_there(&self, call: &Call<'_>, wanted: &Wanted) -> bool {
        let found = self.value(call, wanted.version, wanted.context.as_ref()).await;
        found.is_ok_and(|found| match self.config.mode {
            Mode::Value => found == wanted.value,
            Mode::Context => found.is_some(),
        })
    }

    async fn run<'a, T>(
        &'a self,
        method: &str,
        call: &'a Call<'_>,
        context: Option<&'a Document>,
        start: impl FnOnce(Target<'a>) -> Answer<'a, T>,
    ) -> Result<T, Trouble> {
        let within = call.until.saturating_duration_since(Instant::now());
        let done = if within.is_zero() {
            Err(Failure::new(Code::Unavailable, "there was no time left to call it"))
        } else {
            limited(within, start(Target { id: call.record, context, key: &call.key, within })).await
        };
        done.map_err(|failure| Trouble::of(self, method, &failure))
    }

    /// The context to keep: what the backend answered, if it fits what it asks of contexts itself.
    fn accepted(&self, method: &str, wanted: &Wanted, answer: Option<Document>) -> Result<Option<Json>, Trouble> {
        let Some(context) = self.readable(method, answer)?.filter(|context| !context.is_null()) else {
            return Ok(wanted.context.clone());
        };
        let mut faults = self.config.context_faults(Some(&context));
        if self.config.context.is_none() {
            faults.push("it has no schema for contexts".to_owned());
        }
        if faults.is_empty() {
            return Ok(Some(context));
        }
        let text = format!("External backend \"{}\": invalid answer to {method}: {}", self.id, faults.join(", "));
        Err(Trouble::new(Code::Internal, text))
    }

    fn readable(&self, method: &str, document: Option<Document>) -> Result<Option<Json>, Trouble> {
        let Some(Document(bytes)) = document.filter(|document| !document.0.is_empty()) else { return Ok(None) };
        let json = std::str::from_utf8(&bytes).ok().and_then(|text| Json::parse(text).ok());
        let text = || format!("External backend \"{}\": the answer to {method} is not JSON", self.id);
        json.map(Some).ok_or_else(|| Trouble::new(Code::Internal, text()))
    }
}

fn document(json: Option<&Json>) -> Option<Document> {
    json.map(|json| Document(json.text().as_bytes().to_vec().into()))
}

/// A failure that means that there is nothing to do any more.
fn without(code: Code, done: Result<(), Trouble>) -> Result<(), Trouble> {
    match done {
        Err(trouble) if trouble.code == code => Ok(()),
        done => done,
    }
}

/// Whatever a driver does: it is not waited for much longer than it was given.
async fn limited<T>(within: Duration, answer: Answer<'_, T>) -> Result<T, Failure> {
    let over = |_| Failure::new(Code::DeadlineExceeded, format!("it did not answer within {} ms", within.as_millis()));
    tokio::time::timeout(within.saturating_add(PATIENCE), answer).await.map_err(over)?
}
