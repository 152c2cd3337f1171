//! Rows that go, stay for a while, come again, or are out of date; and those who follow the changes.

use std::collections::HashSet;

use explorer::index::{Changes, Deletion, Position, Retention, Settings};
use explorer::query::Query;
use explorer::{Index, Key, Row};
use fastrand::Rng;

use crate::model::{Rule, Sight, Sights, visibility};
use crate::random::{key, row};

fn index() -> Index {
    let retention = Retention::default().with("", "ConfigMap", 1000).with("apps", "Deployment", 50);
    Index::new(Settings { retention, ..Settings::default() })
}

fn made(kind: &str, namespace: &str, name: &str) -> Row {
    let mut random = Rng::with_seed(7);
    let (group, kind, ..) = *crate::random::KINDS.iter().find(|(_, known, ..)| *known == kind).unwrap();
    let own = str::to_owned;
    let key =
        Key { cluster: own("local"), namespace: own(namespace), group: own(group), kind: own(kind), name: own(name) };
    Row { uid: format!("uid-{name}"), ..row(&mut random, key) }
}

fn put(index: &mut Index, row: &Row) {
    index.upsert(&index.preparer().prepare(row.clone()));
}

fn sees_all() -> Sights {
    Sights::from([("local".to_owned(), Sight::Everything)])
}

fn names(index: &Index, text: &str, sights: &Sights) -> Vec<String> {
    let page = index.query(&Query::parse(text).unwrap(), &visibility(sights));
    page.rows.into_iter().map(|found| found.row.key.name).collect()
}

#[test]
fn a_kind_that_is_kept_stays_marked_until_its_time_and_the_cleaners_second_run_does_nothing() {
    let mut index = index();
    let (map, deployment, release) =
        (made("ConfigMap", "a", "map"), made("Deployment", "a", "dep"), made("HelmRelease", "a", "rel"));
    for row in [&map, &deployment, &release] {
        put(&mut index, row);
    }
    assert!(matches!(index.delete(&release.key, None, 100), Deletion::Removed(_)));
    assert!(matches!(index.delete(&map.key, None, 100), Deletion::Retained(_)));
    assert!(matches!(index.delete(&deployment.key, None, 100), Deletion::Retained(_)));
    assert_eq!(index.delete(&map.key, None, 200), Deletion::Nothing, "the time of its end stays");
    assert_eq!(names(&index, "", &sees_all()), ["dep", "map"]);
    assert_eq!(names(&index, "is:deleted", &sees_all()), ["dep", "map"]);
    index.audit().unwrap();
    // Strictly before: at the very moment it is still there.
    assert_eq!(index.expire(150).len(), 0);
    assert_eq!(index.expire(151).len(), 1);
    assert_eq!(names(&index, "", &sees_all()), ["map"]);
    assert_eq!(index.expire(1100).len(), 0);
    assert_eq!(index.expire(1101).len(), 1);
    assert_eq!(index.expire(i64::MAX).len(), 0);
    assert!(index.is_empty());
    index.audit().unwrap();
}

#[test]
fn an_object_made_again_takes_the_place_of_the_one_that_is_kept_and_late_ends_of_the_old_one_do_nothing() {
    let mut index = index();
    let old = made("ConfigMap", "a", "map");
    put(&mut index, &old);
    index.delete(&old.key, Some("uid-map"), 100);
    let new = Row { uid: "second".to_owned(), ..old.clone() };
    put(&mut index, &new);
    assert_eq!(names(&index, "is:live", &sees_all()), ["map"]);
    assert_eq!(index.delete(&old.key, Some("uid-map"), 200), Deletion::Nothing);
    assert_eq!(index.expire(i64::MAX).len(), 0);
    assert_eq!(index.len(), 1);
    assert!(matches!(index.delete(&new.key, Some("second"), 300), Deletion::Retained(_)));
    index.audit().unwrap();
}

#[test]
fn what_is_left_of_a_namespace_that_is_gone_needs_a_grant_that_is_not_of_that_namespace() {
    let by = |namespace: Option<&str>, names: Option<&str>| {
        let rule = Rule {
            resource: None,
            namespace: namespace.map(str::to_owned),
            names: names.map(|name| vec![name.to_owned()]),
        };
        Sights::from([("local".to_owned(), Sight::Granted(vec![rule.clone()], vec![rule]))])
    };
    let mut index = index();
    let of = |name: &str, created: i64| Row { created: Some(created), ..made("ConfigMap", "a", name) };
    let (kept, late) = (of("kept", 10), of("late", 10));
    index.namespace_began("local", "a", Some(10));
    put(&mut index, &kept);
    put(&mut index, &late);
    index.delete(&kept.key, None, 100);
    assert_eq!(names(&index, "", &by(Some("a"), None)), ["kept", "late"]);
    assert_eq!(index.namespace_ended("local", "a").len(), 1);
    // An object whose end comes after that of its namespace.
    index.delete(&late.key, None, 100);
    index.audit().unwrap();
    for (sights, expected) in [
        (by(Some("a"), None), vec![]),
        (by(Some("a"), Some("kept")), vec![]),
        (by(None, Some("kept")), vec!["kept"]),
        (by(None, None), vec!["kept", "late"]),
    ] {
        assert_eq!(names(&index, "", &sights), expected, "{sights:?}");
    }
    // A namespace of that name comes again: its objects are its own, what is left of the other is not.
    index.namespace_began("local", "a", Some(150));
    assert_eq!(names(&index, "", &by(Some("a"), None)), [""; 0]);
    put(&mut index, &of("late", 160));
    assert_eq!(names(&index, "", &by(Some("a"), None)), ["late"]);
    index.delete(&late.key, None, 200);
    assert_eq!(names(&index, "", &by(Some("a"), None)), ["late"]);
    index.audit().unwrap();
}

/// What is told of a namespace.
type Told = fn(&mut Index);

#[test]
fn a_row_whose_end_is_told_after_its_namespace_was_made_again_is_not_for_those_who_see_the_new_one() {
    let rule = Rule { resource: None, namespace: Some("a".to_owned()), names: None };
    let heir = Sights::from([("local".to_owned(), Sight::Granted(vec![rule.clone()], vec![rule]))]);
    let of = |name: &str, created: i64| Row { created: Some(created), ..made("ConfigMap", "a", name) };
    // What is told of the namespace before the end of its objects, and who of them is left for its heir.
    let nothing: Told = |_| {};
    let replaced: Told = |index| {
        index.namespace_ended("local", "a");
        index.namespace_began("local", "a", Some(20));
    };
    let began: Told = |index| drop(index.namespace_began("local", "a", Some(20)));
    let goes: Told = |index| drop(index.namespace_ended("local", "a"));
    let table: [(Told, Told, &[&str]); 6] = [
        (replaced, nothing, &["new"]),
        // Seen for the first time: only what is older is of another.
        (began, nothing, &["new", "same"]),
        (nothing, replaced, &["new"]),
        (nothing, began, &["new", "same"]),
        // Nobody's, until it is known which namespace it lived in.
        (nothing, nothing, &[]),
        (began, goes, &[]),
    ];
    for (number, (before, after, expected)) in table.into_iter().enumerate() {
        let mut index = index();
        let rows = [of("old", 10), of("same", 20), of("new", 30)];
        for row in &rows {
            put(&mut index, row);
        }
        before(&mut index);
        for row in &rows {
            index.delete(&row.key, None, 100);
        }
        after(&mut index);
        assert_eq!(names(&index, "", &heir), *expected, "case {number}");
        assert_eq!(names(&index, "", &sees_all()).len(), 3, "case {number}");
        index.audit().unwrap();
    }
    // Nor is one that is shown as it was, because its end has not been told yet; one that lives is.
    let mut index = index();
    let rows = [of("old", 10), of("new", 30)];
    for row in &rows {
        put(&mut index, row);
    }
    replaced(&mut index);
    assert_eq!(names(&index, "", &heir), ["new"]);
    put(&mut index, &rows[0]);
    assert_eq!(names(&index, "", &heir), ["new", "old"]);
    index.audit().unwrap();
}

#[test]
fn rows_without_an_object_go_and_objects_without_a_row_are_named() {
    let mut index = Index::new(Settings::default());
    for name in ["one", "two", "ghost"] {
        put(&mut index, &made("HelmRelease", "a", name));
    }
    put(&mut index, &made("Kustomization", "a", "other"));
    let known: HashSet<(String, String)> =
        ["one", "two", "new"].iter().map(|name| ("a".to_owned(), (*name).to_owned())).collect();
    let done = index.reconcile("local", "helm.toolkit.fluxcd.io", "HelmRelease", &known, 0);
    assert!(matches!(done.deletions[..], [Deletion::Removed(_)]));
    assert_eq!(done.missing.iter().map(|key| key.name.as_str()).collect::<Vec<_>>(), ["new"]);
    assert_eq!(names(&index, "", &sees_all()), ["one", "other", "two"]);
    index.audit().unwrap();
}

#[test]
fn stale_rows_stay_and_say_since_when() {
    let mut index = Index::new(Settings::default());
    put(&mut index, &made("HelmRelease", "a", "rel"));
    put(&mut index, &made("ConfigMap", "a", "map"));
    let stale = |index: &Index| {
        let page = index.query(&Query::default(), &visibility(&sees_all()));
        page.rows.iter().map(|found| found.stale_since).collect::<Vec<_>>()
    };
    index.set_stale("local", Some(("helm.toolkit.fluxcd.io", "HelmRelease")), Some(20));
    assert_eq!(stale(&index), [None, Some(20)]);
    assert_eq!(names(&index, "is:stale", &sees_all()), ["rel"]);
    index.set_stale("local", None, Some(10));
    assert_eq!(stale(&index), [Some(10), Some(10)]);
    index.set_stale("local", None, None);
    index.set_stale("local", Some(("helm.toolkit.fluxcd.io", "HelmRelease")), None);
    assert_eq!(stale(&index), [None, None]);
}

#[test]
fn whoever_follows_is_told_each_row_once_and_when_too_far_behind_to_begin_again() {
    let mut index = Index::new(Settings { changes: 5, ..Settings::default() });
    let all = visibility(&sees_all());
    let begin = index.position();
    let told = |changes: Changes| match changes {
        Changes::Since { changes, now } => {
            (changes.into_iter().map(|change| (change.key.name, change.gone)).collect::<Vec<_>>(), now)
        }
        Changes::Reset { .. } => panic!("reset"),
    };
    let (one, two) = (made("HelmRelease", "a", "one"), made("HelmRelease", "a", "two"));
    put(&mut index, &one);
    put(&mut index, &two);
    put(&mut index, &one);
    let (changes, here) = told(index.changes(begin, &all));
    assert_eq!(changes, [("two".to_owned(), false), ("one".to_owned(), false)]);
    index.delete(&two.key, None, 0);
    let (changes, now) = told(index.changes(here, &all));
    assert_eq!(changes, [("two".to_owned(), true)]);
    assert_eq!(told(index.changes(now, &all)).0, []);
    // Nobody who does not see a row is told of it.
    assert_eq!(told(index.changes(begin, &visibility(&Sights::new()))).0, []);
    for _ in 0..3 {
        put(&mut index, &one);
    }
    assert!(matches!(index.changes(begin, &all), Changes::Reset { now } if now == index.position()));
    assert_eq!(told(index.changes(here, &all)).0.len(), 2);
    let foreign = Position { feed: begin.feed ^ 1, ..now };
    assert!(matches!(index.changes(foreign, &all), Changes::Reset { .. }));
    let ahead = Position { sequence: now.sequence + 100, ..now };
    assert!(matches!(index.changes(ahead, &all), Changes::Reset { .. }));
}

#[test]
fn a_cluster_that_is_removed_leaves_nothing_behind() {
    let mut random = Rng::with_seed(testbed::seed("a_cluster_that_is_removed"));
    let mut index = index();
    for _ in 0..300 {
        let key = key(&mut random);
        put(&mut index, &row(&mut random, key.clone()));
        if random.bool() {
            index.delete(&key, None, 5);
        }
    }
    index.set_tenant("local", "apps", Some("red"));
    index.set_stale("local", None, Some(3));
    for cluster in crate::random::CLUSTERS {
        index.remove_cluster(cluster);
        index.audit().unwrap();
    }
    assert!(index.is_empty());
    let sizes = index.sizes();
    assert_eq!((sizes.rows, sizes.words, sizes.fields), (0, 0, 0));
}
