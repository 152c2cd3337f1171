//! The oldest version of a large state, on every store: to read it and to return to it takes the server as little memory
//! as a write does.

use std::time::Duration;

use aws_lc_rs::digest::{Context, SHA256, digest};
use bytes::Bytes;
use reqwest::{Client, Response};
use testbed::scale;
use testbed::states::{Options, RESOURCE_BYTES, generate};

use crate::places::{Kept, Place};
use crate::server::PATIENCE;
use crate::sizes::{BESIDE, compressed_size};

const NAME: &str = "large";
const VERSIONS: u64 = 3;

/// Version `number`: each differs from the one before in one resource.
fn version(resources: usize, serial: u64, number: u64) -> Bytes {
    let edits = (1..number).map(|edit| (resources / 4 * usize::try_from(edit).unwrap(), edit)).collect();
    generate(resources, 7, &Options { serial, edits }).into()
}

/// One act of a client: its name, and the most that the server took meanwhile.
async fn measured(place: &Place, what: String, act: impl Future<Output = Response>) -> (String, u64) {
    place.server.forget_peak();
    let mut response = act.await;
    let status = response.status().as_u16();
    assert_eq!(status, 200, "{what}: {}", response.text().await.unwrap_or_default());
    while response.chunk().await.expect("a whole answer").is_some() {}
    (what, place.server.peak_memory())
}

async fn hash(client: &Client, place: &Place, path: &str) -> Vec<u8> {
    let request = place.server.request_by(client, "GET", path).bearer_auth(&place.token);
    let mut response = request.send().await.expect("an answer");
    let mut hash = Context::new(&SHA256);
    while let Some(piece) = response.chunk().await.expect("a whole answer") {
        hash.update(&piece);
    }
    hash.finish().as_ref().to_vec()
}

async fn the_oldest_version_takes_little_memory(kept: Kept) {
    let resources = scale().of(16_000_000, 300_000_000) / RESOURCE_BYTES;
    let place = Place::new(kept).await;
    let client = place.server.client_builder().timeout(Duration::from_mins(10)).build().expect("a client");
    let ask = |method: &str, path: &str| place.server.request_by(&client, method, path).bearer_auth(&place.token);
    let sent = async |request: reqwest::RequestBuilder| request.send().await.expect("an answer");
    let path = place.path(NAME);
    let mut peaks = Vec::new();
    for number in 1..=VERSIONS {
        let body = version(resources, number, number);
        peaks.push(measured(&place, format!("write {number}"), sent(ask("POST", &path).body(body))).await);
    }
    let first = version(resources, 1, 1);
    // What a build for tests takes by itself matters less for a large state than for a small one.
    let bound = BESIDE + compressed_size(&first) + scale().of(16 << 20, 0);
    // Old versions become differences behind the writers' backs.
    place.server.forget_peak();
    testbed::eventually(10 * PATIENCE, || async {
        let head = place.head(NAME).await;
        let newest = head.current.as_ref().map_or(0, |version| version.body.stored());
        let older: u64 = head.recent.iter().map(|version| version.body.stored()).sum();
        let count = head.recent.len() as u64;
        if count == VERSIONS - 1 && older < newest / 2 { Ok(()) } else { Err(format!("{count} take {older} bytes")) }
    })
    .await;
    peaks.push(("differences".to_owned(), place.server.peak_memory()));

    let management = format!("/api/states/{}/{NAME}", place.namespace);
    let oldest = format!("{management}/versions/1/raw");
    peaks.push(measured(&place, "the oldest".to_owned(), sent(ask("GET", &oldest))).await);
    assert_eq!(hash(&client, &place, &oldest).await, digest(&SHA256, &first).as_ref(), "{}", kept.name());

    let back = ask("POST", &format!("{management}/rollback")).json(&serde_json::json!({ "version": 1 }));
    peaks.push(measured(&place, "rollback".to_owned(), sent(back)).await);
    let expected = version(resources, VERSIONS + 1, 1);
    assert_eq!(hash(&client, &place, &path).await, digest(&SHA256, &expected).as_ref(), "{}", kept.name());

    #[expect(clippy::print_stderr, reason = "the figures of the run")]
    for (what, peak) in &peaks {
        eprintln!("{}, {} bytes, {what}: peak {} MiB, bound {} MiB", kept.name(), first.len(), peak >> 20, bound >> 20);
    }
    for (what, peak) in peaks {
        assert!(peak <= bound, "{}: {what} took {peak} bytes, bound {bound}", kept.name());
    }
}

#[tokio::test]
async fn the_oldest_version_takes_little_memory_on_sqlite() {
    the_oldest_version_takes_little_memory(Kept::Sqlite).await;
}

#[tokio::test]
async fn the_oldest_version_takes_little_memory_on_postgres() {
    the_oldest_version_takes_little_memory(Kept::Postgres).await;
}

#[tokio::test]
async fn the_oldest_version_takes_little_memory_on_config_maps() {
    the_oldest_version_takes_little_memory(Kept::ConfigMap).await;
}

#[tokio::test]
async fn the_oldest_version_takes_little_memory_on_secrets() {
    the_oldest_version_takes_little_memory(Kept::Secret).await;
}

#[tokio::test]
async fn the_oldest_version_takes_little_memory_on_s3() {
    the_oldest_version_takes_little_memory(Kept::S3).await;
}
