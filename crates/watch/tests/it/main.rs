//! The one integration test target of this crate: a module per subject.
