//! One call from outside against the driver: its deadline, its turn, and its end as a status.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout_at};
use tonic::metadata::{MetadataMap, MetadataValue};
use tonic::{Request, Response, Status};

use super::ServerLimits;
use crate::wire::health::health_check_response::ServingStatus;
use crate::wire::health::health_server::Health;
use crate::wire::health::{HealthCheckRequest, HealthCheckResponse};
use crate::wire::{NOTHING_DONE, document, until_ms};
use crate::{Code, Document, Driver, Failure, Target};

/// How long a driver is asked whether it serves.
const HEALTH_WITHIN: Duration = Duration::from_secs(5);

/// The driver and who has a turn.
#[derive(Clone, Debug)]
pub(super) struct Calls {
    driver: Arc<dyn Driver>,
    limits: ServerLimits,
    turns: Arc<Semaphore>,
}

/// What a call is about, in its own memory: it goes on when whoever called hangs up.
#[derive(Debug)]
pub(super) struct Subject {
    pub(super) id: String,
    pub(super) context: Option<Document>,
    pub(super) key: String,
}

impl Subject {
    /// Of a call that changes nothing.
    pub(super) fn read(id: String, context: impl Into<Option<Bytes>>) -> Subject {
        Subject::change(id, context, String::new())
    }

    pub(super) fn change(id: String, context: impl Into<Option<Bytes>>, key: String) -> Subject {
        Subject { id, context: document(context), key }
    }

    pub(super) fn target(&self, within: Duration) -> Target<'_> {
        Target { id: &self.id, context: self.context.as_ref(), key: &self.key, within }
    }
}

impl Calls {
    pub(super) fn new(driver: Arc<dyn Driver>, limits: ServerLimits) -> Calls {
        Calls { driver, limits, turns: Arc::new(Semaphore::new(limits.calls)) }
    }

    /// The message of a request, and how long its caller waits.
    pub(super) fn open<T>(&self, request: Request<T>) -> (T, Duration) {
        let within = timeout(request.metadata()).unwrap_or(self.limits.within);
        (request.into_inner(), within)
    }

    /// The same for a change: what comes after its deadline is not done.
    pub(super) fn open_change<T>(&self, request: Request<T>, deadline: fn(&T) -> u64) -> Result<(T, Duration), Status> {
        let (message, within) = self.open(request);
        match deadline(&message) {
            0 => Ok((message, within)),
            deadline => match until_ms(deadline) {
                Duration::ZERO => Err(Status::deadline_exceeded(
                    "the caller's deadline was over when the request came: nothing was done; if it never succeeds, compare \
                     the clocks of the two machines",
                )),
                left => Ok((message, within.min(left))),
            },
        }
    }

    /// Runs it to its end, whoever still waits for it.
    pub(super) async fn run<T, W, F>(&self, within: Duration, work: W) -> Result<T, Status>
    where
        T: Send + 'static,
        W: FnOnce(Arc<dyn Driver>, Duration) -> F + Send + 'static,
        F: Future<Output = Result<T, Failure>> + Send + 'static,
    {
        let deadline = Instant::now() + within;
        let turn = timeout_at(deadline, self.turns.clone().acquire_owned()).await;
        let Ok(Ok(turn)) = turn else {
            return Err(status(&Failure::new(Code::Unavailable, "too many calls at a time: nothing was done")));
        };
        let driver = self.driver.clone();
        let running = tokio::spawn(async move {
            let _turn = turn;
            work(driver, deadline.saturating_duration_since(Instant::now())).await
        });
        match running.await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(failure)) => Err(status(&failure)),
            Err(_) => Err(Status::internal("the driver broke off")),
        }
    }
}

#[tonic::async_trait]
impl Health for Calls {
    async fn check(&self, request: Request<HealthCheckRequest>) -> Result<Response<HealthCheckResponse>, Status> {
        let (message, within) = self.open(request);
        if !message.service.is_empty() && !message.service.starts_with("storage_backend.") {
            return Err(Status::not_found("service: unknown"));
        }
        let within = within.min(HEALTH_WITHIN);
        let serving = match self.run(within, move |driver, within| async move { driver.health(within).await }).await {
            Ok(()) => ServingStatus::Serving,
            Err(_) => ServingStatus::NotServing,
        };
        Ok(Response::new(HealthCheckResponse { status: serving.into() }))
    }
}

fn status(failure: &Failure) -> Status {
    let code = match failure.code {
        Code::InvalidArgument => tonic::Code::InvalidArgument,
        Code::NotFound => tonic::Code::NotFound,
        Code::AlreadyExists => tonic::Code::AlreadyExists,
        Code::FailedPrecondition => tonic::Code::FailedPrecondition,
        Code::PermissionDenied => tonic::Code::PermissionDenied,
        Code::Unavailable => tonic::Code::Unavailable,
        Code::DeadlineExceeded => tonic::Code::DeadlineExceeded,
        Code::Unknown => tonic::Code::Unknown,
        Code::Internal => tonic::Code::Internal,
        Code::Unimplemented => tonic::Code::Unimplemented,
    };
    let mut status = Status::new(code, &failure.text);
    if failure.code == Code::Unavailable {
        status.metadata_mut().insert(NOTHING_DONE, MetadataValue::from_static("1"));
    }
    status
}

/// How long the caller waits, as gRPC says it: up to eight digits and a unit.
fn timeout(headers: &MetadataMap) -> Option<Duration> {
    let text = headers.get("grpc-timeout")?.to_str().ok()?;
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let number: u64 = digits.parse().ok().filter(|_| digits.len() <= 8)?;
    match unit {
        "H" => Some(Duration::from_secs(number * 3600)),
        "M" => Some(Duration::from_secs(number * 60)),
        "S" => Some(Duration::from_secs(number)),
        "m" => Some(Duration::from_millis(number)),
        "u" => Some(Duration::from_micros(number)),
        "n" => Some(Duration::from_nanos(number)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_a_caller_is_read_as_grpc_writes_it() {
        let table = [
            ("5S", Some(Duration::from_secs(5))),
            ("1500m", Some(Duration::from_millis(1500))),
            ("2M", Some(Duration::from_secs(120))),
            ("1H", Some(Duration::from_secs(3600))),
            ("99999999u", Some(Duration::from_micros(99_999_999))),
            ("7n", Some(Duration::from_nanos(7))),
            ("100000000S", None),
            ("-1S", None),
            ("5", None),
            ("5s", None),
            ("", None),
        ];
        for (text, expected) in table {
            let mut headers = MetadataMap::new();
            headers.insert("grpc-timeout", text.parse().unwrap());
            assert_eq!(timeout(&headers), expected, "{text:?}");
        }
        assert_eq!(timeout(&MetadataMap::new()), None);
    }

    #[test]
    fn only_what_certainly_did_not_take_place_is_marked_so() {
        assert!(status(&Failure::new(Code::Unavailable, "")).metadata().contains_key(NOTHING_DONE));
        for code in [Code::Unknown, Code::Internal, Code::DeadlineExceeded, Code::NotFound] {
            assert!(!status(&Failure::new(code, "")).metadata().contains_key(NOTHING_DONE), "{code:?}");
        }
    }
}
