//! Who is this, may they, and a log of both.
//!
//! The one door is [`Gate`]: it turns what a request presents (a token, a client certificate, a front proxy's
//! headers) into an [`Identity`], and decides whether that identity may do an [`Action`]. With a cluster, both answers
//! come from Kubernetes (TokenReview, SubjectAccessReview); standalone, from hashed static tokens and roles per
//! namespace pattern. [`http`] is how handlers meet the gate; [`audit`] keeps what was decided and done. Beside the gate,
//! [`rbac`] answers for whole lists what Kubernetes would answer one by one.
//!
//! What must never be here: a default that lets somebody in, a token in a log or an error, a decision that outlives
//! its time to live, or knowledge of any capability's routes.

mod action;
mod error;
mod identity;

mod gate;

mod authenticate;
mod authorize;
mod limiter;
mod tokens;

pub mod audit;
pub mod http;
pub mod metrics;
pub mod rbac;

pub use action::Action;
pub use authenticate::{
    Authorities, AuthorityError, Certificates, ClientAuthority, FrontProxy, HeaderNames, Trust, cluster_authorities,
};
pub use authorize::roles::{Binding, Grant, GrantError, Pattern, ROLES, Role, Subject};
pub use error::Refusal;
pub use gate::{Authorizer, Gate, Presented, Settings, TokenAuthority};
pub use identity::{Identity, Source};
pub use tokens::{NewToken, TokenError, TokenRecord, TokenStore, TokenText, prepare};

/// The tables of this crate, for `db.migrate`.
pub const MIGRATIONS: &[db::Migrations] = &[tokens::MIGRATIONS, audit::MIGRATIONS];

/// Lower-case hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    let digit = |value: u8| char::from(b"0123456789abcdef"[usize::from(value & 15)]);
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(*byte)]).collect()
}
