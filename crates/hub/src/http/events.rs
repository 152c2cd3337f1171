//! Answers as events: `next` with a result, `complete` at the end, as GraphQL over server-sent events has them.
//!
//! Who follows is vouched for again and again: when the credentials end, so does the stream.

use std::convert::Infallible;
use std::time::Duration;

use access::http::{Caller, Problem};
use async_graphql::Response as Answer;
use axum::extract::FromRequestParts as _;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse as _, Response};
use futures::StreamExt as _;
use futures::stream::{BoxStream, unfold};
use http::StatusCode;
use http::request::Parts;
use serde_json::json;
use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio::time::{Instant, sleep_until};

use super::Http;
use crate::graphql::Prepared;
use crate::guard::Guard;

/// How often the caller's credentials are looked at again.
const LOOK_AGAIN: Duration = Duration::from_secs(5);
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// The stream of answers to a request that was looked at.
pub(super) fn stream(http: Http, parts: Parts, caller: Caller, prepared: Prepared) -> Result<Response, Problem> {
    let place = http.0.followers.clone().try_acquire_owned().map_err(|_| {
        let hint = "try again later, or ask the operator to raise hub.followers";
        Problem::new(StatusCode::TOO_MANY_REQUESTS, "too many follow the hub already", hint)
    })?;
    let guard = Guard::new(http.0.hub.clone(), caller.clone(), http.0.settings.limits);
    let (guards, followed) = watch::channel(guard);
    let answers = http.0.api.follow(followed, prepared);
    let stop = http.0.settings.stop.clone();
    let looked = Instant::now();
    let following = Following { http, parts, caller, guards, answers, stop, looked, at: At::Answers, _place: place };
    let events = unfold(following, |mut following| async move {
        let event = following.next().await?;
        Some((Ok::<_, Infallible>(event), following))
    });
    let keep_alive = KeepAlive::new().interval(KEEP_ALIVE).text("still here");
    // Proxies that gather answers would keep events back.
    let headers = [("cache-control", "no-store"), ("x-accel-buffering", "no")];
    Ok((headers, Sse::new(events).keep_alive(keep_alive)).into_response())
}

struct Following {
    http: Http,
    /// What the request showed of its caller, to be looked at again.
    parts: Parts,
    caller: Caller,
    guards: watch::Sender<Guard>,
    answers: BoxStream<'static, Answer>,
    stop: watch::Receiver<bool>,
    looked: Instant,
    at: At,
    _place: OwnedSemaphorePermit,
}

/// How far a stream is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    Answers,
    Complete,
    End,
}

/// Why a stream does something.
enum Woken {
    Clock,
    Stop,
    Answer(Option<Box<Answer>>),
}

impl Following {
    async fn next(&mut self) -> Option<Event> {
        loop {
            match self.at {
                At::End => return None,
                At::Complete => {
                    self.at = At::End;
                    return Some(Event::default().event("complete").data(""));
                }
                At::Answers => {}
            }
            // By the clock first: a busy hub must not keep an identity alive.
            let woken = tokio::select! {
                biased;
                () = sleep_until(self.looked + LOOK_AGAIN) => Woken::Clock,
                _ = self.stop.wait_for(|stop| *stop) => Woken::Stop,
                answer = self.answers.next() => Woken::Answer(answer.map(Box::new)),
            };
            match woken {
                Woken::Clock => {
                    self.looked = Instant::now();
                    if let Some(reason) = self.look_again().await {
                        return Some(self.end("UNAUTHENTICATED", reason));
                    }
                }
                Woken::Stop => return Some(self.end("UNAVAILABLE", "the server stops: connect again")),
                Woken::Answer(Some(answer)) => {
                    return Some(next(&serde_json::to_string(&answer).unwrap_or_default()));
                }
                Woken::Answer(None) => self.at = At::Complete,
            }
        }
    }

    /// Why the stream cannot go on, if so.
    async fn look_again(&mut self) -> Option<&'static str> {
        let Ok(caller) = Caller::from_request_parts(&mut self.parts, &self.http).await else {
            return Some("the credentials are no longer good");
        };
        let (now, before) = (caller.identity(), self.caller.identity());
        if (&now.user, &now.uid, now.source) != (&before.user, &before.uid, before.source) {
            return Some("the caller is somebody else now: connect again");
        }
        let guard = Guard::new(self.http.0.hub.clone(), caller.clone(), self.http.0.settings.limits);
        self.guards.send_replace(guard);
        self.caller = caller;
        None
    }

    fn end(&mut self, code: &str, reason: &str) -> Event {
        self.at = At::Complete;
        self.answers = futures::stream::empty().boxed();
        let error = json!({ "errors": [{ "message": reason, "extensions": { "code": code } }] });
        next(&error.to_string())
    }
}

fn next(result: &str) -> Event {
    Event::default().event("next").data(result)
}
