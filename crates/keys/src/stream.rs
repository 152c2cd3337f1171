//! Frames under one key that cannot be changed, exchanged, left out or cut off: AES-256-GCM in STREAM framing.
//!
//! The nonce of a frame is 7 zero bytes, its number and whether it is the last one. That is safe because a [`Stream`]
//! has a key of its own (see [`crate::DataKey::stream`]); whoever seals must never seal two different frames under the
//! same number.

use std::fmt;

use aws_lc_rs::aead::{Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};

use crate::error::Error;

/// The key of one stream.
pub struct Stream(LessSafeKey);

/// Whether frames follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Position {
    More,
    Last,
}

impl Stream {
    /// By how many bytes a sealed frame is longer.
    pub const OVERHEAD: usize = 16;

    pub(crate) fn new(key: UnboundKey) -> Stream {
        Stream(LessSafeKey::new(key))
    }

    /// Seals a frame; `associated` is authenticated with it and needed to open it.
    pub fn seal(&self, number: u32, position: Position, associated: &[u8], plain: Vec<u8>) -> Result<Vec<u8>, Error> {
        let mut frame = plain;
        frame.reserve_exact(Stream::OVERHEAD);
        let sealed = self.0.seal_in_place_append_tag(nonce(number, position), Aad::from(associated), &mut frame);
        sealed.map_err(|_| Error::Internal("the frame is too large"))?;
        Ok(frame)
    }

    /// Opens what [`Stream::seal`] gave for the same number, position and associated bytes.
    pub fn open(&self, number: u32, position: Position, associated: &[u8], sealed: Vec<u8>) -> Result<Vec<u8>, Error> {
        let mut frame = sealed;
        let opened = self.0.open_in_place(nonce(number, position), Aad::from(associated), &mut frame);
        let length = opened.map_err(|_| Error::Changed)?.len();
        frame.truncate(length);
        Ok(frame)
    }
}

fn nonce(number: u32, position: Position) -> Nonce {
    let mut bytes = [0; NONCE_LEN];
    bytes[7..11].copy_from_slice(&number.to_be_bytes());
    bytes[11] = u8::from(position == Position::Last);
    Nonce::assume_unique_for_key(bytes)
}

impl fmt::Debug for Stream {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Stream(hidden)")
    }
}
