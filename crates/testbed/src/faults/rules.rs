//! Which request meets which fault. No IO here.

use std::time::Duration;

use http::{HeaderName, Method, StatusCode};

/// What goes wrong.
#[derive(Clone, Debug)]
pub enum Fault {
    /// The proxy answers in place of the peer, which never sees the request.
    Answer { status: StatusCode, retry_after_seconds: Option<u32> },
    /// The connection is cut before the peer sees the request.
    LoseRequest,
    /// The connection is cut after the peer has done the work.
    LoseAnswer,
    /// The peer sees the request late, or never if the client leaves before.
    DelayRequest(Duration),
    /// The peer does the work in time, the client learns of it late.
    DelayAnswer(Duration),
    /// The peer gets the request twice; the client sees the second answer.
    Repeat,
    /// The peer gets the request without these headers.
    RemoveHeaders(Vec<HeaderName>),
}

/// A fault and the requests that meet it: all of them, unless narrowed.
#[derive(Clone, Debug)]
pub struct Rule {
    fault: Fault,
    method: Option<Method>,
    path: String,
    turn: Turn,
}

#[derive(Clone, Copy, Debug)]
enum Turn {
    Every,
    First(u64),
    Nth(u64),
}

impl Fault {
    pub fn status(status: StatusCode) -> Fault {
        Fault::Answer { status, retry_after_seconds: None }
    }

    /// 429 with `Retry-After`.
    pub fn too_many_requests(retry_after_seconds: u32) -> Fault {
        let retry_after_seconds = Some(retry_after_seconds);
        Fault::Answer { status: StatusCode::TOO_MANY_REQUESTS, retry_after_seconds }
    }
}

impl Rule {
    pub fn new(fault: Fault) -> Rule {
        Rule { fault, method: None, path: String::new(), turn: Turn::Every }
    }

    #[must_use]
    pub fn method(mut self, method: Method) -> Rule {
        self.method = Some(method);
        self
    }

    /// Only where the path with its query contains this.
    #[must_use]
    pub fn path(mut self, part: &str) -> Rule {
        part.clone_into(&mut self.path);
        self
    }

    /// Only the nth request, from 1, of those that method and path fit, counted from when the rule was added.
    #[must_use]
    pub fn nth(mut self, number: u64) -> Rule {
        self.turn = Turn::Nth(number);
        self
    }

    /// Only the first requests of those that method and path fit.
    #[must_use]
    pub fn first(mut self, count: u64) -> Rule {
        self.turn = Turn::First(count);
        self
    }

    fn fits(&self, method: &Method, path: &str) -> bool {
        self.method.as_ref().is_none_or(|wanted| wanted == method) && path.contains(&self.path)
    }
}

/// The rules of a proxy, each with the number of requests that it has fitted.
#[derive(Debug, Default)]
pub(super) struct Rules(Vec<(Rule, u64)>);

impl Rules {
    pub(super) fn add(&mut self, rule: Rule) {
        self.0.push((rule, 0));
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// The fault for this request. Every rule that fits counts it, also when an earlier one is taken.
    pub(super) fn take(&mut self, method: &Method, path: &str) -> Option<Fault> {
        let mut taken = None;
        for (rule, seen) in self.0.iter_mut().filter(|(rule, _seen)| rule.fits(method, path)) {
            *seen += 1;
            let due = match rule.turn {
                Turn::Every => true,
                Turn::First(count) => *seen <= count,
                Turn::Nth(number) => *seen == number,
            };
            if due && taken.is_none() {
                taken = Some(rule.fault.clone());
            }
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_takes_its_turn_among_the_requests_that_fit_it() {
        let rule = || Rule::new(Fault::Repeat).method(Method::POST).path("/states");
        // Of each rule: which of four fitting requests meet it. Requests that do not fit come between them.
        let cases = [
            (rule(), [true; 4]),
            (rule().nth(3), [false, false, true, false]),
            (rule().first(2), [true, true, false, false]),
        ];
        for (rule, expected) in cases {
            let mut rules = Rules::default();
            let shown = format!("{rule:?}");
            rules.add(rule);
            let met = expected.map(|_| {
                assert!(rules.take(&Method::GET, "/states/a").is_none());
                assert!(rules.take(&Method::POST, "/locks/a").is_none());
                rules.take(&Method::POST, "/states/a?id=1").is_some()
            });
            assert_eq!(met, expected, "{shown}");
        }
    }

    #[test]
    fn the_rule_added_first_wins_and_the_other_still_counts() {
        let mut rules = Rules::default();
        rules.add(Rule::new(Fault::LoseAnswer).nth(1));
        rules.add(Rule::new(Fault::Repeat).first(2));
        assert!(matches!(rules.take(&Method::GET, "/"), Some(Fault::LoseAnswer)));
        assert!(matches!(rules.take(&Method::GET, "/"), Some(Fault::Repeat)));
        assert!(rules.take(&Method::GET, "/").is_none());
    }
}
