//! Signing in with a token, and out again.

use ::http::StatusCode;
use ::http::header::{AUTHORIZATION, HeaderValue};
use access::http::{Caller, Problem};
use axum::body::Bytes;
use axum::extract::{FromRequest as _, FromRequestParts as _, Request, State};
use axum::response::{IntoResponse, Response};

use super::super::Http;
use super::html::escape;
use super::visitor::{Pairs, forget, from_own_page, keep, own_page, to};
use super::{failed, page};

pub(super) async fn show(request: Request) -> Response {
    let pairs = Pairs::form(request.uri().query().unwrap_or_default()).unwrap_or_default();
    form(own_page(pairs.one("next")), None)
}

/// Takes the token into the cookie, if the gate lets it in.
pub(super) async fn enter(State(http): State<Http>, request: Request) -> Response {
    let (mut parts, body) = request.into_parts();
    if let Err(problem) = from_own_page(&parts.headers) {
        return failed(None, &problem);
    }
    let Some(pairs) = read(Request::from_parts(parts.clone(), body)).await else {
        return form("/explore", Some("The form did not arrive whole."));
    };
    let (token, next) = (pairs.one("token").trim(), own_page(pairs.one("next")).to_owned());
    let Ok(mut header) = HeaderValue::from_str(&format!("Bearer {token}")) else {
        return form(&next, Some("That is not a token."));
    };
    header.set_sensitive(true);
    parts.headers.insert(AUTHORIZATION, header);
    match Caller::from_request_parts(&mut parts, &http).await {
        Ok(_) => match keep(token, http.settings().transport) {
            Some(cookie) => (cookie, to(&next)).into_response(),
            None => form(&next, Some("The token is too long for a browser to keep; use a shorter one.")),
        },
        Err(problem) if problem.status == StatusCode::UNAUTHORIZED => {
            form(&next, Some("This server does not know the token, or it has ended."))
        }
        Err(problem) => failed(None, &problem),
    }
}

pub(super) async fn leave(State(http): State<Http>, request: Request) -> Response {
    match from_own_page(request.headers()) {
        Ok(()) => match forget(http.settings().transport) {
            Some(cookie) => (cookie, to("/explore/login")).into_response(),
            None => failed(None, &Problem::unavailable("the cookie cannot be taken back")),
        },
        Err(problem) => failed(None, &problem),
    }
}

/// A form; `None` for what is none.
pub(super) async fn read(request: Request) -> Option<Pairs> {
    let bytes = Bytes::from_request(request, &()).await.ok()?;
    Pairs::form(std::str::from_utf8(&bytes).ok()?)
}

fn form(next: &str, fault: Option<&str>) -> Response {
    let told =
        fault.map(|fault| format!("<p class=\"fault\" role=\"alert\">{}</p>", escape(fault))).unwrap_or_default();
    let content = format!(
        "<h1>Sign in</h1>{told}<form class=\"login\" method=\"post\" action=\"/explore/login\">\
         <label for=\"token\">Token</label><input id=\"token\" name=\"token\" type=\"password\" required \
         autocomplete=\"off\" autofocus><input type=\"hidden\" name=\"next\" value=\"{}\"><button>Sign in</button></form>\
         <p>Beside a cluster: <code>kubectl create token NAME</code>. Standalone: <code>stateward token create NAME</code>.</p>",
        escape(next)
    );
    let mut response = page("Sign in", None, &content);
    if fault.is_some() {
        *response.status_mut() = StatusCode::UNAUTHORIZED;
    }
    response
}
