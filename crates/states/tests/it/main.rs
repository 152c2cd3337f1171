//! The codec, the engine on every store (the conformance suite), and the steps at which it may die.

mod codec;
mod conformance;
mod crash;
mod deltas;
mod in_namespace;
mod manage;
mod places;
mod s3;
mod sealed;
mod small;
mod sweep;
mod terraform_layout;
