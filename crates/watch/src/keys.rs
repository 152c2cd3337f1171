//! The durable sets of known keys, one per stream, and the fences that removals close.
//!
//! A stream has a row with a number of its own and an epoch. Following it anew raises the epoch, removing it deletes the
//! row; every change of the set names both in its transaction, so that whatever an earlier follower still had under way
//! is refused. The number is never used again: a cluster that is added anew begins with an empty set.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use db::{Db, Migrations, Tx, Value, params};
use kube::api::ApiResource;

use crate::Error;
use crate::event::{Key, Uid};
use crate::failpoints::Step;
use crate::fence::Fence;
use crate::queue::Queue;

/// The tables; whoever opens the `Db` applies them.
pub const MIGRATIONS: Migrations = Migrations {
    set: "watch",
    steps: &["
CREATE TABLE watch_streams (
    id BIGINT PRIMARY KEY, consumer TEXT NOT NULL, cluster TEXT NOT NULL, api_group TEXT NOT NULL, plural TEXT NOT NULL,
    epoch BIGINT NOT NULL, UNIQUE (consumer, cluster, api_group, plural)
);
CREATE TABLE watch_keys (
    stream BIGINT NOT NULL, uid TEXT NOT NULL, namespace TEXT NOT NULL, name TEXT NOT NULL, PRIMARY KEY (stream, uid)
);
"],
};

/// The sets of one consumer. Clones share it.
#[derive(Clone, Debug)]
pub struct Keys {
    db: Db,
    consumer: Arc<str>,
    open: Arc<Mutex<HashMap<StreamName, Open>>>,
}

/// Names a stream among those of a consumer. The version of the API is not part of it: the objects are the same.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StreamName {
    pub cluster: String,
    pub kind: Kind,
}

/// A kind, as discovery names it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Kind {
    /// Empty for the core group.
    pub group: String,
    pub plural: String,
}

/// What a removal takes away.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    Kind(StreamName),
    Cluster(String),
}

/// The right to change one set, until the stream is removed or followed anew.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lease {
    id: i64,
    epoch: i64,
}

/// A stream that is followed in this process.
#[derive(Clone, Debug)]
pub(crate) struct Open {
    pub(crate) fence: Fence,
    pub(crate) queue: Arc<Queue>,
}

impl Keys {
    /// The sets of `consumer` in a database that has [`MIGRATIONS`].
    pub fn new(db: Db, consumer: &str) -> Keys {
        Keys { db, consumer: consumer.into(), open: Arc::default() }
    }

    /// The streams that have a set, also those that nobody follows now, with the number of their keys: what is not
    /// configured any more is to be removed.
    pub async fn streams(&self) -> Result<Vec<(StreamName, u64)>, Error> {
        let consumer = Arc::clone(&self.consumer);
        let rows = self.db.read(move |tx| tx.query(STREAMS, params![&*consumer])).await?;
        let stream = |row: &db::Row| {
            let kind = Kind { group: row.get(1)?, plural: row.get(2)? };
            let count: i64 = row.get(3)?;
            Ok((StreamName { cluster: row.get(0)?, kind }, count.unsigned_abs()))
        };
        rows.iter().map(stream).collect()
    }

    /// Forgets a kind of a cluster, or a cluster, in one transaction, together with what `also` does in it: the
    /// consumer's own rows, if they are in the same database. Streams of it that are followed in this process end first.
    /// When this returns, nothing that was in flight can be applied (see [`Fence`]) or become durable any more. A follower
    /// in another process, or one that is started at the same time, learns of it with its next write of keys.
    pub async fn remove<F>(&self, scope: &Scope, also: F) -> Result<(), Error>
    where
        F: Fn(&mut Tx<'_>) -> Result<(), db::Error> + Send + 'static,
    {
        let in_scope = |name: &StreamName| match scope {
            Scope::Kind(kind) => name == kind,
            Scope::Cluster(cluster) => name.cluster == *cluster,
        };
        let open: Vec<Open> =
            self.open().iter().filter(|(name, _open)| in_scope(name)).map(|(_name, open)| open.clone()).collect();
        for open in open {
            open.queue.close();
            open.fence.close().await;
        }
        Step::RemovalBegun.hit();
        let (condition, mut bound) = match scope {
            Scope::Kind(name) => {
                let Kind { group, plural } = &name.kind;
                (" AND cluster = $2 AND api_group = $3 AND plural = $4", params![&name.cluster, group, plural].to_vec())
            }
            Scope::Cluster(cluster) => (" AND cluster = $2", params![cluster].to_vec()),
        };
        bound.insert(0, Value::from(&*self.consumer));
        let keys = format!(
            "DELETE FROM watch_keys WHERE stream IN (SELECT id FROM watch_streams WHERE consumer = $1{condition})"
        );
        let streams = format!("DELETE FROM watch_streams WHERE consumer = $1{condition}");
        let removal = move |tx: &mut Tx<'_>| {
            tx.execute(&keys, &bound)?;
            tx.execute(&streams, &bound)?;
            also(tx)?;
            Step::RemovalBeforeCommit.hit();
            Ok::<(), db::Error>(())
        };
        self.db.write(removal).await?;
        Step::Removed.hit();
        Ok(())
    }

    /// Takes a stream over from whoever followed it before, and reads its set.
    pub(crate) async fn lease(&self, name: &StreamName, open: Open) -> Result<(Lease, Vec<(Key, Uid)>), Error> {
        let before = self.open().insert(name.clone(), open);
        if let Some(before) = before {
            before.queue.close();
            before.fence.close().await;
        }
        let named = params![&*self.consumer, &name.cluster, &name.kind.group, &name.kind.plural].to_vec();
        let take = move |tx: &mut Tx<'_>| {
            let mut insert = vec![Value::from(fresh_id())];
            insert.extend(named.iter().cloned());
            tx.execute(ENROL, &insert)?;
            let row = tx.query(TAKE, &named)?.pop();
            row.map(|row| Ok(Lease { id: row.get(0)?, epoch: row.get(1)? })).transpose()
        };
        let lease = self.db.write::<_, db::Error, _>(take).await?.ok_or(Error::Removed)?;
        Ok((lease, self.load(lease).await?))
    }

    /// Forgets that a stream is followed here, unless somebody follows it anew.
    pub(crate) fn release(&self, name: &StreamName, queue: &Arc<Queue>) {
        let mut open = self.open();
        if open.get(name).is_some_and(|open| Arc::ptr_eq(&open.queue, queue)) {
            open.remove(name);
        }
    }

    /// In one transaction, removes what was acknowledged and adds what is about to be handed out. In that order: an
    /// object that left the filter and came back is in both.
    pub(crate) async fn change(&self, lease: Lease, remove: &[Uid], add: &[(Key, Uid)]) -> Result<(), Error> {
        let remove: Vec<Statement> = chunks(remove).map(|uids| removal(lease, &uids)).collect();
        let add: Vec<Statement> = chunks(add).map(|keys| addition(lease, keys)).collect();
        let change = move |tx: &mut Tx<'_>| {
            if tx.query_opt(HOLDS, params![lease.id, lease.epoch])?.is_none() {
                return Err(Error::Removed);
            }
            for (sql, bound) in remove.iter().chain(&add) {
                tx.execute(sql, bound)?;
            }
            Ok(())
        };
        self.db.write(change).await
    }

    async fn load(&self, lease: Lease) -> Result<Vec<(Key, Uid)>, Error> {
        let mut keys: Vec<(Key, Uid)> = Vec::new();
        loop {
            let after = keys.last().map_or(String::new(), |(_key, uid)| uid.as_str().to_owned());
            let rows = self.db.read(move |tx| tx.query(PAGE, params![lease.id, &after])).await?;
            if rows.is_empty() {
                return Ok(keys);
            }
            for row in &rows {
                let (uid, namespace, name): (String, String, String) = (row.get(0)?, row.get(1)?, row.get(2)?);
                keys.push((Key::new(&namespace, &name), Uid::new(&uid)));
            }
        }
    }

    fn open(&self) -> MutexGuard<'_, HashMap<StreamName, Open>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl StreamName {
    pub fn new(cluster: &str, resource: &ApiResource) -> StreamName {
        let kind = Kind { group: resource.group.clone(), plural: resource.plural.clone() };
        StreamName { cluster: cluster.to_owned(), kind }
    }
}

const STREAMS: &str = "SELECT cluster, api_group, plural, \
    (SELECT COUNT(*) FROM watch_keys WHERE stream = id) FROM watch_streams WHERE consumer = $1";
const ENROL: &str = "INSERT INTO watch_streams (id, consumer, cluster, api_group, plural, epoch) \
    VALUES ($1, $2, $3, $4, $5, 0) ON CONFLICT (consumer, cluster, api_group, plural) DO NOTHING";
const TAKE: &str = "UPDATE watch_streams SET epoch = epoch + 1 \
    WHERE consumer = $1 AND cluster = $2 AND api_group = $3 AND plural = $4 RETURNING id, epoch";
const HOLDS: &str = "SELECT 1 FROM watch_streams WHERE id = $1 AND epoch = $2";
const PAGE: &str =
    "SELECT uid, namespace, name FROM watch_keys WHERE stream = $1 AND uid > $2 ORDER BY uid LIMIT 10000";

/// A number that was never used before.
fn fresh_id() -> i64 {
    uuid::Uuid::new_v4().as_u64_pair().1.cast_signed()
}

type Statement = (String, Vec<Value>);

/// Rows per statement come in few sizes, so that databases see few different texts; the last row is repeated to fill one.
const SIZES: [usize; 3] = [1, 20, 400];

fn chunks<T: Clone>(rows: &[T]) -> impl Iterator<Item = Vec<T>> {
    rows.chunks(SIZES[2]).map(|chunk| {
        let size = SIZES.into_iter().find(|&size| size >= chunk.len()).unwrap_or(SIZES[2]);
        let last = chunk[chunk.len() - 1..].iter().cycle().take(size - chunk.len());
        chunk.iter().chain(last).cloned().collect()
    })
}

fn addition(lease: Lease, keys: Vec<(Key, Uid)>) -> Statement {
    let mut bound = params![lease.id].to_vec();
    let mut rows = Vec::with_capacity(keys.len());
    for (key, uid) in keys {
        let next = bound.len() + 1;
        rows.push(format!("($1, ${next}, ${}, ${})", next + 1, next + 2));
        bound.extend_from_slice(params![uid.as_str(), &*key.namespace, &*key.name]);
    }
    let sql = format!(
        "INSERT INTO watch_keys (stream, uid, namespace, name) VALUES {} ON CONFLICT (stream, uid) DO NOTHING",
        rows.join(", ")
    );
    (sql, bound)
}

fn removal(lease: Lease, uids: &[Uid]) -> Statement {
    let mut bound = params![lease.id].to_vec();
    bound.extend(uids.iter().map(|uid| Value::from(uid.as_str())));
    let places: Vec<String> = (2..=bound.len()).map(|place| format!("${place}")).collect();
    (format!("DELETE FROM watch_keys WHERE stream = $1 AND uid IN ({})", places.join(", ")), bound)
}
