//! Which clock counts.

use std::time::Duration;

use backends::Code;
use hub::{Error, Reason};
use jiff::{SignedDuration, Timestamp};
use testbed::Postgres;

use crate::outside::moody::Mood;
use crate::outside::{World, batch, kept_in, patient};
use crate::place::{Place, create, new};

const HOUR: SignedDuration = SignedDuration::from_hours(1);

/// A database whose clock is ahead of this machine's, as if the machine of the hub were behind.
struct Ahead {
    server: &'static Postgres,
    database: String,
}

impl Ahead {
    fn by(hours: u32) -> Ahead {
        let server = Postgres::shared().unwrap();
        let ahead = Ahead { server, database: server.create_database().unwrap() };
        ahead.sql(&format!("ALTER DATABASE {} SET search_path = public, pg_catalog", ahead.database));
        ahead.set(hours);
        ahead
    }

    fn set(&self, hours: u32) {
        self.sql(&format!(
            "CREATE OR REPLACE FUNCTION public.clock_timestamp() RETURNS timestamptz LANGUAGE sql AS \
             $$ SELECT pg_catalog.clock_timestamp() + interval '{hours} hours' $$"
        ));
    }

    fn sql(&self, sql: &str) {
        self.server.sql(&self.database, sql).unwrap();
    }

    fn place(&self) -> Place {
        Place::new(&self.server.url(&self.database))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn leases_count_by_the_clock_of_the_database_and_not_by_that_of_a_machine() {
    let ahead = Ahead::by(3);
    let place = ahead.place();
    let (hub, other) = (place.hub().await, place.hub().await);
    assert!(hub.now() > Timestamp::now() + 2 * HOUR, "{}", hub.now());
    let id = create(&hub, new("1")).await;
    hub.lock(vec![id.clone()], "me".to_owned(), Some(HOUR)).await.unwrap();
    let lock = hub.find(&id).await.unwrap().unwrap().lock.unwrap();
    assert!(lock.expires.unwrap() > Timestamp::now() + 3 * HOUR, "{lock:?}");
    let locked = other.lock(vec![id.clone()], "you".to_owned(), None).await.unwrap_err();
    assert!(matches!(locked, Error::Refused { reason: Reason::Locked, .. }), "{locked}");
    // The lease is over when the database says so, for whoever has asked it since.
    ahead.set(5);
    other.tend().await.unwrap();
    other.lock(vec![id.clone()], "you".to_owned(), None).await.unwrap();
    assert_eq!(hub.find(&id).await.unwrap().unwrap().lock.unwrap().owner, "you");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_dead_process_began_is_taken_over_by_the_clock_of_the_database() {
    let ahead = Ahead::by(0);
    let world = World::new(ahead.place(), patient()).await;
    let outside = world.register("shelf").await;
    outside.moody.set("OnCreate", Mood::Lose);
    outside.moody.set("OnDelete", Mood::Fail(Code::Unavailable));
    world.hub.create(batch(vec![kept_in("shelf", "1")])).await.unwrap_err();
    assert!(world.hub.rest(Duration::from_secs(60)).await, "nobody waits for what is undone");
    // As if whoever began it had two hours.
    ahead.sql("UPDATE hub_journal SET lease_until = lease_until + 7200000000, deadline = deadline + 7200000000");
    outside.moody.be_well();
    let other = world.second(patient()).await;
    assert_eq!(other.recover().await.unwrap(), 0);
    ahead.set(3);
    other.tend().await.unwrap();
    assert!(other.journal().await.unwrap().is_empty() && outside.original.ids().is_empty());
}
