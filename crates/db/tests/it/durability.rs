//! What was acknowledged is there, whoever is killed.

use std::collections::{BTreeSet, HashSet};
use std::time::Duration;

use testbed::Postgres;

use crate::child::{self, Role, Running};
use crate::place::{Place, names};

/// Kills in the course of writes; afterwards every acknowledged row must be there, once.
struct Ordeal {
    place: Place,
    random: fastrand::Rng,
    acknowledged: HashSet<String>,
    kills: usize,
    writes_wanted: usize,
    kills_wanted: usize,
}

impl Ordeal {
    fn new(place: Place, test: &str) -> Ordeal {
        Ordeal {
            place,
            random: fastrand::Rng::with_seed(testbed::seed(test)),
            acknowledged: HashSet::new(),
            kills: 0,
            writes_wanted: testbed::scale().of(1_000, 10_000),
            kills_wanted: testbed::scale().of(12, 100),
        }
    }

    fn is_over(&self) -> bool {
        self.kills >= self.kills_wanted && self.acknowledged.len() >= self.writes_wanted
    }

    fn start(&self) -> Running {
        child::start(Role::Write, &self.place, &format!("r{}", self.kills))
    }

    /// Reads a random number of acknowledgements, so that the kill comes somewhere.
    fn read_some(&mut self, child: &mut Running) {
        let most = 2 * self.writes_wanted / self.kills_wanted;
        for _ in 0..self.random.usize(1..=most) {
            let ack = child.next_ack().expect("the child ended by itself");
            assert!(self.acknowledged.insert(ack));
        }
        // Not only right after an acknowledgement.
        std::thread::sleep(Duration::from_micros(self.random.u64(0..3_000)));
    }

    fn kill(&mut self, child: &mut Running) {
        child.kill();
        self.kills += 1;
        // What it had said before it died counts, too.
        while let Some(ack) = child.next_ack() {
            assert!(self.acknowledged.insert(ack));
        }
    }

    async fn check(&self) {
        let there = names(&self.place.open().await).await;
        let distinct = there.iter().collect::<BTreeSet<_>>();
        assert_eq!(distinct.len(), there.len());
        let lost = self.acknowledged.iter().filter(|name| !distinct.contains(name)).collect::<Vec<_>>();
        assert!(lost.is_empty(), "{} of {} acknowledged rows are lost: {lost:?}", lost.len(), self.acknowledged.len());
        // Four writers may each have been killed between COMMIT and acknowledgement, once per kill.
        assert!(there.len() <= self.acknowledged.len() + 4 * (self.kills + 1), "rows that nobody wrote");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sqlite_loses_no_acknowledged_row_when_killed() {
    let mut ordeal = Ordeal::new(Place::sqlite(), "sqlite_loses_no_acknowledged_row_when_killed");
    while !ordeal.is_over() {
        let mut child = ordeal.start();
        ordeal.read_some(&mut child);
        ordeal.kill(&mut child);
        ordeal.check().await;
    }
}

/// Client and server are killed in turn; the client survives the server, and goes on when it is back.
#[tokio::test(flavor = "multi_thread")]
async fn postgres_loses_no_acknowledged_row_when_client_or_server_is_killed() {
    let server = Postgres::start().unwrap();
    let place = Place::Postgres(server.url(&server.create_database().unwrap()));
    let mut ordeal = Ordeal::new(place, "postgres_loses_no_acknowledged_row_when_client_or_server_is_killed");
    let mut child = ordeal.start();
    while !ordeal.is_over() {
        ordeal.read_some(&mut child);
        server.kill();
        ordeal.kills += 1;
        server.start_again().unwrap();
        ordeal.read_some(&mut child);
        ordeal.kill(&mut child);
        ordeal.check().await;
        child = ordeal.start();
    }
}
