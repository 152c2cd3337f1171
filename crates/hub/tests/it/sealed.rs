//! Encryption at rest: nothing readable in the database, keys that rotate, documents that cannot be moved.

use std::sync::Arc;

use backends::Code;
use db::params;
use hub::{Batch, Change, Hub, NewRecord, VersionId};
use keys::{Key, Keyring, Sharing, key_file};

use crate::outside::moody::Mood;
use crate::outside::{World, batch, choice, hasty};
use crate::place::{NoBackends, Place, create, json, new, on_both, settings, value};

const CANARY: &str = "canary-4711-must-not-be-readable";

on_both!(
    no_value_and_no_context_is_in_the_database_in_the_clear,
    a_rotated_key_opens_what_was_sealed_before,
    a_document_opens_in_its_place_only,
    a_lost_key_is_named,
);

/// A record whose value, context and remembered request hold the canary.
async fn fill(hub: &Hub) -> String {
    let record = new(&format!("{{\"password\":\"{CANARY}\"}}"));
    let batch = Batch { records: vec![record], relations: Vec::new(), idempotency_key: Some("once".to_owned()) };
    let id = hub.create(batch).await.unwrap().remove(0).id;
    let change = Change { id: id.clone(), context: Some(json(&format!("[\"{CANARY}\"]"))), ..Change::default() };
    hub.update(vec![change]).await.unwrap();
    id
}

async fn no_value_and_no_context_is_in_the_database_in_the_clear(place: Place) {
    let hub = place.hub().await;
    let id = fill(&hub).await;
    assert!(value(&hub, &id, 2).await.contains(CANARY), "it is there");
    place.holds_nothing_of(CANARY).await;
    // Nor while something is open with a backend, which the journal tells of.
    let world = World::new(place, hasty()).await;
    let outside = world.register_with("shelf", r#"{"type":"object"}"#).await;
    outside.moody.set("OnCreate", Mood::Lose);
    outside.moody.set("OnDelete", Mood::Fail(Code::Unavailable));
    let context = json(&format!("{{\"note\":\"{CANARY}\"}}"));
    let record = NewRecord { backend: Some(choice("shelf", Some(context))), ..new(&format!("\"{CANARY}\"")) };
    world.hub.create(batch(vec![record])).await.unwrap_err();
    assert_eq!(world.hub.journal().await.unwrap().len(), 1);
    world.place.holds_nothing_of(CANARY).await;
}

async fn a_rotated_key_opens_what_was_sealed_before(place: Place) {
    let hub = place.hub().await;
    let id = fill(&hub).await;
    key_file::rotate(&place.key).unwrap();
    let hub = place.hub().await;
    assert_eq!(hub.rewrap().await.unwrap(), 1);
    assert_eq!(hub.rewrap().await.unwrap(), 0);
    // The old version is not needed any more.
    let text = std::fs::read_to_string(&place.key).unwrap();
    let versions = key_file::list(&place.key).unwrap();
    let kept: Vec<&str> = text.lines().filter(|line| !line.starts_with(&versions[0])).collect();
    std::fs::write(&place.key, kept.join("\n") + "\n").unwrap();
    assert_eq!(key_file::list(&place.key).unwrap(), versions[1..]);
    let hub = place.hub().await;
    assert!(value(&hub, &id, 1).await.contains(CANARY));
    let other = create(&hub, new("1.50")).await;
    assert_eq!(value(&hub, &other, 1).await, "1.50");
}

async fn a_document_opens_in_its_place_only(place: Place) {
    let hub = place.hub().await;
    let (id, other) = (fill(&hub).await, create(&hub, NewRecord { created_by: None, ..new("1") }).await);
    let db = place.db().await;
    let read = "SELECT value FROM hub_versions WHERE record = $1 AND number = $2";
    let sealed: Vec<u8> = db.look_up(read, params![&id, 1]).await.unwrap().unwrap().get(0).unwrap();
    // To another record, to another version, to another part.
    for (record, version, column) in [(&other, 1_i64, "value"), (&id, 2, "value"), (&id, 1, "context")] {
        let (record, sealed) = (record.clone(), sealed.clone());
        let sql = format!("UPDATE hub_versions SET {column} = $1 WHERE record = $2 AND number = $3");
        let moved = db.write(move |tx| tx.execute(&sql, params![sealed.as_slice(), &record, version])).await;
        assert_eq!(moved.map_err(|error: db::Error| error).unwrap(), 1);
    }
    for (record, version) in [(&other, 1), (&id, 2)] {
        assert!(hub.value(record, version).await.unwrap_err().to_string().contains("sealed bytes were changed"));
    }
    assert!(hub.context(&id, 1).await.is_err());
    assert!(value(&hub, &id, 1).await.contains(CANARY), "untouched");
    let version = |number: u32| VersionId { record: id.clone(), number };
    let values = hub.values(&[version(1), version(2)]).await.unwrap();
    assert!(values[&version(1)].is_ok() && values[&version(2)].is_err(), "one that is damaged hides no other");
}

async fn a_lost_key_is_named(place: Place) {
    fill(&place.hub().await).await;
    let other = place.directory.join("other.key");
    key_file::create(&other).unwrap();
    let keyring = |name: &str| {
        Keyring::new([(name.to_owned(), Key::file(&other, Sharing::Private))], keys::Settings::default()).unwrap()
    };
    let error =
        Hub::open(place.db().await, keyring("hub"), settings(), Arc::new(NoBackends)).await.unwrap_err().to_string();
    assert!(error.contains("the key 'hub' has no version"), "{error}");
    let error = Hub::open(place.db().await, keyring("another"), settings(), Arc::new(NoBackends))
        .await
        .unwrap_err()
        .to_string();
    assert!(error.contains("there is no key named 'hub'"), "{error}");
}
