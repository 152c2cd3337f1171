//! The hub on both databases: every test runs on SQLite and on PostgreSQL.

mod place;

mod front;

mod concurrency;
mod create;
mod delete;
mod graphql;
mod list;
mod locks;
mod model;
mod sealed;
mod types;
mod update;
