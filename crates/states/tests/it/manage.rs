//! What people do with states, on every store: rollback, tombstones, restore, lists, and looks inside.

use futures::future::{join, join_all};
use states::codec::{Change, Sensitive, Value};
use states::{Error, Force, ResourceQuery, RolledBack, Unlocked, Written};
use testbed::states::{Options, generate};

use crate::places::{
    big_state, info, on_every_large_store, on_every_store, read, settings, small_state, unlock, write,
};

fn rolled_back(version: u64, serial: &str) -> RolledBack {
    RolledBack { version, serial: Some(serial.to_owned()) }
}

#[tokio::test]
async fn a_rollback_changes_the_digits_of_the_serial_and_nothing_else() {
    on_every_large_store(|place| async move {
        let state = place.state("rollback");
        assert!(matches!(state.rollback(1, None, "ann").await, Err(Error::NotFound)));
        let odd = "{ \"version\":4,\"serial\" :  1 , \"n\": 1.50, \"big\": 12345678901234567890123 }".to_owned();
        let large = String::from_utf8(big_state(9, 3_000_000)).unwrap();
        write(&state, odd.as_bytes(), None, "ann").await.unwrap();
        write(&state, large.as_bytes(), None, "ann").await.unwrap();
        let text = async || String::from_utf8(read(&state).await.unwrap()).unwrap();

        assert_eq!(state.rollback(1, None, "bob").await.unwrap(), rolled_back(3, "10"));
        assert_eq!(text().await, odd.replace(":  1 ,", ":  10 ,"));
        assert_eq!(state.rollback(2, None, "bob").await.unwrap(), rolled_back(4, "11"));
        assert!(text().await == large.replace("\"serial\": 9", "\"serial\": 11"), "a state in chunks");
        assert_eq!(state.rollback(4, None, "bob").await.unwrap(), rolled_back(4, "11"), "it is the current one");
        assert!(matches!(state.rollback(99, None, "bob").await, Err(Error::NoVersion)));
        assert_eq!(state.version(3).await.unwrap().by.as_deref(), Some("bob"));

        state.lock(&info("a"), "ann").await.unwrap();
        for id in [None, Some("b")] {
            assert!(matches!(state.rollback(1, id, "bob").await, Err(Error::Locked { .. })), "{id:?}");
        }
        assert_eq!(state.rollback(1, Some("a"), "ann").await.unwrap(), rolled_back(5, "12"));
        unlock(&state, "a", "ann").await.unwrap();

        // A serial that is higher already stays.
        write(&state, &small_state(3), None, "ann").await.unwrap();
        assert_eq!(state.rollback(4, None, "bob").await.unwrap(), rolled_back(7, "11"));
        assert!(text().await == large.replace("\"serial\": 9", "\"serial\": 11"));
        let odd = ["{\"version\": 4}", "{\"serial\": 18446744073709551615}", "{\"serial\": 1}"];
        for body in odd {
            write(&state, body.as_bytes(), None, "ann").await.unwrap();
        }
        assert!(matches!(state.rollback(8, None, "bob").await, Err(Error::NoSerial)), "there is none");
        assert_eq!(state.rollback(9, None, "bob").await.unwrap(), rolled_back(11, "18446744073709551615"));
        assert!(matches!(state.rollback(10, None, "bob").await, Err(Error::NoSerial)), "there is none above");
        assert_eq!(state.head().await.unwrap().unwrap().uploads, [], "nothing is left open");
    })
    .await;
}

#[tokio::test]
async fn a_rollback_among_writers_without_locks_is_above_what_it_replaces() {
    on_every_store(|place| async move {
        let state = place.state("raced");
        for serial in [1, 2] {
            write(&state, &small_state(serial), None, "ann").await.unwrap();
        }
        for round in 1..=3_u64 {
            let writers = (0..4).map(|writer| {
                let (state, serial) = (state.clone(), round * 1000 + writer * 100);
                async move { write(&state, &small_state(serial), None, "ann").await.unwrap() }
            });
            let (_, rolled) = join(join_all(writers), state.rollback(1, None, "bob")).await;
            let RolledBack { version, serial } = rolled.unwrap();
            let replaced = state.version(version - 1).await.unwrap().facts.serial.unwrap();
            let number = |serial: &str| serial.parse::<u64>().unwrap();
            assert!(number(&serial.unwrap()) > number(&replaced), "round {round}: version {version}, {replaced}");
        }
    })
    .await;
}

#[tokio::test]
async fn what_a_client_encrypted_goes_back_byte_for_byte_and_cannot_be_looked_into() {
    on_every_store(|place| async move {
        let state = place.state("sealed");
        let sealed = |serial: u64| {
            format!(
                "{{\"serial\":{serial},\"lineage\":\"l\",\"meta\":{{\"key\":\"AA\"}},\"encrypted_data\":\"{serial}AAA\",\
                 \"encryption_version\":\"v0\"}}"
            )
        };
        write(&state, sealed(3).as_bytes(), None, "ann").await.unwrap();
        write(&state, sealed(5).as_bytes(), None, "ann").await.unwrap();
        assert_eq!(state.rollback(1, None, "ann").await.unwrap(), rolled_back(3, "3"));
        assert_eq!(read(&state).await.unwrap(), sealed(3).into_bytes());
        assert!(matches!(state.diff(None, None).await, Err(Error::Encrypted)));
        assert!(matches!(state.output_list(Sensitive::Shown).await, Err(Error::Encrypted)));
        let query = ResourceQuery { search: None, version: None, skip: 0, limit: 10 };
        assert!(matches!(state.resources(query).await, Err(Error::Encrypted)));
        // In clear again: one encrypted side is enough.
        write(&state, &small_state(9), None, "ann").await.unwrap();
        assert!(matches!(state.diff(Some(1), None).await, Err(Error::Encrypted)));
        assert_eq!(state.output_list(Sensitive::Shown).await.unwrap(), []);
    })
    .await;
}

#[tokio::test]
async fn a_moved_state_names_its_new_place_until_it_is_restored() {
    on_every_store(|place| async move {
        let state = place.state("moved");
        let is_moved = |error: &Error| matches!(error, Error::Moved { to } if to == "https://new.example/x");
        let leave = async |id: &str| state.leave_for("https://new.example/x", id, "ann").await;
        assert!(matches!(leave("a").await, Err(Error::Locked { .. })), "there is nothing to move, and no lock");
        write(&state, &small_state(1), None, "ann").await.unwrap();
        assert!(matches!(leave("a").await, Err(Error::Locked { .. })), "only under a lock");
        state.lock(&info("a"), "ann").await.unwrap();
        assert!(matches!(leave("b").await, Err(Error::Locked { .. })));
        leave("a").await.unwrap();
        leave("a").await.expect("a replay");
        assert!(is_moved(&state.leave_for("elsewhere", "a", "ann").await.unwrap_err()));

        assert!(is_moved(&state.read().await.unwrap_err()));
        assert!(is_moved(&write(&state, &small_state(2), Some("a"), "ann").await.unwrap_err()));
        assert!(is_moved(&write(&state, &big_state(2, 3_000_000), None, "ann").await.unwrap_err()));
        assert!(is_moved(&state.lock(&info("a"), "ann").await.unwrap_err()));
        assert!(is_moved(&state.delete(Some("a"), "ann").await.unwrap_err()));
        assert!(is_moved(&state.rollback(1, Some("a"), "ann").await.unwrap_err()));
        assert!(is_moved(&state.outputs(Sensitive::Shown).await.unwrap_err()));
        assert!(is_moved(&state.diff(None, None).await.unwrap_err()));
        assert!(is_moved(&state.read_version(1).await.unwrap_err()));
        assert_eq!(state.head().await.unwrap().unwrap().uploads, [], "nothing is left open");

        assert!(matches!(state.restore(None, "bob").await, Err(Error::Locked { .. })), "while it is being moved");
        assert_eq!(unlock(&state, "a", "ann").await.unwrap(), Unlocked::Now, "whoever moved it lets go");
        assert!(is_moved(&state.lock(&info("b"), "bob").await.unwrap_err()));
        state.restore(None, "bob").await.unwrap();
        state.restore(None, "bob").await.expect("a replay");
        assert_eq!(read(&state).await.unwrap(), small_state(1));
        assert_eq!(write(&state, &small_state(2), None, "ann").await.unwrap(), Written::Version(2));
    })
    .await;
}

#[tokio::test]
async fn a_deleted_state_comes_back_with_all_its_versions() {
    on_every_large_store(|place| async move {
        let state = place.state("restored");
        assert!(matches!(state.restore(None, "ann").await, Err(Error::NotFound)));
        let bodies = [small_state(1), big_state(2, 3_000_000)];
        for body in &bodies {
            write(&state, body, None, "ann").await.unwrap();
        }
        state.delete(None, "ann").await.unwrap();
        assert_eq!(read(&state).await, None);
        assert!(matches!(state.diff(None, None).await, Err(Error::NotFound)));
        assert!(matches!(state.rollback(1, None, "ann").await, Err(Error::NotFound)));
        state.restore(None, "ann").await.unwrap();
        assert!(read(&state).await.unwrap() == bodies[1]);
        assert_eq!(crate::places::collect(state.read_version(1).await.unwrap()).await, bodies[0]);

        // A lock alone is nothing that could be restored.
        let empty = place.state("empty");
        empty.lock(&info("a"), "ann").await.unwrap();
        empty.unlock(Some("a"), "ann", Force::NotAsked).await.unwrap();
        assert!(matches!(empty.restore(None, "ann").await, Err(Error::NotFound)));
    })
    .await;
}

#[tokio::test]
async fn states_are_found_by_namespace_and_name() {
    on_every_store(|place| async move {
        for name in ["b", "a", "a.b", "c"] {
            write(&place.state(name), &small_state(1), None, "ann").await.unwrap();
        }
        let states = place.states(settings());
        let found = states.find(Some(&place.namespace)).await.unwrap();
        let names: Vec<&str> = found.iter().map(|state| state.key().name()).collect();
        assert_eq!(names, ["a", "a.b", "b", "c"]);
        let all = states.find(None).await.unwrap();
        assert_eq!(all.iter().filter(|state| state.key().namespace() == place.namespace).count(), 4);
        assert!(states.find(Some("nobody")).await.unwrap().is_empty());
    })
    .await;
}

#[tokio::test]
async fn what_changed_and_what_is_there_is_told_without_values() {
    on_every_store(|place| async move {
        let state = place.state("inside");
        let count = 1200;
        write(&state, &generate(count, 5, &Options::default()), None, "ann").await.unwrap();
        assert!(matches!(state.diff(None, None).await, Err(Error::NoVersion)), "there is none before");
        let mut options = Options { serial: 2, ..Options::default() };
        options.edits.insert(700, 5);
        write(&state, &generate(count + 1, 5, &options), None, "ann").await.unwrap();

        let found = state.diff(None, None).await.unwrap();
        assert_eq!((found.from, found.to), (1, 2));
        let changes: Vec<_> =
            found.diff.resources.iter().map(|change| (change.address.as_str(), change.change)).collect();
        assert_eq!(changes, [("aws_instance.node_1200", Change::Added), ("aws_instance.node_700", Change::Changed)]);
        let paths = found.diff.resources[1].paths.as_ref().unwrap();
        assert_eq!(paths, &["attributes.tags.Revision", "attributes.user_data_hash"]);
        let back = state.diff(Some(2), Some(1)).await.unwrap();
        assert_eq!(back.diff.resources[0].change, Change::Removed);
        assert!(matches!(state.diff(Some(9), None).await, Err(Error::NoVersion)));

        let query = |search: Option<&str>, skip, limit| ResourceQuery {
            search: search.map(str::to_owned),
            version: None,
            skip,
            limit,
        };
        let page = state.resources(query(None, 1199, 10)).await.unwrap();
        assert_eq!((page.version, page.total, page.items.len()), (2, 1201, 2));
        assert_eq!(page.items[0].address, "aws_instance.node_1199");
        let page = state.resources(query(Some("NODE_70"), 1, 3)).await.unwrap();
        assert_eq!((page.total, page.items.len()), (11, 3), "70 and 700 to 709");
        assert_eq!(page.items[0].address, "aws_instance.node_700");
        let old = ResourceQuery { version: Some(1), ..query(None, 0, 1) };
        assert_eq!(state.resources(old).await.unwrap().total, 1200);

        let outputs = state.output_list(Sensitive::LeftOut).await.unwrap();
        let shown: Vec<_> = outputs.iter().map(|output| (output.name.as_str(), output.sensitive)).collect();
        assert_eq!(shown, [("endpoint", false), ("password", true)]);
        assert!(matches!(&outputs[0].value, Value::Shown(text) if text.contains(r"\u003c2\u003e")), "as written");
        assert_eq!(outputs[1].value, Value::Hidden);
    })
    .await;
}
