//! Why a request does not pass.
//!
//! Policy: the caller is told what is missing and whom to ask, never what was presented; causes from other systems go
//! to the log (once, where they are handled), because their texts are not ours to vouch for.

use thiserror::Error;

use crate::action::Action;

/// Every way in which the gate says no.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum Refusal {
    /// 401: nobody vouched for the caller.
    #[error("not authenticated: {reason}")]
    Unauthenticated { reason: &'static str },
    /// 403: the caller is known and may not.
    #[error("user '{user}' may not {action}")]
    Forbidden { user: String, action: Box<Action> },
    /// 503: the question could not be answered, so the answer is no for the moment.
    #[error("{what} is not available at the moment")]
    Unavailable { what: &'static str },
    /// 429: too much at once already, by the limit of this setting.
    #[error("too many {what}")]
    Busy { what: &'static str, setting: &'static str },
}

impl Refusal {
    /// What the caller can do about it.
    pub fn hint(&self) -> String {
        match self {
            Refusal::Unauthenticated { .. } => {
                "send a token as 'Authorization: Bearer TOKEN' or as the password of Basic, or a client certificate"
                    .into()
            }
            Refusal::Forbidden { action, .. } => match action.as_ref() {
                Action::NonResource { verb, path } => {
                    format!("ask for a role with the verb '{verb}' on the nonResourceURL '{path}'")
                }
                Action::Resource { verb, group, resource, subresource, .. } => {
                    let slash = if subresource.is_some() { "/" } else { "" };
                    let subresource = subresource.unwrap_or_default();
                    format!(
                        "ask for a role with the verb '{verb}' on '{resource}{slash}{subresource}' of the API group '{group}'"
                    )
                }
            },
            Refusal::Unavailable { .. } => "nothing was changed; try again in a few seconds".into(),
            Refusal::Busy { setting, .. } => {
                format!("nothing was changed; try again in a few seconds, or ask the operator to raise {setting}")
            }
        }
    }
}
