//! One suite for both engines, each against the real thing: files on this disk, a PostgreSQL server per test process.
//!
//! Where a new test goes: what a statement or a transaction does, on both engines, into `statements`, `isolation`,
//! `transactions` or `operations`; schemas into `migrations`; what one engine alone has into `backup`, `tls`, `network`;
//! anything that kills a process into `crash` or `durability`, with its part inside the killed process in `child`.

mod backup;
mod child;
mod crash;
mod durability;
mod isolation;
mod migrations;
mod network;
mod operations;
mod place;
mod restart;
mod statements;
mod tls;
mod trace;
mod transactions;
