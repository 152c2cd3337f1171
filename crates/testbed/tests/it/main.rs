//! The testbed does for real what the tests of the other crates rely on.

mod cluster;
mod controllers;
mod disturb;
mod identities;
mod process;
