//! YAML with its numbers as text: [`read`] takes the events of the parser, [`scalar`] says what a plain word is, [`write`]
//! makes a text that reads back the same.

mod read;
mod scalar;
mod write;

pub use read::read_all;
