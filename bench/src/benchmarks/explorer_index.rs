//! The explorer's index with many rows: how long answers take, how fast rows come in, what they take, how long a start takes.
//!
//! Nothing is compared here, for no other program answers such questions under such grants: figures stand against the goals
//! that the explorer has. They are goals on a machine of its own; what is missed is marked. An answer is computed by one thread
//! that waits for nothing, so that the goal is held against its time on the CPU: on a machine that others use, the clock on
//! the wall, which is shown too, tells of them.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use explorer::durable::Store;
use explorer::index::{Index, Settings};
use explorer::query::{Facets, Order, Request};

use crate::explore::{Feed, Person, questions};
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
const WHY_RATE: &str = "goal: 20,000 objects are taken in each second (ratio 1)";
const WHY_BYTES: &str = "goal: an object takes 1,500 bytes of index at most (ratio 1)";

pub(super) fn run(bench: &Bench) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for (size, milliseconds) in SIZES.into_iter().take(bench.effort.of(2, 3)) {
        let mut tell = |row: Row| {
            report::tell(NAME, &row);
            rows.push(row);
        };
        let before = usage::memory(std::process::id())?;
        let (index, ingest) = fill(size)?;
        tell(ingest);
        let resident = usage::memory(std::process::id())?.saturating_sub(before);
        tell(memory(&index, size, resident));
        for row in answers(bench, &index, size, milliseconds)? {
            tell(row);
        }
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
    let rate = ratio(size, prepare_cpu.max(insert_cpu));
    let figures = vec![
        Figure::PerSecond(ratio(size, elapsed)),
        Figure::PerSecond(rate),
        Figure::CpuSeconds(prepare_cpu.as_secs_f64()),
        Figure::CpuSeconds(insert_cpu.as_secs_f64()),
    ];
    let row = Row::new(Side::new(
        format!("{size} rows, taken in, then by CPU of the slower thread (CPU of words, of sets)"),
        figures,
    ));
    Ok((index, row.ratios("20,000/s", &[rate / WANTED_RATE]).goal(Within::AtLeast(1.0), WHY_RATE)))
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
    let name = format!("{size} rows, {} words, {} fields: all, dictionary, sets, columns", sizes.words, sizes.fields);
    let row = Row::new(Side::new(name, figures)).ratios("1,500 bytes", &[each(sizes.bytes()) / WANTED_BYTES]);
    row.goal(Within::AtMost(1.0), WHY_BYTES)
}

fn answers(bench: &Bench, index: &Index, size: usize, milliseconds: f64) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for person in Person::all() {
        for (what, texts) in questions() {
            let (mut times, mut on_cpu) = (Vec::new(), Vec::new());
            let mut slowest = (Duration::ZERO, "");
            for round in 0..bench.effort.of(40, 60) {
                for text in texts {
                    let request = Request { query: (*text).to_owned(), limit: 25, ..Request::default() };
                    let mut query = request.query().context("a question of the benchmark is wrong")?;
                    query.facets = Facets::WithLabels(vec!["tier".to_owned()]);
                    query.order = Order::ALL[round % Order::ALL.len()];
                    query.descending = round % 3 == 0;
                    let (start, cpu) = (Instant::now(), usage::thread_cpu());
                    std::hint::black_box(index.query(&query, &person.visibility));
                    let cpu = usage::thread_cpu().saturating_sub(cpu);
                    times.push(start.elapsed());
                    on_cpu.push(cpu);
                    slowest = slowest.max((cpu, *text));
                }
            }
            times.sort();
            on_cpu.sort();
            let at = |times: &[Duration], part| percentile(times, part).as_secs_f64() * 1000.0;
            let figures = vec![
                Figure::MedianMilliseconds(at(&times, 0.5)),
                Figure::P99Milliseconds(at(&times, 0.99)),
                Figure::MedianMilliseconds(at(&on_cpu, 0.5)),
                Figure::P99Milliseconds(at(&on_cpu, 0.99)),
            ];
            let cpu = at(&on_cpu, 0.99);
            let name = format!("{size} rows, {}, {what}, then on the CPU (slowest: '{}')", person.name, slowest.1);
            let row = Row::new(Side::new(name, figures)).ratios("CPU p99 to goal", &[cpu / milliseconds]);
            rows.push(row.goal(Within::AtMost(1.0), WHY_TIME));
        }
    }
    Ok(rows)
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
    let written = Side::new(format!("{size} rows, on disk too"), vec![Figure::PerSecond(ratio(size, elapsed)), stored]);
    let warm = Side::new(format!("{size} rows, warm start"), vec![Figure::Seconds(warm.as_secs_f64())]);
    Ok(vec![Row::new(written), Row::new(warm)])
}

#[expect(clippy::cast_precision_loss, reason = "figures for people")]
fn ratio(count: usize, elapsed: Duration) -> f64 {
    count as f64 / elapsed.as_secs_f64()
}
