//! The explorer's index and its copy against a model that is too simple to be wrong, and the service against real clusters.
#![expect(clippy::print_stdout, reason = "figures are shown")]

mod crash;
mod durable;
mod follow;
mod leaks;
mod lifecycle;
mod model;
mod pages;
mod random;
mod search;
mod service;
