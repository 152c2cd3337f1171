//! The hub on both databases: every test runs on SQLite and on PostgreSQL.

mod outside;
mod place;

mod front;

mod concurrency;
mod create;
mod delete;
mod graphql;
mod external;
mod faults;
mod list;
mod locks;
mod model;
mod sealed;
mod types;
mod update;
