//! What a check of the log says: findings, each with its place, most of them proof of tampering and some only notes.

use std::fmt;

use serde::Serialize;

use super::line::Head;

/// Who remembers a head outside the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Witness {
    Database,
    Lease,
}

impl fmt::Display for Witness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Witness::Database => "the database",
            Witness::Lease => "the Lease",
        })
    }
}

/// What a finding is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fault {
    /// Lines that do not fit their code, or whose predecessor does not fit theirs.
    Edited,
    /// A line that was not written there.
    Inserted,
    /// Lines that are not there any more.
    Removed,
    /// A line that was written elsewhere.
    Reordered,
    /// A whole file that is gone without a checkpoint.
    MissingFile,
    /// Lines at the end that a head remembers are gone.
    Truncated,
    /// The line that a head remembers is another one now.
    HeadMismatch,
    /// Lines that the database should remember, and it remembers none.
    Forgotten,
    /// No line fits this key.
    WrongKey,
    /// A note: the end is half written, as a crash or a living writer leaves it.
    Torn,
    /// A note: lines expired, and a checkpoint says so.
    Expired,
    /// A note: the log says that it cut off a torn end here.
    RecordedTorn,
    /// A note: the log says that it could not write decisions here.
    RecordedGap,
    /// A note: a new segment begins, after tampering was accepted.
    Restarted,
    /// A note: lines newer than the newest head.
    BeyondHead,
}

impl Fault {
    pub fn is_tampering(self) -> bool {
        use Fault::{BeyondHead, Expired, RecordedGap, RecordedTorn, Restarted, Torn};
        !matches!(self, Torn | Expired | RecordedTorn | RecordedGap | Restarted | BeyondHead)
    }
}

/// Where something was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Place {
    pub file: String,
    /// Counted from 1; 0 when the file as a whole is meant.
    pub line: u64,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => f.write_str(&self.file),
            line => write!(f, "{}:{line}", self.file),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    pub fault: Fault,
    #[serde(flatten)]
    pub place: Place,
    /// The numbers of the lines concerned.
    pub from: u64,
    pub through: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub witness: Option<Witness>,
    /// How many decisions or bytes a note is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let numbers = if self.from == self.through {
            format!("line {}", self.from)
        } else {
            format!("lines {} to {}", self.from, self.through)
        };
        let count = self.count.unwrap_or_default();
        write!(f, "{}: ", self.place)?;
        match (self.fault, self.witness) {
            (Fault::Edited, _) => write!(f, "{numbers}: edited, or what stood before was"),
            (Fault::Inserted, _) => write!(f, "{numbers}: inserted or repeated"),
            (Fault::Removed, _) => write!(f, "{numbers}: removed"),
            (Fault::Reordered, _) => write!(f, "{numbers}: moved from another place"),
            (Fault::MissingFile, _) => write!(f, "{numbers}: the file is missing and no checkpoint covers it"),
            (Fault::Truncated, Some(witness)) => write!(f, "{numbers}: cut off at the end; {witness} remembers them"),
            (Fault::Truncated, None) => write!(f, "{numbers}: cut off at the end"),
            (Fault::HeadMismatch, Some(witness)) => write!(f, "{numbers}: not the line that {witness} remembers"),
            (Fault::HeadMismatch, None) => write!(f, "{numbers}: not the line that is remembered"),
            (Fault::Forgotten, _) => {
                write!(f, "{numbers}: the database does not know this log: it was taken away, or is another one")
            }
            (Fault::WrongKey, _) => write!(f, "no line was written with this key"),
            (Fault::Torn, _) => write!(f, "{count} bytes half written at the end, as a crash leaves them"),
            (Fault::Expired, _) => write!(f, "{numbers}: expired, covered by a checkpoint"),
            (Fault::RecordedTorn, _) => write!(f, "{numbers}: {count} half-written bytes were cut off here"),
            (Fault::RecordedGap, _) => write!(f, "{numbers}: {count} decisions could not be written here"),
            (Fault::Restarted, _) => write!(f, "{numbers}: a new segment, after tampering was accepted"),
            (Fault::BeyondHead, _) => write!(f, "{numbers}: newer than the newest head"),
        }
    }
}

/// The result of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    pub files: u64,
    pub lines: u64,
    /// The first number that is there; 0 for an empty log.
    pub first: u64,
    /// The last line that was proved right.
    pub last: Option<Head>,
    /// The first thousand of each sort; see `left_out`.
    pub findings: Vec<Finding>,
    pub left_out: u64,
}

impl Report {
    /// Whether the log is not what was written. A wrong key counts: nothing is proved then.
    pub fn tampered(&self) -> bool {
        self.left_out > 0 || self.findings.iter().any(|finding| finding.fault.is_tampering())
    }

    /// Findings that prove tampering.
    pub fn evidence(&self) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(|finding| finding.fault.is_tampering())
    }

    pub fn has(&self, fault: Fault) -> bool {
        self.findings.iter().any(|finding| finding.fault == fault)
    }
}
