//! The codec: what is sent comes back byte for byte, small, in bounded memory; what is not a state is refused.

use std::ops::Range;

use states::codec::{BadState, Limits, Received, Receiver, Segment, Shape, SpoolPlace, restore};

mod bad;
mod exact;
mod history;
mod memory;
mod random;
mod read;
mod speed;

/// A state with the oddities that a round trip through a JSON library would lose.
const ODD: &str = r#"{
  "version": 4,
  "terraform_version": "1.12.1",
  "serial": 7,
  "lineage": "3f1c",
  "outputs": {},
  "resources": [
    {
      "big": 12345678901234567890123,
      "small": 1.50,
      "power": -0.0E+10,
      "go": "\u003ca\u0026b\u003e \u2028 \"\\\/\b\f\n\r\t",
      "surrogate": "\ud800",
      "wide": "ä€𝄞",
      "twice": 1,
      "twice": 2,
      "empty": [],
      "nested": [
        [
          {}
        ]
      ]
    }
  ],
  "check_results": null
}
"#;

fn limits(segment: Range<usize>) -> Limits {
    Limits { segment, ..Limits::default() }
}

fn spool() -> SpoolPlace {
    SpoolPlace::new(std::env::temp_dir())
}

/// Pushes `state` in pieces of `piece` bytes.
fn receive(state: &[u8], limits: Limits, piece: usize) -> Result<Received, BadState> {
    let mut receiver = Receiver::new(limits, spool());
    state.chunks(piece.max(1)).try_for_each(|piece| receiver.push(piece))?;
    receiver.finish(None)
}

/// What a reader gets.
fn restored(received: &mut Received) -> Vec<u8> {
    let mut state = Vec::new();
    for index in 0..received.segments.len() {
        let stored = received.stored(index).expect("the spool is readable");
        restore(&received.segments[index], &stored, None, &mut state).expect("what was stored is whole");
    }
    state
}

fn minified(segment: &Segment) -> bool {
    matches!(segment.shape, Shape::Minified(_))
}

fn stored_bytes(segments: &[Segment]) -> u64 {
    segments.iter().map(|segment| segment.stored).sum()
}

/// A figure for whoever runs the tests with `--nocapture`.
#[expect(clippy::print_stdout, reason = "cargo keeps it for those who ask")]
fn tell(figure: &str) {
    println!("{figure}");
}
