//! Records in the database: one file per thing that is done with them.
//!
//! Everything that one call changes is one transaction, so that a batch takes place as a whole or not at all, and two hubs
//! on one database need nothing else to agree. Text is looked up by equality only; order is that of [`crate::model::Place`].

mod checks;
mod create;
mod delete;
mod insert;
mod list;
mod locks;
mod moving;
mod read;
pub(crate) mod rows;
mod types;
mod update;
mod versions;

use db::Migrations;

use crate::{changes, journal};

pub use create::{Batch, Created, NewRecord, Relation, StorageChoice};
pub use delete::{Deletion, OnBackendFailure};
pub use list::{AttributeFilter, Cursor, Filter, Page, Rule, TypeFilter, Versions};
pub use read::VersionId;
pub use update::Change;
pub use versions::DEFAULT_ATTRIBUTE;

pub(crate) use checks::Checks;
pub(crate) use create::{END, Plan, Reserved, digest_of};
pub(crate) use delete::{Going, Leaving, delete_record};
pub(crate) use insert::ensure_built_in;
pub(crate) use locks::{Locking, NotHeld, Releasing, Whose, expired};
pub(crate) use moving::{Copied, Moving};
pub(crate) use read::Direction;
pub(crate) use types::Schemas;
pub(crate) use update::{Begun, Updating};

/// The tables; whoever opens the `Db` applies them.
pub const MIGRATIONS: Migrations = Migrations {
    set: "hub",
    steps: &[RECORDS, journal::TABLES, changes::TABLES, changes::FORGOTTEN_ITEM, HAS_VALUE, ORDERED_USERS],
};

/// Whether a version was given a value, also where a backend keeps it; unknown of those kept outside before.
const HAS_VALUE: &str = "
ALTER TABLE hub_versions ADD COLUMN has_value BIGINT;
UPDATE hub_versions SET has_value = 1 WHERE value IS NOT NULL;
";

/// What uses a record, in the order of lists: the first few of very many are found without the others.
const ORDERED_USERS: &str = "
ALTER TABLE hub_relations ADD COLUMN source_place BYTEA;
UPDATE hub_relations SET source_place = (SELECT place FROM hub_records WHERE id = source);
CREATE INDEX hub_relations_in_order ON hub_relations (target, source_place, source);
DROP INDEX hub_relations_by_target;
";

const RECORDS: &str = "
CREATE TABLE hub_keys (id TEXT PRIMARY KEY, wrapped TEXT NOT NULL, made_at BIGINT NOT NULL);
CREATE TABLE hub_records (
    id TEXT PRIMARY KEY, name TEXT UNIQUE, namespace TEXT NOT NULL, type_path TEXT NOT NULL, type_revision TEXT NOT NULL,
    backend TEXT NOT NULL, storage BIGINT NOT NULL, created_at BIGINT NOT NULL, latest BIGINT NOT NULL,
    place BYTEA NOT NULL UNIQUE
);
CREATE INDEX hub_records_by_type ON hub_records (type_path);
CREATE INDEX hub_records_by_namespace ON hub_records (namespace, place);
CREATE INDEX hub_records_by_backend ON hub_records (backend, place);
CREATE TABLE hub_namespaces (namespace TEXT PRIMARY KEY);
CREATE TABLE hub_paths (path TEXT PRIMARY KEY);
CREATE TABLE hub_versions (
    record TEXT NOT NULL, number BIGINT NOT NULL, created_by TEXT, created_at BIGINT NOT NULL, value BYTEA, context BYTEA,
    PRIMARY KEY (record, number)
);
CREATE INDEX hub_versions_by_author ON hub_versions (created_by, record);
CREATE TABLE hub_attributes (
    record TEXT NOT NULL, number BIGINT NOT NULL, position BIGINT NOT NULL, path TEXT NOT NULL, revision TEXT NOT NULL,
    PRIMARY KEY (record, number, position)
);
CREATE INDEX hub_attributes_by_path ON hub_attributes (path, record, number);
CREATE TABLE hub_relations (source TEXT NOT NULL, target TEXT NOT NULL, PRIMARY KEY (source, target));
CREATE INDEX hub_relations_by_target ON hub_relations (target, source);
CREATE TABLE hub_locks (
    record TEXT PRIMARY KEY, owner TEXT NOT NULL, since BIGINT NOT NULL, expires BIGINT
);
CREATE TABLE hub_requests (request TEXT PRIMARY KEY, answer BYTEA NOT NULL, made_at BIGINT NOT NULL);
CREATE INDEX hub_requests_by_age ON hub_requests (made_at);
CREATE TABLE hub_types (
    path TEXT NOT NULL, revision TEXT NOT NULL, display_name TEXT, description TEXT, schema_text TEXT, refs TEXT NOT NULL,
    PRIMARY KEY (path, revision)
);
";

/// `$3, $4, $5`: places for as many values, beginning with this one.
pub(crate) fn places(first: usize, count: usize) -> String {
    let places: Vec<String> = (first..first + count).map(|place| format!("${place}")).collect();
    places.join(", ")
}

/// Values per statement, since databases take only so many.
pub(crate) const CHUNK: usize = 500;
