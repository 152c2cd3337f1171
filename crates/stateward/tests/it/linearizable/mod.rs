//! Eight clients, two servers, one store, and everything that can go wrong between them: whatever the clients were
//! told must be explained by one state that does one thing after another.
//!
//! Every store is a test. Each runs twice, without and with an expiry of locks. What is checked is the history of each
//! state: see `testbed::linearizable`.

mod client;
mod nodes;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use testbed::linearizable::{Answer, Operation, Request, Rules, check};
use testbed::{scale, seed};

use client::{Board, Client, Counts};
use nodes::{Disturbance, Nodes, Store};

const CLIENTS: usize = 8;
const EXPIRY: Duration = Duration::from_millis(150);
/// How often everything is tried that a run has to show, while others get in between.
const TRIES: usize = 100;

#[tokio::test(flavor = "multi_thread")]
async fn states_in_sqlite_are_linearizable() {
    on(Store::sqlite()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn states_in_postgresql_are_linearizable() {
    on(Store::postgres()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn states_in_s3_are_linearizable() {
    on(Store::s3()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn states_in_configmaps_and_secrets_are_linearizable() {
    let cluster = Arc::new(testbed::Cluster::own().await);
    on(Store::objects(cluster.clone(), "configmap").await).await;
    on(Store::objects(cluster, "secret").await).await;
}

async fn on(store: Store) {
    let name = store.name;
    let mut random = fastrand::Rng::with_seed(seed(name));
    let operations = scale().of(300, 20_000);
    let began = std::time::Instant::now();
    for (half, (title, expiry)) in [("lasting", None), ("expiring", Some(EXPIRY))].into_iter().enumerate() {
        let nodes = Arc::new(Nodes::start(&store, expiry).await);
        let board = Arc::new(Board::new(title, nodes.clone(), Rules { expiry }));
        let running: Vec<_> =
            (0..CLIENTS).map(|number| tokio::spawn(Client::new(number, board.clone(), random.fork()).run())).collect();
        let mut disturbances = nodes.disturbances();
        if !scale().is_full() {
            // Each of them once is enough, in one half or the other.
            let mut number = half;
            disturbances.retain(|_| {
                number += 1;
                number % 2 == 0
            });
        }
        disturb(&nodes, &store, &board, &disturbances, operations / 2, random.fork()).await;
        complete(&board, random.fork()).await;
        board.stop();
        for client in running {
            client.await.expect("a client that saw nothing it could not explain");
        }
        report(name, expiry, &board, began.elapsed());
    }
}

/// Disturbs everything in turn until the clients have done enough.
async fn disturb(
    nodes: &Nodes,
    store: &Store,
    board: &Board,
    disturbances: &[Disturbance],
    operations: usize,
    mut random: fastrand::Rng,
) {
    let pause = || tokio::time::sleep(Duration::from_millis(scale().of(50, 500)));
    for round in 0.. {
        if round > 0 && board.done.load(Ordering::Relaxed) >= operations {
            return;
        }
        for disturbance in disturbances {
            pause().await;
            // A store that starts takes a while in which little happens: not every time.
            let often = if matches!(disturbance, Disturbance::RestartStore) { 8 } else { 1 };
            if round == 0 || (scale().is_full() && round % often == 0) {
                nodes.disturb(*disturbance, store, &mut random).await;
            }
        }
    }
}

/// Adds what chance has left out, among all that goes on.
async fn complete(board: &Arc<Board>, random: fastrand::Rng) {
    let mut client = Client::new(CLIENTS, board.clone(), random);
    for _ in 0..TRIES {
        client.everything().await;
        if board.counts().is_worth_it() {
            return;
        }
    }
}

/// Checks the histories, and that they were worth it.
fn report(name: &str, expiry: Option<Duration>, board: &Board, took: Duration) {
    let (states, counts) = (board.all(), board.counts());
    for state in &states {
        let history = state.history();
        if let Err(violation) = check(state.initial, &history, board.rules) {
            let lines: Vec<String> = sorted(history).iter().map(ToString::to_string).collect();
            let file = std::env::temp_dir().join(format!("history-{name}-{}", state.name));
            let _ = std::fs::write(&file, lines.join("\n"));
            panic!("{name}, {}: {violation}the whole history is in {}", state.name, file.display());
        }
    }
    #[expect(clippy::print_stderr, reason = "the figures of the run")]
    {
        eprintln!("{name}, expiry {expiry:?}: {} states in {took:?}, {counts:?}", states.len());
    }
    assert!(counts.is_worth_it(), "{name}: {counts:?}");
}

fn sorted(mut history: Vec<Operation>) -> Vec<Operation> {
    history.sort_by_key(|operation| operation.sent);
    history
}

impl Counts {
    fn add(&mut self, history: &[Operation]) {
        let mut holders: Vec<u64> = Vec::new();
        for operation in sorted(history.to_vec()) {
            self.operations += 1;
            let Some((answer, _)) = operation.answer else {
                self.unknown += 1;
                continue;
            };
            match (operation.request, answer) {
                (_, Answer::Refused(_)) => self.refused += 1,
                (Request::Read, _) => self.read += 1,
                (Request::Write { .. }, _) => self.written += 1,
                (Request::Delete { .. }, _) => self.deleted += 1,
                (Request::Lock(id), _) => {
                    self.locked += 1;
                    holders.push(id);
                }
                (Request::Unlock(_), _) => self.unlocked += 1,
                (Request::Break, _) => self.broken += 1,
            }
            // The lock was let go, broken or taken over.
            if let (Request::Write { id: Some(id), .. }, Answer::Refused(_)) = (operation.request, answer)
                && holders.contains(&id)
            {
                self.displaced += 1;
            }
        }
    }

    /// A run in which nothing happened shows nothing.
    fn is_worth_it(&self) -> bool {
        let Counts { operations: _, read, written, deleted, locked, unlocked, broken, refused, displaced, unknown } =
            *self;
        [read, written, deleted, locked, unlocked, broken, refused, displaced, unknown].iter().all(|count| *count > 0)
    }
}
