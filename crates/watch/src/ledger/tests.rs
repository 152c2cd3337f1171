//! The rules as stories: what happens to a ledger, and what it tells.

use serde_json::json;

use super::*;

fn object(name: &str, uid: &str, version: u64) -> Box<DynamicObject> {
    let metadata = json!({"namespace": "n", "name": name, "uid": uid, "resourceVersion": version.to_string()});
    serde_json::from_value(json!({"metadata": metadata})).unwrap()
}

fn key(name: &str) -> Key {
    Key::new("n", name)
}

/// `+name/uid@version`, `-name/uid`, `absent`, `synced`; deletions of one batch in the order of names.
fn told(out: &[Out]) -> String {
    let one = |out: &Out| match out {
        Out::Applied(object) => format!("+{}/{}@{}", Key::of(object).name, Uid::of(object), version_of(object)),
        Out::Deleted(deleted, _) => {
            format!("-{}/{}", deleted.key.name, deleted.uid.as_ref().map_or("?", Uid::as_str))
        }
        Out::Absent => "absent".to_owned(),
        Out::Synced(_) => "synced".to_owned(),
    };
    let mut words: Vec<String> = out.iter().map(one).collect();
    if words.iter().filter(|word| word.starts_with('-')).count() > 1 {
        words.sort_by_key(|word| (word == "synced", word != "absent", word.clone()));
    }
    words.join(" ")
}

/// A ledger that was synced at version 10 with these objects.
fn synced(objects: &[(&str, &str, u64)]) -> Ledger {
    let mut ledger = Ledger::default();
    list(&mut ledger, Pass::Everything, objects, 10);
    ledger
}

fn list(ledger: &mut Ledger, pass: Pass, objects: &[(&str, &str, u64)], of: u64) -> String {
    ledger.begin(pass);
    let of = of.to_string();
    let mut out: Vec<Out> =
        objects.iter().flat_map(|(name, uid, version)| ledger.listed(object(name, uid, *version), &of)).collect();
    out.extend(ledger.end(&of));
    told(&out)
}

fn sequence(out: &[Out]) -> u64 {
    out.iter().find_map(|out| if let Out::Deleted(_, sequence) = out { Some(*sequence) } else { None }).unwrap()
}

#[test]
fn what_was_known_before_and_is_not_listed_is_deleted_at_the_end_of_the_list() {
    let known = ["a", "b", "c"].map(|name| (key(name), Uid::new(&format!("{name}1"))));
    let mut ledger = Ledger::inherit(known.into());
    ledger.begin(Pass::Everything);
    assert_eq!(told(&ledger.listed(object("b", "b1", 4), "10")), "+b/b1@4", "nothing is deleted on a part of a list");
    // The list fails here, and begins again.
    assert_eq!(list(&mut ledger, Pass::Everything, &[("b", "b1", 4)], 11), "+b/b1@4 -a/a1 -c/c1 synced");
}

#[test]
fn a_relist_tells_only_what_changed_unless_everything_is_asked_for() {
    let mut ledger = synced(&[("a", "a1", 1), ("b", "b1", 2)]);
    assert_eq!(list(&mut ledger, Pass::Changes, &[("a", "a1", 1), ("b", "b1", 12)], 20), "+b/b1@12 synced");
    let everything = list(&mut ledger, Pass::Everything, &[("a", "a1", 1), ("b", "b1", 12)], 21);
    assert_eq!(everything, "+a/a1@1 +b/b1@12 synced");
}

#[test]
fn a_name_made_again_is_a_deletion_of_the_old_uid_and_then_the_new_object() {
    let mut ledger = synced(&[("a", "a1", 1)]);
    assert_eq!(told(&ledger.applied(object("a", "a2", 12))), "-a/a1 +a/a2@12");
    assert_eq!(told(&ledger.deleted(object("a", "a1", 13))), "", "a late word about the old one");
    assert!(ledger.has(&key("a")));
    assert_eq!(list(&mut ledger, Pass::Changes, &[("a", "a3", 15)], 20), "-a/a2 +a/a3@15 synced");
}

#[test]
fn a_deletion_stays_known_until_it_is_acknowledged() {
    let mut ledger = synced(&[("a", "a1", 1)]);
    let uid = Uid::new("a1");
    let out = ledger.deleted(object("a", "a1", 12));
    assert_eq!(told(&out), "-a/a1");
    assert!(!ledger.lacks(&key("a"), &uid), "its key is still durable");
    assert!(ledger.acknowledged(&uid, sequence(&out)));
    assert!(ledger.lacks(&key("a"), &uid));
    assert!(!ledger.acknowledged(&uid, sequence(&out)), "once");
}

#[test]
fn an_object_that_comes_back_into_the_filter_keeps_its_key_whatever_is_acknowledged_late() {
    let mut ledger = synced(&[("a", "a1", 1)]);
    let uid = Uid::new("a1");
    let out = ledger.left(object("a", "a1", 12));
    assert_eq!(told(&out), "-a/a1");
    assert_eq!(told(&ledger.applied(object("a", "a1", 13))), "+a/a1@13");
    assert!(!ledger.acknowledged(&uid, sequence(&out)), "the key belongs to a live object");
    let again = ledger.deleted(object("a", "a1", 14));
    assert!(!ledger.acknowledged(&uid, sequence(&out)));
    assert!(ledger.acknowledged(&uid, sequence(&again)));
}

#[test]
fn a_name_made_again_outside_the_filter_is_a_deletion_without_the_new_object() {
    let mut ledger = synced(&[("a", "a1", 1)]);
    let out = ledger.left(object("a", "a2", 12));
    assert!(matches!(&out[..], [Out::Deleted(Deleted { last: None, .. }, _)]), "{out:?}");
    assert_eq!(told(&ledger.left(object("a", "a2", 13))), "");
}

#[test]
fn a_dropped_deletion_comes_again_with_the_next_list() {
    let mut ledger = synced(&[("a", "a1", 1)]);
    let out = ledger.deleted(object("a", "a1", 12));
    ledger.dropped(&Uid::new("a1"), sequence(&out));
    assert!(!ledger.lacks(&key("a"), &Uid::new("a1")));
    assert_eq!(list(&mut ledger, Pass::Everything, &[], 20), "-a/a1 synced");
}

#[test]
fn of_two_uids_from_an_earlier_life_the_one_that_is_not_there_goes_before_the_other_is_told() {
    for order in [["a1", "a2"], ["a2", "a1"]] {
        let mut ledger = Ledger::inherit(order.map(|uid| (key("a"), Uid::new(uid))).into());
        assert_eq!(list(&mut ledger, Pass::Everything, &[("a", "a2", 5)], 10), "-a/a1 +a/a2@5 synced");
    }
    let mut ledger = Ledger::inherit(["a1", "a2"].map(|uid| (key("a"), Uid::new(uid))).into());
    assert_eq!(list(&mut ledger, Pass::Everything, &[], 10), "-a/a1 -a/a2 synced");
}

#[test]
fn what_a_fetch_missed_is_not_resurrected_by_events_from_before() {
    let mut ledger = synced(&[("a", "a1", 1)]);
    assert_eq!(told(&ledger.missed(&key("a"), "15", None)), "-a/a1");
    assert!(ledger.overtakes_watch(&object("a", "a1", 12)) && !ledger.overtakes_watch(&object("a", "a2", 17)));
    assert_eq!(told(&ledger.applied(object("a", "a1", 12))), "", "an update from before the read");
    assert_eq!(told(&ledger.deleted(object("a", "a1", 13))), "");
    assert_eq!(told(&ledger.applied(object("a", "a2", 17))), "+a/a2@17", "made again after the read");
    assert_eq!(ledger.stale(), 2);
}

#[test]
fn a_fetch_that_is_older_than_the_stream_changes_nothing() {
    let mut ledger = synced(&[("a", "a1", 1)]);
    ledger.deleted(object("a", "a1", 12));
    ledger.applied(object("b", "b1", 13));
    assert!(!ledger.is_news(&key("a"), "11"), "so that no key is written for it");
    assert_eq!(told(&ledger.fetched(object("a", "a1", 1), "11")), "", "gone since");
    assert_eq!(told(&ledger.missed(&key("b"), "11", None)), "", "made since");
    assert!(ledger.has(&key("b")) && !ledger.has(&key("a")));
}

#[test]
fn a_fetch_that_is_newer_than_the_stream_is_told_once() {
    let mut ledger = synced(&[("a", "a1", 1)]);
    assert_eq!(told(&ledger.fetched(object("a", "a1", 14), "15")), "+a/a1@14");
    assert_eq!(told(&ledger.applied(object("a", "a1", 12))), "");
    assert_eq!(told(&ledger.applied(object("a", "a1", 14))), "");
    assert_eq!(told(&ledger.applied(object("a", "a1", 16))), "+a/a1@16");
    assert_eq!(told(&ledger.fetched(object("a", "a1", 16), "18")), "", "known as it is");
}

#[test]
fn a_miss_of_an_object_that_nobody_knew_is_a_minimal_deletion() {
    let mut ledger = synced(&[]);
    assert_eq!(told(&ledger.missed(&key("a"), "15", None)), "-a/?");
    assert_eq!(told(&ledger.missed(&key("a"), "9", None)), "-a/?", "the stream knows of none either");
}

#[test]
fn a_list_from_before_a_fetch_neither_deletes_nor_resurrects_what_the_fetch_told() {
    let mut ledger = synced(&[("a", "a1", 1)]);
    ledger.begin(Pass::Changes);
    assert_eq!(told(&ledger.missed(&key("a"), "25", None)), "-a/a1");
    assert_eq!(told(&ledger.fetched(object("b", "b1", 24), "25")), "+b/b1@24");
    let mut out = ledger.listed(object("a", "a1", 1), "20");
    out.extend(ledger.end("20"));
    assert_eq!(told(&out), "synced");
    assert!(ledger.has(&key("b")));
    // A list from after it decides.
    assert_eq!(list(&mut ledger, Pass::Changes, &[], 30), "-b/b1 synced");
}

#[test]
fn a_fetch_during_a_list_that_turns_out_newer_is_overruled_by_it() {
    let mut ledger = synced(&[]);
    ledger.begin(Pass::Changes);
    // Made at 12, seen at 13, gone at 14; the list is of 20.
    assert_eq!(told(&ledger.fetched(object("a", "a1", 12), "13")), "+a/a1@12");
    assert_eq!(told(&ledger.end("20")), "-a/a1 synced");
}

#[test]
fn a_restored_etcd_whose_versions_are_lower_is_believed_by_its_list() {
    let mut ledger = synced(&[("a", "a1", 9), ("b", "b1", 8)]);
    ledger.fetched(object("c", "c1", 14), "15");
    assert_eq!(list(&mut ledger, Pass::Changes, &[("a", "a1", 3)], 4), "+a/a1@3 -b/b1 -c/c1 synced");
    assert_eq!(told(&ledger.applied(object("a", "a1", 5))), "+a/a1@5");
}

#[test]
fn a_kind_that_is_absent_takes_everything_with_it() {
    let mut ledger = synced(&[("a", "a1", 1), ("b", "b1", 2)]);
    let out = ledger.deleted(object("a", "a1", 11));
    ledger.dropped(&Uid::new("a1"), sequence(&out));
    assert_eq!(told(&ledger.absent()), "absent -a/a1 -b/b1");
    assert_eq!(ledger.position(), None);
}
