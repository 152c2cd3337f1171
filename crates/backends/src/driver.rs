//! What a place must be able to do to keep values for somebody else, who keeps the records.
//!
//! The methods are those of the protocol `storage_backend`, so that a driver can be served as it is, and a client of a served
//! one is a driver, too. Adding a driver = one file beside its siblings, one line in their list, one in the conformance suite.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;

/// What every call returns.
pub type Answer<'a, T> = BoxFuture<'a, Result<T, Failure>>;

/// A place that keeps values, or that knows where they are.
///
/// Whoever calls may call again after an answer was lost: each call is repeated with the same [`Target::key`], and a driver
/// answers it as if it had been the first. A driver that cannot tell says [`Code::AlreadyExists`] or [`Code::NotFound`], and the
/// caller reads back.
pub trait Driver: fmt::Debug + Send + Sync + 'static {
    fn mode(&self) -> Mode;

    /// The value of a version; `None` where the driver has none.
    fn get_value<'a>(&'a self, target: Target<'a>, version: u32) -> Answer<'a, Option<Document>>;

    /// The value that a record of this context would have. Only in [`Mode::Context`].
    fn get_pre_create_value<'a>(&'a self, target: Target<'a>) -> Answer<'a, Option<Document>>;

    /// A record has begun, with version 1. The answer is the context to keep in place of the one that was sent, if any.
    fn on_create<'a>(&'a self, target: Target<'a>, value: Option<&'a Document>) -> Answer<'a, Option<Document>>;

    /// A record has a new version. The answer is as in [`Driver::on_create`].
    fn on_update<'a>(&'a self, target: Target<'a>, update: Update<'a>) -> Answer<'a, Option<Document>>;

    /// A record has ended, with all its versions.
    fn on_delete<'a>(&'a self, target: Target<'a>, owner: Option<&'a str>) -> Answer<'a, ()>;

    /// One version is to be undone.
    fn on_delete_revision<'a>(&'a self, target: Target<'a>, version: u32, owner: Option<&'a str>) -> Answer<'a, ()>;

    fn get_locked_by<'a>(&'a self, target: Target<'a>) -> Answer<'a, Option<String>>;

    fn on_lock<'a>(&'a self, target: Target<'a>, owner: &'a str) -> Answer<'a, ()>;

    fn on_unlock<'a>(&'a self, target: Target<'a>) -> Answer<'a, ()>;

    /// Whether it can be reached and serves.
    fn health(&self, within: Duration) -> Answer<'_, ()>;
}

/// Which of the two services of the protocol a driver is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// `ValueAndContextStorageBackend`: it takes values.
    Value,
    /// `ContextStorageBackend`: a context says where the value is.
    Context,
}

/// What a call is about, and how long it may take.
#[derive(Clone, Copy, Debug)]
pub struct Target<'a> {
    /// The id of the record.
    pub id: &'a str,
    pub context: Option<&'a Document>,
    /// The same for every repetition of one call; empty where a call changes nothing.
    pub key: &'a str,
    /// For the call with all its repetitions.
    pub within: Duration,
}

/// What a new version brings.
#[derive(Clone, Copy, Debug)]
pub struct Update<'a> {
    pub version: u32,
    /// In [`Mode::Value`] always there: the whole value, changed or not.
    pub value: Option<&'a Document>,
    pub owner: Option<&'a str>,
    pub old_version: u32,
    pub old_context: Option<&'a Document>,
}

/// JSON as bytes. It may be a secret: Debug does not show it.
#[derive(Clone, PartialEq, Eq)]
pub struct Document(pub Bytes);

impl fmt::Debug for Document {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Document({} bytes)", self.0.len())
    }
}

/// Why a call failed. Its text is the driver's own and never holds a value or a context.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct Failure {
    pub code: Code,
    pub text: String,
}

impl Failure {
    pub fn new(code: Code, text: impl Into<String>) -> Failure {
        Failure { code, text: text.into() }
    }
}

/// What a failure means to the caller; the names are those of gRPC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Code {
    InvalidArgument,
    NotFound,
    AlreadyExists,
    FailedPrecondition,
    PermissionDenied,
    /// It never got there: nothing took place.
    Unavailable,
    /// It may have taken place, and may still.
    DeadlineExceeded,
    /// The same: the connection ended before the answer.
    Unknown,
    /// The answer makes no sense, or the other side broke: it may have taken place.
    Internal,
    /// The other side does not know the method.
    Unimplemented,
}

impl Code {
    /// Whether a change that failed so has certainly not taken place. After any other code it may have, and after
    /// [`Code::DeadlineExceeded`] and [`Code::Unknown`] it still may.
    pub fn is_certain(self) -> bool {
        match self {
            Code::InvalidArgument
            | Code::NotFound
            | Code::AlreadyExists
            | Code::FailedPrecondition
            | Code::PermissionDenied
            | Code::Unavailable
            | Code::Unimplemented => true,
            Code::DeadlineExceeded | Code::Unknown | Code::Internal => false,
        }
    }
}
