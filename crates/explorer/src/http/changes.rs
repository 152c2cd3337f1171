//! `/v1/changes`: server-sent events about the rows that a question finds.
//!
//! `ready` comes first: read all then, and apply what follows. `changed` has a row as it is now, `gone` names one that went or
//! may no longer be seen, `reset` says to read all again, `end` why nothing more comes. What has to be told is worked out when
//! the reader has taken the last of it, so that a slow reader costs a set and no queue; and anew when it has waited for long, so
//! that nothing is handed to whoever may no longer see it.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::time::{Duration, Instant};

use ::http::StatusCode;
use ::http::request::Parts;
use access::http::api::{self, Answer, Input, Operation, Route};
use access::http::{Caller, Problem};
use axum::extract::{FromRequestParts as _, Request, State};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use futures::stream::unfold;
use serde::Serialize;
use serde_json::{Value, json};
use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio::time::{sleep, sleep_until};

use super::Http;
use super::answers::ObjectAnswer;
use super::problem::bad_query;
use super::sessions::{EventId, Owner, Session};
use crate::index::{Found, Gone, Step};
use crate::query::Query;

const QUERY: Input = Input::text("query", "Only rows that this question finds, in the filter language");
const PARAMETERS: &[Input] = &[QUERY];
/// Changes that come together are told together.
const PAUSE: Duration = Duration::from_millis(100);
/// How often the caller's credentials are looked at again.
const LOOK_AGAIN: Duration = Duration::from_secs(5);
/// For so long a stream goes on while nobody can tell whether the credentials are still good.
const UNSURE: Duration = Duration::from_secs(15);
/// What has waited longer for its reader is looked at again.
const FRESH: Duration = Duration::from_secs(1);
/// More events at once are a reset.
const MOST_EVENTS: usize = 1000;
const KEEP_ALIVE: Duration = Duration::from_secs(15);

pub(super) const ROUTES: &[Route<Http>] = &[api::Route(
    || get(follow),
    Operation::new(
        "GET",
        "/v1/changes",
        "followChanges",
        "Server-sent events: ready, changed, gone, reset, end; Last-Event-ID goes on where a stream ended",
    )
    .needs("list or get, on each object that is told")
    .query(PARAMETERS)
    .answers(Answer::Other(events)),
)];

fn events() -> Value {
    json!({ "description": "A stream of events", "content": { "text/event-stream": { "schema": { "type": "string" } } } })
}

async fn follow(State(http): State<Http>, request: Request) -> Result<Response, Problem> {
    let (parts, _body) = request.into_parts();
    stream(http, parts).await
}

/// The stream for whoever these parts of a request show.
pub(super) async fn stream(http: Http, mut parts: Parts) -> Result<Response, Problem> {
    let caller = Caller::from_request_parts(&mut parts, &http).await?;
    let text = api::query(&parts.uri, PARAMETERS)?.text(QUERY.name).unwrap_or_default();
    let query = Query::parse(&text).map_err(|error| bad_query(&error))?;
    let place = http.0.followers.clone().try_acquire_owned().map_err(|_| {
        let hint = "try again later, or ask the operator to raise explorer.followers";
        Problem::new(StatusCode::TOO_MANY_REQUESTS, "too many follow changes already", hint)
    })?;
    let owner = Owner::new(caller.identity(), &text);
    let last = parts.headers.get("last-event-id").and_then(|value| value.to_str().ok()).and_then(EventId::read);
    let kept = last.and_then(|last| Some((http.0.sessions.take(last, &owner, Instant::now())?, last)));
    let resumes = last.is_some();
    let following = Following {
        changed: http.explorer().changed(),
        stop: http.settings().stop.clone(),
        http,
        parts,
        caller,
        query,
        owner,
        session: None,
        waiting: VecDeque::new(),
        told: Instant::now(),
        looked: tokio::time::Instant::now(),
        vouched: tokio::time::Instant::now(),
        ended: false,
        _place: place,
    };
    let following = following.begin(kept, resumes).await;
    let events = unfold(following, |mut following| async move {
        let event = following.next().await?;
        Some((Ok::<_, Infallible>(event), following))
    });
    let keep_alive = KeepAlive::new().interval(KEEP_ALIVE).text("still here");
    // Proxies that gather answers would keep events back.
    let headers = [("cache-control", "no-store"), ("x-accel-buffering", "no")];
    Ok((headers, Sse::new(events).keep_alive(keep_alive)).into_response())
}

/// Somebody at the other end of a stream.
struct Following {
    http: Http,
    /// What the request showed of its caller, to be looked at again.
    parts: Parts,
    caller: Caller,
    query: Query,
    owner: Owner,
    session: Option<Session>,
    waiting: VecDeque<Waiting>,
    /// When what waits was worked out.
    told: Instant,
    changed: watch::Receiver<u64>,
    stop: watch::Receiver<bool>,
    looked: tokio::time::Instant,
    /// When it was last said that the credentials are good.
    vouched: tokio::time::Instant,
    ended: bool,
    _place: OwnedSemaphorePermit,
}

/// An event on its way, and the row that it is about.
struct Waiting {
    event: Event,
    row: Option<Gone>,
}

impl Waiting {
    fn about_none(event: Event) -> Waiting {
        Waiting { event, row: None }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct GoneRow<'a> {
    id: &'a str,
    cluster: &'a str,
    namespace: &'a str,
    api_group: &'a str,
    kind: &'a str,
    name: &'a str,
}

impl Following {
    /// Goes on with what is left of an earlier stream, or begins anew.
    async fn begin(mut self, kept: Option<(Session, EventId)>, resumes: bool) -> Following {
        let sight = self.http.explorer().visibility(self.caller.identity()).await;
        self.changed.borrow_and_update();
        if let Some((mut session, last)) = kept
            && let Some(missed) = session.missed(last)
        {
            let (step, again) = self.http.explorer().read(|index| {
                let step = index.catch_up(&mut session.follower, &self.query, &sight, MOST_EVENTS);
                (step, index.tell_again(&session.follower, missed, &sight))
            });
            self.session = Some(session);
            if !matches!(step, Step::Reset) {
                self.tell(again.0, again.1);
            }
            self.take(step);
            return self;
        }
        let follower = self.http.explorer().read(|index| index.follow(&self.query, &sight));
        let mut session = Session::new(self.owner.clone(), follower);
        // Whoever wanted to go on and cannot has rows that may be wrong.
        let kind = if resumes { "reset" } else { "ready" };
        self.waiting.push_back(Waiting::about_none(event(kind, session.about_none(), &json!({}))));
        self.session = Some(session);
        self
    }

    /// The next event; `None` at the end.
    async fn next(&mut self) -> Option<Event> {
        loop {
            if !self.waiting.is_empty() && !self.ended && self.told.elapsed() >= FRESH {
                self.work_out_anew().await;
            }
            if let Some(Waiting { event, .. }) = self.waiting.pop_front() {
                return Some(event);
            }
            if self.ended {
                return None;
            }
            let look_again = self.looked + LOOK_AGAIN;
            let goes_on = tokio::select! {
                changed = self.changed.changed() => changed.is_ok(),
                () = sleep_until(look_again) => true,
                _ = self.stop.wait_for(|stop| *stop) => false,
            };
            if goes_on {
                sleep(PAUSE).await;
                self.step().await;
            } else {
                self.end("the server stops");
            }
        }
    }

    /// What waits for a slow reader is told as it is now: a row that was revoked meanwhile is gone.
    async fn work_out_anew(&mut self) {
        self.told = Instant::now();
        self.look_at_caller().await;
        let Some(session) = &self.session else { return };
        let sight = self.http.explorer().visibility(self.caller.identity()).await;
        let (about_rows, others): (VecDeque<Waiting>, VecDeque<Waiting>) =
            std::mem::take(&mut self.waiting).into_iter().partition(|waiting| waiting.row.is_some());
        let rows = about_rows.into_iter().filter_map(|waiting| waiting.row).collect();
        let (changed, gone) = self.http.explorer().read(|index| index.tell_again(&session.follower, rows, &sight));
        self.waiting = others;
        self.tell(changed, gone);
    }

    /// Ends the stream if the caller is no longer who they were.
    async fn look_at_caller(&mut self) {
        // By the clock, and not only when it is quiet: a busy cluster must not keep an identity alive.
        if self.looked.elapsed() < LOOK_AGAIN {
            return;
        }
        self.looked = tokio::time::Instant::now();
        match Caller::from_request_parts(&mut self.parts, &self.http).await {
            Ok(caller) if self.owner.is(caller.identity()) => (self.caller, self.vouched) = (caller, self.looked),
            Ok(_) => self.end("the caller is somebody else now: connect again"),
            Err(problem) if problem.status == StatusCode::UNAUTHORIZED => {
                self.end("the credentials are no longer good");
            }
            // Who vouches for them does not answer, or is asked too much.
            Err(_) if self.vouched.elapsed() < UNSURE => {}
            Err(_) => self.end("nobody can tell now whether the credentials are still good: connect again"),
        }
    }

    async fn step(&mut self) {
        self.look_at_caller().await;
        if self.ended {
            return;
        }
        self.changed.borrow_and_update();
        let sight = self.http.explorer().visibility(self.caller.identity()).await;
        let Some(mut session) = self.session.take() else { return };
        let step =
            self.http.explorer().read(|index| index.catch_up(&mut session.follower, &self.query, &sight, MOST_EVENTS));
        self.session = Some(session);
        self.take(step);
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::Told { changed, gone } => self.tell(changed, gone),
            Step::Reset => {
                let Some(session) = &mut self.session else { return };
                self.waiting.push_back(Waiting::about_none(event("reset", session.about_none(), &json!({}))));
            }
        }
    }

    fn tell(&mut self, changed: Vec<Found>, gone: Vec<Gone>) {
        let Some(session) = &mut self.session else { return };
        self.told = Instant::now();
        for row in gone {
            let id = session.about(row.clone());
            let Gone { key, id: row_id } = &row;
            let data = GoneRow {
                id: row_id,
                cluster: &key.cluster,
                namespace: &key.namespace,
                api_group: &key.group,
                kind: &key.kind,
                name: &key.name,
            };
            let event = event("gone", id, &data);
            self.waiting.push_back(Waiting { event, row: Some(row) });
        }
        for found in changed {
            let row = Gone { key: found.row.key.clone(), id: found.id.clone() };
            let id = session.about(row.clone());
            self.waiting.push_back(Waiting { event: event("changed", id, &ObjectAnswer::of(found)), row: Some(row) });
        }
    }

    /// Nothing more comes, and nobody goes on from here by credentials that ended.
    fn end(&mut self, reason: &str) {
        self.ended = true;
        self.session = None;
        self.waiting.clear();
        let data = json!({ "reason": reason }).to_string();
        self.waiting.push_back(Waiting::about_none(Event::default().event("end").data(data)));
    }
}

/// The other end went away: it may come back.
impl Drop for Following {
    fn drop(&mut self) {
        if let Some(session) = self.session.take() {
            self.http.0.sessions.keep(session, Instant::now());
        }
    }
}

fn event(kind: &str, id: EventId, data: &impl Serialize) -> Event {
    // Rows are plain data: they can always be written.
    let data = serde_json::to_string(data).unwrap_or_default();
    Event::default().event(kind).id(id.text()).data(data)
}
