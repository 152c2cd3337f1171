//! May they: by Kubernetes ([`review`]) or, standalone, by roles per namespace pattern ([`roles`], pure).

pub(crate) mod review;
pub(crate) mod roles;
