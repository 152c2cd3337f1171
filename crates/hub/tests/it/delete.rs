//! The end of records.

use hub::model::BUILT_IN;
use hub::{Batch, Deletion, Filter, Hub, Relation};

use crate::place::{Place, create, new, on_both, value};

on_both!(what_is_used_or_held_stays, a_group_goes_together, nothing_is_left_of_a_record);

fn deletion(ids: &[&str]) -> Deletion {
    Deletion { ids: ids.iter().map(|id| (*id).to_owned()).collect(), ..Deletion::default() }
}

async fn text(hub: &Hub, deletion: Deletion) -> String {
    hub.delete(deletion).await.unwrap_err().to_string()
}

/// The first uses the second, the second the third, and that the second: ids in this order.
async fn chain(hub: &Hub) -> Vec<String> {
    let records = vec![new("1"), new("2"), new("3")];
    let ids: Vec<String> = hub
        .create(Batch { records, ..Batch::default() })
        .await
        .unwrap()
        .into_iter()
        .map(|created| created.id)
        .collect();
    let relation = |from: usize, to: usize| Relation { from: ids[from].clone(), to: ids[to].clone() };
    let relations = vec![relation(0, 1), relation(1, 2), relation(2, 1)];
    hub.create(Batch { relations, ..Batch::default() }).await.unwrap();
    ids
}

async fn what_is_used_or_held_stays(place: Place) {
    let hub = place.hub().await;
    let ids = chain(&hub).await;
    let failed = |id: &str| format!("failed to delete TypeInstance with ID \"{id}\": ");
    assert_eq!(text(&hub, deletion(&["x"])).await, failed("x") + "TypeInstance was not found");
    let mut users = [ids[0].as_str(), ids[2].as_str()];
    users.sort_unstable();
    let expected = "TypeInstance is used by other TypeInstances, you must first remove ";
    let expected = failed(&ids[1]) + expected + &users.join("\", \"");
    assert_eq!(text(&hub, deletion(&[&ids[1]])).await, expected);
    hub.lock(vec![ids[0].clone()], "me".to_owned(), None).await.unwrap();
    let expected = failed(&ids[0]) + "TypeInstance is locked by different owner";
    assert_eq!(text(&hub, deletion(&[&ids[0]])).await, expected);
    let you = Deletion { owner: Some("you".to_owned()), ..deletion(&[&ids[0]]) };
    assert_eq!(text(&hub, you).await, expected);
    assert!(text(&hub, deletion(&[BUILT_IN])).await.contains("built-in storage backend, which stays"));
    hub.delete(Deletion { owner: Some("me".to_owned()), ..deletion(&[&ids[0]]) }).await.unwrap();
    assert_eq!(hub.count(Filter::default()).await.unwrap(), 3);
}

async fn a_group_goes_together(place: Place) {
    let hub = place.hub().await;
    let ids = chain(&hub).await;
    // Two that use one another could never go one by one.
    let error = text(&hub, deletion(&[&ids[1], &ids[2]])).await;
    assert!(error.ends_with(&format!("you must first remove {}", ids[0])), "{error}");
    assert_eq!(hub.count(Filter::default()).await.unwrap(), 4, "none of them went");
    hub.delete(deletion(&[&ids[1], &ids[0], &ids[2]])).await.unwrap();
    assert_eq!(hub.count(Filter::default()).await.unwrap(), 1);
}

async fn nothing_is_left_of_a_record(place: Place) {
    let hub = place.hub().await;
    let id = create(&hub, new("1")).await;
    let relations = vec![Relation { from: id.clone(), to: id.clone() }];
    hub.create(Batch { relations, ..Batch::default() }).await.unwrap();
    hub.lock(vec![id.clone()], "me".to_owned(), None).await.unwrap();
    hub.delete(Deletion { owner: Some("me".to_owned()), ..deletion(&[&id]) }).await.unwrap();
    assert_eq!(value(&hub, &id, 1).await, "none");
    let db = place.db().await;
    for (table, column) in [
        ("hub_records", "id"),
        ("hub_versions", "record"),
        ("hub_attributes", "record"),
        ("hub_locks", "record"),
        ("hub_relations", "source"),
        ("hub_relations", "target"),
    ] {
        let (sql, id) = (format!("SELECT 1 FROM {table} WHERE {column} = $1"), id.clone());
        let rows = db.read(move |tx| tx.query(&sql, db::params![&id])).await;
        assert!(rows.map_err(|error: db::Error| error).unwrap().is_empty(), "{table}.{column}");
    }
}
