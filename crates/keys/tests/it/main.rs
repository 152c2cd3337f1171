//! Every kind of key against the real thing, and the streams that are sealed under data keys.

mod conformance;
mod file;
mod kinds;
mod memory;
mod ring;
mod sealed;
mod secret;
mod streams;
mod transit;
