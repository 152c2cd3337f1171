//! The copy on disk: what is in the index is there after a restart.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use explorer::durable::Store;
use explorer::index::{Retention, Settings};
use explorer::query::Query;
use explorer::{Index, Row};
use fastrand::Rng;

use crate::model::{Rule, Sight, Sights, visibility};
use crate::random::{CLUSTERS, key, row};

fn everything() -> Sights {
    CLUSTERS.iter().map(|cluster| ((*cluster).to_owned(), Sight::Everything)).collect()
}

/// Everything that can be asked of it, as text.
fn shown(index: &Index) -> String {
    let mut query = Query { limit: 0, ..Query::default() };
    query.facets = explorer::query::Facets::WithLabels(crate::random::LABELS.map(str::to_owned).to_vec());
    let page = index.query(&query, &visibility(&everything()));
    let rows: Vec<String> = page
        .rows
        .iter()
        .map(|found| format!("{} {:?}", serde_json::to_string(&found.row).unwrap(), found.tenant))
        .collect();
    let texts = ["timeout", "1.25.3", "Object.spec.interval:5m", "größe", "is:deleted", "-alpha"]
        .map(|text| index.query(&Query::parse(text).unwrap(), &visibility(&everything())).total);
    format!("{rows:#?} {:?} {texts:?}", page.facets)
}

fn settings() -> Settings {
    Settings { retention: Retention::default().with("", "ConfigMap", 1000), ..Settings::default() }
}

async fn open(path: &Path) -> Store {
    Store::open(path, settings()).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_brings_back_the_same_rows_words_tenants_and_bodies() {
    let mut random = Rng::with_seed(testbed::seed("a_restart_brings_back_the_same"));
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("data/explorer.db");
    let mut rows: std::collections::BTreeMap<explorer::Key, Row> = std::collections::BTreeMap::new();
    for _ in 0..testbed::scale().of(3, 10) {
        let store = open(&path).await;
        for _ in 0..400 {
            let key = key(&mut random);
            match random.u32(0..20) {
                0..14 => {
                    let row = row(&mut random, key);
                    rows.insert(row.key.clone(), row.clone());
                    drop(store.upsert(store.preparer().prepare(row)));
                }
                14..17 => {
                    rows.remove(&key);
                    drop(store.delete(&key, None, 5));
                }
                17 => drop(store.set_tenant(&key.cluster, &key.namespace, Some("red"))),
                18 if random.bool() => drop(store.namespace_ended(&key.cluster, &key.namespace)),
                18 => drop(store.namespace_began(&key.cluster, &key.namespace, Some(random.i64(-5..5)))),
                _ if random.u32(0..10) == 0 => {
                    rows.retain(|other, _| other.cluster != key.cluster);
                    drop(store.remove_cluster(&key.cluster));
                }
                _ => {}
            }
        }
        store.flush().wait().await.unwrap();
        let before = shown(&store.read());
        store.close().await;
        let store = open(&path).await;
        store.read().audit().unwrap();
        assert_eq!(shown(&store.read()), before);
        for (key, row) in &rows {
            let body = store.body(key, &visibility(&everything())).await.unwrap();
            assert_eq!(body.as_deref(), Some(row.body.as_str()));
        }
        store.close().await;
    }
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
}

#[tokio::test]
async fn a_store_that_is_dropped_writes_what_waits_and_lets_the_file_go() {
    let mut random = Rng::with_seed(testbed::seed("a_store_that_is_dropped"));
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("explorer.db");
    let store = open(&path).await;
    let key = key(&mut random);
    drop(store.upsert(store.preparer().prepare(row(&mut random, key.clone()))));
    drop(store);
    let held = || {
        let files = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
        files.filter_map(|file| std::fs::read_link(file.path()).ok()).any(|file| file == path)
    };
    testbed::eventually(std::time::Duration::from_mins(1), || async { !held() }).await;
    let store = open(&path).await;
    assert!(store.read().find(&key).is_some());
    store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_is_for_those_who_may_get_it_and_is_there_before_it_is_on_disk() {
    let mut random = Rng::with_seed(3);
    let directory = tempfile::tempdir().unwrap();
    let store = open(&directory.path().join("explorer.db")).await;
    let key = key(&mut random);
    let row = row(&mut random, key);
    let ticket = store.upsert(store.preparer().prepare(row.clone()));
    let rule = Rule { resource: None, namespace: None, names: None };
    let listing = Sights::from([(row.key.cluster.clone(), Sight::Granted(vec![rule], vec![]))]);
    for _ in 0..2 {
        assert_eq!(store.body(&row.key, &visibility(&everything())).await.unwrap(), Some(row.body.clone()));
        assert_eq!(store.body(&row.key, &visibility(&listing)).await.unwrap(), None);
        assert_eq!(store.body(&row.key, &visibility(&Sights::new())).await.unwrap(), None);
        ticket.clone().wait().await.unwrap();
    }
    store.delete(&row.key, None, 0).wait().await.unwrap();
    store.close().await;
    assert!(store.flush().wait().await.is_err(), "nothing is on disk after the end");
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_that_make_no_sense_go_and_the_rest_is_loaded() {
    let mut random = Rng::with_seed(testbed::seed("rows_that_make_no_sense"));
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("explorer.db");
    let store = open(&path).await;
    let rows: Vec<Row> = (0..3)
        .map(|number| {
            let key = key(&mut random);
            let mut row = row(&mut random, key);
            row.key.name = format!("row-{number}");
            row
        })
        .collect();
    for row in &rows {
        drop(store.upsert(store.preparer().prepare(row.clone())));
    }
    store.flush().wait().await.unwrap();
    store.close().await;
    let db = db::Db::open(db::Config::sqlite(&path)).await.unwrap();
    db.write(|tx| {
        tx.execute("UPDATE explorer_rows SET head = '{' WHERE slot = 0", &[])?;
        tx.execute("UPDATE explorer_rows SET body = $1 WHERE slot = 1", db::params![b"junk".as_slice()])?;
        // The same object twice.
        tx.execute(
            "INSERT INTO explorer_rows (slot, head, body) SELECT 9, head, body FROM explorer_rows WHERE slot = 2",
            &[],
        )
    })
    .await
    .unwrap();
    db.close().await;
    let store = open(&path).await;
    store.read().audit().unwrap();
    assert_eq!(store.read().len(), 1);
    // New rows take the free slots.
    for row in &rows {
        drop(store.upsert(store.preparer().prepare(row.clone())));
    }
    store.flush().wait().await.unwrap();
    store.read().audit().unwrap();
    let before = shown(&store.read());
    store.close().await;
    let store = open(&path).await;
    assert_eq!((store.read().len(), shown(&store.read())), (3, before));
    store.close().await;
}
