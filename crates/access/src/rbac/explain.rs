//! Why somebody may, and who may: for people.

use serde::Serialize;

use super::MASTERS;
use super::object::{Binding, RbacKey};
use super::policy::Policy;
use super::request::{Request, Who};
use super::subject::Subject;

/// One of the ways by which something is granted; each would do alone.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Reason {
    pub subject: Subject,
    pub by: Means,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Means {
    /// The group `system:masters`, which needs no binding.
    Masters,
    Binding {
        binding: RbacKey,
        role: RbacKey,
        /// Which of the role's rules, counted from 0.
        rule: usize,
    },
}

impl Policy {
    /// Every way by which somebody may do this, sorted; none if they may not. Of a binding with several subjects that
    /// fit, the first is named.
    pub fn explain(&self, who: &Who, request: &Request<'_>) -> Vec<Reason> {
        let mut reasons: Vec<Reason> = who.is_master().then(masters).into_iter().collect();
        for binding in self.bindings_of(who) {
            let subject = binding.subjects.iter().find(|subject| subject.is(who));
            let Some(subject) = subject else { continue };
            reasons.extend(self.means(binding, request).map(|by| Reason { subject: subject.clone(), by }));
        }
        sorted(reasons)
    }

    /// Every subject that may do this, with the binding and the rule, sorted. `system:masters` always may. Whoever is in
    /// a group that is named may too: a policy knows no members.
    pub fn who_can(&self, request: &Request<'_>) -> Vec<Reason> {
        let mut reasons = vec![masters()];
        for binding in self.bindings() {
            for by in self.means(binding, request) {
                let subjects = binding.subjects.iter().cloned();
                reasons.extend(subjects.map(|subject| Reason { subject, by: by.clone() }));
            }
        }
        sorted(reasons)
    }

    /// The rules by which a binding grants this.
    fn means(&self, binding: &Binding, request: &Request<'_>) -> impl Iterator<Item = Means> {
        let counts = binding.counts_in(request.place());
        let role = binding.role.as_ref().filter(|_| counts);
        role.into_iter().flat_map(move |role| {
            let rules = self.rules_of(binding).iter().enumerate();
            let allowing = rules.filter(|(_, rule)| rule.allows(request));
            allowing.map(|(rule, _)| Means::Binding { binding: binding.key.clone(), role: role.clone(), rule })
        })
    }
}

fn masters() -> Reason {
    Reason { subject: Subject::Group { name: MASTERS.to_owned() }, by: Means::Masters }
}

fn sorted(mut reasons: Vec<Reason>) -> Vec<Reason> {
    reasons.sort();
    reasons.dedup();
    reasons
}
