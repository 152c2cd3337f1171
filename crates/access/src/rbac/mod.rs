//! Kubernetes RBAC, decided here: what somebody may do according to the RBAC objects of one cluster.
//!
//! The one door is [`Policy`]. It holds the Roles, ClusterRoles and bindings of a cluster as a watch tells them, and
//! answers as the API server's authorizer would: [`Policy::allows`] for one request, [`Policy::grants`] for everything
//! that somebody may do with some verbs, as sets that a query can be limited by, [`Policy::explain`], [`Policy::who_can`]
//! and [`Policy::bound`] for people. A random test compares the answers with the API server's own.
//!
//! RBAC only adds; there is no deny. A reference that cannot be resolved grants nothing and spoils nothing else. Only
//! the `rules` of a role count: those of an aggregated ClusterRole are filled in by the cluster, never here. The group
//! `system:masters` may do everything, before RBAC is asked.
//!
//! What must never be here: IO, a clock, a cache (whoever keeps [`Grants`] keys them by [`Policy::epoch`]), groups that
//! the caller did not give, or a way by which nothing granted becomes everything granted.

mod object;
mod request;
mod rule;

mod policy;

mod bound;
mod explain;
mod grants;
mod subject;

#[cfg(test)]
mod fixtures;

pub use bound::Bound;
pub use explain::{Means, Reason};
pub use grants::{Grants, Named, Scope};
pub use object::{RbacKey, RbacKind, RbacObject};
pub use policy::Policy;
pub use request::{Request, Who};
pub use subject::Subject;

/// May do everything, by an authorizer of its own.
pub(crate) const MASTERS: &str = "system:masters";
