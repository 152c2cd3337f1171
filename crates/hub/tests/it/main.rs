//! The hub on both databases: every test runs on SQLite and on PostgreSQL.

mod outside;
mod place;

mod front;

mod choice;
mod clock;
mod concurrency;
mod crash;
mod create;
mod delete;
mod external;
mod faults;
mod feed;
mod graphql;
mod list;
mod locks;
mod mirrored;
mod model;
mod moves;
mod reads;
mod sealed;
mod take_over;
mod types;
mod update;
