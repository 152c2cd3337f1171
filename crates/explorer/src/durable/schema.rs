//! The tables of the copy.

use db::Migrations;

/// A row stands under its slot: slots grow, so that a new row goes to the end of the file.
pub const MIGRATIONS: Migrations = Migrations {
    set: "explorer_copy",
    steps: &["
CREATE TABLE explorer_rows (slot BIGINT PRIMARY KEY, head TEXT NOT NULL, body BYTEA NOT NULL);
CREATE TABLE explorer_tenants (
    cluster TEXT NOT NULL, namespace TEXT NOT NULL, tenant TEXT NOT NULL, PRIMARY KEY (cluster, namespace)
);
"],
};

pub(super) const PUT: &str = "INSERT INTO explorer_rows (slot, head, body) VALUES ($1, $2, $3) \
    ON CONFLICT (slot) DO UPDATE SET head = excluded.head, body = excluded.body";
pub(super) const HEAD: &str = "UPDATE explorer_rows SET head = $2 WHERE slot = $1";
pub(super) const REMOVE: &str = "DELETE FROM explorer_rows WHERE slot = $1";
pub(super) const PAGE: &str = "SELECT slot, head, body FROM explorer_rows WHERE slot > $1 ORDER BY slot LIMIT 1000";
pub(super) const BODY: &str = "SELECT head, body FROM explorer_rows WHERE slot = $1";

pub(super) const PUT_TENANT: &str = "INSERT INTO explorer_tenants (cluster, namespace, tenant) VALUES ($1, $2, $3) \
    ON CONFLICT (cluster, namespace) DO UPDATE SET tenant = excluded.tenant";
pub(super) const REMOVE_TENANT: &str = "DELETE FROM explorer_tenants WHERE cluster = $1 AND namespace = $2";
pub(super) const REMOVE_TENANTS: &str = "DELETE FROM explorer_tenants WHERE cluster = $1";
pub(super) const TENANTS: &str = "SELECT cluster, namespace, tenant FROM explorer_tenants";
