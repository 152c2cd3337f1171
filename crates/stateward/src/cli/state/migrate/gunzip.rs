//! Bytes that may be gzip, without a mark that says so.

use std::io::Write as _;

use bytes::Bytes;
use flate2::write::MultiGzDecoder;
use futures::{StreamExt as _, TryStreamExt as _};

use crate::cli::failure::{Exit, Failure};
use crate::client::transfer::Pieces;

/// Little goes in at a time, because a thousand times as much may come out.
const PIECE: usize = 16 << 10;

const GZIP: &[u8] = &[0x1f, 0x8b];

/// Unpacks what begins as gzip does, and passes anything else on.
pub fn unpacked(place: &str, packed: Pieces) -> Pieces {
    let begin = Unpacking { packed, decoder: Decoder::Unknown, waiting: Bytes::new(), place: place.to_owned() };
    futures::stream::try_unfold(begin, |mut unpacking| async move {
        Ok(unpacking.next().await?.map(|piece| (piece, unpacking)))
    })
    .boxed()
}

struct Unpacking {
    packed: Pieces,
    decoder: Decoder,
    waiting: Bytes,
    place: String,
}

enum Decoder {
    Unknown,
    Plain,
    Gzip(Box<MultiGzDecoder<Vec<u8>>>),
    Done,
}

impl Unpacking {
    async fn next(&mut self) -> anyhow::Result<Option<Bytes>> {
        loop {
            if self.waiting.is_empty() {
                match self.packed.try_next().await? {
                    Some(piece) => self.waiting = piece,
                    None => return Ok(self.end()?.filter(|piece| !piece.is_empty())),
                }
            }
            if let Decoder::Unknown = self.decoder {
                let gzip = self.waiting.starts_with(GZIP);
                self.decoder =
                    if gzip { Decoder::Gzip(Box::new(MultiGzDecoder::new(Vec::new()))) } else { Decoder::Plain };
            }
            let piece = self.waiting.split_to(self.waiting.len().min(PIECE));
            let Decoder::Gzip(decoder) = &mut self.decoder else { return Ok(Some(piece)) };
            decoder.write_all(&piece).map_err(|_| bad(&self.place))?;
            let unpacked = std::mem::take(decoder.get_mut());
            if !unpacked.is_empty() {
                return Ok(Some(unpacked.into()));
            }
        }
    }

    fn end(&mut self) -> Result<Option<Bytes>, Failure> {
        let Decoder::Gzip(mut decoder) = std::mem::replace(&mut self.decoder, Decoder::Done) else { return Ok(None) };
        decoder.try_finish().map_err(|_| bad(&self.place))?;
        Ok(Some(std::mem::take(decoder.get_mut()).into()))
    }
}

fn bad(place: &str) -> Failure {
    let message = format!("{place} begins like gzip and is not");
    Failure::new(Exit::Failed, message, "a write of it may have been interrupted: look at its parts")
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn through(parts: Vec<Vec<u8>>) -> anyhow::Result<Vec<u8>> {
        let parts = futures::stream::iter(parts.into_iter().map(|part| Ok(Bytes::from(part)))).boxed();
        let pieces: Vec<Bytes> = unpacked("there", parts).try_collect().await?;
        Ok(pieces.concat())
    }

    #[tokio::test]
    async fn gzip_is_unpacked_across_parts_and_anything_else_is_passed_on() {
        let state: Vec<u8> = (0..200_000u32).flat_map(|number| number.to_string().into_bytes()).collect();
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        encoder.write_all(&state).unwrap();
        let packed = encoder.finish().unwrap();
        let parts: Vec<Vec<u8>> = packed.chunks(100_000).map(<[u8]>::to_vec).collect();
        assert!(parts.len() > 1);
        assert!(through(parts.clone()).await.unwrap() == state);
        assert!(through(vec![state.clone()]).await.unwrap() == state);
        let cut = parts[..parts.len() - 1].to_vec();
        assert!(through(cut).await.unwrap_err().to_string().contains("is not"));
    }
}
