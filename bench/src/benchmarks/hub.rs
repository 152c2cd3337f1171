//! The hub over GraphQL, on embedded defaults: what records cost, and whether more of them make each one slower.
//!
//! A look-up and a page of a list are held against themselves with a hundredth of the records: neither may grow with the total.
//! Creating, reading and changing one record are held against bare SQLite transactions with the same values, among all the
//! records: what we add is GraphQL, access, sealing, versions and attributes, and two audit lines for a change. That comes last,
//! because it makes records that are not counted.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use reqwest::Client;
use serde_json::{Value, json};

use crate::floors::Floor;
use crate::latency::Series;
use crate::measure::Bench;
use crate::report::{self, Figure, Row, Side, Within, megabytes};
use crate::server::{Server, Transport, build};
use crate::usage;

const NAME: &str = "hub";
/// Records, each total on top of the one before.
const TOTALS: [usize; 3] = [1_000, 10_000, 100_000];
const BATCH: usize = 500;
/// The total at which the whole list is asked for at once.
const WHOLE: usize = 10_000;
const PAGE: usize = 50;
const CLIENTS: [usize; 2] = [1, 8];

const WHY_CREATE: &str = "a create is one transaction and one synced audit line, where the floor is one transaction";
const WHY_READ: &str =
    "a read is a request with two decisions and an opened seal, where the floor is a point read of a page in memory";
const WHY_UPDATE: &str =
    "lock, update and unlock are three requests, each with a synced audit line, against three transactions";
const WHY_GROWTH: &str = "neither a look-up nor a page may grow with the number of records";

const CREATE: &str = "mutation($in: CreateTypeInstanceInput!) { createTypeInstance(in: $in) }";
const CREATE_MANY: &str = "mutation($in: CreateTypeInstancesInput!) { createTypeInstances(in: $in) { id } }";
const LOOK_UP: &str =
    "query($id: ID!) { typeInstance(id: $id) { id latestResourceVersion { resourceVersion spec { value } } } }";
const PAGED: &str = "query($first: Int, $after: String) { typeInstancesPage(first: $first, after: $after) \
     { items { id typeRef { path revision } latestResourceVersion { resourceVersion } } endCursor } }";
const LIST: &str = "{ typeInstances { id typeRef { path } latestResourceVersion { spec { value } } } }";
const LOCK: &str = "mutation($in: LockTypeInstancesInput!) { lockTypeInstances(in: $in) }";
const UPDATE: &str = "mutation($in: [UpdateTypeInstancesInput]!) { updateTypeInstances(in: $in) { id } }";
const UNLOCK: &str = "mutation($in: UnlockTypeInstancesInput!) { unlockTypeInstances(in: $in) }";

pub(super) fn run(bench: &Bench) -> Result<Vec<Row>> {
    let program = build()?;
    let server = Server::start(&program, &bench.path("hub"), Transport::Tls)?;
    let hub = Arc::new(Hub::new(&server)?);
    let payload: Bytes = value(0).to_string().into();
    let floor = Floor::sqlite(&bench.path("hub-floor.db"), CLIENTS[1], &payload)?;
    let floor = Arc::new(Bare { floor, payload });
    let mut rows = Vec::new();
    let mut tell = |row: Row| {
        report::tell(NAME, &row);
        rows.push(row);
    };
    let mut before: Option<Steps> = None;
    let mut ids = Vec::new();
    for total in TOTALS {
        let start = Instant::now();
        let had = ids.len();
        while ids.len() < total {
            ids.extend(bench.wait_for(hub.create_many(BATCH.min(total - ids.len())))?);
        }
        let rate = per_second(ids.len() - had, start.elapsed());
        let memory = usage::memory(server.pid())?;
        tell(Row::new(Side::new(
            format!("{total} records, created in batches of {BATCH}; then the server"),
            vec![Figure::PerSecond(rate), Figure::ResidentMegabytes(megabytes(memory))],
        )));
        let steps = bench.wait_for(Steps::measure(bench, &hub, &ids))?;
        for row in steps.rows(total, before.as_ref()) {
            tell(row);
        }
        before.get_or_insert(steps);
        if total == WHOLE {
            tell(bench.wait_for(whole(&hub, server.pid()))?);
        }
    }
    for row in bench.wait_for(against_the_floor(bench, &hub, &floor, ids.len()))? {
        tell(row);
    }
    Ok(rows)
}

/// A client of the hub.
struct Hub {
    client: Client,
    url: String,
    token: String,
    ids: std::sync::Mutex<Vec<String>>,
}

impl Hub {
    fn new(server: &Server) -> Result<Hub> {
        let token = server.token.clone().context("the server made no first token")?;
        let url = format!("{}/graphql", server.url);
        Ok(Hub { client: server.client.clone(), url, token, ids: std::sync::Mutex::default() })
    }

    async fn ask(&self, query: &str, variables: Value) -> Result<Value> {
        let request = self.client.post(&self.url).bearer_auth(&self.token);
        let response = request.json(&json!({ "query": query, "variables": variables })).send().await?;
        let status = response.status();
        let mut answer: Value = response.json().await.with_context(|| format!("the hub answered {status}"))?;
        ensure!(answer.get("errors").is_none(), "the hub refused: {}", answer["errors"][0]["message"]);
        Ok(answer["data"].take())
    }

    async fn create_many(&self, count: usize) -> Result<Vec<String>> {
        let records: Vec<Value> = (0..count).map(|_| record()).collect();
        let made = self.ask(CREATE_MANY, json!({ "in": { "typeInstances": records, "usesRelations": [] } })).await?;
        let made = made["createTypeInstances"].as_array().context("no list came back")?;
        made.iter().map(|one| Ok(one["id"].as_str().context("a record without an id")?.to_owned())).collect()
    }

    /// One of the records that everybody knows, another for every client and turn.
    fn any(&self) -> Result<String> {
        let ids = self.ids.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        fastrand::choice(ids.iter()).cloned().context("there are no records")
    }
}

/// A record with a value such as people keep: an endpoint, names, a password; about 300 bytes.
fn record() -> Value {
    let number = fastrand::u32(..);
    json!({
        "typeRef": { "path": format!("cap.type.bench.kind-{}", number % 20), "revision": "0.1.0" },
        "createdBy": format!("bench/action-{}", number % 100),
        "attributes": [{ "path": format!("cap.attribute.bench.team-{}", number % 10), "revision": "0.1.0" }],
        "value": value(number),
    })
}

fn value(number: u32) -> Value {
    let secret: String = std::iter::repeat_with(fastrand::alphanumeric).take(48).collect();
    json!({
        "host": format!("db-{number}.prod.example.com"),
        "port": 5432,
        "database": format!("app-{number}"),
        "user": "application",
        "password": secret,
        "options": { "sslmode": "verify-full", "connectTimeout": 10, "labels": ["blue", "primary"] },
    })
}

/// What must not grow: a look-up and a page from the middle of the list.
struct Steps {
    look_up: Series,
    page: Series,
}

impl Steps {
    async fn measure(bench: &Bench, hub: &Arc<Hub>, ids: &[String]) -> Result<Steps> {
        *hub.ids.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = ids.to_vec();
        let slice = Duration::from_millis(bench.effort.of(700, 3000));
        let mut steps = Steps { look_up: Series::default(), page: Series::default() };
        let middle = Arc::new((hub.clone(), middle(hub, ids.len()).await?));
        for _round in 0..bench.effort.of(3, 7) {
            steps.look_up.turn(1, slice, hub, look_up).await?;
            steps.page.turn(1, slice, &middle, page).await?;
        }
        Ok(steps)
    }

    fn rows(&self, total: usize, fewest: Option<&Steps>) -> Vec<Row> {
        let row = |what: &str, ours: &Series, least: Option<&Series>| {
            let row = Row::new(Side::of_series(format!("{total} records, {what}"), ours));
            let Some(least) = least else { return row };
            let row = row.against(Side::of_series(format!("{} records", TOTALS[0]), least));
            let ratio = ours.percentile(0.5).as_secs_f64() / least.percentile(0.5).as_secs_f64();
            row.ratio("p50", ratio, &ours.medians_against(least)).limit(Within::AtMost(2.0), WHY_GROWTH)
        };
        vec![
            row("look-up with its value", &self.look_up, fewest.map(|fewest| &fewest.look_up)),
            row(&format!("page of {PAGE} in the middle"), &self.page, fewest.map(|fewest| &fewest.page)),
        ]
    }
}

async fn look_up(hub: Arc<Hub>, _client: usize) -> Result<()> {
    let found = hub.ask(LOOK_UP, json!({ "id": hub.any()? })).await?;
    ensure!(found["typeInstance"]["latestResourceVersion"]["spec"]["value"]["port"] == 5432, "another value came back");
    Ok(())
}

async fn page(middle: Arc<(Arc<Hub>, String)>, _client: usize) -> Result<()> {
    let (hub, after) = middle.as_ref();
    let found = hub.ask(PAGED, json!({ "first": PAGE, "after": after })).await?;
    let items = found["typeInstancesPage"]["items"].as_array().map(Vec::len);
    ensure!(items == Some(PAGE), "{items:?} records came back of {PAGE}");
    Ok(())
}

/// A cursor about half-way through the list.
async fn middle(hub: &Hub, total: usize) -> Result<String> {
    let mut after = Value::Null;
    let mut passed = 0;
    while passed < total / 2 {
        let found = hub.ask(PAGED, json!({ "first": BATCH, "after": after })).await?;
        passed += found["typeInstancesPage"]["items"].as_array().map_or(0, Vec::len);
        after = found["typeInstancesPage"]["endCursor"].clone();
    }
    Ok(after.as_str().context("a page without an end")?.to_owned())
}

/// All records with their values in one answer, as clients of the original ask for them: without a page.
async fn whole(hub: &Hub, pid: u32) -> Result<Row> {
    usage::forget_peak(pid)?;
    let (before, start) = (usage::cpu(pid)?, Instant::now());
    let found = hub.ask(LIST, json!({})).await?;
    let elapsed = start.elapsed();
    let count = found["typeInstances"].as_array().map_or(0, Vec::len);
    ensure!(count == WHOLE + 1, "{count} records came back of {WHOLE} and the built-in one");
    let figures = vec![
        Figure::PerSecond(per_second(count, elapsed)),
        Figure::Seconds(elapsed.as_secs_f64()),
        Figure::CpuSeconds(usage::cpu(pid)?.saturating_sub(before).as_secs_f64()),
        Figure::PeakMegabytes(megabytes(usage::peak_memory(pid)?)),
    ];
    Ok(Row::new(Side::new(format!("list of all {count} with their values, in one answer"), figures)))
}

async fn against_the_floor(bench: &Bench, hub: &Arc<Hub>, floor: &Arc<Bare>, total: usize) -> Result<Vec<Row>> {
    let slice = Duration::from_millis(bench.effort.of(700, 3000));
    let mut rows = Vec::new();
    for clients in CLIENTS {
        let mut ours: [Series; 3] = Default::default();
        let mut theirs: [Series; 3] = Default::default();
        for _round in 0..bench.effort.of(3, 7) {
            ours[0].turn(clients, slice, hub, create).await?;
            theirs[0].turn(clients, slice, floor, bare_create).await?;
            ours[1].turn(clients, slice, hub, look_up).await?;
            theirs[1].turn(clients, slice, floor, bare_read).await?;
            ours[2].turn(clients, slice, hub, update_under_lock).await?;
            theirs[2].turn(clients, slice, floor, bare_update).await?;
        }
        let told = [("create", 0.05, WHY_CREATE), ("read", 0.0004, WHY_READ), ("update under lock", 0.05, WHY_UPDATE)];
        for ((ours, theirs), (what, least, why)) in ours.iter().zip(&theirs).zip(told) {
            let many = if clients == 1 { "client" } else { "clients" };
            let row = Row::new(Side::of_series(format!("{total} records, {what}, {clients} {many}"), ours));
            let row = row.against(Side::of_series("bare SQLite", theirs));
            let ratios = ours.rates_against(theirs);
            rows.push(row.ratios("rate", &ratios).limit(Within::AtLeast(least), why));
        }
    }
    Ok(rows)
}

/// The same writes and reads without us, each durable by itself.
struct Bare {
    floor: Floor,
    payload: Bytes,
}

async fn bare_create(bare: Arc<Bare>, client: usize) -> Result<()> {
    bare.floor.rewrite(client, &bare.payload).await
}

async fn bare_read(bare: Arc<Bare>, client: usize) -> Result<()> {
    bare.floor.read(client).await
}

async fn bare_update(bare: Arc<Bare>, client: usize) -> Result<()> {
    for _step in ["lock", "update", "unlock"] {
        bare.floor.rewrite(client, &bare.payload).await?;
    }
    Ok(())
}

async fn create(hub: Arc<Hub>, _client: usize) -> Result<()> {
    hub.ask(CREATE, json!({ "in": record() })).await.map(drop)
}

async fn update_under_lock(hub: Arc<Hub>, client: usize) -> Result<()> {
    // Every client has records of its own, so that none waits for another.
    let id = {
        let ids = hub.ids.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        ids.get(client).cloned().context("there are fewer records")?
    };
    let owner = format!("bench/client-{client}");
    hub.ask(LOCK, json!({ "in": { "ids": [id], "ownerID": owner } })).await?;
    let change = json!({ "id": id, "ownerID": owner, "typeInstance": { "value": value(fastrand::u32(..)) } });
    hub.ask(UPDATE, json!({ "in": [change] })).await?;
    hub.ask(UNLOCK, json!({ "in": { "ids": [id], "ownerID": owner } })).await.map(drop)
}

#[expect(clippy::cast_precision_loss, reason = "figures for people")]
fn per_second(count: usize, elapsed: Duration) -> f64 {
    count as f64 / elapsed.as_secs_f64()
}
