//! A browser: who it says it is, and whether a form comes from our own page.
//!
//! The token is in a cookie that scripts cannot read, that no other site's request carries along, and that counts under
//! `/explore` only. It is the caller's own token and nothing that the server remembers, so that it ends when the token does.

use ::http::header::{AUTHORIZATION, COOKIE, HOST, HeaderMap, HeaderValue, LOCATION, ORIGIN, SET_COOKIE};
use ::http::request::Parts;
use ::http::{StatusCode, Uri};
use access::http::Problem;
use axum::extract::{FromRequestParts, Query};
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::super::asked::Asked;
use super::super::{Http, Transport};
use super::html::encoded;

const NAME: &str = "stateward_session";
/// What browsers keep of a cookie, without its name.
const LONGEST: usize = 4000;

/// Somebody at a browser who was let in.
#[derive(Debug)]
pub(super) struct Visitor {
    pub(super) asked: Asked,
}

impl FromRequestParts<Http> for Visitor {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, http: &Http) -> Result<Visitor, Response> {
        present(parts);
        match Asked::from_request_parts(parts, http).await {
            Ok(asked) => Ok(Visitor { asked }),
            Err(problem) if problem.status == StatusCode::UNAUTHORIZED => Err(to_login(&parts.uri)),
            Err(problem) => Err(super::failed(None, &problem)),
        }
    }
}

impl Visitor {
    /// The parameters of the URL. The page is lenient: what it does not know it does not look at.
    pub(super) fn parameters(&self) -> Pairs {
        Pairs::of(&self.asked.uri)
    }
}

/// Names and values of a query or a form.
#[derive(Clone, Debug, Default)]
pub(super) struct Pairs(Vec<(String, String)>);

impl Pairs {
    fn of(uri: &Uri) -> Pairs {
        Pairs(Query::try_from_uri(uri).map(|Query(pairs)| pairs).unwrap_or_default())
    }

    /// A form as browsers send it.
    pub(super) fn form(body: &str) -> Option<Pairs> {
        let uri = Uri::try_from(format!("/?{body}")).ok()?;
        Query::try_from_uri(&uri).map(|Query(pairs)| Pairs(pairs)).ok()
    }

    pub(super) fn one(&self, name: &str) -> &str {
        self.0.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value)
    }

    pub(super) fn all(&self, name: &str) -> Vec<String> {
        self.0.iter().filter(|(known, _)| known == name).map(|(_, value)| value.clone()).collect()
    }
}

/// Turns the cookie into the header that the gate looks at, unless the request has one of its own.
pub(super) fn present(parts: &mut Parts) {
    if parts.headers.contains_key(AUTHORIZATION) {
        return;
    }
    let header = cookie(&parts.headers).and_then(|token| HeaderValue::from_str(&format!("Bearer {token}")).ok());
    if let Some(mut header) = header {
        header.set_sensitive(true);
        parts.headers.insert(AUTHORIZATION, header);
    }
    parts.headers.remove(COOKIE);
}

fn cookie(headers: &HeaderMap) -> Option<String> {
    let texts = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    let value =
        texts.flat_map(|text| text.split(';')).find_map(|pair| pair.trim().strip_prefix(NAME)?.strip_prefix('='));
    String::from_utf8(URL_SAFE_NO_PAD.decode(value?).ok()?).ok().filter(|token| !token.is_empty())
}

/// A cookie with a token; `None` for one that no browser would keep.
pub(super) fn keep(token: &str, transport: Transport) -> Option<[(::http::HeaderName, HeaderValue); 1]> {
    let value = URL_SAFE_NO_PAD.encode(token);
    if value.len() > LONGEST {
        return None;
    }
    set(&value, "", transport)
}

/// A cookie that takes the token away.
pub(super) fn forget(transport: Transport) -> Option<[(::http::HeaderName, HeaderValue); 1]> {
    set("", "; Max-Age=0", transport)
}

fn set(value: &str, life: &str, transport: Transport) -> Option<[(::http::HeaderName, HeaderValue); 1]> {
    let secure = match transport {
        Transport::Tls => "; Secure",
        Transport::Plain => "",
    };
    let cookie = format!("{NAME}={value}; Path=/explore; HttpOnly; SameSite=Strict{secure}{life}");
    let mut header = HeaderValue::from_str(&cookie).ok()?;
    header.set_sensitive(true);
    Some([(SET_COOKIE, header)])
}

/// Forms are taken from our own page only. A browser that says where a form comes from is believed; one that does not is asked
/// for the origin, which every browser sends with a POST.
pub(super) fn from_own_page(headers: &HeaderMap) -> Result<(), Problem> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let own = if let Some(site) = text("sec-fetch-site") {
        site == "same-origin"
    } else {
        let host = text(HOST.as_str());
        let origin = text(ORIGIN.as_str()).and_then(|origin| origin.split_once("://")).map(|(_, host)| host);
        host.is_some() && origin == host
    };
    if own {
        return Ok(());
    }
    let message = "this form does not come from this server's own page";
    Err(Problem::new(StatusCode::FORBIDDEN, message, "open /explore and do it there"))
}

fn to_login(uri: &Uri) -> Response {
    let here = uri.path_and_query().map_or("/explore", |path| path.as_str());
    to(&format!("/explore/login?next={}", encoded(here)))
}

/// Sends the browser to another page, which it gets.
pub(super) fn to(place: &str) -> Response {
    let place = HeaderValue::from_str(place).unwrap_or(HeaderValue::from_static("/explore"));
    (StatusCode::SEE_OTHER, [(LOCATION, place)]).into_response()
}

/// A page of ours that a parameter names; anything else is the search page.
pub(super) fn own_page(next: &str) -> &str {
    let ours = next == "/explore" || ["/explore?", "/explore/"].iter().any(|start| next.starts_with(start));
    if ours && next.bytes().all(|byte| byte.is_ascii_graphic()) { next } else { "/explore" }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
    }

    #[test]
    fn a_cookie_holds_a_token_and_nothing_of_it_leaks_into_other_fields() {
        let set = |token: &str, transport| {
            let [(_, value)] = keep(token, transport).unwrap();
            assert!(value.is_sensitive());
            value.to_str().unwrap().to_owned()
        };
        let text = set("a;b=\"c", Transport::Tls);
        for part in ["HttpOnly", "SameSite=Strict", "Path=/explore", "Secure"] {
            assert!(text.contains(part), "{text}");
        }
        assert!(!set("x", Transport::Plain).contains("Secure"));
        let sent = text.split(';').next().unwrap();
        assert_eq!(cookie(&headers(&[("cookie", &format!("other=1; {sent}"))])).as_deref(), Some("a;b=\"c"));
        for bad in ["", "stateward_session=", "stateward_session=%%", "stateward_sessions=YQ"] {
            assert_eq!(cookie(&headers(&[("cookie", bad)])), None, "{bad}");
        }
        assert!(keep(&"x".repeat(LONGEST), Transport::Tls).is_none());
    }

    #[test]
    fn forms_of_other_sites_are_refused() {
        let table: &[(&[(&'static str, &str)], bool)] = &[
            (&[("sec-fetch-site", "same-origin")], true),
            (&[("sec-fetch-site", "same-site")], false),
            (&[("sec-fetch-site", "cross-site"), ("origin", "http://a"), ("host", "a")], false),
            (&[("sec-fetch-site", "none")], false),
            (&[("origin", "http://a:1"), ("host", "a:1")], true),
            (&[("origin", "https://evil"), ("host", "a:1")], false),
            (&[("origin", "null"), ("host", "a:1")], false),
            (&[("host", "a:1")], false),
            (&[], false),
        ];
        for (pairs, expected) in table {
            assert_eq!(from_own_page(&headers(pairs)).is_ok(), *expected, "{pairs:?}");
        }
    }

    #[test]
    fn nobody_is_sent_to_another_site() {
        for (next, place) in [
            ("/explore?q=a", "/explore?q=a"),
            ("/explore/object?id=x", "/explore/object?id=x"),
            ("https://evil.example/", "/explore"),
            ("//evil.example/explore", "/explore"),
            ("/explorer", "/explore"),
            ("/explore\r\nSet-Cookie: x", "/explore"),
            ("", "/explore"),
        ] {
            assert_eq!(own_page(next), place, "{next}");
        }
    }
}
