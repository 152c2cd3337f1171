//! What requests about states carry beside their path, and how it is read.

use ::http::StatusCode;
use access::http::api::Input;
use access::http::{Parameters, Problem};

use crate::key::{BadKey, Key};

/// Every path of one state takes this one too.
pub(super) const STORE: Input =
    Input::text("store", "The store to look into, if it is not the one that the namespace is routed to");
pub(super) const ID: Input = Input::text("ID", "The ID of the lock that the caller holds");
pub(super) const LIMIT: Input =
    Input::number("limit", "How many items are answered at most, 1 to 1000; 100 by default");
pub(super) const CONTINUE: Input = Input::text("continue", "The field `continue` of the answer before this one");
pub(super) const NAMESPACE: Input = Input::text("namespace", "Only this namespace");

const USUAL_LIMIT: usize = 100;
const HIGHEST_LIMIT: usize = 1000;

pub(super) fn limit(query: &mut Parameters) -> Result<usize, Problem> {
    let Some(limit) = query.whole_number(LIMIT.name)? else { return Ok(USUAL_LIMIT) };
    let fits = usize::try_from(limit).ok().filter(|limit| (1..=HIGHEST_LIMIT).contains(limit));
    fits.ok_or_else(|| {
        let hint = format!("make it a number from 1 to {HIGHEST_LIMIT}");
        Problem::bad_request("the parameter 'limit' is out of range", hint)
    })
}

pub(super) fn bad_continue() -> Problem {
    Problem::bad_request(
        "the parameter 'continue' is not one that this server gave out",
        "send the field 'continue' of the answer before, or leave it out",
    )
}

/// A namespace that the query may name.
pub(super) fn namespace(query: &mut Parameters) -> Result<Option<String>, Problem> {
    let namespace = query.text(NAMESPACE.name);
    if namespace.as_deref().is_some_and(|namespace| Key::new(namespace, "any") == Err(BadKey::Namespace)) {
        let hint = "use lower-case letters, digits and '-'";
        return Err(Problem::bad_request("the parameter 'namespace' is not a DNS label", hint));
    }
    Ok(namespace)
}

/// A text that is not too long and has no control characters.
pub(super) fn printable(field: &'static str, text: &str, longest: usize) -> Result<(), Problem> {
    if text.chars().count() > longest {
        let message = format!("the field '{field}' is longer than {longest} characters");
        return Err(Problem::new(StatusCode::BAD_REQUEST, message, "make it shorter"));
    }
    if text.contains(char::is_control) {
        let message = format!("the field '{field}' has control characters");
        return Err(Problem::bad_request(message, "send one line of text"));
    }
    Ok(())
}
