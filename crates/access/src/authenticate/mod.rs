//! Who is this: client certificates and front proxies ([`certificate`], [`front_proxy`]), tokens ([`token_review`],
//! and [`crate::tokens`] when standalone; [`newcomers`] are few per address), and what the cluster says of its own authorities ([`cluster`]).

pub(crate) mod certificate;
mod cluster;
pub(crate) mod front_proxy;
pub(crate) mod newcomers;
pub(crate) mod token_review;

use std::future::Future;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::HeaderMap;
use http::header::AUTHORIZATION;
use tokio::time::{sleep, timeout};
use zeroize::Zeroizing;

pub use certificate::{Authorities, AuthorityError, Certificates, ClientAuthority, Trust};
pub use cluster::cluster_authorities;
pub use front_proxy::{FrontProxy, HeaderNames};

use crate::error::Refusal;

/// The token of a request: of `Bearer`, or the password of `Basic` (the user name there is decoration).
/// `None`: no such header. A longer one than `limit` is nobody's token; that keeps hashing and reviews cheap. Every way to be wrong is the same refusal, so that nothing of the header is told.
pub(crate) fn token(headers: &HeaderMap, limit: usize) -> Result<Option<Zeroizing<String>>, Refusal> {
    const MALFORMED: Refusal =
        Refusal::Unauthenticated { reason: "the Authorization header is neither 'Bearer TOKEN' nor 'Basic ...'" };
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(Refusal::Unauthenticated { reason: "there is more than one Authorization header" });
    }
    let (scheme, rest) = value.to_str().ok().and_then(|text| text.split_once(' ')).ok_or(MALFORMED)?;
    let rest = rest.trim();
    let token = if scheme.eq_ignore_ascii_case("bearer") {
        Zeroizing::new(rest.to_owned())
    } else if scheme.eq_ignore_ascii_case("basic") {
        let decoded = Zeroizing::new(STANDARD.decode(rest).map_err(|_| MALFORMED)?);
        let text = std::str::from_utf8(&decoded).map_err(|_| MALFORMED)?;
        let (_user, password) = text.split_once(':').ok_or(MALFORMED)?;
        Zeroizing::new(password.to_owned())
    } else {
        return Err(MALFORMED);
    };
    if token.len() > limit {
        return Err(Refusal::Unauthenticated { reason: "the token is longer than access.token_bytes allows" });
    }
    if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(Refusal::Unauthenticated { reason: "the token is empty or has characters that no token has" });
    }
    Ok(Some(token))
}

/// Puts a question to the API server: within one deadline, tried again when the connection or the server failed.
/// The questions are reviews, which change nothing, so that asking twice is harmless.
pub(crate) async fn ask<T, F>(deadline: Duration, what: &'static str, question: impl Fn() -> F) -> Result<T, Refusal>
where
    F: Future<Output = kube::Result<T>>,
{
    const PAUSES: [Duration; 2] = [Duration::from_millis(50), Duration::from_millis(250)];
    let attempts = async {
        for pause in PAUSES {
            match question().await {
                Err(error) if is_passing(&error) => sleep(pause).await,
                answer => return answer,
            }
        }
        question().await
    };
    match timeout(deadline, attempts).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(error)) => {
            // A status of the API server may quote what was sent; its code and reason never do.
            let (code, reason) = match &error {
                kube::Error::Api(status) => (status.code, status.reason.clone()),
                _ => (0, "no answer".to_owned()),
            };
            tracing::warn!(what, code, reason, "the API server did not answer a review");
            Err(Refusal::Unavailable { what })
        }
        Err(_) => {
            tracing::warn!(what, ?deadline, "the API server did not answer a review in time");
            Err(Refusal::Unavailable { what })
        }
    }
}

fn is_passing(error: &kube::Error) -> bool {
    match error {
        kube::Error::Api(status) => status.code == 429 || status.code >= 500,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_taken_from_bearer_or_from_the_password_of_basic() {
        const LIMIT: usize = 1024;
        let basic = |text: &str| format!("Basic {}", STANDARD.encode(text));
        let cases = [
            ("Bearer abc".to_owned(), Some("abc")),
            ("bearer  abc ".to_owned(), Some("abc")),
            (basic("user:abc"), Some("abc")),
            (basic(":abc"), Some("abc")),
            (basic("user:a:b"), Some("a:b")),
            (basic("user"), None),
            (basic("user:"), None),
            ("Basic !!!".to_owned(), None),
            ("Digest x".to_owned(), None),
            ("Bearer".to_owned(), None),
            ("Bearer a b".to_owned(), None),
            (format!("Bearer {}", "x".repeat(LIMIT + 1)), None),
        ];
        for (header, expected) in cases {
            let headers = HeaderMap::from_iter([(AUTHORIZATION, header.parse().unwrap())]);
            let found = token(&headers, LIMIT).ok().flatten();
            assert_eq!(found.as_deref().map(String::as_str), expected, "{header}");
        }
        assert_eq!(token(&HeaderMap::new(), LIMIT), Ok(None));
    }
}
