//! The token by which somebody came in, for acts that are to be theirs and not the server's.

use std::fmt;

use http::HeaderMap;
use zeroize::Zeroizing;

use super::Caller;
use crate::authenticate::token;
use crate::identity::Source;

/// A caller's own token of the cluster that the gate asks. It may go to the API servers that issued it, and nowhere else.
#[derive(Clone)]
pub struct OwnToken(Zeroizing<String>);

impl OwnToken {
    /// The token in these headers, by which the caller came in. Only tokens that a cluster vouched for count: a static token is
    /// a secret of this server, and whoever came by a certificate or behind a proxy has left nothing to act with.
    pub fn of(caller: &Caller, headers: &HeaderMap) -> Option<OwnToken> {
        let by_cluster = caller.identity().source == Source::TokenReview;
        // The gate has looked at its length already.
        let token = if by_cluster { token(headers, usize::MAX).ok().flatten() } else { None };
        token.map(OwnToken)
    }

    /// The secret itself: hand it to the API server that issued it.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for OwnToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OwnToken(hidden)")
    }
}
