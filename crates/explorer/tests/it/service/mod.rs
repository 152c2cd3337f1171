//! The service against real clusters.

mod maps;
mod widgets;
mod world;

mod clusters;
mod collects;
mod crash;
mod deletions;
mod discovery;
mod flux;
mod identities;
mod keys;
mod outages;
mod replaced;
mod retention;
mod reviews;
mod revocation;
mod rights;
