//! Follows a state while it is scanned, so that a [`Visit`] knows at every token where in the document it stands.
//!
//! The door is [`walk`]. Holds the path and the beginning of the current value, no more.

use std::io;
use std::ops::Range;

use super::super::fault::BadState;
use super::super::header::unescaped;
use super::super::scan::{Container, Mark, Part, Role, Scanner, Sink};
use super::{Source, Unreadable};

/// Which member of a container is being read.
#[derive(Debug)]
pub(super) struct Step {
    container: Container,
    /// The name of the member, in an object; cut at a length that no name reaches.
    key: Vec<u8>,
    /// The number of the member, in an array.
    pub(super) index: usize,
}

impl Step {
    pub(super) fn is(&self, key: &str) -> bool {
        self.container == Container::Object && self.key == key.as_bytes()
    }

    pub(super) fn key(&self) -> String {
        String::from_utf8_lossy(&self.key).into_owned()
    }

    /// Behind what names the container: `.name`, `["odd name"]` or `[0]`.
    pub(super) fn append_to(&self, path: &mut String) {
        let plain = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
        match self.container {
            Container::Array => path.push_str(&format!("[{}]", self.index)),
            Container::Object if !self.key.is_empty() && self.key.iter().all(plain) => {
                if !path.is_empty() {
                    path.push('.');
                }
                path.push_str(&self.key());
            }
            Container::Object => path.push_str(&format!("[{:?}]", self.key())),
        }
    }
}

/// A value that is neither object nor array, as written, or its beginning if it is long.
#[derive(Clone, Copy, Debug)]
pub(super) struct Leaf<'a>(&'a [u8]);

impl Leaf<'_> {
    /// The value if it is a string.
    pub(super) fn string(self) -> Option<String> {
        let inner = self.0.strip_prefix(b"\"")?;
        let inner = inner.strip_suffix(b"\"").unwrap_or(inner);
        Some(String::from_utf8_lossy(&unescaped(inner)).into_owned())
    }

    /// As written, if all of it is known.
    pub(super) fn whole(self) -> Option<String> {
        (self.0.len() < LONGEST).then(|| self.raw())
    }

    pub(super) fn raw(self) -> String {
        String::from_utf8_lossy(self.0).into_owned()
    }
}

/// Names longer than this are told apart by their beginning only, values shown by it.
const LONGEST: usize = 4096;

/// Is told what stands where; `path` names the value itself.
pub(super) trait Visit {
    fn open(&mut self, _path: &[Step], _container: Container) {}
    fn close(&mut self, _path: &[Step]) {}
    /// The bytes of each token, as written, without the white space between them.
    fn token(&mut self, _bytes: &[u8]) {}
    /// Those that belong to a leaf.
    fn piece(&mut self, _path: &[Step], bytes: &[u8]) {
        self.token(bytes);
    }
    fn leaf(&mut self, path: &[Step], leaf: Leaf<'_>);
}

/// Reads the whole state once.
pub(super) fn walk<V: Visit>(source: &mut Source<'_>, visit: &mut V) -> Result<(), Unreadable> {
    // What is stored was held to a limit when it came in, perhaps to another one than today's.
    let mut walker = Walker { scanner: Scanner::new(1 << 16), guide: Guide::new(visit), fault: None };
    let written = source(&mut walker);
    if let Some(fault) = walker.fault {
        return Err(Unreadable::NotAState(fault));
    }
    written.map_err(Unreadable::Source)?;
    walker.scanner.finish().map_err(Unreadable::NotAState)?;
    if walker.guide.encrypted { Err(Unreadable::Encrypted) } else { Ok(()) }
}

struct Walker<'v, V> {
    scanner: Scanner,
    guide: Guide<'v, V>,
    fault: Option<BadState>,
}

impl<V: Visit> io::Write for Walker<'_, V> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.scanner.push(bytes, &mut self.guide) {
            Ok(()) => Ok(bytes.len()),
            Err(fault) => {
                self.fault = Some(fault);
                Err(io::ErrorKind::InvalidData.into())
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

struct Guide<'v, V> {
    visit: &'v mut V,
    path: Vec<Step>,
    leaf: Vec<u8>,
    encrypted: bool,
}

impl<'v, V: Visit> Guide<'v, V> {
    fn new(visit: &'v mut V) -> Guide<'v, V> {
        Guide { visit, path: Vec::new(), leaf: Vec::new(), encrypted: false }
    }

    fn piece(&mut self, bytes: &[u8]) {
        keep(&mut self.leaf, bytes);
        self.visit.piece(&self.path, bytes);
    }

    fn leaf_ended(&mut self) {
        if let [step] = self.path.as_slice() {
            self.encrypted |= step.is("encrypted_data");
        }
        self.visit.leaf(&self.path, Leaf(&self.leaf));
        self.leaf.clear();
    }
}

fn keep(buffer: &mut Vec<u8>, bytes: &[u8]) {
    let room = LONGEST.saturating_sub(buffer.len());
    buffer.extend_from_slice(&bytes[..bytes.len().min(room)]);
}

impl<V: Visit> Sink for Guide<'_, V> {
    fn mark(&mut self, bytes: &[u8], at: usize, mark: Mark, _depth: usize) {
        let token = &bytes[at..=at];
        match mark {
            Mark::Open(container) => {
                self.visit.open(&self.path, container);
                self.visit.token(token);
                self.path.push(Step { container, key: Vec::new(), index: 0 });
            }
            Mark::Close => {
                self.path.pop();
                self.visit.token(token);
                self.visit.close(&self.path);
            }
            Mark::Comma | Mark::Colon => {
                self.visit.token(token);
                if let (Mark::Comma, Some(step)) = (mark, self.path.last_mut()) {
                    step.index += 1;
                }
            }
        }
    }

    fn opening_quote(&mut self, bytes: &[u8], at: usize, role: Role, _depth: usize) {
        match (role, self.path.last_mut()) {
            (Role::Key, Some(step)) => {
                self.visit.token(&bytes[at..=at]);
                step.key.clear();
            }
            _ => self.piece(&bytes[at..=at]),
        }
    }

    fn text(&mut self, bytes: &[u8], span: Range<usize>, role: Role, _depth: usize) {
        match (role, self.path.last_mut()) {
            (Role::Key, Some(step)) => {
                keep(&mut step.key, &bytes[span.clone()]);
                self.visit.token(&bytes[span]);
            }
            _ => self.piece(&bytes[span]),
        }
    }

    fn closing_quote(&mut self, bytes: &[u8], at: usize, role: Role, _depth: usize) {
        if let (Role::Key, Some(step)) = (role, self.path.last_mut()) {
            self.visit.token(&bytes[at..=at]);
            if step.key.contains(&b'\\') {
                step.key = unescaped(&step.key);
            }
        } else {
            self.piece(&bytes[at..=at]);
            self.leaf_ended();
        }
    }

    fn scalar(&mut self, bytes: &[u8], span: Range<usize>, _part: Part, _depth: usize) {
        self.piece(&bytes[span]);
    }

    fn scalar_end(&mut self, _depth: usize) {
        self.leaf_ended();
    }
}
