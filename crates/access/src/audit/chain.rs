//! Follows the chain of lines and says where it breaks, and how.
//!
//! The door is [`Chain`]: fed one line after the other, in bounded memory, then finished into a [`Report`]. That a
//! break is found is proof; which sort it is (edited, inserted, ...) is the best reading of numbers and codes. It knows
//! nothing of files, except the place that comes with each line.

use super::entry::Kind;
use super::key::Key;
use super::line::{Head, Line, Mac, checkpoint};
use super::report::{Fault, Finding, Place, Report, Witness};

/// More findings of one sort than this are counted only.
const MAX_FINDINGS: usize = 1000;

/// What stands before the first line that is fed.
#[derive(Clone, Copy, Debug)]
pub(super) enum Start {
    /// The line itself says: number 1, a `restart`, or a checkpoint further on.
    Unknown,
    After(Head),
}

pub(super) struct Chain<'a> {
    key: &'a Key,
    heads: Vec<(Witness, Head)>,
    /// The last line that is proved right.
    anchor: Option<Head>,
    anchor_kind: Option<Kind>,
    /// What the line before this one claims as its code; none after an unreadable one.
    previous: Option<Mac>,
    /// Lines since the anchor that do not fit.
    run: Vec<Odd>,
    /// The first line, when only a checkpoint can prove it.
    held: Option<Held>,
    checkpoints: Vec<Head>,
    proved: u64,
    /// Lines that could be read and do not fit.
    disproved: u64,
    key_id_seen: bool,
    /// Whether there is a line that is written only when the database knows of the log.
    beyond_opening: bool,
    /// Numbers that are not where they belong, and lines that are where they do not belong.
    missing: Vec<Finding>,
    extra: Vec<Finding>,
    report: Report,
}

struct Odd {
    place: Place,
    /// None when the line could not be read.
    n: Option<u64>,
}

struct Held {
    place: Place,
    line: Vec<u8>,
    n: u64,
}

impl<'a> Chain<'a> {
    pub(super) fn new(key: &'a Key, start: Start, heads: &[(Witness, Head)]) -> Chain<'a> {
        let anchor = match start {
            Start::Unknown => None,
            Start::After(head) => Some(head),
        };
        let mut chain = Chain {
            key,
            heads: heads.to_vec(),
            anchor,
            anchor_kind: None,
            previous: anchor.map(|head| head.mac),
            run: Vec::new(),
            held: None,
            checkpoints: Vec::new(),
            proved: 0,
            disproved: 0,
            key_id_seen: false,
            beyond_opening: anchor.is_some(),
            missing: Vec::new(),
            extra: Vec::new(),
            report: Report { last: anchor, ..Report::default() },
        };
        if let Some(head) = anchor {
            chain.compare_heads(head, &Place { file: "the file before".to_owned(), line: 0 });
        }
        chain
    }

    pub(super) fn file(&mut self) {
        self.report.files += 1;
    }

    /// The number that the next line should have.
    pub(super) fn expected(&self) -> u64 {
        self.anchor.map_or(0, |head| head.n) + self.run.len() as u64 + 1
    }

    /// A line that could not be read.
    pub(super) fn unreadable(&mut self, place: Place) {
        self.report.lines += 1;
        self.previous = None;
        self.odd(place, None);
    }

    /// `bytes` is the line as [`Line::parse`] took it.
    pub(super) fn line(&mut self, place: Place, line: &Line<'_>, bytes: &[u8]) {
        self.report.lines += 1;
        if self.report.first == 0 {
            self.report.first = line.n;
        }
        if line.kind == Kind::Start {
            self.key_id_seen |= line.more().get("key").and_then(|id| id.as_str()) == Some(self.key.id());
        }
        // What a start writes before its first head; a crash in between leaves just that.
        self.beyond_opening |= !matches!(line.kind, Kind::Start | Kind::Torn | Kind::Restart);
        self.compare_heads(line.head(), &place);
        let linked = self.previous.is_some_and(|previous| line.follows(self.key, previous));
        if self.anchor.is_none() && self.held.is_none() && self.begin(&place, line, bytes) {
            return;
        }
        if linked {
            self.close_run();
        } else if !self.run.is_empty() && self.anchor.is_some_and(|anchor| line.follows(self.key, anchor.mac)) {
            self.drop_run();
        } else if let Some(held) = self.held.take_if(|_| line.n == 1 && line.follows(self.key, Mac::ZERO)) {
            // The true beginning: whatever came before it was put there.
            self.drop_run();
            keep(&mut self.extra, &mut self.report.left_out, finding(Fault::Inserted, held.place, held.n, held.n));
        } else {
            self.previous = Some(line.mac);
            self.disproved += 1;
            self.odd(place, Some(line.n));
            return;
        }
        self.prove(place, line);
    }

    /// Takes the first line of all. True if nothing more is to be done about it.
    fn begin(&mut self, place: &Place, line: &Line<'_>, bytes: &[u8]) -> bool {
        if line.n == 1 {
            self.drop_run();
            (self.anchor, self.previous) = (Some(Head::NONE), Some(Mac::ZERO));
            if line.follows(self.key, Mac::ZERO) {
                self.prove(place.clone(), line);
                return true;
            }
            return false;
        }
        if line.kind == Kind::Restart && line.follows(self.key, Mac::ZERO) {
            self.drop_run();
            self.prove(place.clone(), line);
            return true;
        }
        // Unreadable lines before it stand for the numbers before its own.
        let before = line.n.saturating_sub(self.run.len() as u64);
        if let Some(odd) = std::mem::take(&mut self.run).into_iter().next() {
            self.note(finding(Fault::Edited, odd.place, before, line.n - 1));
        }
        if before > 1 {
            self.held = Some(Held { place: place.clone(), line: bytes.to_vec(), n: line.n });
        }
        (self.anchor, self.previous) = (Some(line.head()), Some(line.mac));
        self.anchor_kind = Some(line.kind);
        self.report.last = self.anchor;
        true
    }

    fn prove(&mut self, place: Place, line: &Line<'_>) {
        self.proved += 1;
        (self.anchor, self.previous) = (Some(line.head()), Some(line.mac));
        self.anchor_kind = Some(line.kind);
        self.report.last = self.anchor;
        let (fault, field) = match line.kind {
            Kind::Torn => (Fault::RecordedTorn, "bytes"),
            Kind::Gap => (Fault::RecordedGap, "lost"),
            Kind::Restart => (Fault::Restarted, "findings"),
            Kind::Expired => {
                self.checkpoints.extend(checkpoint(&line.more()));
                // Only the one before the first line counts, and they come in rising order.
                let first = self.report.first;
                self.checkpoints.retain(|head| head.n + 1 >= first);
                return;
            }
            _ => return,
        };
        let count = line.more().get(field).and_then(serde_json::Value::as_u64);
        self.note(Finding { count, ..finding(fault, place, line.n, line.n) });
    }

    fn odd(&mut self, place: Place, n: Option<u64>) {
        self.run.push(Odd { place, n });
        if self.run.len() >= MAX_FINDINGS {
            self.close_run();
            // From here the chain is followed anew, so that memory stays bounded however broken the log is.
            self.anchor = self.previous.zip(n).map(|(mac, n)| Head { n, mac }).or(self.anchor);
        }
    }

    /// The run goes on into a line that fits its last one: its lines stand for those that belong here. Gives the last
    /// number that some line has.
    fn close_run(&mut self) -> u64 {
        let mut reached = self.anchor.map_or(0, |head| head.n);
        let mut expected = reached + 1;
        let mut edited: Option<Finding> = None;
        for (index, odd) in std::mem::take(&mut self.run).into_iter().enumerate() {
            let n = odd.n.unwrap_or(expected);
            if n < expected {
                let inserted = finding(Fault::Inserted, odd.place, n, n);
                keep(&mut self.extra, &mut self.report.left_out, inserted);
                continue;
            }
            if n > expected {
                let whole_file = odd.place.line == 1 && index == 0 && self.anchor_kind == Some(Kind::Rotate);
                let fault = if whole_file { Fault::MissingFile } else { Fault::Removed };
                let gap = finding(fault, odd.place, expected, n - 1);
                keep(&mut self.missing, &mut self.report.left_out, gap);
            } else {
                match &mut edited {
                    Some(range) if range.through + 1 == n => range.through = n,
                    _ => {
                        let new = finding(Fault::Edited, odd.place, n, n);
                        if let Some(old) = edited.replace(new) {
                            self.note(old);
                        }
                    }
                }
            }
            expected = n + 1;
            reached = odd.n.unwrap_or(reached);
        }
        if let Some(edited) = edited {
            self.note(edited);
        }
        reached
    }

    /// The line after the run fits the one before it: the run was put in between.
    fn drop_run(&mut self) {
        for odd in std::mem::take(&mut self.run) {
            let n = odd.n.unwrap_or(0);
            keep(&mut self.extra, &mut self.report.left_out, finding(Fault::Inserted, odd.place, n, n));
        }
    }

    fn compare_heads(&mut self, line: Head, place: &Place) {
        let other = |(_, head): &&(Witness, Head)| head.n == line.n && head.mac != line.mac;
        let witnesses: Vec<Witness> = self.heads.iter().filter(other).map(|(witness, _)| *witness).collect();
        for witness in witnesses {
            let mismatch = finding(Fault::HeadMismatch, place.clone(), line.n, line.n);
            self.note(Finding { witness: Some(witness), ..mismatch });
        }
    }

    pub(super) fn note(&mut self, finding: Finding) {
        let same = self.report.findings.iter().filter(|other| other.fault == finding.fault).count();
        // Notes beyond the limit are dropped: only evidence may make a log look tampered with.
        if same < MAX_FINDINGS {
            self.report.findings.push(finding);
        } else if finding.fault.is_tampering() {
            self.report.left_out += 1;
        }
    }

    /// The verdict. `end` is where a missing end is reported.
    pub(super) fn finish(mut self, end: &Place) -> Report {
        let last = self.close_run();
        self.settle_first_line();
        let heads = std::mem::take(&mut self.heads);
        for &(witness, head) in &heads {
            if head.n > last {
                let cut = finding(Fault::Truncated, end.clone(), last + 1, head.n);
                keep(&mut self.missing, &mut self.report.left_out, Finding { witness: Some(witness), ..cut });
            }
        }
        self.match_moved_lines();
        let forgotten = |(witness, head): &(Witness, Head)| *witness == Witness::Database && *head == Head::NONE;
        if self.beyond_opening && heads.iter().any(forgotten) {
            let through = self.report.last.map_or(last, |head| head.n);
            self.note(finding(Fault::Forgotten, end.clone(), self.report.first.min(through), through));
        }
        if self.proved == 0 && self.disproved > 0 && !self.key_id_seen {
            self.report.findings = vec![finding(Fault::WrongKey, end.clone(), 0, 0)];
        }
        self.report
    }

    fn settle_first_line(&mut self) {
        let Some(held) = self.held.take() else { return };
        let line = Line::parse(&held.line);
        // The first line may itself be the checkpoint of everything before it.
        let own = line.as_ref().filter(|line| line.kind == Kind::Expired).and_then(|line| checkpoint(&line.more()));
        let before = self.checkpoints.iter().copied().chain(own).find(|checkpoint| checkpoint.n + 1 == held.n);
        let verdict = match (before, line) {
            (Some(checkpoint), Some(line)) if line.follows(self.key, checkpoint.mac) => {
                finding(Fault::Expired, held.place, 1, checkpoint.n)
            }
            (Some(_), _) => finding(Fault::Edited, held.place, held.n, held.n),
            (None, _) if held.place.line == 1 => finding(Fault::MissingFile, held.place, 1, held.n - 1),
            (None, _) => finding(Fault::Removed, held.place, 1, held.n - 1),
        };
        match verdict.fault {
            Fault::MissingFile | Fault::Removed => keep(&mut self.missing, &mut self.report.left_out, verdict),
            _ => self.note(verdict),
        }
    }

    /// A line that is missing in one place and too many in another was moved.
    fn match_moved_lines(&mut self) {
        let mut missing = std::mem::take(&mut self.missing);
        for mut extra in std::mem::take(&mut self.extra) {
            let from = missing.iter().position(|gap| gap.from <= extra.from && extra.from <= gap.through);
            if let Some(gap) = from.map(|index| missing.remove(index)) {
                extra.fault = Fault::Reordered;
                let (below, above) = (gap.from..extra.from, extra.from + 1..gap.through + 1);
                for part in [below, above].into_iter().filter(|part| !part.is_empty()) {
                    missing.push(Finding { from: part.start, through: part.end - 1, ..gap.clone() });
                }
            }
            self.note(extra);
        }
        for gap in missing {
            self.note(gap);
        }
    }
}

fn finding(fault: Fault, place: Place, from: u64, through: u64) -> Finding {
    Finding { fault, place, from, through, witness: None, count: None }
}

fn keep(list: &mut Vec<Finding>, left_out: &mut u64, finding: Finding) {
    if list.len() < MAX_FINDINGS {
        list.push(finding);
    } else {
        *left_out += 1;
    }
}
