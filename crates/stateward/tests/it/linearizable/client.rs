//! The clients: sessions as Terraform has them, and what it does not do but somebody might.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use fastrand::Rng;
use reqwest::Method;
use serde_json::Value;
use testbed::linearizable::{Answer, Operation, Request, Rules};

use super::nodes::Nodes;

/// How many operations a state has before another one takes its place: enough to matter, few enough to be checked.
const PER_STATE: usize = 150;
/// How many of them may be without an answer: each could have taken effect at any time.
const UNKNOWN_PER_STATE: usize = 12;
/// How many states are worked on at the same time.
const AT_ONCE: usize = 3;
const PATIENCE: Duration = Duration::from_secs(8);

/// One state and what was done to it.
pub(super) struct State {
    pub name: String,
    /// What it held before the clients began.
    pub initial: u64,
    operations: Mutex<Vec<Operation>>,
}

impl State {
    pub(super) fn history(&self) -> Vec<Operation> {
        self.operations.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn is_used_up(&self) -> bool {
        let operations = self.operations.lock().unwrap_or_else(PoisonError::into_inner);
        let unknown = operations.iter().filter(|operation| operation.answer.is_none()).count();
        operations.len() >= PER_STATE || unknown >= UNKNOWN_PER_STATE
    }

    fn note(&self, operation: Operation) {
        self.operations.lock().unwrap_or_else(PoisonError::into_inner).push(operation);
    }
}

/// What the clients share.
pub(super) struct Board {
    /// What the names of its states begin with: other runs share the store.
    name: &'static str,
    pub nodes: Arc<Nodes>,
    pub rules: Rules,
    /// How many operations are in histories, beginnings of states left out.
    pub done: AtomicUsize,
    states: Mutex<Vec<Arc<State>>>,
    active: [tokio::sync::Mutex<Option<Arc<State>>>; AT_ONCE],
    numbers: AtomicU64,
    stopped: AtomicBool,
    began: Instant,
}

/// What happened in a run.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub operations: usize,
    pub read: usize,
    pub written: usize,
    pub deleted: usize,
    pub locked: usize,
    pub unlocked: usize,
    pub broken: usize,
    pub refused: usize,
    /// Writes with the ID of a lock that was the writer's, and is not any more.
    pub displaced: usize,
    pub unknown: usize,
}

impl Board {
    pub(super) fn new(name: &'static str, nodes: Arc<Nodes>, rules: Rules) -> Board {
        Board {
            name,
            nodes,
            rules,
            done: AtomicUsize::new(0),
            states: Mutex::default(),
            active: Default::default(),
            numbers: AtomicU64::new(1),
            stopped: AtomicBool::new(false),
            began: Instant::now(),
        }
    }

    /// What happened until now.
    pub(super) fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        for state in self.all() {
            counts.add(&state.history());
        }
        counts
    }

    pub(super) fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    pub(super) fn all(&self) -> Vec<Arc<State>> {
        self.states.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    /// A number that nothing else has: a value or the ID of a lock.
    fn number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }
}

pub(super) struct Client {
    number: usize,
    board: Arc<Board>,
    random: Rng,
    http: reqwest::Client,
    /// Locks that were this client's once, with their states.
    past: Vec<(Arc<State>, u64)>,
    /// How many operations are in histories.
    noted: usize,
}

impl Client {
    pub(super) fn new(number: usize, board: Arc<Board>, random: Rng) -> Client {
        let http = reqwest::Client::builder().no_proxy().timeout(PATIENCE).build().expect("a client");
        Client { number, board, random, http, past: Vec::new(), noted: 0 }
    }

    pub(super) async fn run(mut self) {
        while !self.board.is_stopped() {
            let Some(state) = self.some_state().await else { continue };
            match self.random.u8(..100) {
                0..60 => self.session(&state).await,
                60..80 => _ = self.ask(&state, Request::Read).await,
                80..90 => self.write(&state, None).await,
                90..97 => self.come_late().await,
                _ => _ = self.ask(&state, Request::Break).await,
            }
        }
    }

    /// One of the states that are worked on; a new one in the place of one that has been worked on enough.
    async fn some_state(&mut self) -> Option<Arc<State>> {
        let board = self.board.clone();
        let mut place = board.active[self.random.usize(..AT_ONCE)].lock().await;
        if let Some(state) = &*place
            && !state.is_used_up()
        {
            return Some(state.clone());
        }
        let initial = board.number();
        let state =
            Arc::new(State { name: format!("{}-{initial}", board.name), initial, operations: Mutex::default() });
        let first = Request::Write { value: initial, id: None };
        // What got no answer is part of the history, because it may still take effect.
        loop {
            match self.once(&state, first).await {
                Some(Answer::Done) => break,
                None if board.is_stopped() => return None,
                None => {}
                Some(other) => panic!("the first write of {}: {other:?}", state.name),
            }
        }
        board.states.lock().unwrap_or_else(PoisonError::into_inner).push(state.clone());
        *place = Some(state.clone());
        Some(state)
    }

    /// Everything that a run has to show, one after another, for what chance did not bring. The others go on meanwhile
    /// and may get in between: it is for the caller to look at what came of it.
    pub(super) async fn everything(&mut self) {
        let Some(state) = self.some_state().await else { return };
        self.without_answer(&state).await;
        let [broken, slow, next] = [(); 3].map(|()| self.board.number());
        if self.ask(&state, Request::Lock(broken)).await != Some(Answer::Done) {
            self.ask(&state, Request::Break).await;
            return;
        }
        self.ask(&state, Request::Read).await;
        self.write(&state, Some(broken)).await;
        self.ask(&state, Request::Delete { id: Some(broken) }).await;
        self.write(&state, Some(broken)).await;
        self.ask(&state, Request::Break).await;
        self.write(&state, Some(broken)).await;
        // The same of a lock that expires, where locks do.
        self.ask(&state, Request::Lock(slow)).await;
        tokio::time::sleep(super::EXPIRY * 2).await;
        self.ask(&state, Request::Lock(next)).await;
        self.write(&state, Some(slow)).await;
        self.ask(&state, Request::Unlock(slow)).await;
        self.ask(&state, Request::Unlock(next)).await;
    }

    /// A request that arrives, and whose answer does not.
    async fn without_answer(&mut self, state: &State) {
        let nodes = self.board.nodes.clone();
        let server = nodes.some_server(&mut self.random);
        nodes.lose_answers_of(server).await;
        let write = Request::Write { value: self.board.number(), id: None };
        let before = self.noted;
        self.once_at(state, write, nodes.behind_proxy(server)).await;
        self.board.done.fetch_add(self.noted - before, Ordering::Relaxed);
        nodes.answer_again(server).await;
    }

    /// LOCK, GET, POST, UNLOCK, with all that may come in between.
    async fn session(&mut self, state: &Arc<State>) {
        let id = self.board.number();
        match self.ask(state, Request::Lock(id)).await {
            Some(Answer::Done) => {}
            Some(_) if self.random.u8(..100) < 12 => {
                // Its holder may have forgotten it.
                self.ask(state, Request::Break).await;
                return;
            }
            _ => return,
        }
        self.past.push((state.clone(), id));
        self.ask(state, Request::Read).await;
        for _ in 0..self.random.u8(0..3) {
            self.write(state, Some(id)).await;
        }
        match self.random.u8(..100) {
            0..5 => _ = self.ask(state, Request::Delete { id: Some(id) }).await,
            5..15 => self.write(state, None).await,
            15..30 => {
                // Long enough to be taken over, where locks expire.
                tokio::time::sleep(super::EXPIRY + Duration::from_millis(self.random.u64(..100))).await;
                self.write(state, Some(id)).await;
            }
            _ => {}
        }
        if self.random.u8(..100) < 90 {
            self.ask(state, Request::Unlock(id)).await;
        }
    }

    /// With a lock that was this client's once.
    async fn come_late(&mut self) {
        let recent = self.past.len().saturating_sub(6);
        let Some((state, id)) = self.random.choice(&self.past[recent..]).cloned() else { return };
        if self.random.bool() {
            self.write(&state, Some(id)).await;
        } else {
            self.ask(&state, Request::Unlock(id)).await;
        }
    }

    async fn write(&mut self, state: &State, id: Option<u64>) {
        let value = self.board.number();
        self.ask(state, Request::Write { value, id }).await;
    }

    /// Sends a request, and again when it got no answer, as the clients do.
    async fn ask(&mut self, state: &State, request: Request) -> Option<Answer> {
        for _ in 0..3 {
            let before = self.noted;
            let answer = self.once(state, request).await;
            self.board.done.fetch_add(self.noted - before, Ordering::Relaxed);
            if answer.is_some() {
                return answer;
            }
            if self.board.is_stopped() {
                break;
            }
        }
        None
    }

    async fn once(&mut self, state: &State, request: Request) -> Option<Answer> {
        let address = self.board.nodes.address(&mut self.random);
        self.once_at(state, request, address).await
    }

    async fn once_at(&mut self, state: &State, request: Request, address: String) -> Option<Answer> {
        let sent = self.board.began.elapsed();
        let outcome = self.send(state, request, &address).await;
        let answered = self.board.began.elapsed();
        let answer = match outcome {
            Outcome::Answered(answer) => Some((answer, answered)),
            Outcome::Unknown => None,
            Outcome::NotDone => {
                tokio::time::sleep(Duration::from_millis(self.random.u64(20..80))).await;
                return None;
            }
        };
        state.note(Operation { client: self.number, request, sent, answer });
        self.noted += 1;
        answer.map(|(answer, _)| answer)
    }

    async fn send(&self, state: &State, request: Request, address: &str) -> Outcome {
        let nodes = &self.board.nodes;
        let path = format!("{address}/state/{}/{}", nodes.namespace, state.name);
        let with_id = |id: Option<u64>| id.map_or(path.clone(), |id| format!("{path}?ID={}", lock_id(id)));
        let (method, url, body) = match request {
            Request::Read => ("GET", path, String::new()),
            Request::Write { value, id } => ("POST", with_id(id), text(value, nodes)),
            Request::Delete { id } => ("DELETE", with_id(id), String::new()),
            Request::Lock(id) => ("LOCK", path, lock_info(id)),
            Request::Unlock(id) => ("UNLOCK", path, lock_info(id)),
            Request::Break => ("UNLOCK", path, String::new()),
        };
        let method = Method::from_bytes(method.as_bytes()).expect("a method");
        let sent = self.http.request(method, url).bearer_auth(&nodes.token).body(body).send().await;
        let response = match sent {
            Ok(response) => response,
            Err(error) if error.is_connect() => return Outcome::NotDone,
            Err(_) => return Outcome::Unknown,
        };
        let status = response.status().as_u16();
        let Ok(body) = response.text().await else { return Outcome::Unknown };
        match (request, status) {
            (Request::Read, 200) => Outcome::Answered(Answer::Value(Some(value_of(&body, nodes)))),
            (Request::Read, 404) => Outcome::Answered(Answer::Value(None)),
            (_, 200) => Outcome::Answered(Answer::Done),
            (_, 423) => Outcome::Answered(Answer::Refused(shown(&body))),
            // The server says so itself: it is held to it.
            (_, 429 | 503) if body.contains("nothing was changed") => Outcome::NotDone,
            (_, 422 | 424) if body.contains("the store refuses") => Outcome::NotDone,
            // An API server that has just started knows no roles yet: no answer is a no.
            (_, 403) => Outcome::NotDone,
            (_, 503) => Outcome::Unknown,
            _ => panic!("{request:?} of {}: {status} {body}", state.name),
        }
    }
}

enum Outcome {
    Answered(Answer),
    /// Nobody knows whether it was done.
    Unknown,
    /// It certainly was not.
    NotDone,
}

fn lock_id(id: u64) -> String {
    format!("{id:032x}")
}

fn lock_info(id: u64) -> String {
    format!(r#"{{"ID":"{}","Operation":"apply","Who":"me@host","Created":"2026-11-16T05:59:16Z"}}"#, lock_id(id))
}

/// The ID that a 423 shows.
fn shown(body: &str) -> Option<u64> {
    let info: Value = serde_json::from_str(body).expect("a LockInfo");
    let id = info["ID"].as_str().expect("an ID");
    if id == "unlocked" { None } else { Some(u64::from_str_radix(id, 16).expect("an ID of ours")) }
}

/// The state with this value: small, or too large for a head.
fn text(value: u64, nodes: &Nodes) -> String {
    let mut random = Rng::with_seed(value);
    let (size, often) = nodes.large;
    let size = if random.u32(..1000) < often { size } else { 0 };
    let mut text = format!("{{\n  \"version\": 4,\n  \"serial\": {value},\n  \"resources\": [\n    \"begin\"");
    while text.len() < size {
        text.push_str(&format!(",\n    \"{:032x}{:032x}\"", random.u128(..), random.u128(..)));
    }
    text.push_str("\n  ]\n}\n");
    text
}

/// The value of a state, which must be that state to the last byte.
fn value_of(body: &str, nodes: &Nodes) -> u64 {
    let serial = body.lines().find_map(|line| line.strip_prefix("  \"serial\": "));
    let value = serial.and_then(|digits| digits.trim_end_matches(',').parse().ok()).expect("a serial");
    assert!(body == text(value, nodes), "the state of {value} came back torn");
    value
}
