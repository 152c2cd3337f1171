//! What a state says about itself: the few values that stand in the outermost object, and nothing deeper.
//!
//! The door is the [`Sink`]. It remembers the names of the outermost keys to refuse a second one, which is why their
//! number and length are bounded; the first fault is kept for [`Header::check`].

use std::ops::Range;

use super::fault::BadState;
use super::scan::{Mark, Part, Role, Sink};

/// A state has eight keys or so; this only keeps hostile bodies from filling our memory.
const MOST_KEYS: usize = 256;
const LONGEST_KEY: usize = 1024;
/// A longer lineage or version is none that Terraform wrote.
const LONGEST_VALUE: usize = 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    Serial,
    Lineage,
    TerraformVersion,
    Other,
}

#[derive(Debug)]
pub(super) struct Header {
    offset: u64,
    keys: Vec<Vec<u8>>,
    key: Vec<u8>,
    field: Field,
    value: Vec<u8>,
    pub(super) serial: Option<String>,
    pub(super) lineage: Option<String>,
    pub(super) terraform_version: Option<String>,
    fault: Option<BadState>,
}

impl Header {
    pub(super) fn new() -> Header {
        Header {
            offset: 0,
            keys: Vec::new(),
            key: Vec::new(),
            field: Field::Other,
            value: Vec::new(),
            serial: None,
            lineage: None,
            terraform_version: None,
            fault: None,
        }
    }

    /// Whether the number or literal that is being read is the serial.
    pub(super) fn at_serial(&self) -> bool {
        self.field == Field::Serial
    }

    /// OpenTofu's client-side encryption leaves these two and, in the clear, serial and lineage.
    pub(super) fn encrypted(&self) -> bool {
        let has = |name: &[u8]| self.keys.iter().any(|key| key == name);
        has(b"encrypted_data") && has(b"encryption_version")
    }

    pub(super) fn check(&mut self) -> Result<(), BadState> {
        self.fault.take().map_or(Ok(()), Err)
    }

    fn key_ended(&mut self, at: usize) {
        let offset = self.offset + at as u64;
        let key = unescaped(&self.key);
        self.field = match key.as_slice() {
            b"serial" => Field::Serial,
            b"lineage" => Field::Lineage,
            b"terraform_version" => Field::TerraformVersion,
            _ => Field::Other,
        };
        if self.keys.contains(&key) {
            self.fault.get_or_insert(BadState::DuplicateKey { offset });
        } else if self.keys.len() == MOST_KEYS {
            self.fault.get_or_insert(BadState::TooManyKeys { offset, limit: MOST_KEYS });
        } else {
            self.keys.push(key);
        }
        self.key.clear();
    }

    fn value_ended(&mut self) {
        let field = std::mem::replace(&mut self.field, Field::Other);
        let value = std::mem::take(&mut self.value);
        if value.len() > LONGEST_VALUE {
            return;
        }
        let text = String::from_utf8(unescaped(&value)).ok();
        match field {
            Field::Serial => {
                self.serial = text.filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
            }
            Field::Lineage => self.lineage = text,
            Field::TerraformVersion => self.terraform_version = text,
            Field::Other => {}
        }
    }

    fn value(&mut self, piece: &[u8]) {
        if self.value.len() <= LONGEST_VALUE {
            self.value.extend_from_slice(&piece[..piece.len().min(LONGEST_VALUE + 1)]);
        }
    }
}

/// A string without its escapes; as written if it has none or cannot be decoded (a lone surrogate).
pub(super) fn unescaped(raw: &[u8]) -> Vec<u8> {
    if raw.contains(&b'\\') {
        let quoted = [b"\"", raw, b"\""].concat();
        if let Ok(text) = serde_json::from_slice::<String>(&quoted) {
            return text.into_bytes();
        }
    }
    raw.to_vec()
}

impl Sink for Header {
    fn begin(&mut self, offset: u64) {
        self.offset = offset;
    }

    fn mark(&mut self, _bytes: &[u8], _at: usize, mark: Mark, depth: usize) {
        // A value that is an object or array is none of ours.
        if depth == 2 && matches!(mark, Mark::Open(_)) {
            self.field = Field::Other;
        }
    }

    fn opening_quote(&mut self, _bytes: &[u8], _at: usize, role: Role, depth: usize) {
        // Digits in quotes are not a serial that Terraform accepts.
        if depth == 1 && role == Role::Value && self.field == Field::Serial {
            self.field = Field::Other;
        }
    }

    fn text(&mut self, bytes: &[u8], span: Range<usize>, role: Role, depth: usize) {
        if depth != 1 {
            return;
        }
        if role == Role::Key {
            if self.key.len() + span.len() > LONGEST_KEY {
                // Where it becomes too long, however it was cut on its way.
                let offset = self.offset + (span.start + LONGEST_KEY - self.key.len()) as u64;
                self.fault.get_or_insert(BadState::KeyTooLong { offset, limit: LONGEST_KEY });
            } else {
                self.key.extend_from_slice(&bytes[span]);
            }
        } else if self.field != Field::Other {
            self.value(&bytes[span]);
        }
    }

    fn closing_quote(&mut self, _bytes: &[u8], at: usize, role: Role, depth: usize) {
        if depth == 1 {
            match role {
                Role::Key => self.key_ended(at),
                Role::Value => self.value_ended(),
            }
        }
    }

    fn scalar(&mut self, bytes: &[u8], span: Range<usize>, _part: Part, depth: usize) {
        if depth == 1 && self.field == Field::Serial {
            self.value(&bytes[span]);
        }
    }

    fn scalar_end(&mut self, depth: usize) {
        if depth == 1 {
            if self.field != Field::Serial {
                self.field = Field::Other;
            }
            self.value_ended();
        }
    }
}
