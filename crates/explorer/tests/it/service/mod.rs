//! The service against real clusters.

mod maps;
mod widgets;
mod world;

mod clusters;
mod collects;
mod crash;
mod deletions;
mod flux;
mod identities;
mod outages;
mod retention;
mod revocation;
mod rights;
