//! Frames cannot be changed, exchanged, left out or cut off.

use keys::{Error, Position, Stream};

use crate::ring::{file_ring, scratch_key};

async fn stream(info: &[u8]) -> Stream {
    let (data_key, _) = file_ring(&scratch_key()).generate("main", b"context").await.expect("a data key");
    data_key.stream(info)
}

#[tokio::test]
async fn a_frame_opens_only_at_its_place_with_its_flag_and_associated_bytes() {
    let stream = stream(b"info").await;
    let sealed = stream.seal(7, Position::More, b"here", b"plain".to_vec()).expect("sealed");
    assert_eq!(sealed.len(), 5 + Stream::OVERHEAD);
    assert_eq!(stream.open(7, Position::More, b"here", sealed.clone()).expect("opened"), b"plain");

    let refused = |number, position, associated: &[u8], sealed: Vec<u8>| {
        assert_eq!(stream.open(number, position, associated, sealed), Err(Error::Changed));
    };
    refused(8, Position::More, b"here", sealed.clone());
    refused(7, Position::Last, b"here", sealed.clone());
    refused(7, Position::More, b"there", sealed.clone());
    refused(7, Position::More, b"", sealed.clone());
    for length in 0..sealed.len() {
        refused(7, Position::More, b"here", sealed[..length].to_vec());
    }
    for index in 0..sealed.len() {
        let mut changed = sealed.clone();
        changed[index] ^= 1;
        refused(7, Position::More, b"here", changed);
    }
    refused(7, Position::More, b"here", [sealed, vec![0]].concat());
}

#[tokio::test]
async fn a_stream_of_another_info_or_data_key_opens_nothing() {
    let ring = file_ring(&scratch_key());
    let (data_key, wrapped) = ring.generate("main", b"context").await.expect("a data key");
    let sealed = data_key.stream(b"one").seal(0, Position::Last, b"", b"plain".to_vec()).expect("sealed");

    let again = ring.unwrap(&wrapped, b"context").await.expect("unwrapped");
    let opened = again.stream(b"one").open(0, Position::Last, b"", sealed.clone());
    assert_eq!(opened.expect("the same stream"), b"plain");

    assert_eq!(data_key.stream(b"two").open(0, Position::Last, b"", sealed.clone()), Err(Error::Changed));
    let (other, _) = ring.generate("main", b"context").await.expect("a data key");
    assert_eq!(other.stream(b"one").open(0, Position::Last, b"", sealed), Err(Error::Changed));
}

#[tokio::test]
async fn frames_that_are_swapped_left_out_or_repeated_are_refused() {
    let stream = stream(b"info").await;
    let plain = [b"one".to_vec(), b"two".to_vec(), b"three".to_vec()];
    let position = |index: usize| if index == 2 { Position::Last } else { Position::More };
    let seal = |(index, bytes): (usize, &Vec<u8>)| {
        stream.seal(u32::try_from(index).unwrap(), position(index), b"", bytes.clone()).expect("sealed")
    };
    let frames: Vec<Vec<u8>> = plain.iter().enumerate().map(seal).collect();
    let open = |order: &[usize]| -> Result<Vec<Vec<u8>>, Error> {
        let last = order.len() - 1;
        let opened = order.iter().enumerate().map(|(number, index)| {
            let position = if number == last { Position::Last } else { Position::More };
            stream.open(u32::try_from(number).unwrap(), position, b"", frames[*index].clone())
        });
        opened.collect()
    };
    assert_eq!(open(&[0, 1, 2]).expect("as sealed"), plain);
    let wrong: [&[usize]; 6] = [&[1, 0, 2], &[0, 2, 1], &[0, 1], &[0], &[1, 2], &[0, 1, 2, 2]];
    for order in wrong {
        assert_eq!(open(order), Err(Error::Changed), "{order:?}");
    }
}
