//! Whether a history of one state can be explained by one state that does one thing after another.
//!
//! The door is [`check`]: it looks for an order of all operations in which each takes effect at one moment between its
//! request and its answer, and in which every answer is the one that a register with a lock would give. The search is
//! that of Wing and Gong with Lowe's memory of what was tried: a set of operations and the state that they lead to.
//!
//! An operation without an answer may have taken effect at any time since it was sent, or never. It must never weaken
//! what is asked of the others: an answer that was given must be explained.

use std::collections::HashSet;
use std::fmt;
use std::time::Duration;

/// One request of one client, with times of one clock.
#[derive(Clone, Debug)]
pub struct Operation {
    pub client: usize,
    pub request: Request,
    pub sent: Duration,
    /// `None`: nobody knows what became of it.
    pub answer: Option<(Answer, Duration)>,
}

/// Values and lock IDs are numbers here, each used for one purpose only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    Read,
    /// A write with the `?ID=` of its query.
    Write {
        value: u64,
        id: Option<u64>,
    },
    Delete {
        id: Option<u64>,
    },
    Lock(u64),
    Unlock(u64),
    /// An UNLOCK with an empty body.
    Break,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    Done,
    /// What a read found.
    Value(Option<u64>),
    /// 423, with the ID that its body shows; `None`: a state that was never locked.
    Refused(Option<u64>),
}

/// The settings that the servers had.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rules {
    /// A lock without a request of its holder for this long may be taken over.
    pub expiry: Option<Duration>,
}

/// A history that no order of its operations explains.
#[derive(Clone, Debug)]
pub struct Violation {
    /// The longest order that was found.
    pub explained: Vec<Operation>,
    /// The state after it.
    pub state: Model,
    /// What could have come next, and does not fit.
    pub stuck: Vec<Operation>,
    /// Whether the search was given up before it had tried everything.
    pub given_up: bool,
}

/// Far more than a history of a few hundred operations needs, of which a few dozen have no answer.
const MOST_TRIED: usize = 1_000_000;

/// The state must have been written before the history begins, with `initial`.
pub fn check(initial: u64, history: &[Operation], rules: Rules) -> Result<(), Box<Violation>> {
    let mut operations: Vec<&Operation> = history.iter().filter(|operation| matters(operation, history)).collect();
    operations.sort_by_key(|operation| operation.sent);
    let open = operations.iter().filter(|operation| operation.answer.is_some()).count();
    let mut search = Search {
        twins: twins(&operations),
        done: vec![false; operations.len()],
        order: Vec::new(),
        open,
        tried: HashSet::new(),
        longest: (Vec::new(), Model::new(initial)),
        operations,
        rules,
        unanswered: Unanswered::WhereNeeded,
    };
    // Nearly every right history is explained at the first attempt; the second one tries what is left.
    for unanswered in [Unanswered::WhereNeeded, Unanswered::Anywhere] {
        search.unanswered = unanswered;
        search.tried.clear();
        if search.explains(&Model::new(initial), None) {
            return Ok(());
        }
    }
    let (order, state) = search.longest.clone();
    let given_up = search.tried.len() >= MOST_TRIED;
    let owned = |indexes: &[usize]| indexes.iter().map(|&index| search.operations[index].clone()).collect::<Vec<_>>();
    let explained = owned(&order);
    search.done = vec![false; search.operations.len()];
    for &index in &order {
        search.done[index] = true;
    }
    let stuck = owned(&search.next());
    Err(Box::new(Violation { explained, state, stuck, given_up }))
}

/// An unanswered operation whose effect nobody can have seen need not be tried: a read, or a write of a value that no
/// read found. (Something was written before it, so that also no DELETE tells whether it took place.)
fn matters(operation: &Operation, history: &[Operation]) -> bool {
    if operation.answer.is_some() {
        return true;
    }
    match operation.request {
        Request::Read => false,
        Request::Write { value, .. } => {
            history.iter().any(|other| matches!(other.answer, Some((Answer::Value(Some(found)), _)) if found == value))
        }
        Request::Delete { .. } | Request::Lock(_) | Request::Unlock(_) | Request::Break => true,
    }
}

/// For each operation without an answer, the same request sent before it: of such only the first needs to be tried.
fn twins(operations: &[&Operation]) -> Vec<Option<usize>> {
    let unanswered = |index: &usize| operations[*index].answer.is_none();
    let same = |index: usize, other: usize| operations[index].request == operations[other].request;
    let twin = |index: usize| (0..index).rev().filter(unanswered).find(|&other| same(index, other));
    (0..operations.len()).map(|index| Some(index).filter(unanswered).and_then(twin)).collect()
}

/// Where operations without an answer are tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unanswered {
    /// Only right before one that does not fit otherwise.
    WhereNeeded,
    Anywhere,
}

/// A register with a lock.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Model {
    value: Option<u64>,
    lock: Option<u64>,
    /// The lock that ended last.
    released: Option<u64>,
    /// The holder's last request was not before this time.
    active: Duration,
}

impl Model {
    fn new(value: u64) -> Model {
        Model { value: Some(value), lock: None, released: None, active: Duration::ZERO }
    }

    /// What the state becomes and what it answers, for every way in which that may go.
    fn step(&self, operation: &Operation, rules: Rules) -> Vec<(Model, Answer)> {
        let same = |answer| (self.clone(), answer);
        let refused = || same(Answer::Refused(self.lock.or(self.released)));
        let renewed = |mut model: Model| {
            // Without expiry nobody asks when: fewer states to tell apart.
            model.active = if rules.expiry.is_some() { operation.sent } else { Duration::ZERO };
            (model, Answer::Done)
        };
        let ended = || Model { lock: None, released: self.lock, ..self.clone() };
        match operation.request {
            Request::Read => vec![same(Answer::Value(self.value))],
            Request::Write { id, .. } | Request::Delete { id } if id != self.lock => vec![refused()],
            Request::Write { value, .. } => vec![renewed(Model { value: Some(value), ..self.clone() })],
            Request::Delete { .. } => vec![(Model { value: None, ..self.clone() }, Answer::Done)],
            Request::Lock(id) if self.lock.is_none() || self.lock == Some(id) => {
                vec![renewed(Model { lock: Some(id), ..self.clone() })]
            }
            Request::Lock(id) => {
                let latest = operation.answer.map_or(Duration::MAX, |(_, answered)| answered);
                let expired = rules.expiry.is_some_and(|expiry| latest.saturating_sub(self.active) > expiry);
                let taken = expired.then(|| renewed(Model { lock: Some(id), ..ended() }));
                std::iter::once(refused()).chain(taken).collect()
            }
            Request::Unlock(id) if self.lock == Some(id) => vec![(ended(), Answer::Done)],
            Request::Unlock(id) if self.lock.is_some() && self.released != Some(id) => vec![refused()],
            Request::Break if self.lock.is_some() => vec![(ended(), Answer::Done)],
            Request::Unlock(_) | Request::Break => vec![same(Answer::Done)],
        }
    }
}

struct Search<'a> {
    /// In the order in which they were sent.
    operations: Vec<&'a Operation>,
    done: Vec<bool>,
    order: Vec<usize>,
    /// How many answered operations are not in the order yet.
    open: usize,
    tried: HashSet<(Vec<u64>, Model, Option<Model>)>,
    longest: (Vec<usize>, Model),
    rules: Rules,
    twins: Vec<Option<usize>>,
    unanswered: Unanswered,
}

impl Search<'_> {
    /// Whether what is left can follow in this state, to which an operation without an answer may have led from the
    /// state `before`.
    fn explains(&mut self, state: &Model, before: Option<&Model>) -> bool {
        let depth = self.order.len();
        self.take_what_changes_nothing(state);
        let before = before.filter(|_| self.order.len() == depth && self.unanswered == Unanswered::WhereNeeded);
        if self.order.len() > self.longest.0.len() {
            self.longest = (self.order.clone(), state.clone());
        }
        let found = self.open == 0 || (self.is_new(state, before) && self.some_next(state, before));
        if !found {
            while self.order.len() > depth {
                self.put_back();
            }
        }
        found
    }

    /// What fits now and never changes anything can as well come now: whatever comes later is the same without it.
    fn take_what_changes_nothing(&mut self, state: &Model) {
        loop {
            let fits = self.next().into_iter().find(|&index| {
                let operation = self.operations[index];
                let answer = operation.answer.map(|(answer, _)| answer);
                matches!(answer, Some(Answer::Value(_) | Answer::Refused(_)))
                    && !self.outcomes(state, operation).is_empty()
            });
            match fits {
                Some(index) => self.take(index),
                None => return,
            }
        }
    }

    fn some_next(&mut self, state: &Model, before: Option<&Model>) -> bool {
        for index in self.next() {
            let operation = self.operations[index];
            // It would have fitted without the one before it.
            if operation.answer.is_some() && before.is_some_and(|before| !self.outcomes(before, operation).is_empty()) {
                continue;
            }
            for after in self.outcomes(state, operation) {
                if operation.answer.is_none() && after == *state {
                    continue;
                }
                self.take(index);
                if self.explains(&after, operation.answer.is_none().then_some(state)) {
                    return true;
                }
                self.put_back();
            }
        }
        false
    }

    /// The states to which an operation may lead with the answer that it got.
    fn outcomes(&self, state: &Model, operation: &Operation) -> Vec<Model> {
        let given = operation.answer.map(|(answer, _)| answer);
        let steps = state.step(operation, self.rules).into_iter();
        steps.filter(|(_, answer)| given.is_none_or(|given| given == *answer)).map(|(after, _)| after).collect()
    }

    /// What may come next: sent before the first answer among those that are left. Answered ones first, in the order of
    /// their answers, because that is mostly how it was.
    fn next(&self) -> Vec<usize> {
        let left = || (0..self.operations.len()).filter(|&index| !self.done[index]);
        let answered = |index: usize| self.operations[index].answer.map_or(Duration::MAX, |(_, at)| at);
        let first = left().map(answered).min().unwrap_or(Duration::MAX);
        let twin_left = |index: usize| self.twins[index].is_some_and(|twin| !self.done[twin]);
        let may = |index: &usize| self.operations[*index].sent <= first && !twin_left(*index);
        let mut next: Vec<usize> = left().filter(may).collect();
        next.sort_by_key(|&index| answered(index));
        next
    }

    fn is_new(&mut self, state: &Model, before: Option<&Model>) -> bool {
        let mut set = vec![0_u64; self.done.len().div_ceil(64)];
        for (index, _) in self.done.iter().enumerate().filter(|(_, done)| **done) {
            set[index / 64] |= 1 << (index % 64);
        }
        self.tried.len() < MOST_TRIED && self.tried.insert((set, state.clone(), before.cloned()))
    }

    fn take(&mut self, index: usize) {
        self.done[index] = true;
        self.order.push(index);
        self.open -= usize::from(self.operations[index].answer.is_some());
    }

    fn put_back(&mut self) {
        if let Some(index) = self.order.pop() {
            self.done[index] = false;
            self.open += usize::from(self.operations[index].answer.is_some());
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Operation { client, request, sent, answer } = self;
        write!(formatter, "{:>10.3} ms client {client}: {request:?}", sent.as_secs_f64() * 1000.0)?;
        match answer {
            Some((answer, at)) => write!(formatter, " -> {answer:?} at {:.3} ms", at.as_secs_f64() * 1000.0),
            None => write!(formatter, " -> no answer"),
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = if self.given_up { "not all orders were tried" } else { "no order explains the history" };
        writeln!(formatter, "{all}; the longest one ends with")?;
        for operation in &self.explained[self.explained.len().saturating_sub(25)..] {
            writeln!(formatter, "  {operation}")?;
        }
        writeln!(formatter, "which leads to {:?}, and none of these can be next:", self.state)?;
        for operation in &self.stuck {
            writeln!(formatter, "  {operation}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::Answer::{Done, Refused, Value};
    use super::Request::{Break, Delete, Lock, Read, Unlock};
    use super::*;

    const START: u64 = 1;
    const NO_EXPIRY: Rules = Rules { expiry: None };
    const EXPIRY: Rules = Rules { expiry: Some(Duration::from_millis(50)) };

    fn write(value: u64) -> Request {
        Request::Write { value, id: None }
    }

    fn write_as(id: u64, value: u64) -> Request {
        Request::Write { value, id: Some(id) }
    }

    /// From one millisecond to another.
    fn at(sent: u64, answered: u64, request: Request, answer: Answer) -> Operation {
        let answer = Some((answer, Duration::from_millis(answered)));
        Operation { client: 0, request, sent: Duration::from_millis(sent), answer }
    }

    fn lost(sent: u64, request: Request) -> Operation {
        Operation { client: 0, request, sent: Duration::from_millis(sent), answer: None }
    }

    /// One after another, ten milliseconds apart.
    fn sequence<const COUNT: usize>(steps: [(Request, Answer); COUNT]) -> Vec<Operation> {
        let times = (0..).map(|index| index * 10);
        times.zip(steps).map(|(time, (request, answer))| at(time, time + 5, request, answer)).collect()
    }

    #[track_caller]
    fn accepted(history: &[Operation], rules: Rules) {
        if let Err(violation) = check(START, history, rules) {
            panic!("{violation}");
        }
    }

    #[track_caller]
    fn rejected(history: &[Operation], rules: Rules) {
        let violation = check(START, history, rules).expect_err("a history that must not be");
        assert!(!violation.given_up && !violation.stuck.is_empty(), "{violation}");
    }

    #[test]
    fn a_session_and_its_refusals_are_right() {
        accepted(
            &sequence([
                (Read, Value(Some(START))),
                (Lock(7), Done),
                (Lock(7), Done),
                (Lock(8), Refused(Some(7))),
                (write(3), Refused(Some(7))),
                (write_as(8, 3), Refused(Some(7))),
                (Unlock(8), Refused(Some(7))),
                (write_as(7, 4), Done),
                (Read, Value(Some(4))),
                (Unlock(7), Done),
                (Unlock(7), Done),
                (write_as(7, 5), Refused(Some(7))),
                (Lock(8), Done),
                (Unlock(7), Done),
                (write_as(8, 6), Done),
                (Break, Done),
                (write_as(8, 9), Refused(Some(8))),
                (write(10), Done),
                (Delete { id: None }, Done),
                (Read, Value(None)),
            ]),
            NO_EXPIRY,
        );
        accepted(&sequence([(write_as(7, 3), Refused(None))]), NO_EXPIRY);
    }

    #[test]
    fn of_two_at_once_either_may_be_first() {
        let race = |first, second| [at(0, 20, Lock(7), first), at(5, 15, Lock(8), second)];
        accepted(&race(Done, Refused(Some(7))), NO_EXPIRY);
        accepted(&race(Refused(Some(8)), Done), NO_EXPIRY);
        rejected(&race(Done, Done), NO_EXPIRY);
        rejected(&race(Refused(Some(8)), Refused(Some(7))), NO_EXPIRY);
        // A Break that came after one LOCK and before another, although it could have come first.
        accepted(&[at(0, 20, Lock(7), Done), at(10, 50, Break, Done), at(25, 60, Lock(8), Done)], NO_EXPIRY);
        let writes = [at(0, 20, write(3), Done), at(5, 15, write(4), Done)];
        for last in [3, 4] {
            accepted(&[&writes[..], &[at(30, 35, Read, Value(Some(last)))]].concat(), NO_EXPIRY);
        }
    }

    #[test]
    fn a_lost_write_a_stale_read_and_a_value_from_nowhere_are_wrong() {
        rejected(&sequence([(write(3), Done), (Read, Value(Some(START)))]), NO_EXPIRY);
        rejected(&sequence([(write(3), Done), (write(4), Done), (Read, Value(Some(3)))]), NO_EXPIRY);
        rejected(&sequence([(Read, Value(Some(99)))]), NO_EXPIRY);
        rejected(&sequence([(Delete { id: None }, Done), (Read, Value(Some(START)))]), NO_EXPIRY);
        // Two readers at the same time as a write may not see it come and go.
        let seen_then_gone =
            [at(0, 100, write(3), Done), at(10, 20, Read, Value(Some(3))), at(30, 40, Read, Value(Some(START)))];
        rejected(&seen_then_gone, NO_EXPIRY);
    }

    #[test]
    fn two_holders_and_a_write_of_a_displaced_holder_are_wrong() {
        rejected(&sequence([(Lock(7), Done), (Lock(8), Done)]), NO_EXPIRY);
        rejected(&sequence([(Lock(7), Done), (write(3), Done)]), NO_EXPIRY);
        rejected(&sequence([(Lock(7), Done), (Break, Done), (write_as(7, 3), Done)]), NO_EXPIRY);
        rejected(&sequence([(Lock(7), Done), (Unlock(7), Done), (write_as(7, 3), Done)]), NO_EXPIRY);
        rejected(&sequence([(Lock(7), Done), (Break, Done), (Lock(8), Done), (write_as(7, 3), Done)]), NO_EXPIRY);
        rejected(&sequence([(Lock(7), Done), (Lock(8), Refused(Some(9)))]), NO_EXPIRY);
        rejected(&sequence([(Lock(7), Done), (Break, Done), (Lock(8), Refused(Some(7)))]), NO_EXPIRY);
    }

    #[test]
    fn a_lock_is_taken_over_after_its_expiry_and_not_before() {
        let holds = [at(0, 5, Lock(7), Done), at(20, 25, write_as(7, 3), Done)];
        let over = |time: u64| [&holds[..], &[at(time, time + 5, Lock(8), Done)]].concat();
        accepted(&over(90), EXPIRY);
        rejected(&over(60), EXPIRY);
        rejected(&over(90), NO_EXPIRY);
        let displaced = |answer| [&over(90)[..], &[at(100, 105, write_as(7, 4), answer)]].concat();
        accepted(&displaced(Refused(Some(8))), EXPIRY);
        rejected(&displaced(Done), EXPIRY);
        // Nobody has to take over.
        accepted(&[&holds[..], &[at(90, 95, Lock(8), Refused(Some(7)))]].concat(), EXPIRY);
    }

    #[test]
    fn what_got_no_answer_took_effect_later_or_never_but_only_once_and_only_if_it_could() {
        let begin = lost(0, write(3));
        accepted(&[begin.clone(), at(10, 15, Read, Value(Some(START)))], NO_EXPIRY);
        accepted(&[begin.clone(), at(10, 15, Read, Value(Some(3)))], NO_EXPIRY);
        let late = [at(10, 15, Read, Value(Some(START))), at(20, 25, write(4), Done), at(30, 35, Read, Value(Some(3)))];
        accepted(&[std::slice::from_ref(&begin), &late[..]].concat(), NO_EXPIRY);
        let twice = [at(40, 45, write(5), Done), at(50, 55, Read, Value(Some(3)))];
        rejected(&[&[begin], &late[..], &twice[..]].concat(), NO_EXPIRY);
        let held = [at(0, 5, Lock(7), Done), lost(6, write(3)), at(10, 15, Read, Value(Some(3)))];
        rejected(&held, NO_EXPIRY);
        let stuck = [lost(0, Lock(7)), at(10, 15, Lock(8), Refused(Some(7))), at(20, 25, Lock(9), Done)];
        rejected(&stuck, NO_EXPIRY);
        let freed = [&stuck[..2], &[lost(16, Break)], &stuck[2..]].concat();
        accepted(&freed, NO_EXPIRY);
    }

    #[test]
    fn many_at_once_are_decided_soon() {
        // Forty sessions that overlap by a little, each with a request whose answer was lost.
        let mut history = Vec::new();
        for session in 0..40 {
            let (start, id, value) = (session * 100, 1000 + session, 2000 + session);
            history.push(lost(start, Lock(5000 + session)));
            history.push(at(start, start + 30, Lock(id), Done));
            history.push(lost(start + 20, Unlock(9000 + session)));
            history.push(at(start + 31, start + 60, write_as(id, value), Done));
            history.extend((0..6).map(|_| at(start + 10, start + 120, Read, Value(Some(value)))));
            history.push(at(start + 61, start + 99, Unlock(id), Done));
        }
        accepted(&history, NO_EXPIRY);
        history.push(at(5000, 5001, Read, Value(Some(2000))));
        rejected(&history, NO_EXPIRY);
    }
}
