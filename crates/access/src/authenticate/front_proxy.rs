//! Front proxies: a proxy that has authenticated the caller says so in headers, and proves itself by a certificate of
//! its own authority. Without that certificate its headers are ignored.

use http::{HeaderMap, HeaderName};
use rustls::pki_types::CertificateDer;

use super::certificate::{ClientAuthority, Subject, admit};
use crate::identity::{Identity, Source};

/// A front proxy: its authority, the names that its certificate may have, and its headers.
#[derive(Clone, Debug)]
pub struct FrontProxy {
    pub authority: ClientAuthority,
    /// Common names; empty means any certificate of the authority.
    pub allowed_names: Vec<String>,
    pub headers: HeaderNames,
}

/// In which headers a proxy tells who the caller is.
#[derive(Clone, Debug)]
pub struct HeaderNames {
    pub user: Vec<HeaderName>,
    pub uid: Vec<HeaderName>,
    pub group: Vec<HeaderName>,
    pub extra_prefix: Vec<HeaderName>,
}

impl Default for HeaderNames {
    fn default() -> HeaderNames {
        HeaderNames {
            user: vec![HeaderName::from_static("x-remote-user")],
            uid: vec![HeaderName::from_static("x-remote-uid")],
            group: vec![HeaderName::from_static("x-remote-group")],
            extra_prefix: vec![HeaderName::from_static("x-remote-extra-")],
        }
    }
}

/// What certificates and headers say of the caller.
#[derive(Debug)]
pub(crate) enum Said {
    /// It is no word of a front proxy, or of no certificate that counts.
    Nothing,
    /// A front proxy passes somebody on who counts for nobody here. The proxy itself is not meant: its own certificate
    /// must not stand in.
    Nobody,
    Somebody(Identity),
}

impl FrontProxy {
    pub(crate) fn identify(
        &self,
        headers: &HeaderMap,
        chain: &[CertificateDer<'static>],
        clients: &[ClientAuthority],
    ) -> Said {
        if !self.headers.name_a_user(headers) || !self.is_allowed(chain, clients) {
            return Said::Nothing;
        }
        let identity = self.headers.identity(headers);
        identity.and_then(|identity| admit(identity, self.authority.trust())).map_or(Said::Nobody, Said::Somebody)
    }

    fn is_allowed(&self, chain: &[CertificateDer<'static>], clients: &[ClientAuthority]) -> bool {
        if self.allowed_names.is_empty() {
            // Whoever is certified by way of an authority of clients is a client, also where ours stands above that one.
            let of_clients = |certificate: &CertificateDer<'_>| clients.iter().any(|client| client.owns(certificate));
            let above = chain.iter().skip(1).filter(|certificate| !of_clients(certificate));
            let chain: Vec<_> = chain.first().into_iter().chain(above).cloned().collect();
            return self.authority.signed(&chain);
        }
        let named = |leaf| Subject::of(leaf).is_some_and(|subject| self.allowed_names.contains(&subject.common_name));
        self.authority.signed(chain) && chain.first().is_some_and(named)
    }
}

impl HeaderNames {
    fn name_a_user(&self, headers: &HeaderMap) -> bool {
        self.user.iter().any(|name| headers.contains_key(name))
    }

    fn identity(&self, headers: &HeaderMap) -> Option<Identity> {
        let values = |names: &[HeaderName]| -> Vec<String> {
            let values = names.iter().flat_map(|name| headers.get_all(name));
            values.filter_map(|value| value.to_str().ok()).filter(|text| !text.is_empty()).map(str::to_owned).collect()
        };
        let mut identity = Identity::new(Source::FrontProxy, values(&self.user).into_iter().next()?);
        identity.uid = values(&self.uid).into_iter().next();
        identity.groups = values(&self.group);
        for (name, value) in headers {
            let key = self.extra_prefix.iter().find_map(|prefix| name.as_str().strip_prefix(prefix.as_str()));
            if let (Some(key), Ok(value)) = (key.filter(|key| !key.is_empty()), value.to_str()) {
                identity.extra.entry(percent_decoded(key)).or_default().push(value.to_owned());
            }
        }
        Some(identity)
    }
}

/// Keys of extra fields are percent-encoded, because header names allow few characters; what is no valid encoding
/// stays as it is.
fn percent_decoded(key: &str) -> String {
    let mut bytes = Vec::with_capacity(key.len());
    let mut rest = key.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        let digit = |byte: Option<&u8>| byte.and_then(|&byte| char::from(byte).to_digit(16));
        if let (b'%', Some(high), Some(low)) = (first, digit(tail.first()), digit(tail.get(1))) {
            bytes.extend(u8::try_from(high * 16 + low));
            rest = &tail[2..];
        } else {
            bytes.push(first);
            rest = tail;
        }
    }
    String::from_utf8(bytes).unwrap_or_else(|_| key.to_owned())
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn headers_are_read_as_the_api_server_reads_them() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("x-remote-user", "jane"),
            ("x-remote-uid", "42"),
            ("x-remote-group", "dev"),
            ("x-remote-group", "ops"),
            ("x-remote-extra-acme.com%2fproject", "one"),
            ("x-remote-extra-acme.com%2fproject", "two"),
            ("x-remote-extra-bad%2", "kept"),
        ] {
            headers.append(name, value.parse().unwrap());
        }
        let identity = HeaderNames::default().identity(&headers).unwrap();
        assert_eq!((identity.user.as_str(), identity.uid.as_deref()), ("jane", Some("42")));
        assert_eq!(identity.groups, ["dev", "ops"]);
        assert_eq!(identity.extra["acme.com/project"], ["one", "two"]);
        assert_eq!(identity.extra["bad%2"], ["kept"]);
        for unusable in [&b""[..], b"j\xe4ne"] {
            headers.insert("x-remote-user", HeaderValue::from_bytes(unusable).unwrap());
            assert_eq!(HeaderNames::default().identity(&headers), None);
            assert!(HeaderNames::default().name_a_user(&headers));
        }
        headers.remove("x-remote-user");
        assert_eq!(HeaderNames::default().identity(&headers), None);
        assert!(!HeaderNames::default().name_a_user(&headers));
    }
}
