//! The search page: the query API for people, in plain HTML that a small script makes livelier.
//!
//! Everything works without the script, and everything that is shown is in the URL. Nothing is made into HTML but by [`html`],
//! which escapes. A browser shows who it is by a cookie that [`visitor`] reads here and nowhere else: the query API takes none,
//! and a form is taken from this page's own origin only.

mod act;
mod html;
mod login;
mod object;
mod rules;
mod search;
mod table;
mod visitor;

use ::http::HeaderValue;
use ::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use access::http::Problem;
use axum::Router;
use axum::extract::{Request, State};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::{get, post};

use super::{Http, changes};
use html::escape;
use visitor::Visitor;

const STYLE: &str = include_str!("assets/style.css");
const SCRIPT: &str = include_str!("assets/script.js");

pub(super) fn routes<S: Clone + Send + Sync + 'static>(http: &Http) -> Router<S> {
    let asset = |kind: &'static str, text: &'static str| {
        get(move || async move {
            let headers = [(CONTENT_TYPE, kind), (X_CONTENT_TYPE_OPTIONS, "nosniff"), (CACHE_CONTROL, "max-age=300")];
            (headers, text)
        })
    };
    Router::new()
        .route("/explore", get(search::show))
        .route("/explore/object", get(object::show))
        .route("/explore/rules", get(rules::show))
        .route("/explore/act", post(act::act))
        .route("/explore/changes", get(follow))
        .route("/explore/login", get(login::show).post(login::enter))
        .route("/explore/logout", post(login::leave))
        .with_state(http.clone())
        .route("/explore/style.css", asset("text/css; charset=utf-8", STYLE))
        .route("/explore/script.js", asset("text/javascript; charset=utf-8", SCRIPT))
}

/// The same events as `/v1/changes`, for a browser, which cannot send a header along.
async fn follow(State(http): State<Http>, request: Request) -> Result<Response, Problem> {
    let (mut parts, _body) = request.into_parts();
    visitor::present(&mut parts);
    changes::stream(http, parts).await
}

/// A page with what all pages have.
fn page(title: &str, visitor: Option<&Visitor>, content: &str) -> Response {
    let title = escape(title);
    let who = visitor.map(|visitor| {
        format!(
            "<nav><a href=\"/explore\">Search</a> <a href=\"/explore/rules\">Access rules</a></nav>\
             <form class=\"who\" method=\"post\" action=\"/explore/logout\"><span>{}</span> \
             <button>Sign out</button></form>",
            escape(&visitor.asked.identity().user)
        )
    });
    let who = who.unwrap_or_default();
    let page = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"><title>{title} · Stateward</title>\
         <link rel=\"stylesheet\" href=\"/explore/style.css\"><script src=\"/explore/script.js\" defer></script></head>\
         <body><header><a class=\"brand\" href=\"/explore\">Stateward</a>{who}</header>\n<main>{content}</main>\n{HELP}\
         </body></html>\n"
    );
    (HEADERS.map(|(name, value)| (name, HeaderValue::from_static(value))), Html(page)).into_response()
}

/// Nothing but what this server sends is run, shown or sent to; nobody frames the page; nothing is kept.
const HEADERS: [(HeaderName, &str); 4] = [
    (
        CONTENT_SECURITY_POLICY,
        "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; form-action 'self'; \
         base-uri 'none'; frame-ancestors 'none'",
    ),
    (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (REFERRER_POLICY, "same-origin"),
    (CACHE_CONTROL, "no-store"),
];

const HELP: &str = "<details id=\"help\"><summary>Help <kbd>?</kbd></summary>\
    <dl><dt><kbd>/</kbd></dt><dd>search</dd><dt><kbd>j</kbd> <kbd>k</kbd></dt><dd>next and previous row</dd>\
    <dt><kbd>[</kbd> <kbd>]</kbd></dt><dd>previous and next page</dd>\
    <dt><kbd>Enter</kbd></dt><dd>open the row</dd><dt><kbd>x</kbd></dt><dd>select the row</dd>\
    <dt><kbd>?</kbd></dt><dd>this help</dd></dl>\
    <p>Words are looked for anywhere. <code>kind:HelmRelease</code> (or <code>hr</code>), <code>ns:</code>, \
    <code>cluster:</code>, <code>status:Failed</code>, <code>tenant:</code>, <code>name:pod*</code>, \
    <code>label.app=web</code>, <code>Object.spec.interval:5m</code>, <code>is:stale</code>, <code>is:deleted</code>; \
    <code>-</code> before a condition negates it, <code>*</code> stands for anything, quotes keep words together.</p></details>";

/// A fault as a page of its own.
fn failed(visitor: Option<&Visitor>, problem: &Problem) -> Response {
    let content = format!(
        "<h1>That did not work</h1><p class=\"fault\" role=\"alert\">{}</p><p>{}</p>",
        escape(&problem.message),
        escape(&problem.hint)
    );
    let mut response = page("That did not work", visitor, &content);
    *response.status_mut() = problem.status;
    response
}
