//! Old versions cost little, come back exactly, and outlive the head.

use std::collections::BTreeSet;

use jiff::Timestamp;
use states::codec::Sensitive;
use states::head::Body;
use states::{Error, Settings, State, Written};
use testbed::states::{Options, RESOURCE_BYTES, generate};

use crate::places::{Place, big_state, collect, no_time, on_every_large_store, read, settings, small_state, write};

/// A state of some megabytes whose versions differ by a few resources.
struct Edited {
    resources: usize,
    options: Options,
    random: fastrand::Rng,
}

impl Edited {
    fn new(megabytes: usize) -> Edited {
        let random = fastrand::Rng::with_seed(testbed::seed("deltas"));
        Edited { resources: megabytes * 1_000_000 / RESOURCE_BYTES, options: Options::default(), random }
    }

    fn next(&mut self, serial: u64) -> Vec<u8> {
        self.options.serial = serial;
        for _ in 0..self.random.usize(1..4) {
            self.options.edits.insert(self.random.usize(..self.resources), serial);
        }
        generate(self.resources, 5, &self.options)
    }
}

#[tokio::test]
async fn a_hundred_versions_take_at_most_twice_the_bytes_of_one() {
    let (count, megabytes) = testbed::scale().of((12, 3), (100, 10));
    on_every_large_store(|place| async move {
        let state = place.state_with("edited", Settings { times: no_time(), ..settings() });
        let mut edited = Edited::new(megabytes);
        let mut written: Vec<Vec<u8>> = Vec::new();
        let mut one = 0;
        for serial in 1..=count {
            let bytes = edited.next(serial);
            assert_eq!(write(&state, &bytes, None, "ann").await.unwrap(), Written::Version(serial));
            state.upkeep().await.unwrap();
            if serial == 1 {
                one = state.head().await.unwrap().unwrap().stored();
            }
            written.push(bytes);
        }
        let head = state.head().await.unwrap().unwrap();
        let all = head.stored();
        tell(&format!(
            "{}: {} versions of {megabytes} MB: {all} bytes, one is {one}",
            place.store.name(),
            head.last_version
        ));
        assert!(all <= 2 * one, "{}: {all} bytes, one is {one}", place.store.name());
        for version in state.versions().await.unwrap() {
            let number = usize::try_from(version.number).unwrap();
            assert!(collect(state.open(version).await.unwrap()).await == written[number - 1], "version {number}");
        }
        let outputs = state.outputs(Sensitive::LeftOut).await;
        assert!(outputs.is_ok());
        // Nothing but what versions name is left, and the sweeper takes none of that.
        place.states(Settings { times: no_time(), ..settings() }).sweep().await;
        let oldest = state.version(1).await.unwrap();
        assert!(collect(state.open(oldest).await.unwrap()).await == written[0]);
    })
    .await;
}

#[tokio::test]
async fn what_a_version_was_stored_in_before_goes_at_once_and_its_readers_go_on() {
    on_every_large_store(|place| async move {
        // Nothing is swept, and nothing would be for an hour.
        let (state, size) = (place.state("read"), (place.store.limits().chunk * 9 / 4).max(6 << 20));
        let text = String::from_utf8(big_state(1, size)).unwrap();
        let body = |number: u64| text.replacen("\"serial\": 1", &format!("\"serial\": {number}"), 1).into_bytes();
        let mut readings = Vec::new();
        let mut looked_up = Vec::new();
        for number in 1..=3 {
            write(&state, &body(number), None, "ann").await.unwrap();
            let mut reading = state.read().await.unwrap().expect("a state");
            let first = reading.next().await.unwrap().expect("a first piece");
            readings.push((first, reading));
            looked_up.push(state.version(number).await.unwrap());
            state.upkeep().await.unwrap();
        }
        assert_eq!(state.head().await.unwrap().unwrap().uploads, []);
        assert_eq!(place.uploads_before(Timestamp::MAX).await.len(), 3, "every version is one upload");
        for (number, (first, reading)) in (1..).zip(readings) {
            let rest = collect(reading).await;
            assert!([&*first, &*rest].concat() == body(number), "version {number}");
        }
        for version in looked_up {
            let number = version.number;
            assert!(collect(state.open(version).await.unwrap()).await == body(number), "version {number}");
        }
        // What was a file in an object goes into chunks, and then into others.
        let (state, body) = (place.state("spilled"), |number: u64| big_state(number, place.store.limits().inline));
        for number in 1..=2 {
            write(&state, &body(number), None, "ann").await.unwrap();
        }
        let first = state.version(1).await.unwrap();
        write(&state, &body(3), None, "ann").await.unwrap();
        state.upkeep().await.unwrap();
        assert!(collect(state.open(first).await.unwrap()).await == body(1));
    })
    .await;
}

#[tokio::test]
async fn versions_of_every_size_come_back_while_their_form_changes() {
    on_every_large_store(|place| async move {
        let state = place.state_with("mixed", Settings { times: no_time(), versions: 40, ..settings() });
        let inline = place.store.limits().inline;
        let body = |number: u64| match number % 5 {
            0 => small_state(number),
            1 => big_state(number, inline),
            2 => big_state(number, 40_000),
            _ => big_state(number, 3 * inline),
        };
        for number in 1..=testbed::scale().of(25, 90) {
            write(&state, &body(number), None, "ann").await.unwrap();
            if number % 3 == 0 {
                let (one, other) = tokio::join!(state.upkeep(), state.upkeep());
                one.and(other).unwrap();
            }
        }
        for version in state.versions().await.unwrap() {
            let number = version.number;
            assert!(collect(state.open(version).await.unwrap()).await == body(number), "version {number}");
        }
    })
    .await;
}

async fn remove_head(place: &Place, state: &State) {
    let found = place.store.read_head(state.key()).await.unwrap().expect("a head");
    place.store.delete_head(state.key(), &found.revision).await.unwrap();
    assert_eq!(read(state).await, None);
}

#[tokio::test]
async fn a_head_that_vanished_is_rebuilt_from_its_chunks() {
    on_every_large_store(|place| async move {
        let state = place.state("vanished");
        assert!(matches!(state.rebuild(None, "ann").await, Err(Error::NotFound)));
        let body = |number: u64| big_state(number, 3 * place.store.limits().inline);
        for number in 1..=11 {
            write(&state, &body(number), None, "ann").await.unwrap();
            if number % 2 == 0 {
                state.upkeep().await.unwrap();
            }
        }
        let numbers = |versions: Vec<states::head::Version>| versions.iter().map(|version| version.number).collect();
        let before: BTreeSet<u64> = numbers(state.versions().await.unwrap());
        remove_head(&place, &state).await;
        place.states(settings()).sweep().await;
        assert_eq!(state.rebuild(None, "ann").await.unwrap(), 11);
        assert!(read(&state).await.unwrap() == body(11));
        let after: BTreeSet<u64> = numbers(state.versions().await.unwrap());
        assert_eq!(before, after);
        for version in state.versions().await.unwrap() {
            let number = version.number;
            assert!(matches!(version.body, Body::Chunks { .. }));
            assert!(collect(state.open(version).await.unwrap()).await == body(number), "version {number}");
        }
        assert_eq!(write(&state, &body(12), None, "ann").await.unwrap(), Written::Version(12));
        assert!(state.rebuild(None, "ann").await.is_err(), "a head that is there stays");
    })
    .await;
}

fn tell(text: &str) {
    #[expect(clippy::print_stderr, reason = "the figure is wanted in the output of a soak")]
    {
        eprintln!("{text}");
    }
}
