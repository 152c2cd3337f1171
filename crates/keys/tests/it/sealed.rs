//! Whole files: they come back as they were, and only then.

use std::io::{Cursor, ErrorKind, Read, Write};

use keys::{Error, Keyring, SealedError, Stream};

use crate::ring::{file_ring, scratch_key};

const FRAME: usize = 64 * 1024;
const SEALED: usize = FRAME + Stream::OVERHEAD;

fn bytes(size: usize, seed: u64) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(seed);
    std::iter::repeat_with(|| random.u8(..)).take(size).collect()
}

async fn sealed(ring: &Keyring, context: &[u8], plain: &[u8]) -> Vec<u8> {
    let mut sealer = ring.seal_stream("main", context, Vec::new()).await.expect("a sealer");
    sealer.write_all(plain).expect("written");
    sealer.finish().expect("finished")
}

async fn opened(ring: &Keyring, context: &[u8], sealed: &[u8]) -> Result<Vec<u8>, SealedError> {
    let mut opener = ring.open_stream(context, Cursor::new(sealed)).await?;
    let mut plain = Vec::new();
    opener.read_to_end(&mut plain)?;
    Ok(plain)
}

/// Where the frames begin: after the magic, a length and what it counts.
fn head_length(sealed: &[u8]) -> usize {
    12 + u32::from_be_bytes(sealed[8..12].try_into().expect("four bytes")) as usize
}

fn assert_changed(result: Result<Vec<u8>, SealedError>, what: &str) {
    match result {
        Err(SealedError::Io(error)) if error.kind() == ErrorKind::InvalidData => {
            let cause = error.into_inner().and_then(|cause| cause.downcast::<Error>().ok());
            assert_eq!(cause.as_deref(), Some(&Error::Changed), "{what}");
        }
        other => panic!("{what}: {:?}", other.map(|plain| plain.len())),
    }
}

#[tokio::test]
async fn files_of_sizes_around_the_frames_come_back() {
    let ring = file_ring(&scratch_key());
    for size in [0, 1, FRAME - 1, FRAME, FRAME + 1, 2 * FRAME - 1, 2 * FRAME, 2 * FRAME + 1, 5 * FRAME + 77] {
        let plain = bytes(size, size as u64);
        let sealed = sealed(&ring, b"context", &plain).await;
        let frames = size.div_ceil(FRAME).max(1);
        assert_eq!(sealed.len(), head_length(&sealed) + size + frames * Stream::OVERHEAD, "{size}");
        assert!(opened(&ring, b"context", &sealed).await.expect("opened") == plain, "{size}");
    }
}

#[tokio::test]
async fn how_it_is_cut_into_writes_and_reads_does_not_matter() {
    let ring = file_ring(&scratch_key());
    let mut random = fastrand::Rng::with_seed(testbed::seed("sealed_cuts"));
    for _round in 0..testbed::scale().of(5, 200) {
        let plain = bytes(random.usize(..3 * FRAME), random.u64(..));
        let mut sealer = ring.seal_stream("main", b"context", Vec::new()).await.expect("a sealer");
        let mut left = &plain[..];
        while !left.is_empty() {
            let (now, later) = left.split_at(random.usize(1..=left.len().min(20_000)));
            sealer.write_all(now).expect("written");
            if random.u8(..) < 30 {
                sealer.flush().expect("flushed");
            }
            left = later;
        }
        let sealed = sealer.finish().expect("finished");
        let mut opener = ring.open_stream(b"context", Cursor::new(sealed)).await.expect("an opener");
        let mut again = Vec::new();
        loop {
            let mut buffer = vec![0; random.usize(1..20_000)];
            let length = opener.read(&mut buffer).expect("read");
            if length == 0 {
                break;
            }
            again.extend_from_slice(&buffer[..length]);
        }
        assert!(again == plain);
    }
}

#[tokio::test]
async fn a_file_that_was_cut_lengthened_or_rearranged_is_refused() {
    let ring = file_ring(&scratch_key());
    let plain = bytes(3 * FRAME + 100, 3);
    let whole = sealed(&ring, b"context", &plain).await;
    let head = head_length(&whole);
    assert!(opened(&ring, b"context", &whole).await.expect("opened") == plain);

    for length in [head, head + 1, head + 15, head + SEALED - 1, head + SEALED, head + 2 * SEALED, whole.len() - 1] {
        assert_changed(opened(&ring, b"context", &whole[..length]).await, &format!("cut to {length}"));
    }
    assert_changed(opened(&ring, b"context", &[&whole[..], b"x"].concat()).await, "a byte more");
    let (first, rest) = whole[head..].split_at(SEALED);
    let (second, end) = rest.split_at(SEALED);
    let swapped = [&whole[..head], second, first, end].concat();
    assert_changed(opened(&ring, b"context", &swapped).await, "swapped frames");
    let repeated = [&whole[..head], first, first, end].concat();
    assert_changed(opened(&ring, b"context", &repeated).await, "a repeated frame");
    let left_out = [&whole[..head], first, end].concat();
    assert_changed(opened(&ring, b"context", &left_out).await, "a frame left out");

    let other = sealed(&ring, b"context", &plain).await;
    let other_frames = &other[head_length(&other)..];
    let mixed = [&whole[..head], &other_frames[..SEALED], rest].concat();
    assert_changed(opened(&ring, b"context", &mixed).await, "a frame of another file");
    let mut random = fastrand::Rng::with_seed(testbed::seed("sealed_changed"));
    for _round in 0..testbed::scale().of(20, 2000) {
        let mut changed = whole.clone();
        let index = random.usize(head..whole.len());
        changed[index] ^= 1 << random.u8(..8);
        assert_changed(opened(&ring, b"context", &changed).await, &format!("byte {index}"));
    }
}

#[tokio::test]
async fn a_changed_head_or_another_context_is_refused() {
    let ring = file_ring(&scratch_key());
    let whole = sealed(&ring, b"context", b"plain").await;
    for index in 0..head_length(&whole) {
        let mut changed = whole.clone();
        changed[index] ^= 1;
        assert!(opened(&ring, b"context", &changed).await.is_err(), "byte {index} of the head");
        assert!(opened(&ring, b"context", &whole[..index]).await.is_err(), "a head of {index} bytes");
    }
    let error = opened(&ring, b"another context", &whole).await.expect_err("refused");
    assert!(matches!(error, SealedError::Key(Error::WrongKey { .. })), "{error:?}");
    let error = opened(&ring, b"context", b"{\"version\": 4} and more").await.expect_err("no sealed stream");
    assert!(error.to_string().contains("not a sealed stream"), "{error}");
}

#[tokio::test]
async fn a_sealer_that_is_not_finished_leaves_nothing_that_opens() {
    let ring = file_ring(&scratch_key());
    let mut written = Vec::new();
    let mut sealer = ring.seal_stream("main", b"context", &mut written).await.expect("a sealer");
    sealer.write_all(&bytes(2 * FRAME + 5, 1)).expect("written");
    sealer.flush().expect("flushed");
    drop(sealer);
    assert_changed(opened(&ring, b"context", &written).await, "not finished");
}
