//! The explorer's index with many rows: how long answers take, how soon a revoked grant shows, how fast rows come in, what they
//! take, how long a start takes.
//!
//! What the two people see is compiled from RBAC as the service does it, for each question anew. A revocation is timed from the
//! removal in the policy; what the watch takes before that is the API server's.
//!
//! Nothing is compared here, for no other program answers such questions under such grants: figures stand against the goals
//! that the explorer has, by the clock on the wall; what is missed is marked. The same by the CPU stands beside it: an answer is
//! computed by one thread that waits for nothing, so that the difference is what others on the machine took. All sizes are
//! measured with either effort; the quick one only asks less often.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use explorer::durable::Store;
use explorer::index::{Index, Settings};
use explorer::query::{Facets, Order, Request};
use explorer::{Page, Query};

use crate::explore::{Clusters, Feed, Person, bindings, questions};
use crate::latency::percentile;
use crate::measure::Bench;
use crate::report::{self, Figure, Row, Side, Within};
use crate::usage;

/// Rows, and how long the slowest of a hundred answers may take there, in milliseconds.
const SIZES: [(usize, f64); 3] = [(10_000, 5.0), (100_000, 5.0), (1_000_000, 25.0)];
const BATCH: usize = 5_000;
const WANTED_RATE: f64 = 20_000.0;
const WANTED_BYTES: f64 = 1_500.0;
const NAME: &str = "explorer-index";

const WHY_TIME: &str = "goal: 99 of 100 answers within 5 ms at 100,000 rows, within 25 ms at 1,000,000 (ratio 1)";
const WHY_REVOKED: &str = "goal: 99 of 100 removals show in an answer as soon as any other answer is given (ratio 1)";
const WHY_RATE: &str = "goal: 20,000 objects are taken in each second (ratio 1)";
const WHY_BYTES: &str = "goal: an object takes 1,500 bytes of index at most (ratio 1)";

pub(super) fn run(bench: &Bench) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    let mut clusters = Clusters::new();
    for (size, milliseconds) in SIZES {
        let mut tell = |row: Row| {
            report::tell(NAME, &row);
            rows.push(row);
        };
        let (index, ingest) = fill(size)?;
        tell(ingest);
        tell(memory(&index, size, usage::memory(std::process::id())?));
        for row in answers(bench, &index, &mut clusters, size, milliseconds)? {
            tell(row);
        }
        tell(revocations(bench, &index, &mut clusters, size, milliseconds)?);
        drop(index);
        for row in on_disk(bench, size)? {
            tell(row);
        }
    }
    Ok(rows)
}

/// Words are worked out on one thread and taken in on another, as collectors do it.
fn fill(size: usize) -> Result<(Index, Row)> {
    let mut index = Index::new(Settings::default());
    let mut feed = Feed::new();
    let (mut elapsed, mut prepare_cpu, mut insert_cpu) = (Duration::ZERO, Duration::ZERO, Duration::ZERO);
    for _ in 0..size / BATCH {
        let objects = feed.take(BATCH);
        let preparer = index.preparer();
        let start = Instant::now();
        std::thread::scope(|scope| {
            let (give, get) = std::sync::mpsc::sync_channel(64);
            let preparing = scope.spawn(move || {
                let start = usage::thread_cpu();
                for object in objects {
                    if give.send(preparer.prepare(object)).is_err() {
                        break;
                    }
                }
                usage::thread_cpu().saturating_sub(start)
            });
            let start = usage::thread_cpu();
            for prepared in get {
                index.upsert(&prepared);
            }
            insert_cpu += usage::thread_cpu().saturating_sub(start);
            prepare_cpu += preparing.join().unwrap_or_default();
        });
        elapsed += start.elapsed();
    }
    for number in 0..500 {
        index.set_tenant(
            &format!("cluster-{:02}", number % 20),
            &format!("team-{number:04}"),
            Some(&format!("tenant-{}", number % 50)),
        );
    }
    ensure!(index.len() == size, "{} rows came in of {size}", index.len());
    // Of the slower thread, if each had a CPU of its own.
    let (rate, by_cpu) = (ratio(size, elapsed), ratio(size, prepare_cpu.max(insert_cpu)));
    let figures = vec![
        Figure::PerSecond(rate),
        Figure::PerSecond(by_cpu),
        Figure::CpuSeconds(prepare_cpu.as_secs_f64()),
        Figure::CpuSeconds(insert_cpu.as_secs_f64()),
    ];
    let row = Row::new(Side::new(
        format!("{size} rows, taken in, then by CPU of the slower thread (CPU of words, of sets)"),
        figures,
    ));
    let ratios = [rate / WANTED_RATE, by_cpu / WANTED_RATE];
    let row = row.ratio("20,000/s (and by CPU)", ratios[0], &ratios);
    Ok((index, row.goal(Within::AtLeast(1.0), WHY_RATE)))
}

#[expect(clippy::cast_precision_loss, reason = "figures for people")]
fn memory(index: &Index, size: usize, resident: u64) -> Row {
    let sizes = index.sizes();
    let each = |bytes: usize| bytes as f64 / size as f64;
    let figures = vec![
        Figure::BytesEach(each(sizes.bytes())),
        Figure::BytesEach(each(sizes.dictionary_bytes)),
        Figure::BytesEach(each(sizes.posting_bytes)),
        Figure::BytesEach(each(sizes.row_bytes)),
        Figure::ResidentMegabytes(resident as f64 / 1e6),
    ];
    let name = format!(
        "{size} rows, {} words, {} fields: all, dictionary, sets, columns, then RSS of the process",
        sizes.words, sizes.fields
    );
    let row = Row::new(Side::new(name, figures)).ratios("1,500 bytes", &[each(sizes.bytes()) / WANTED_BYTES]);
    row.goal(Within::AtMost(1.0), WHY_BYTES)
}

fn answers(bench: &Bench, index: &Index, clusters: &mut Clusters, size: usize, goal: f64) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for person in Person::all() {
        for (what, texts) in questions() {
            let mut times = Times::default();
            let mut slowest = (Duration::ZERO, "");
            for round in 0..bench.effort.of(40, 60) {
                for text in texts {
                    let mut query = question(text)?;
                    query.order = Order::ALL[round % Order::ALL.len()];
                    query.descending = round % 3 == 0;
                    let (_, cpu) = times.take(|| index.query(&query, &clusters.visibility(&person.who)));
                    slowest = slowest.max((cpu, *text));
                }
            }
            let name = format!("{size} rows, {}, {what}, then on the CPU (slowest: '{}')", person.name, slowest.1);
            rows.push(times.row(name, goal).goal(Within::AtMost(1.0), WHY_TIME));
        }
    }
    Ok(rows)
}

/// Takes one binding after the other from the person who has few, and gives it back: the next answer has no row of it.
fn revocations(bench: &Bench, index: &Index, clusters: &mut Clusters, size: usize, goal: f64) -> Result<Row> {
    let [few, admin] = Person::all();
    let query = question("")?;
    let all = index.query(&query, &clusters.visibility(&few.who)).total;
    ensure!((size / 200..=size / 50).contains(&usize::try_from(all)?), "{all} of {size} rows are not about 1 %");
    // With few rows some namespaces have none, and nothing would be seen to go.
    let mut revocable = Vec::new();
    for bound in bindings() {
        let within = question(&format!("ns:{}", bound.namespace))?;
        let rows = index.query(&within, &clusters.visibility(&admin.who)).total;
        if rows > 0 {
            revocable.push((bound, rows));
        }
    }
    let mut times = Times::default();
    for (bound, rows) in revocable.iter().cycle().take(bench.effort.of(500, 1000)) {
        let key = bound.binding.key();
        let before = index.query(&query, &clusters.visibility(&few.who));
        ensure!(before.total == all && has_facet(&before, &bound.namespace), "{key} does not count before its removal");
        let (after, _) = times.take(|| {
            clusters.change(&bound.cluster, |policy| policy.remove(&key));
            index.query(&query, &clusters.visibility(&few.who))
        });
        ensure!(after.total == all - rows, "{} rows are left of {all} without the {rows} of {key}", after.total);
        ensure!(!has_facet(&after, &bound.namespace), "a facet still tells of {key}");
        clusters.change(&bound.cluster, |policy| policy.upsert(bound.binding.clone()));
    }
    let name = format!("{size} rows, 1 %, from a removed binding to total and facets without it, then on the CPU");
    Ok(times.row(name, goal).goal(Within::AtMost(1.0), WHY_REVOKED))
}

fn has_facet(page: &Page, value: &str) -> bool {
    page.facets.iter().flat_map(|facet| &facet.values).any(|known| known.value == value)
}

/// A question for a page with its total and facets.
fn question(text: &str) -> Result<Query> {
    let request = Request { query: text.to_owned(), limit: 25, ..Request::default() };
    let mut query = request.query().context("a question of the benchmark is wrong")?;
    query.facets = Facets::WithLabels(vec!["tier".to_owned()]);
    Ok(query)
}

/// How long answers of one sort took, by the clock on the wall and on the CPU.
#[derive(Default)]
struct Times {
    wall: Vec<Duration>,
    cpu: Vec<Duration>,
}

impl Times {
    /// What the work gives, and its time on the CPU.
    fn take<R>(&mut self, work: impl FnOnce() -> R) -> (R, Duration) {
        let (start, cpu) = (Instant::now(), usage::thread_cpu());
        let result = std::hint::black_box(work());
        let cpu = usage::thread_cpu().saturating_sub(cpu);
        self.wall.push(start.elapsed());
        self.cpu.push(cpu);
        (result, cpu)
    }

    /// Held against a goal in milliseconds.
    fn row(mut self, name: String, goal: f64) -> Row {
        self.wall.sort();
        self.cpu.sort();
        let at = |times: &[Duration], part| percentile(times, part).as_secs_f64() * 1000.0;
        let (on_wall, on_cpu) = (at(&self.wall, 0.99), at(&self.cpu, 0.99));
        let figures = vec![
            Figure::MedianMilliseconds(at(&self.wall, 0.5)),
            Figure::P99Milliseconds(on_wall),
            Figure::MedianMilliseconds(at(&self.cpu, 0.5)),
            Figure::P99Milliseconds(on_cpu),
        ];
        Row::new(Side::new(name, figures)).ratio(
            "p99 to goal (and by CPU)",
            on_wall / goal,
            &[on_wall / goal, on_cpu / goal],
        )
    }
}

/// The same rows with their copy: how fast they get there, and how long a start takes.
fn on_disk(bench: &Bench, size: usize) -> Result<Vec<Row>> {
    let path = bench.path(&format!("explorer-{size}.db"));
    let mut elapsed = Duration::ZERO;
    bench.wait_for(async {
        let store = Store::open(&path, Settings::default()).await?;
        let mut feed = Feed::new();
        for _ in 0..size / BATCH {
            let objects = feed.take(BATCH);
            let start = Instant::now();
            for object in objects {
                store.room().await?;
                drop(store.upsert(store.preparer().prepare(object)));
            }
            elapsed += start.elapsed();
        }
        let start = Instant::now();
        store.flush().wait().await?;
        elapsed += start.elapsed();
        store.close().await;
        anyhow::Ok(())
    })?;
    let stored = std::fs::metadata(&path)?.len();
    let start = Instant::now();
    let store = bench.wait_for(Store::open(&path, Settings::default()))?;
    let warm = start.elapsed();
    ensure!(store.read().len() == size, "{} rows were loaded of {size}", store.read().len());
    bench.wait_for(store.close());
    drop(store);
    std::fs::remove_file(&path)?;
    #[expect(clippy::cast_precision_loss, reason = "figures for people")]
    let stored = Figure::StoredMegabytes(stored as f64 / 1e6);
    let rate = ratio(size, elapsed);
    let written = Side::new(format!("{size} rows, taken in and on disk"), vec![Figure::PerSecond(rate), stored]);
    let warm = Side::new(format!("{size} rows, warm start"), vec![Figure::Seconds(warm.as_secs_f64())]);
    let written = Row::new(written).ratios("20,000/s", &[rate / WANTED_RATE]);
    Ok(vec![written, Row::new(warm)])
}

#[expect(clippy::cast_precision_loss, reason = "figures for people")]
fn ratio(count: usize, elapsed: Duration) -> f64 {
    count as f64 / elapsed.as_secs_f64()
}
