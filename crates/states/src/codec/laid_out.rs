//! Minified text as Terraform lays it out, read piece by piece.

use std::io::{self, Read};

use super::layout::{Gap, Place, Resume, lay_out};

/// How much minified text is laid out at a time.
const PIECE: usize = 64 << 10;

/// Reads minified JSON from another reader and gives it with Terraform's white space.
#[derive(Debug)]
pub struct LaidOut<R> {
    source: R,
    resume: Resume,
    /// Minified text that is not laid out yet: a backslash waits for what it escapes.
    text: Vec<u8>,
    out: Vec<u8>,
    given: usize,
    ended: bool,
}

impl<R: Read> LaidOut<R> {
    pub fn new(source: R) -> LaidOut<R> {
        let resume = Resume { place: Place::Start, depth: 0 };
        LaidOut { source, resume, text: Vec::new(), out: Vec::new(), given: 0, ended: false }
    }

    fn fill(&mut self) -> io::Result<()> {
        self.out.clear();
        self.given = 0;
        let kept = self.text.len();
        self.text.resize(kept + PIECE, 0);
        let count = self.source.read(&mut self.text[kept..])?;
        self.text.truncate(kept + count);
        self.ended = count == 0;
        // Laying out cannot resume behind a backslash that escapes. Every text before ended with a whole escape.
        let backslashes = self.text.iter().rev().take_while(|byte| **byte == b'\\').count();
        let whole = self.text.len() - if self.ended { 0 } else { backslashes % 2 };
        let end = lay_out(&self.text[..whole], self.resume, &mut self.out, usize::MAX);
        let end = end.ok_or_else(|| io::Error::other("the minified text is nested too deep"))?;
        if end.place == Place::End && self.resume.place != Place::End {
            Gap::LAST.write(&mut self.out);
        }
        self.resume = end;
        self.text.drain(..whole);
        Ok(())
    }
}

impl<R: Read> Read for LaidOut<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.given == self.out.len() && !self.ended {
            self.fill()?;
        }
        let count = buffer.len().min(self.out.len() - self.given);
        buffer[..count].copy_from_slice(&self.out[self.given..self.given + count]);
        self.given += count;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives one byte at a time, so that every place is the end of a piece once.
    struct Dripping<'a>(&'a [u8]);

    impl Read for Dripping<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let (first, rest) = self.0.split_at(self.0.len().min(1));
            buffer[..first.len()].copy_from_slice(first);
            self.0 = rest;
            Ok(first.len())
        }
    }

    #[test]
    fn minified_text_is_laid_out_whatever_its_pieces() {
        let minified = br#"{"version":4,"a\\\"b":"\\","list":[1.50,{},[true]]}"#;
        let expected = "{\n  \"version\": 4,\n  \"a\\\\\\\"b\": \"\\\\\",\n  \"list\": [\n    1.50,\n    {},\n    [\n      \
                        true\n    ]\n  ]\n}\n";
        let mut whole = String::new();
        LaidOut::new(minified.as_slice()).read_to_string(&mut whole).expect("text");
        let mut dripping = String::new();
        LaidOut::new(Dripping(minified)).read_to_string(&mut dripping).expect("text");
        assert_eq!((whole.as_str(), dripping.as_str()), (expected, expected));
    }
}
