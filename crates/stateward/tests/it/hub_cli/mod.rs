//! `stateward ti`, `storage`, `type`, `workflow` and `step` through the real binary, against a real server and real backends.

mod backend;
mod changes;
mod desk;
mod editing;
mod ends;
mod records;
mod steps;
mod stores;
mod types;
mod workflows;
