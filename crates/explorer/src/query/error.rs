//! What is wrong with a question, and where.

use std::fmt;

/// A fault in a question. Texts name what is wrong, never more of the question than one word.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{part}{}: {fault}; {cure}", At(*at))]
pub struct Error {
    pub part: Part,
    /// How many characters of the part come before the fault; `None` where it is the part as a whole.
    pub at: Option<usize>,
    pub fault: String,
    pub cure: String,
}

/// Which part of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    Query,
    Terms,
    /// By its place in the list, from 0.
    Filter(usize),
    OrderBy,
    Limit,
    Offset,
    Cursor,
}

impl fmt::Display for Part {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Part::Query => formatter.write_str("query"),
            Part::Terms => formatter.write_str("terms"),
            Part::Filter(place) => write!(formatter, "filters[{place}]"),
            Part::OrderBy => formatter.write_str("orderBy"),
            Part::Limit => formatter.write_str("limit"),
            Part::Offset => formatter.write_str("offset"),
            Part::Cursor => formatter.write_str("cursor"),
        }
    }
}

struct At(Option<usize>);

impl fmt::Display for At {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(at) => write!(formatter, " at character {}", at + 1),
            None => Ok(()),
        }
    }
}
