//! Changes that go to disk together, of each row the last.

use std::collections::HashMap;
use std::sync::Arc;

use db::{Tx, params};

use super::schema;
use crate::failpoints::Step;
use crate::index::Slot;
use crate::row::Row;

/// Changes in the order of the index, put together.
#[derive(Debug, Default)]
pub(super) struct Batch {
    /// The number of the latest change in it.
    pub(super) last: u64,
    rows: HashMap<Slot, Write>,
    tenants: Vec<Tenant>,
}

/// What becomes of a row. `Row` is without its body.
#[derive(Clone, Debug)]
pub(super) enum Write {
    Put(Box<Row>, Arc<str>),
    Head(Box<Row>),
    Remove,
}

#[derive(Clone, Debug)]
pub(super) enum Tenant {
    Is { cluster: String, namespace: String, tenant: Option<String> },
    ClusterGone { cluster: String },
}

/// A batch as the database takes it: packed, and safe to be run twice.
#[derive(Debug)]
pub(super) struct Packed {
    rows: Vec<(i64, PackedRow)>,
    tenants: Vec<Tenant>,
}

#[derive(Debug)]
enum PackedRow {
    Put(String, Vec<u8>),
    Head(String),
    Remove,
}

/// Quick, and a third of the size.
const LEVEL: i32 = 1;
/// Larger bodies than any API server keeps.
const LARGEST: usize = 64 << 20;

impl Batch {
    pub(super) fn row(&mut self, slot: Slot, write: Write) {
        let before = self.rows.remove(&slot);
        let write = match (before, write) {
            (Some(Write::Put(_, body)), Write::Head(row)) => Write::Put(row, body),
            (_, write) => write,
        };
        self.rows.insert(slot, write);
    }

    pub(super) fn tenant(&mut self, tenant: Tenant) {
        self.tenants.push(tenant);
    }

    pub(super) fn len(&self) -> usize {
        self.rows.len() + self.tenants.len()
    }

    /// What is about to be written of a row.
    pub(super) fn get(&self, slot: Slot) -> Option<&Write> {
        self.rows.get(&slot)
    }

    /// Takes some time for many rows.
    pub(super) fn pack(&self) -> Packed {
        let mut compressor = zstd::bulk::Compressor::new(LEVEL).expect("the level is one of zstd's");
        let mut pack = |write: &Write| match write {
            Write::Put(row, body) => {
                let body = compressor.compress(body.as_bytes()).unwrap_or_default();
                PackedRow::Put(head(row), body)
            }
            Write::Head(row) => PackedRow::Head(head(row)),
            Write::Remove => PackedRow::Remove,
        };
        let mut rows: Vec<(i64, PackedRow)> =
            self.rows.iter().map(|(slot, write)| (i64::from(slot.0), pack(write))).collect();
        // The file is written from its start to its end.
        rows.sort_unstable_by_key(|(slot, _)| *slot);
        Packed { rows, tenants: self.tenants.clone() }
    }
}

impl Packed {
    pub(super) fn write(&self, tx: &mut Tx<'_>) -> Result<(), db::Error> {
        for (place, (slot, row)) in self.rows.iter().enumerate() {
            match row {
                PackedRow::Put(head, body) => tx.execute(schema::PUT, params![*slot, head, body.as_slice()])?,
                PackedRow::Head(head) => tx.execute(schema::HEAD, params![*slot, head])?,
                PackedRow::Remove => tx.execute(schema::REMOVE, params![*slot])?,
            };
            if place == self.rows.len() / 2 {
                Step::CopyInBatch.hit();
            }
        }
        for tenant in &self.tenants {
            match tenant {
                Tenant::Is { cluster, namespace, tenant: Some(tenant) } => {
                    tx.execute(schema::PUT_TENANT, params![cluster, namespace, tenant])?
                }
                Tenant::Is { cluster, namespace, tenant: None } => {
                    tx.execute(schema::REMOVE_TENANT, params![cluster, namespace])?
                }
                Tenant::ClusterGone { cluster } => tx.execute(schema::REMOVE_TENANTS, params![cluster])?,
            };
        }
        Ok(())
    }
}

/// NUL bytes cannot stand in text: JSON writes them as `\u0000`.
fn head(row: &Row) -> String {
    serde_json::to_string(row).unwrap_or_default()
}

pub(super) fn unpack(body: &[u8]) -> Result<String, super::Error> {
    if body.is_empty() {
        return Ok(String::new());
    }
    let bound = zstd::bulk::Decompressor::upper_bound(body).unwrap_or(LARGEST).min(LARGEST);
    let bytes = zstd::bulk::decompress(body, bound).map_err(|error| super::Error::Unpack(error.to_string()))?;
    String::from_utf8(bytes).map_err(|_| super::Error::Unpack("it is not UTF-8".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_each_row_the_last_change_counts_and_a_body_is_not_lost() {
        let row = |name: &str| {
            let mut row: Row = serde_json::from_value(serde_json::json!({
                "cluster": "c", "namespace": "n", "group": "", "kind": "K", "name": name, "version": "v1",
                "resource": "ks", "uid": "u", "status": "-", "message": "", "category": "other", "labels": [],
                "created": null, "deleted_at": null, "terminating": false,
            }))
            .unwrap();
            row.body = String::new();
            Box::new(row)
        };
        let mut batch = Batch::default();
        batch.row(Slot(1), Write::Put(row("a"), "body".into()));
        batch.row(Slot(1), Write::Head(row("b")));
        batch.row(Slot(2), Write::Remove);
        batch.row(Slot(2), Write::Put(row("c"), "".into()));
        batch.row(Slot(3), Write::Put(row("d"), "".into()));
        batch.row(Slot(3), Write::Remove);
        assert!(matches!(batch.get(Slot(1)), Some(Write::Put(row, body)) if row.key.name == "b" && &**body == "body"));
        assert!(matches!(batch.get(Slot(2)), Some(Write::Put(..))));
        assert!(matches!(batch.get(Slot(3)), Some(Write::Remove)));
        assert_eq!(batch.len(), 3);
    }

    #[test]
    fn bodies_come_back_from_their_bytes() {
        for body in ["", "{}", &"{\"a\":1}".repeat(1000)] {
            let packed =
                if body.is_empty() { Vec::new() } else { zstd::bulk::compress(body.as_bytes(), LEVEL).unwrap() };
            assert_eq!(unpack(&packed).unwrap(), *body);
        }
        assert!(unpack(b"not packed").is_err());
    }
}
