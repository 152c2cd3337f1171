//! One call: its deadline, its repetitions, and what its end means.

use std::error::Error as _;
use std::time::Duration;

use prost::Message;
use tokio::time::{Instant, sleep, timeout_at};
use tonic::client::Grpc;
use tonic::{Request, Status};
use tonic_prost::ProstCodec;

use super::details;
use super::link::{Link, NotSent};
use crate::wire::NOTHING_DONE;
use crate::{Code, Document, Failure};

/// The pause before the second attempt; it doubles.
const FIRST_PAUSE: Duration = Duration::from_millis(50);

/// What is called, for how long, and what is sent, so that nobody shows it.
pub(super) struct Call<'a> {
    pub(super) link: &'a Link,
    pub(super) service: &'static str,
    pub(super) rpc: &'static str,
    pub(super) kind: Kind,
    pub(super) within: Duration,
    pub(super) sent: Vec<Option<&'a Document>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Read,
    Change,
}

/// How an attempt failed.
#[derive(Debug)]
enum Fault {
    /// Not one byte of the request was written.
    NeverSent(String),
    /// It was written, and the connection ended.
    Lost,
    /// It was written, and nothing came.
    OutOfTime,
    Answered(Box<Status>),
}

impl Call<'_> {
    pub(super) async fn run<Q, A>(&self, request: Q) -> Result<A, Failure>
    where
        Q: Message + Clone + 'static,
        A: Message + Default + 'static,
    {
        let (length, limit) = (request.encoded_len(), self.link.limits.message_bytes);
        if length > limit {
            let details = format!("the request has {length} bytes, and {limit} is the most that may be sent");
            return Err(Failure::new(Code::InvalidArgument, self.text("RESOURCE_EXHAUSTED", &details)));
        }
        let deadline = Instant::now() + self.within;
        let mut pause = FIRST_PAUSE;
        let mut attempt = 1;
        loop {
            let fault = match self.attempt(request.clone(), deadline).await {
                Ok(answer) => return Ok(answer),
                Err(fault) => fault,
            };
            // Different callers are to come back at different times.
            let wait = pause.mul_f64(0.5 + fastrand::f64());
            let over = attempt >= self.link.limits.attempts || Instant::now() + wait >= deadline;
            if over || !fault.may_be_repeated(self.kind) {
                return Err(self.failure(fault));
            }
            sleep(wait).await;
            (attempt, pause) = (attempt + 1, pause * 2);
        }
    }

    async fn attempt<Q, A>(&self, message: Q, deadline: Instant) -> Result<A, Fault>
    where
        Q: Message + 'static,
        A: Message + Default + 'static,
    {
        let connected = timeout_at(deadline, self.link.connection()).await;
        let connection = match connected {
            Ok(connection) => connection.map_err(Fault::NeverSent)?,
            Err(_) => return Err(Fault::NeverSent(format!("no connection within {:?}", self.within))),
        };
        let mut request = Request::new(message);
        request.set_timeout(deadline.saturating_duration_since(Instant::now()));
        let path = format!("/{}/{}", self.service, self.rpc);
        let path = http::uri::PathAndQuery::from_maybe_shared(path)
            .map_err(|_| Fault::NeverSent("the name of the call cannot be sent".to_owned()))?;
        let mut grpc = Grpc::with_origin(connection.clone(), self.link.origin.clone())
            .max_decoding_message_size(self.link.limits.message_bytes);
        let calling = async {
            // It is ready, or it is over and was never sent on.
            grpc.ready().await.map_err(|_| NotSent::fault())?;
            grpc.unary(request, path, ProstCodec::<Q, A>::default()).await.map_err(Fault::of)
        };
        if let Ok(answered) = timeout_at(deadline, calling).await {
            return answered.map(tonic::Response::into_inner);
        }
        // Perhaps it is only half open: nobody else shall wait for it.
        self.link.retire(&connection).await;
        Err(Fault::OutOfTime)
    }

    /// The original's form of a failure.
    pub(super) fn text(&self, code: &str, details: &str) -> String {
        format!("/{}/{} {code}: {details}", self.service, self.rpc)
    }

    /// What must not be asked of a backend of this mode.
    pub(super) fn unfit(&self, code: Code, details: &str) -> Failure {
        let name = if code == Code::Unimplemented { "UNIMPLEMENTED" } else { "INVALID_ARGUMENT" };
        Failure::new(code, self.text(name, details))
    }

    pub(super) fn without_value(&self, value: Option<&Document>) -> Result<(), Failure> {
        match value {
            None => Ok(()),
            Some(_) => Err(self.unfit(Code::InvalidArgument, "this backend takes a context and no value")),
        }
    }

    fn failure(&self, fault: Fault) -> Failure {
        let perhaps = match self.kind {
            Kind::Read => "",
            Kind::Change => "; it may have taken place",
        };
        match fault {
            Fault::NeverSent(why) => Failure::new(Code::Unavailable, self.text("UNAVAILABLE", &details::plain(&why))),
            Fault::Lost => {
                let details = format!("the connection ended before the answer{perhaps}");
                Failure::new(Code::Unknown, self.text("UNKNOWN", &details))
            }
            Fault::OutOfTime => {
                let details = format!("no answer within {:?}{perhaps}", self.within);
                Failure::new(Code::DeadlineExceeded, self.text("DEADLINE_EXCEEDED", &details))
            }
            Fault::Answered(status) => {
                let sent: Vec<&Document> = self.sent.iter().copied().flatten().collect();
                let details = details::shown(status.message(), &sent);
                Failure::new(meaning(&status, self.kind), self.text(name(status.code()), &details))
            }
        }
    }
}

impl Fault {
    fn of(status: Status) -> Fault {
        match status.source() {
            // Statuses that were made here have a cause; those of the other side have none.
            None => Fault::Answered(Box::new(status)),
            Some(cause) if cause.is::<NotSent>() => NotSent::fault(),
            Some(_) => Fault::Lost,
        }
    }

    fn may_be_repeated(&self, kind: Kind) -> bool {
        match self {
            Fault::NeverSent(_) => true,
            Fault::Lost => kind == Kind::Read,
            Fault::OutOfTime => false,
            Fault::Answered(status) => {
                status.code() == tonic::Code::Unavailable && (kind == Kind::Read || nothing_done(status))
            }
        }
    }
}

impl NotSent {
    fn fault() -> Fault {
        Fault::NeverSent("the connection ended before the request".to_owned())
    }
}

fn nothing_done(status: &Status) -> bool {
    status.metadata().contains_key(NOTHING_DONE)
}

/// What a code of the other side means to whoever called. Where a change may have taken place, it says so.
fn meaning(status: &Status, kind: Kind) -> Code {
    match status.code() {
        tonic::Code::InvalidArgument => Code::InvalidArgument,
        tonic::Code::NotFound => Code::NotFound,
        tonic::Code::AlreadyExists => Code::AlreadyExists,
        tonic::Code::FailedPrecondition => Code::FailedPrecondition,
        tonic::Code::PermissionDenied | tonic::Code::Unauthenticated => Code::PermissionDenied,
        tonic::Code::Unimplemented => Code::Unimplemented,
        tonic::Code::DeadlineExceeded => Code::DeadlineExceeded,
        tonic::Code::Unavailable if kind == Kind::Read || nothing_done(status) => Code::Unavailable,
        // Among them is our own refusal to read an answer that is too long.
        tonic::Code::Internal | tonic::Code::DataLoss | tonic::Code::OutOfRange | tonic::Code::Ok => Code::Internal,
        tonic::Code::Unavailable
        | tonic::Code::Unknown
        | tonic::Code::Cancelled
        | tonic::Code::Aborted
        | tonic::Code::ResourceExhausted => Code::Unknown,
    }
}

fn name(code: tonic::Code) -> &'static str {
    match code {
        tonic::Code::Ok => "OK",
        tonic::Code::Cancelled => "CANCELLED",
        tonic::Code::Unknown => "UNKNOWN",
        tonic::Code::InvalidArgument => "INVALID_ARGUMENT",
        tonic::Code::DeadlineExceeded => "DEADLINE_EXCEEDED",
        tonic::Code::NotFound => "NOT_FOUND",
        tonic::Code::AlreadyExists => "ALREADY_EXISTS",
        tonic::Code::PermissionDenied => "PERMISSION_DENIED",
        tonic::Code::ResourceExhausted => "RESOURCE_EXHAUSTED",
        tonic::Code::FailedPrecondition => "FAILED_PRECONDITION",
        tonic::Code::Aborted => "ABORTED",
        tonic::Code::OutOfRange => "OUT_OF_RANGE",
        tonic::Code::Unimplemented => "UNIMPLEMENTED",
        tonic::Code::Internal => "INTERNAL",
        tonic::Code::Unavailable => "UNAVAILABLE",
        tonic::Code::DataLoss => "DATA_LOSS",
        tonic::Code::Unauthenticated => "UNAUTHENTICATED",
    }
}

#[cfg(test)]
mod tests {
    use tonic::metadata::MetadataValue;

    use super::*;

    #[test]
    fn a_change_is_repeated_only_if_nothing_can_have_taken_place() {
        let sure = |code| {
            let mut status = Status::new(code, "");
            status.metadata_mut().insert(NOTHING_DONE, MetadataValue::from_static("1"));
            Fault::Answered(Box::new(status))
        };
        let said = |code| Fault::Answered(Box::new(Status::new(code, "")));
        let table = [
            (Fault::NeverSent(String::new()), true, true),
            (Fault::Lost, true, false),
            (Fault::OutOfTime, false, false),
            (said(tonic::Code::Unavailable), true, false),
            (sure(tonic::Code::Unavailable), true, true),
            (sure(tonic::Code::Internal), false, false),
            (said(tonic::Code::Unknown), false, false),
            (said(tonic::Code::Aborted), false, false),
            (said(tonic::Code::NotFound), false, false),
        ];
        for (fault, read, change) in table {
            let both = (fault.may_be_repeated(Kind::Read), fault.may_be_repeated(Kind::Change));
            assert_eq!(both, (read, change), "{fault:?}");
        }
    }

    #[test]
    fn a_code_never_claims_more_than_is_known_of_a_change() {
        let change = |code| meaning(&Status::new(code, ""), Kind::Change);
        for code in [tonic::Code::Unavailable, tonic::Code::Aborted, tonic::Code::Cancelled, tonic::Code::Unknown] {
            assert_eq!(change(code), Code::Unknown, "{code:?}");
        }
        assert_eq!(change(tonic::Code::OutOfRange), Code::Internal);
        assert_eq!(change(tonic::Code::Unauthenticated), Code::PermissionDenied);
        assert_eq!(meaning(&Status::unavailable(""), Kind::Read), Code::Unavailable);
    }
}
