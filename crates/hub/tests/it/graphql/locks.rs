//! Locks over lists of records.

use serde_json::{Value, json};

use crate::front::Front;
use crate::place::{Place, on_both};

on_both!(
    locks_are_granted_renewed_and_released_all_or_none,
    a_lease_ends_by_itself,
    whoever_holds_a_record_may_change_it_and_nobody_else,
);

const LOCK: &str = "mutation($in: LockTypeInstancesInput!) { lockTypeInstances(in: $in) }";
const UNLOCK: &str = "mutation($in: UnlockTypeInstancesInput!) { unlockTypeInstances(in: $in) }";
const FORCE: &str = "mutation($ids: [ID!]!) { forceUnlockTypeInstances(ids: $ids) }";
const HELD: &str = "query($id: ID!) { typeInstance(id: $id) { lockedBy hub: lockedBy(source: HUB) lockedAt lockExpiresAt lockError } }";

async fn locks_are_granted_renewed_and_released_all_or_none(place: Place) {
    let front = Front::open(place).await;
    let admin = front.admin().await;
    let (one, two) = (admin.create(json!({})).await, admin.create(json!({})).await);
    let by = |owner: &str, ids: &[&str]| json!({ "in": { "ids": ids, "ownerID": owner } });
    let held = async |id: &str| admin.data(HELD, json!({ "id": id })).await["typeInstance"].clone();
    assert_eq!(admin.data(LOCK, by("a", &[&two])).await, json!({ "lockTypeInstances": [two] }));
    assert_eq!(admin.refused(LOCK, by("b", &[&one, &two])).await.0, "LOCKED");
    assert_eq!(held(&one).await["lockedBy"], Value::Null, "all or none");
    admin.data(LOCK, by("a", &[&one, &two])).await;
    let found = held(&one).await;
    assert_eq!((&found["lockedBy"], &found["hub"], &found["lockExpiresAt"]), (&json!("a"), &json!("a"), &Value::Null));
    assert!(found["lockedAt"].is_string() && found["lockError"].is_null(), "{found}");
    assert_eq!(admin.refused(UNLOCK, by("b", &[&one])).await.0, "LOCKED");
    admin.data(UNLOCK, by("a", &[&one])).await;
    admin.data(UNLOCK, by("b", &[&one])).await;
    assert_eq!(admin.data(FORCE, json!({ "ids": [two] })).await, json!({ "forceUnlockTypeInstances": [two] }));
    assert_eq!(held(&two).await["lockedBy"], Value::Null);
}

async fn a_lease_ends_by_itself(place: Place) {
    let front = Front::open(place).await;
    let admin = front.admin().await;
    let id = admin.create(json!({})).await;
    let lock = |owner: &str, lease: Value| json!({ "in": { "ids": [id], "ownerID": owner, "expiresIn": lease } });
    admin.data(LOCK, lock("a", json!("1h"))).await;
    assert!(admin.data(HELD, json!({ "id": id })).await["typeInstance"]["lockExpiresAt"].is_string());
    admin.data(LOCK, lock("a", json!("100ms"))).await;
    let limit = std::time::Duration::from_secs(30);
    testbed::eventually(limit, || async {
        admin.data(HELD, json!({ "id": id })).await["typeInstance"]["lockedBy"].is_null()
    })
    .await;
    admin.data(LOCK, lock("b", Value::Null)).await;
    for bad in ["soon", "0s", "-5s"] {
        let (code, text) = admin.refused(LOCK, lock("b", json!(bad))).await;
        assert!(code == "INVALID" && text.starts_with("expiresIn: "), "{text}");
    }
}

async fn whoever_holds_a_record_may_change_it_and_nobody_else(place: Place) {
    let front = Front::open(place).await;
    let admin = front.admin().await;
    let id = admin.create(json!({})).await;
    admin.data(LOCK, json!({ "in": { "ids": [id], "ownerID": "a" } })).await;
    let update = "mutation($in: [UpdateTypeInstancesInput]!) { updateTypeInstances(in: $in) { lockedBy } }";
    let by = |owner: Value| json!({ "in": [{ "id": id, "ownerID": owner, "typeInstance": {} }] });
    for stranger in [Value::Null, json!("b")] {
        assert_eq!(admin.refused(update, by(stranger)).await.0, "LOCKED");
    }
    assert_eq!(admin.data(update, by(json!("a"))).await["updateTypeInstances"][0]["lockedBy"], "a");
    let delete = "mutation($id: ID!, $owner: LockOwnerID) { deleteTypeInstance(id: $id, ownerID: $owner) }";
    assert_eq!(admin.refused(delete, json!({ "id": id })).await.0, "LOCKED");
    admin.data(delete, json!({ "id": id, "owner": "a" })).await;
}
