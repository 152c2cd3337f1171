//! Many versions of a large state through the real server: how much they take, and that each comes back.

use testbed::states::{Options, RESOURCE_BYTES, generate};

use crate::places::{Kept, LARGE_STORES, Place, on};
use crate::server::{PATIENCE, answer};

const SEED: u64 = 10_000_000;

/// Version `number`: each differs from the one before in two of its resources.
fn version(resources: usize, number: u64) -> Vec<u8> {
    let place = |number: u64| usize::try_from(number * 7919).unwrap() % resources;
    let edits = (1..number).flat_map(|edit| [(place(edit), edit), (place(edit + 1000), edit)]).collect();
    generate(resources, SEED, &Options { serial: number, edits })
}

#[test]
fn many_versions_of_a_large_state_take_at_most_twice_the_bytes_of_one_and_each_comes_back() {
    let (versions, megabytes) = testbed::scale().of((24, 3), (100, 10));
    let resources = (megabytes << 20) / RESOURCE_BYTES;
    let stores = if testbed::scale().is_full() { &LARGE_STORES[..] } else { &[Kept::Sqlite, Kept::ConfigMap] };
    on(stores, async |kept| {
        let place = Place::new(kept).await;
        let client = place.server.client();
        let mut one = 0;
        for number in 1..=versions {
            let request = place.server.request_by(&client, "POST", &place.path("app")).bearer_auth(&place.token);
            let (status, text) = answer(request.body(version(resources, number))).await;
            assert_eq!(status, 200, "{text}");
            if number == 1 {
                one = place.head("app").await.stored();
            }
        }
        // Old versions become differences behind the writers' backs, and leave nothing that waits to be swept.
        testbed::eventually(5 * PATIENCE, || async {
            let head = place.head("app").await;
            let (stored, left) = (head.stored(), head.uploads.len());
            if stored <= 2 * one && left == 0 { Ok(()) } else { Err(format!("{stored} bytes, one is {one}; {left}")) }
        })
        .await;
        for number in 1..=versions {
            let path = format!("/api/states/{}/app/versions/{number}/raw", place.namespace);
            let request = place.server.request_by(&client, "GET", &path).bearer_auth(&place.token);
            let answer = request.send().await.expect("an answer");
            assert_eq!(answer.status(), 200, "{number}");
            assert!(answer.bytes().await.expect("bytes") == version(resources, number), "version {number}");
        }
    });
}
