//! What can be wrong with a body that comes in, and with bytes that were stored.
//!
//! Policy: a fault names the byte and what was expected there, and never quotes content, because a state is full of
//! secrets. Everything but [`BadState::Spool`] is the sender's fault.

use std::io;
use std::sync::Arc;

use thiserror::Error;

/// Why an upload is refused. Nothing of it is kept.
#[derive(Clone, Debug, Error)]
pub enum BadState {
    #[error("the body is empty, expected a JSON object")]
    Empty,
    #[error("a state is a JSON object, expected '{{' at byte {offset}")]
    NotAnObject { offset: u64 },
    #[error("not JSON at byte {offset}: expected {expected}")]
    Unexpected { offset: u64, expected: &'static str },
    #[error("the body ends at byte {offset}, where {expected} was expected")]
    Truncated { offset: u64, expected: &'static str },
    #[error("the JSON object ends before byte {offset}, expected nothing but white space after it")]
    TrailingBytes { offset: u64 },
    #[error("byte {offset} opens more than {limit} nested objects and arrays")]
    TooDeep { offset: u64, limit: usize },
    #[error("the key that ends at byte {offset} stands in the state twice, expected it once")]
    DuplicateKey { offset: u64 },
    #[error("the key that ends at byte {offset} is one of more than {limit} keys of the state itself")]
    TooManyKeys { offset: u64, limit: usize },
    #[error("a key of the state itself is longer than {limit} bytes at byte {offset}")]
    KeyTooLong { offset: u64, limit: usize },
    #[error("not UTF-8 at byte {offset}")]
    NotUtf8 { offset: u64 },
    #[error("bad escape at byte {offset}: expected one of \"\\/bfnrt or u and four hexadecimal digits")]
    BadEscape { offset: u64 },
    #[error("a string holds a bare control character at byte {offset}, expected it escaped")]
    ControlCharacter { offset: u64 },
    #[error("bad number at byte {offset}: expected {expected}")]
    BadNumber { offset: u64, expected: &'static str },
    #[error("the body is larger than {limit} bytes")]
    TooLarge { limit: u64 },
    #[error("the body does not have the MD5 that Content-MD5 announces: it was changed on its way")]
    WrongMd5,
    /// Ours, not the sender's: the spool could not take it.
    #[error("failed to spool the upload")]
    Spool(#[source] Arc<io::Error>),
}

impl From<io::Error> for BadState {
    fn from(error: io::Error) -> BadState {
        BadState::Spool(Arc::new(error))
    }
}

/// Why stored bytes cannot be turned back into what was sent.
#[derive(Debug, Error)]
pub enum Damaged {
    #[error("the stored bytes of a segment cannot be decompressed")]
    Compression(#[source] io::Error),
    #[error("a segment is stored as the difference to another one, which was not given")]
    NoBase,
    #[error("a segment has {found} bytes, expected {expected}")]
    Length { found: u64, expected: u64 },
    #[error("a segment does not have the hash that was recorded for it")]
    Checksum,
    /// Not damage: the reader of the restored bytes went away.
    #[error("failed to hand on restored bytes")]
    Output(#[source] io::Error),
}
