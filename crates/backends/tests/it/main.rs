//! Drivers, directly and over the wire.

mod fields;
mod place;
mod raw;
mod recorder;

mod arguments;
mod bytes;
mod conformance;
mod crash;
mod failures;
mod file;
mod network;
mod original;
mod serving;
mod tls;
