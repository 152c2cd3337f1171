//! `stateward state migrate` with real places on both sides.

mod again;
mod cluster;
mod elsewhere;
mod s3;
mod stores;
