//! Paging by cursor while rows change: whatever stays as it is comes exactly once, in every order, on any replica.

use std::collections::BTreeSet;

use explorer::index::Settings;
use explorer::query::{Cursor, Order, Query};
use explorer::{Index, Key};
use fastrand::Rng;

use crate::model::{Model, Sights, sees, visibility};
use crate::random::{change, key, row, sights};

/// Two indexes with the same rows, which number them differently.
fn replicas(random: &mut Rng, rows: usize) -> ([Index; 2], Model) {
    let (mut one, mut model) = (Index::new(Settings::default()), Model::default());
    while model.rows.len() < rows {
        change(random, &mut one, &mut model);
    }
    let mut other = Index::new(Settings::default());
    let mut all: Vec<_> = model.rows.values().cloned().collect();
    random.shuffle(&mut all);
    for row in all {
        other.upsert(&other.preparer().prepare(row));
    }
    for ((cluster, namespace), tenant) in &model.tenants {
        other.set_tenant(cluster, namespace, Some(tenant));
    }
    ([one, other], model)
}

#[test]
fn every_row_that_stays_as_it_is_comes_exactly_once_in_every_order_and_revoked_rows_never() {
    let mut random = Rng::with_seed(testbed::seed("every_row_that_stays_as_it_is"));
    for _ in 0..testbed::scale().of(2, 20) {
        for order in Order::ALL {
            for descending in [false, true] {
                page_through(&mut random, order, descending);
            }
        }
    }
}

fn page_through(random: &mut Rng, order: Order, descending: bool) {
    let (mut replicas, mut model) = replicas(random, 120);
    let mut sights: Sights = sights(random);
    let before = model.clone();
    let mut seen: Vec<Key> = Vec::new();
    let mut touched: BTreeSet<Key> = BTreeSet::new();
    let mut after = None;
    // What was visible all the time.
    let mut allowed: BTreeSet<Key> =
        before.rows.values().filter(|row| sees(&sights, row)).map(|row| row.key.clone()).collect();
    for page_number in 0..1000 {
        let index = &replicas[random.usize(0..2)];
        let query = Query { order, descending, limit: random.usize(1..12), after, ..Query::default() };
        let page = index.query(&query, &visibility(&sights));
        for found in &page.rows {
            assert!(sees(&sights, &model.rows[&found.row.key]), "a row that may not be seen");
            seen.push(found.row.key.clone());
        }
        let Some(cursor) = page.cursor else { break };
        assert!(page_number < 999, "paging has no end");
        after = Some(Cursor::decode(&cursor).unwrap());
        // Rows come, change and go; the row of the cursor goes sometimes.
        for _ in 0..4 {
            let changed = match random.u32(0..6) {
                0 => page.rows.last().map(|found| found.row.key.clone()),
                1 => {
                    let keys: Vec<Key> = model.rows.keys().cloned().collect();
                    keys.get(random.usize(..keys.len().max(1))).cloned()
                }
                _ => Some(key(random)),
            };
            let Some(changed) = changed else { continue };
            touched.insert(changed.clone());
            if random.bool() {
                let row = row(random, changed.clone());
                for index in &mut replicas {
                    index.upsert(&index.preparer().prepare(row.clone()));
                }
                model.rows.insert(changed, row);
            } else {
                for index in &mut replicas {
                    index.delete(&changed, None, 0);
                }
                model.rows.remove(&changed);
            }
        }
        // Sometimes a cluster is revoked.
        if random.u32(0..20) == 0 {
            let cluster = *crate::random::pick(random, &crate::random::CLUSTERS);
            sights.remove(cluster);
            allowed.retain(|key| key.cluster != cluster);
        }
    }
    for index in &replicas {
        index.audit().unwrap();
    }
    for key in allowed.difference(&touched) {
        let count = seen.iter().filter(|seen| *seen == key).count();
        // Of a revoked cluster rows may have come before.
        assert_eq!(count, 1, "{key:?} by {order:?}, descending: {descending}");
    }
    for key in seen.iter().filter(|key| !touched.contains(*key)) {
        assert_eq!(seen.iter().filter(|seen| *seen == key).count(), 1, "{key:?} twice");
    }
}

#[test]
fn every_page_leads_back_to_the_one_before_in_every_order() {
    let mut random = Rng::with_seed(testbed::seed("every_page_leads_back"));
    for order in Order::ALL {
        for descending in [false, true] {
            let (replicas, _) = replicas(&mut random, 120);
            let sights: Sights = sights(&mut random);
            let limit = random.usize(1..12);
            let ask = |index: &Index, after: Option<&String>| {
                let after = after.map(|cursor| Cursor::decode(cursor).unwrap());
                let query = Query { order, descending, limit, after, ..Query::default() };
                let page = index.query(&query, &visibility(&sights));
                let keys: Vec<Key> = page.rows.iter().map(|found| found.row.key.clone()).collect();
                (keys, page.cursor, page.previous)
            };
            let mut pages = vec![ask(&replicas[0], None)];
            assert_eq!(pages[0].2, None, "nothing is before the first page");
            while let Some(next) = &pages[pages.len() - 1].1 {
                pages.push(ask(&replicas[random.usize(0..2)], Some(next)));
            }
            let mut at = pages.pop().unwrap();
            while let Some(expected) = pages.pop() {
                at = ask(&replicas[random.usize(0..2)], at.2.as_ref());
                assert_eq!(at.0, expected.0, "by {order:?}, descending: {descending}");
                assert_eq!(at.1, expected.1, "and on from there");
            }
            assert_eq!(at.2, None, "the first page again");
        }
    }
}
