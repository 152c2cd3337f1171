//! The outputs of a state one by one: name, type and value as written, and whether they are marked as sensitive.
//!
//! The door is [`output_list`]. Whether an output is sensitive stands behind its value, so a value waits for the end of
//! its output; whatever is sensitive in one of several places of the same name is sensitive.

use std::collections::BTreeMap;
use std::fmt;

use super::super::scan::Container;
use super::outputs::{Sensitive, is_output, marks_sensitive};
use super::walk::{Leaf, Step, Visit, walk};
use super::{Source, Unreadable};

/// One output of a state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    pub name: String,
    /// The JSON of its type, if it has one.
    pub kind: Option<String>,
    /// The JSON of its value, as written but for white space.
    pub value: Value,
    pub sensitive: bool,
}

/// What is told of the value of an output.
#[derive(Clone, Default, PartialEq, Eq)]
pub enum Value {
    Shown(String),
    /// It is sensitive, or there is none.
    #[default]
    Hidden,
    /// Longer than the answer may be.
    TooLong,
}

/// Without the value: what is debugged is logged some day.
impl fmt::Debug for Value {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Value::Shown(_) => "Shown(..)",
            Value::Hidden => "Hidden",
            Value::TooLong => "TooLong",
        })
    }
}

/// The longest value that is shown, and the most bytes of values of one state.
const LONGEST: usize = 256 << 10;
const MOST: usize = 8 << 20;

/// The outputs of a state by name.
pub fn output_list(source: &mut Source<'_>, sensitive: Sensitive) -> Result<Vec<Output>, Unreadable> {
    collect(source, sensitive, |_| true)
}

/// All outputs; values only of those that are `wanted` by name.
pub(super) fn collect(
    source: &mut Source<'_>,
    sensitive: Sensitive,
    wanted: impl Fn(&str) -> bool,
) -> Result<Vec<Output>, Unreadable> {
    let mut list = List {
        sensitive,
        wanted,
        room: MOST,
        outputs: BTreeMap::new(),
        marked: false,
        place: Place::Elsewhere,
        kind: Text::default(),
        value: Text::default(),
    };
    walk(source, &mut list)?;
    Ok(list.outputs.into_values().collect())
}

struct List<W> {
    sensitive: Sensitive,
    wanted: W,
    /// How many bytes of values may still be kept.
    room: usize,
    outputs: BTreeMap<String, Output>,
    /// Of the output that is being read.
    marked: bool,
    place: Place,
    kind: Text,
    value: Text,
}

/// What the tokens that come belong to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Kind,
    Value,
    Elsewhere,
}

/// The JSON of one member, unless it is too long. The last of several of the same name counts, as in Go.
#[derive(Default)]
struct Text {
    bytes: Vec<u8>,
    too_long: bool,
    complete: bool,
}

impl Text {
    fn push(&mut self, bytes: &[u8]) {
        if self.complete {
            *self = Text::default();
        }
        self.too_long |= self.bytes.len() + bytes.len() > LONGEST;
        if !self.too_long {
            self.bytes.extend_from_slice(bytes);
        }
    }

    fn take(&mut self) -> Option<String> {
        let text = std::mem::take(self);
        let whole = !text.too_long && !text.bytes.is_empty();
        whole.then(|| String::from_utf8_lossy(&text.bytes).into_owned())
    }
}

fn place(path: &[Step]) -> Place {
    match path {
        [outputs, _, field] if outputs.is("outputs") && field.is("type") => Place::Kind,
        [outputs, _, field] if outputs.is("outputs") && field.is("value") => Place::Value,
        _ => Place::Elsewhere,
    }
}

impl<W: Fn(&str) -> bool> List<W> {
    fn text(&mut self, place: Place) -> Option<&mut Text> {
        match place {
            Place::Kind => Some(&mut self.kind),
            Place::Value => Some(&mut self.value),
            Place::Elsewhere => None,
        }
    }

    fn push(&mut self, place: Place, bytes: &[u8]) {
        if let Some(text) = self.text(place) {
            text.push(bytes);
        }
    }

    fn complete(&mut self, place: Place) {
        if let Some(text) = self.text(place) {
            text.complete = true;
        }
    }

    fn ended(&mut self, name: String) {
        let before = self.outputs.get(&name).is_some_and(|output| output.sensitive);
        let sensitive = self.marked || before;
        let too_long = self.value.too_long;
        let (kind, value) = (self.kind.take(), self.value.take());
        let shown = (self.wanted)(&name) && (!sensitive || self.sensitive == Sensitive::Shown);
        let value = match value {
            Some(value) if shown && value.len() <= self.room => {
                self.room -= value.len();
                Value::Shown(value)
            }
            Some(_) if shown => Value::TooLong,
            None if shown && too_long => Value::TooLong,
            _ => Value::Hidden,
        };
        self.outputs.insert(name.clone(), Output { name, kind, value, sensitive });
    }
}

impl<W: Fn(&str) -> bool> Visit for List<W> {
    fn open(&mut self, path: &[Step], _container: Container) {
        if is_output(path) {
            self.marked = false;
            (self.kind, self.value) = (Text::default(), Text::default());
        }
        self.marked |= marks_sensitive(path, None);
        if place(path) != Place::Elsewhere {
            self.place = place(path);
        }
    }

    fn close(&mut self, path: &[Step]) {
        if place(path) != Place::Elsewhere {
            self.place = Place::Elsewhere;
            self.complete(place(path));
        }
        if is_output(path) {
            self.ended(path[1].key());
        }
    }

    fn token(&mut self, bytes: &[u8]) {
        self.push(self.place, bytes);
    }

    fn piece(&mut self, path: &[Step], bytes: &[u8]) {
        match place(path) {
            Place::Elsewhere => self.token(bytes),
            place => self.push(place, bytes),
        }
    }

    fn leaf(&mut self, path: &[Step], leaf: Leaf<'_>) {
        self.marked |= marks_sensitive(path, Some(leaf));
        self.complete(place(path));
    }
}
