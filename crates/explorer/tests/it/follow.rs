//! Whoever follows an answer has the rows of the answer after every step, whatever changed: rows, or what they may see.

use std::collections::BTreeMap;

use explorer::index::{Follower, Settings, Step};
use explorer::query::Query;
use explorer::{Index, Key, Row, Visibility};
use fastrand::Rng;

use crate::model::{Model, sees, visibility};
use crate::random::{change, key, question, row, sights};

/// What a client has: the rows that it was told.
type Mirror = BTreeMap<Key, Row>;

fn all(index: &Index, query: &Query, visibility: &Visibility) -> Mirror {
    let page = index.query(query, visibility);
    page.rows.into_iter().map(|found| (found.row.key.clone(), found.row)).collect()
}

/// One step; tells whether it was a reset.
fn step(index: &Index, follower: &mut Follower, query: &Query, seen: &Visibility, mirror: &mut Mirror) -> bool {
    match index.catch_up(follower, query, seen, 1000) {
        Step::Reset => {
            *mirror = all(index, query, seen);
            true
        }
        Step::Told { changed, gone } => {
            for gone in gone {
                assert!(mirror.remove(&gone.key).is_some(), "{} was never told", gone.id);
            }
            mirror.extend(changed.into_iter().map(|found| (found.row.key.clone(), found.row)));
            false
        }
    }
}

#[test]
fn a_follower_has_the_rows_of_the_answer_after_every_step() {
    let mut random = Rng::with_seed(testbed::seed("a_follower_has_the_rows"));
    let (mut gone, mut resets) = (0, 0);
    for _ in 0..testbed::scale().of(60, 2000) {
        let mut index = Index::new(Settings { changes: 300, ..Settings::default() });
        let mut model = Model::default();
        for _ in 0..60 {
            change(&mut random, &mut index, &mut model);
        }
        let query = Query::parse(&question(&mut random)).unwrap();
        let mut sight = sights(&mut random);
        let mut follower = index.follow(&query, &visibility(&sight));
        let mut mirror = all(&index, &query, &visibility(&sight));
        for _ in 0..30 {
            for _ in 0..random.usize(0..6) {
                change(&mut random, &mut index, &mut model);
            }
            if random.u32(0..3) == 0 {
                sight = sights(&mut random);
            }
            let before = mirror.len();
            resets += usize::from(step(&index, &mut follower, &query, &visibility(&sight), &mut mirror));
            gone += before.saturating_sub(mirror.len());
            assert_eq!(mirror, all(&index, &query, &visibility(&sight)));
            assert!(mirror.keys().all(|key| sees(&sight, &model.rows[key])));
        }
    }
    assert!(gone > 100, "nothing went: {gone}");
    assert!(resets < 60, "most steps were resets: {resets}");
}

#[test]
fn a_slot_that_was_given_to_a_hidden_row_tells_of_the_row_that_went() {
    let mut random = Rng::with_seed(7);
    let mut index = Index::new(Settings::default());
    let mut put = |index: &mut Index, cluster: &str, name: &str| {
        let mut key = key(&mut random);
        (key.cluster, key.name) = (cluster.to_owned(), name.to_owned());
        index.upsert(&index.preparer().prepare(row(&mut random, key.clone())));
        key
    };
    let local = Visibility::default().with("local", explorer::index::View::Everything);
    let seen = put(&mut index, "local", "seen");
    let query = Query::default();
    let mut follower = index.follow(&query, &local);
    index.delete(&seen, None, 0);
    let hidden = put(&mut index, "hidden", "secret");
    assert_eq!(index.find(&hidden).map(|slot| slot.0), Some(0), "the slot was given again");
    let Step::Told { changed, gone } = index.catch_up(&mut follower, &query, &local, 10) else { panic!("a reset") };
    assert_eq!((changed.len(), gone.into_iter().map(|gone| gone.key).collect::<Vec<_>>()), (0, vec![seen]));
}

#[test]
fn more_than_can_be_told_is_a_reset_and_so_is_too_long_an_absence() {
    let mut random = Rng::with_seed(7);
    let mut index = Index::new(Settings { changes: 50, ..Settings::default() });
    let mut model = Model::default();
    for _ in 0..200 {
        change(&mut random, &mut index, &mut model);
    }
    let (query, none) = (Query::default(), Visibility::default());
    let everything = crate::random::CLUSTERS
        .iter()
        .fold(none.clone(), |seen, cluster| seen.with(*cluster, explorer::index::View::Everything));
    let mut follower = index.follow(&query, &none);
    assert_eq!(index.catch_up(&mut follower, &query, &everything, 10), Step::Reset);
    assert_eq!(index.catch_up(&mut follower, &query, &everything, 10), Step::Told { changed: vec![], gone: vec![] });
    for _ in 0..200 {
        change(&mut random, &mut index, &mut model);
    }
    assert_eq!(index.catch_up(&mut follower, &query, &everything, 1000), Step::Reset);
}
