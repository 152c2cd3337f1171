//! The hub on both databases: every test runs on SQLite and on PostgreSQL.

mod place;

mod concurrency;
mod create;
mod delete;
mod list;
mod locks;
mod model;
mod sealed;
mod types;
mod update;
