//! What a client does for every apply: LOCK, GET, POST, UNLOCK of a state of 10 kB, by one client and by many.
//!
//! Ours is a real server over TLS, each client with a connection and a state of its own. The floor is the same sequence
//! of bare store operations: three read-modify-writes and a read (see `floors`). What we add to it is the way through
//! the server, and for each change two lines in the audit log, on disk by one sync before the answer: with one client
//! it comes after the store's own, with many it is shared. The CPU time of the server for a cycle is told too: it says
//! what a change of the code does also on a machine that others use.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;

use crate::floors::Floor;
use crate::latency::Series;
use crate::measure::Bench;
use crate::report::{self, Figure, Row, Side, Within};
use crate::server::build;
use crate::states::{Http, Payload, Place, Store};
use crate::usage;

const CLIENTS: [usize; 3] = [1, 8, 64];

const WHY_MEDIAN: &str = "goal: the server adds a third to the bare store operations of a cycle at most";
const WHY_RATE: &str = "goal: many clients get 70 % of what the bare store gives";

pub(super) fn run(bench: &Bench, store: Store) -> Result<Vec<Row>> {
    let program = build()?;
    bench.wait_for(async {
        let place = Place::start(bench, &program, store).await?;
        let mut rows = Vec::new();
        for clients in CLIENTS {
            rows.extend(measure(bench, &place, clients).await?);
        }
        Ok(rows)
    })
}

/// One side, with what it writes.
struct Runner<T> {
    side: T,
    payload: Arc<Payload>,
}

async fn measure(bench: &Bench, place: &Place, clients: usize) -> Result<Vec<Row>> {
    let payload = Arc::new(Payload::ten_kilobytes()?);
    let runner = |side: Http| Arc::new(Runner { side, payload: payload.clone() });
    let ours = runner(place.clients(clients)?);
    let floor = place.floor(bench, clients, &payload).await?;
    let floor = Arc::new(Runner { side: floor, payload: payload.clone() });
    let mut others = Vec::new();
    for peer in &bench.peers {
        others.push((peer, runner(Http::peer(peer, clients)?), Series::default()));
    }
    for side in others.iter().map(|(_, side, _)| side).chain([&ours]) {
        side.side.prime(&payload).await?;
    }
    let slice = match clients {
        1 => Duration::from_millis(bench.effort.of(1500, 5000)),
        2..32 => Duration::from_millis(bench.effort.of(2000, 5000)),
        _ => Duration::from_millis(bench.effort.of(3000, 10_000)),
    };
    let (mut our_series, mut floor_series) = (Series::default(), Series::default());
    // A turn that does not count warms connections and caches.
    let warm = Duration::from_millis(300);
    Series::default().turn(clients, warm, &ours, over_http).await?;
    Series::default().turn(clients, warm, &floor, bare).await?;
    let (pid, mut cpu) = (place.server.pid(), Duration::ZERO);
    for _round in 0..bench.effort.of(3, 7) {
        let before = usage::cpu(pid)?;
        our_series.turn(clients, slice, &ours, over_http).await?;
        cpu += usage::cpu(pid)?.saturating_sub(before);
        floor_series.turn(clients, slice, &floor, bare).await?;
        for (_, side, series) in &mut others {
            series.turn(clients, slice, side, over_http).await?;
        }
    }
    let many = if clients == 1 { "client" } else { "clients" };
    let cpu = Figure::CpuMilliseconds(cpu.as_secs_f64() * 1e3 / our_series.count());
    let name = format!("{}, {clients} {many}", place.store.name());
    let ours = || Side::of_series(name.clone(), &our_series).with(cpu);
    let compare = |name: &str, other: &Series| {
        let ratio = our_series.percentile(0.5).as_secs_f64() / other.percentile(0.5).as_secs_f64();
        let row = Row::new(ours()).against(Side::of_series(name, other));
        row.ratio("p50", ratio, &our_series.medians_against(other))
    };
    let mut rows = vec![compare("floor", &floor_series)];
    if clients < 64 {
        rows = rows.into_iter().map(|row| row.goal(Within::AtMost(1.3), WHY_MEDIAN)).collect();
    } else {
        // With everybody waiting for everybody else the median is the throughput in another guise.
        let row = Row::new(ours()).against(Side::of_series("floor", &floor_series));
        let row =
            row.ratio("cycles/s", our_series.rate() / floor_series.rate(), &our_series.rates_against(&floor_series));
        rows.push(row.goal(Within::AtLeast(0.7), WHY_RATE));
    }
    rows.extend(others.iter().map(|(peer, _, series)| compare(&peer.name, series)));
    for row in &rows {
        report::tell("states-cycle", row);
    }
    Ok(rows)
}

async fn over_http(runner: Arc<Runner<Http>>, client: usize) -> Result<()> {
    runner.side.cycle(client, &runner.payload).await
}

async fn bare(runner: Arc<Runner<Floor>>, client: usize) -> Result<()> {
    runner.side.cycle(client, &runner.payload).await
}
