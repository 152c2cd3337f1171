//! The one integration test target of this crate: a module per subject.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "children report to their parent, and figures are shown"
)]

mod audit;
mod rbac;
