//! Where backends may be: a list of patterns that their addresses have to match. Pure.

/// Addresses of backends that are let through. Empty lets all through: whoever may register a backend may name any.
///
/// A pattern is `host:port`, in which `*` stands for anything within its part, such as `*.storage.svc:50051` or
/// `127.0.0.1:*`; with a scheme before it (`https://*:*`) it lets through that scheme only. `unix:/run/*` is for sockets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AllowedUrls(Vec<Address>);

/// Why an address, or a pattern of them, is of no use.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    #[error("url: it must be host:port, alone or after http://, https://, grpc:// or grpcs://, or unix:/path")]
    Form,
    #[error("url: this server does not let backends be there; ask for it in hub.allowed_urls, or use another address")]
    NotAllowed,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Address {
    scheme: Option<String>,
    host: String,
    port: String,
}

impl AllowedUrls {
    pub fn parse<'a>(patterns: impl IntoIterator<Item = &'a str>) -> Result<AllowedUrls, UrlError> {
        patterns.into_iter().map(Address::parse).collect::<Result<_, _>>().map(AllowedUrls)
    }

    pub fn check(&self, url: &str) -> Result<(), UrlError> {
        let address = Address::parse(url)?;
        if address.host.contains('*') || address.port.contains('*') {
            return Err(UrlError::Form);
        }
        let matches = |pattern: &Address| {
            let scheme = match &pattern.scheme {
                // Hosts and sockets are different things: one is not let through with the other.
                None => address.scheme.as_deref() != Some("unix"),
                scheme => *scheme == address.scheme,
            };
            scheme && matches(&pattern.host, &address.host) && matches(&pattern.port, &address.port)
        };
        if self.0.is_empty() || self.0.iter().any(matches) { Ok(()) } else { Err(UrlError::NotAllowed) }
    }
}

impl Address {
    fn parse(text: &str) -> Result<Address, UrlError> {
        if let Some(path) = text.strip_prefix("unix:") {
            let good = path.starts_with('/') && !path.contains("..") && !path.chars().any(char::is_control);
            let address = Address { scheme: Some("unix".to_owned()), host: path.to_owned(), port: String::new() };
            return if good { Ok(address) } else { Err(UrlError::Form) };
        }
        let (scheme, rest) = match text.split_once("://") {
            Some((scheme @ ("http" | "https" | "grpc" | "grpcs"), rest)) => (Some(scheme.to_owned()), rest),
            Some(_) => return Err(UrlError::Form),
            None => (None, text),
        };
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        let (host, port) = rest.rsplit_once(':').ok_or(UrlError::Form)?;
        let inner = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || b".-_*".contains(&byte);
        let host_is_good = match inner {
            Some(inner) => {
                !inner.is_empty() && inner.bytes().all(|byte| byte.is_ascii_hexdigit() || b":.*".contains(&byte))
            }
            None => !host.is_empty() && host.bytes().all(fits),
        };
        let port_is_good = port.contains('*') || port.parse::<u16>().is_ok_and(|port| port > 0);
        if host_is_good && port_is_good {
            Ok(Address { scheme, host: host.to_ascii_lowercase(), port: port.to_owned() })
        } else {
            Err(UrlError::Form)
        }
    }
}

/// Whether a text is the pattern, in which each `*` is any text.
fn matches(pattern: &str, text: &str) -> bool {
    let Some((before, rest)) = pattern.split_once('*') else { return pattern == text };
    let Some(text) = text.strip_prefix(before) else { return false };
    (0..=text.len()).filter(|end| text.is_char_boundary(*end)).any(|end| matches(rest, &text[end..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_that_match_pass() {
        let table: &[(&[&str], &str, Result<(), UrlError>)] = &[
            (&[], "helm-release.default:50051", Ok(())),
            (&[], "10.0.0.1:50051", Ok(())),
            (&[], "https://vault.example.com:8200/", Ok(())),
            (&[], "[::1]:50051", Ok(())),
            (&[], "helm-release", Err(UrlError::Form)),
            (&[], ":50051", Err(UrlError::Form)),
            (&[], "user@host:1", Err(UrlError::Form)),
            (&[], "ftp://host:1", Err(UrlError::Form)),
            (&[], "host:1/path", Err(UrlError::Form)),
            (&[], "*:1", Err(UrlError::Form)),
            (&["127.0.0.1:*", "*.svc:50051"], "127.0.0.1:7", Ok(())),
            (&["127.0.0.1:*", "*.svc:50051"], "http://a.b.SVC:50051", Ok(())),
            (&["127.0.0.1:*", "*.svc:50051"], "a.svc:50052", Err(UrlError::NotAllowed)),
            (&["127.0.0.1:*"], "127.0.0.1.example.com:7", Err(UrlError::NotAllowed)),
            (&["https://*:*"], "a:1", Err(UrlError::NotAllowed)),
            (&["https://*:*"], "https://a:1", Ok(())),
            (&[], "unix:/run/a.sock", Ok(())),
            (&["*:*"], "unix:/run/a.sock", Err(UrlError::NotAllowed)),
            (&["unix:/run/*"], "unix:/run/a.sock", Ok(())),
            (&["unix:/run/*"], "unix:/run/../etc/a.sock", Err(UrlError::Form)),
        ];
        for (patterns, url, expected) in table {
            let allowed = AllowedUrls::parse(patterns.iter().copied()).unwrap();
            assert_eq!(allowed.check(url), *expected, "{url} by {patterns:?}");
        }
        assert_eq!(AllowedUrls::parse(["nothing"]), Err(UrlError::Form));
    }
}
