//! What is wrong with a configuration: which key, where, the fault and the cure.

use std::fmt;

use serde::Serialize;

/// One thing that is wrong, or that looks wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// The key, variable or file that it is about.
    pub subject: String,
    /// Where the value came from, if it came from somewhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
    pub fault: String,
    pub cure: String,
}

impl Problem {
    pub fn new(subject: impl Into<String>, fault: impl Into<String>, cure: impl Into<String>) -> Problem {
        Problem { subject: subject.into(), place: None, fault: fault.into(), cure: cure.into() }
    }

    pub fn at(mut self, place: impl fmt::Display) -> Problem {
        self.place = Some(place.to_string());
        self
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.subject)?;
        if let Some(place) = &self.place {
            write!(formatter, " ({place})")?;
        }
        write!(formatter, ": {}; {}", self.fault, self.cure)
    }
}

/// A configuration that cannot be used, with everything that is wrong with it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Invalid(pub Vec<Problem>);

impl fmt::Display for Invalid {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "the configuration is not valid")?;
        for problem in &self.0 {
            write!(formatter, "\n  {problem}")?;
        }
        Ok(())
    }
}
