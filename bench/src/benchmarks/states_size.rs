//! Large states through a real server over TLS: time, CPU, memory and what the store keeps.
//!
//! The bytes are made beforehand and sent by this process, which shares the machine with the server: its own TLS is in
//! the time, not in the CPU seconds. CPU of a write is compared with the least that any keeper of states would do with
//! the same bytes: check that they are JSON, and compress them.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use bytes::Bytes;
use serde::de::IgnoredAny;
use testbed::states::{Options, RESOURCE_BYTES, generate};

use crate::measure::{Bench, median};
use crate::report::{self, Figure, Row, Side, Within};
use crate::server::build;
use crate::states::{Http, Place, Store};
use crate::usage;

const MEGABYTES: [usize; 3] = [10, 110, 300];
/// Every store, with the largest size in megabytes that it is given, in a quick run and in a full one. A state of 110 MB
/// is more than ConfigMaps and Secrets are made for.
const STORES: [(Store, usize, usize); 5] = [
    (Store::Sqlite, 300, 300),
    (Store::Postgres, 110, 300),
    (Store::ConfigMap, 10, 10),
    (Store::Secret, 10, 10),
    (Store::S3, 110, 300),
];

const WHY_CPU: &str = "goal: a write costs half as much again as validating and compressing its bytes at most";
const WHY_SPEED: &str = "goal: 300 MB arrive at 250 MB/s (ratio 1)";
const WANTED_SPEED: f64 = 250.0;

pub(super) fn run(bench: &Bench) -> Result<Vec<Row>> {
    let program = build()?;
    let mut rows = Vec::new();
    for (store, quick, full) in STORES {
        let largest = bench.effort.of(quick, full);
        bench.wait_for(async {
            let place = Place::start(bench, &program, store).await?;
            let client = place.clients(1)?;
            for megabytes in MEGABYTES.into_iter().filter(|size| *size <= largest) {
                let measured = measure(bench, &place, &client, megabytes).await?;
                for row in &measured {
                    report::tell("states-size", row);
                }
                rows.extend(measured);
            }
            anyhow::Ok(())
        })?;
    }
    Ok(rows)
}

async fn measure(bench: &Bench, place: &Place, client: &Http, megabytes: usize) -> Result<Vec<Row>> {
    let (pid, repeat) = (place.server.pid(), bench.effort.of(3, 7));
    let state: Bytes = generate(megabytes * 1_000_000 / RESOURCE_BYTES, 1, &Options::default()).into();
    let size = report::megabytes(state.len() as u64);
    let (mut writes, mut reads, mut peaks) = (Vec::new(), Vec::new(), Vec::new());
    let (mut write_cpu, mut read_cpu) = (Duration::ZERO, Duration::ZERO);
    for number in 0..repeat {
        let name = format!("size-{megabytes}-{number}");
        usage::forget_peak(pid)?;
        let (before, start) = (usage::cpu(pid)?, Instant::now());
        client.write(&name, state.clone()).await?;
        writes.push(size / start.elapsed().as_secs_f64());
        write_cpu += usage::cpu(pid)?.saturating_sub(before);
        let (before, start) = (usage::cpu(pid)?, Instant::now());
        let length = client.length(&name).await?;
        reads.push(size / start.elapsed().as_secs_f64());
        read_cpu += usage::cpu(pid)?.saturating_sub(before);
        peaks.push(report::megabytes(usage::peak_memory(pid)?));
        ensure!(length == state.len() as u64, "{length} bytes came back of {}", state.len());
    }
    let what = |doing: &str| format!("{}, {megabytes} MB {doing}", place.store.name());
    let stored = place.stored(bench, &format!("size-{megabytes}-0")).await?;
    ensure!(stored > 0, "{} keeps nothing of what it was given", place.store.name());
    let figures = vec![
        Figure::MegabytesPerSecond(median(writes.iter().copied())),
        Figure::CpuSeconds(write_cpu.as_secs_f64() / f64::from(repeat)),
        Figure::PeakMegabytes(peaks.iter().copied().fold(0.0, f64::max)),
        Figure::StoredMegabytes(report::megabytes(stored)),
    ];
    let mut rows = vec![Row::new(Side::new(what("in"), figures.clone()))];
    if place.store == Store::Sqlite && megabytes == 300 {
        let ratios: Vec<f64> = writes.iter().map(|speed| speed / WANTED_SPEED).collect();
        rows = vec![Row::new(Side::new(what("in"), figures.clone())).ratios("250 MB/s", &ratios)];
        rows = rows.into_iter().map(|row| row.goal(Within::AtLeast(1.0), WHY_SPEED)).collect();
    }
    let read = vec![
        Figure::MegabytesPerSecond(median(reads.into_iter())),
        Figure::CpuSeconds(read_cpu.as_secs_f64() / f64::from(repeat)),
    ];
    rows.push(Row::new(Side::new(what("out"), read)));
    if megabytes == 10 {
        rows.push(against_the_least(place, client, &state, figures).await?);
    }
    Ok(rows)
}

/// CPU of a write against validate + zstd-3, in turns, each often enough that ticks of the clock do not matter.
async fn against_the_least(place: &Place, client: &Http, state: &Bytes, figures: Vec<Figure>) -> Result<Row> {
    let pid = place.server.pid();
    let mut ratios = Vec::new();
    let mut least = Duration::ZERO;
    let (rounds, writes) = (3, 4);
    for round in 0..rounds {
        let before = usage::cpu(pid)?;
        for number in 0..writes {
            client.write(&format!("cpu-{round}-{number}"), state.clone()).await?;
        }
        let ours = usage::cpu(pid)?.saturating_sub(before);
        let start = usage::thread_cpu();
        for _number in 0..writes {
            std::hint::black_box(serde_json::from_slice::<IgnoredAny>(state)?);
            std::hint::black_box(zstd::bulk::compress(state, 3)?);
        }
        let theirs = usage::thread_cpu().saturating_sub(start);
        least += theirs;
        ratios.push(ours.as_secs_f64() / theirs.as_secs_f64());
    }
    let least = least.as_secs_f64() / f64::from(rounds * writes);
    let name = format!("{}, 10 MB in", place.store.name());
    let row =
        Row::new(Side::new(name, figures)).against(Side::new("validate + zstd-3", vec![Figure::CpuSeconds(least)]));
    Ok(row.ratios("CPU", &ratios).goal(Within::AtMost(1.5), WHY_CPU))
}
