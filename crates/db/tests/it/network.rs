//! Connections to PostgreSQL that are cut or go silent at the worst moment, through a real toxiproxy.
//!
//! The closure itself disturbs the connection as its last act in its first run: what is lost is then COMMIT or its
//! answer. The row holds the number of the run that wrote it, so that it tells which one was committed.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use db::{Config, Db, Error, OperationId, Outcome, Tx, params};
use testbed::{Direction, Postgres, Proxy, Toxiproxy};

use crate::place::{PAIRS, Place, number};

/// Short, so that the tests are; a statement has half of it.
const DEADLINE: Duration = Duration::from_secs(4);

/// For what must come to a good end after its connection was healed, also on a slow machine.
const ROOM: Duration = Duration::from_secs(10);

/// No call may take longer: the deadline, as much again to find out, and a slow machine.
const BOUND: Duration = bound(DEADLINE);

const fn bound(deadline: Duration) -> Duration {
    Duration::from_secs(2 * deadline.as_secs() + 12)
}

/// What happens to the connection.
#[derive(Clone, Copy, Debug)]
enum Disturbance {
    /// The server gets everything; its next byte closes the connection.
    AnswerCut,
    /// The client's next byte closes the connection.
    CommitCut,
    /// The server gets everything; nothing comes back, nothing is closed.
    AnswerSilent,
    /// Nothing gets to the server, nothing is closed.
    CommitSilent,
    /// What the client sends is held back until the connection is healed.
    CommitLate,
}

impl Disturbance {
    async fn apply(self, proxy: &Proxy) {
        let applied = match self {
            Disturbance::AnswerCut => proxy.limit_data_downstream(0).await,
            Disturbance::CommitCut => proxy.limit_data_upstream(0).await,
            Disturbance::AnswerSilent => proxy.timeout(Direction::Downstream).await,
            Disturbance::CommitSilent => proxy.timeout(Direction::Upstream).await,
            Disturbance::CommitLate => proxy.latency(Direction::Upstream, Duration::from_mins(5)).await,
        };
        applied.unwrap();
    }
}

struct Bench {
    _toxiproxy: Toxiproxy,
    proxy: Proxy,
    /// Through the proxy.
    db: Db,
    /// Past it.
    direct: Db,
}

impl Bench {
    async fn new() -> Bench {
        Bench::with(DEADLINE).await
    }

    async fn with(deadline: Duration) -> Bench {
        let server = Postgres::shared().unwrap();
        let database = server.create_database().unwrap();
        let toxiproxy = Toxiproxy::start().unwrap();
        let proxy = toxiproxy.proxy(&server.address()).await.unwrap();
        let Config::Postgres(mut config) = Config::postgres(Postgres::url_through(&proxy.address, &database)) else {
            unreachable!()
        };
        config.deadline = deadline;
        let db = Db::open(Config::Postgres(config)).await.unwrap();
        db.migrate(&[PAIRS]).await.unwrap();
        let direct = Place::Postgres(server.url(&database)).open().await;
        Bench { _toxiproxy: toxiproxy, proxy, db, direct }
    }

    /// A closure that writes the row `name` and then disturbs its connection, in its first run only. Returns the
    /// number of the run.
    fn disturbed(
        &self,
        name: &str,
        disturbance: Disturbance,
        heal_after: Option<Duration>,
    ) -> (impl Fn(&mut Tx<'_>) -> Result<i64, Error> + Send + 'static + use<>, Arc<AtomicI64>) {
        let runs = Arc::new(AtomicI64::new(0));
        let (name, counter, proxy) = (name.to_owned(), Arc::clone(&runs), self.proxy.clone());
        let body = move |tx: &mut Tx<'_>| {
            let run = counter.fetch_add(1, Ordering::SeqCst);
            tx.execute("INSERT INTO pairs (name, number) VALUES ($1, $2)", params![&name, run])?;
            if run == 0 {
                let runtime = tokio::runtime::Handle::current();
                runtime.block_on(disturbance.apply(&proxy));
                if let Some(heal_after) = heal_after {
                    let proxy = proxy.clone();
                    runtime.spawn(async move {
                        tokio::time::sleep(heal_after).await;
                        proxy.heal().await.unwrap();
                    });
                }
            }
            Ok(run)
        };
        (body, runs)
    }
}

/// The run that is expected to be committed, by what happened to the first.
const BOTH_WAYS: [(Disturbance, i64); 4] = [
    (Disturbance::AnswerCut, 0),
    (Disturbance::AnswerSilent, 0),
    (Disturbance::CommitCut, 1),
    (Disturbance::CommitSilent, 1),
];

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_whose_answer_is_lost_is_resolved_right_both_ways() {
    let bench = Bench::with(ROOM).await;
    for (disturbance, expected) in BOTH_WAYS {
        // Before the silence of a statement is noticed, and after: while the outcome is being asked for.
        for heal_after in [Duration::from_millis(300), Duration::from_secs(6)] {
            let name = format!("{disturbance:?} {heal_after:?}");
            let (body, runs) = bench.disturbed(&name, disturbance, Some(heal_after));
            let started = Instant::now();
            assert_eq!(bench.db.write(body).await.unwrap(), expected, "{name}");
            assert!(started.elapsed() < bound(ROOM), "{name}: {:?}", started.elapsed());
            assert_eq!(runs.load(Ordering::SeqCst), expected + 1, "{name}");
            assert_eq!(number(&bench.direct, &name).await, Some(expected), "{name}");
            bench.proxy.heal().await.unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operation_whose_outcome_stays_unknown_can_be_asked_for_later_and_never_takes_place_twice() {
    let bench = Bench::new().await;
    for (disturbance, expected) in BOTH_WAYS {
        let name = format!("{disturbance:?}");
        let operation = OperationId::new();
        let (body, runs) = bench.disturbed(&name, disturbance, None);
        let started = Instant::now();
        match bench.db.write_once(&operation, body).await {
            Err(Error::UnknownOutcome { operation: named }) => assert_eq!(named, operation),
            other => panic!("{name}: {other:?}"),
        }
        assert!(started.elapsed() < BOUND, "{name}: {:?}", started.elapsed());
        assert_eq!(runs.load(Ordering::SeqCst), 1, "{name}");
        bench.proxy.heal().await.unwrap();
        let took_place = expected == 0;
        assert_eq!(bench.db.took_place(&operation).await.unwrap(), took_place, "{name}");
        assert_eq!(number(&bench.direct, &name).await.is_some(), took_place, "{name}");
        let row = name.clone();
        let again = bench.db.write_once(&operation, move |tx| {
            tx.execute("INSERT INTO pairs (name, number) VALUES ($1, 1)", params![&row])
        });
        let outcome = if took_place { Outcome::Already } else { Outcome::Done(1) };
        assert_eq!(again.await.unwrap(), outcome, "{name}");
        assert_eq!(number(&bench.direct, &name).await, Some(expected), "{name}");
    }
}

/// COMMIT arrives while it is being asked about: either outcome is right, but answer and database must agree.
#[tokio::test(flavor = "multi_thread")]
async fn a_commit_that_arrives_late_and_the_answer_about_it_agree() {
    let bench = Bench::new().await;
    let mut random =
        fastrand::Rng::with_seed(testbed::seed("a_commit_that_arrives_late_and_the_answer_about_it_agree"));
    for round in 0..testbed::scale().of(4, 60) {
        let name = format!("round {round}");
        let heal_after = Duration::from_millis(random.u64(1_900..2_400));
        let (body, runs) = bench.disturbed(&name, Disturbance::CommitLate, Some(heal_after));
        let started = Instant::now();
        let committed = bench.db.write(body).await.unwrap();
        assert!(started.elapsed() < BOUND, "{:?}", started.elapsed());
        assert_eq!(runs.load(Ordering::SeqCst), committed + 1, "healed after {heal_after:?}");
        assert_eq!(number(&bench.direct, &name).await, Some(committed), "healed after {heal_after:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_lost_before_commit_is_replaced_and_the_closure_run_again() {
    let bench = Bench::new().await;
    let (proxy, runs) = (bench.proxy.clone(), Arc::new(AtomicI64::new(0)));
    let counter = Arc::clone(&runs);
    let written = bench.db.write(move |tx| {
        let run = counter.fetch_add(1, Ordering::SeqCst);
        tx.execute("INSERT INTO pairs (name, number) VALUES ('a', $1)", params![run])?;
        if run == 0 {
            let runtime = tokio::runtime::Handle::current();
            runtime.block_on(proxy.cut()).unwrap();
            runtime.block_on(proxy.heal()).unwrap();
        }
        tx.execute("UPDATE pairs SET number = number + 10 WHERE name = 'a'", &[])
    });
    assert_eq!(written.await.unwrap(), 1);
    assert_eq!((runs.load(Ordering::SeqCst), number(&bench.direct, "a").await), (2, Some(11)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_server_costs_no_more_than_the_deadline_and_then_all_is_well() {
    let bench = Bench::new().await;
    // Several idle connections that will be silent.
    let reads = (0..5).map(|_| bench.db.read(|tx| tx.query("SELECT 1 FROM pairs", &[])));
    for read in reads.collect::<Vec<_>>() {
        read.await.unwrap();
    }
    for direction in [Direction::Downstream, Direction::Upstream] {
        bench.proxy.timeout(direction).await.unwrap();
        let started = Instant::now();
        let (read, written) = tokio::join!(
            bench.db.ping(),
            bench.db.write(|tx| tx.execute("INSERT INTO pairs (name, number) VALUES ('a', 1)", &[]))
        );
        assert!(matches!(read, Err(Error::Unavailable { .. })), "{read:?}");
        assert!(matches!(written, Err(Error::Unavailable { .. })), "{written:?}");
        assert!(started.elapsed() < BOUND, "{:?}", started.elapsed());
        bench.proxy.heal().await.unwrap();
        bench.db.ping().await.unwrap();
        assert_eq!(number(&bench.db, "a").await, None);
    }
}

/// Direct, because the proxy would disturb the question as well: the first COMMIT hangs on the server, and only ending
/// its process frees the row that is asked for.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_process_that_hangs_in_commit_is_ended_and_the_write_done_again() {
    const HANG: &str = "
        CREATE FUNCTION hang() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            PERFORM pg_sleep(300);
            RETURN NULL;
        EXCEPTION WHEN query_canceled THEN
            PERFORM pg_sleep(300);
            RETURN NULL;
        END $$;
        CREATE CONSTRAINT TRIGGER hang AFTER INSERT ON pairs DEFERRABLE INITIALLY DEFERRED
            FOR EACH ROW WHEN (NEW.number = 0) EXECUTE FUNCTION hang();";
    let server = Postgres::shared().unwrap();
    let database = server.create_database().unwrap();
    let Config::Postgres(mut config) = Config::postgres(server.url(&database)) else { unreachable!() };
    config.deadline = DEADLINE;
    let db = Db::open(Config::Postgres(config)).await.unwrap();
    db.migrate(&[PAIRS]).await.unwrap();
    server.sql(&database, HANG).unwrap();
    let runs = AtomicI64::new(0);
    let written = db.write(move |tx| {
        let run = runs.fetch_add(1, Ordering::SeqCst);
        tx.execute("INSERT INTO pairs (name, number) VALUES ('a', $1)", params![run])
    });
    assert_eq!(written.await.unwrap(), 1);
    assert_eq!(number(&db, "a").await, Some(1));
    let hanging = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND datname = current_database()";
    assert_eq!(server.sql(&database, hanging).unwrap(), "0");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_swap_whose_answer_is_lost_says_so_and_never_takes_place_twice() {
    let bench = Bench::new().await;
    let insert = "INSERT INTO pairs (name, number) VALUES ($1, 1) ON CONFLICT (name) DO NOTHING";
    for (disturbance, expected) in [
        (Disturbance::AnswerCut, Some(1)),
        (Disturbance::AnswerSilent, Some(1)),
        (Disturbance::CommitCut, None),
        (Disturbance::CommitSilent, None),
    ] {
        let name = format!("{disturbance:?}");
        // A connection with the statement prepared, so that the swap itself is what is lost.
        bench.db.swap(insert, vec![format!("before {name}").into()]).await.unwrap();
        disturbance.apply(&bench.proxy).await;
        let started = Instant::now();
        let swapped = bench.db.swap(insert, vec![name.as_str().into()]).await;
        assert!(matches!(swapped, Err(Error::UnknownOutcome { .. })), "{name}: {swapped:?}");
        assert!(started.elapsed() < BOUND, "{name}");
        bench.proxy.heal().await.unwrap();
        assert_eq!(number(&bench.direct, &name).await, expected, "{name}");
        // Reading back works on other connections.
        let sql = "SELECT number FROM pairs WHERE name = $1";
        assert_eq!(bench.db.look_up(sql, params![&name]).await.unwrap().is_some(), expected.is_some(), "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_look_up_goes_on_over_connections_that_were_cut() {
    let bench = Bench::new().await;
    crate::place::put(&bench.direct, "row", 7).await;
    for disturbance in [Disturbance::AnswerCut, Disturbance::CommitCut] {
        let sql = "SELECT number FROM pairs WHERE name = $1";
        bench.db.look_up(sql, params!["row"]).await.unwrap();
        disturbance.apply(&bench.proxy).await;
        let proxy = bench.proxy.clone();
        let healing = tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(300)).await;
            proxy.heal().await.unwrap();
        });
        let row = bench.db.look_up(sql, params!["row"]).await.unwrap();
        assert_eq!(row.unwrap().get::<i64>(0).unwrap(), 7, "{disturbance:?}");
        healing.await.unwrap();
    }
}
