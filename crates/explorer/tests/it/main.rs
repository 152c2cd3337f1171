//! The explorer's index and its copy against a model that is too simple to be wrong.

mod crash;
mod durable;
mod leaks;
mod lifecycle;
mod model;
mod pages;
mod random;
mod search;
