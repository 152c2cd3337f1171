//! The environment of this process, taken once.
//!
//! A snapshot rather than calls to `std::env`, so that every rule about variables is tested without touching the
//! process, and so that nothing reads a variable behind the back of `config check`.

use std::collections::BTreeMap;
use std::path::Path;

use crate::client::SERVICE_ACCOUNT;

/// The prefix of all our variables.
pub const PREFIX: &str = "STATEWARD_";

/// Our variables that are no keys of the configuration.
pub const OTHER_VARIABLES: &[&str] = &[
    "STATEWARD_CACHE",
    "STATEWARD_CONFIG",
    "STATEWARD_FAILPOINTS",
    "STATEWARD_SCALE",
    "STATEWARD_SEED",
    "STATEWARD_SERVER",
    "STATEWARD_TOKEN",
    "STATEWARD_TOKEN_FILE",
];

/// Variables and their values.
#[derive(Clone, Default)]
pub struct Environment(BTreeMap<String, String>);

impl Environment {
    /// The variables of this process. What is not Unicode keeps a replacement character, which the keys refuse.
    pub fn of_process() -> Environment {
        let lossy = |text: std::ffi::OsString| text.to_string_lossy().into_owned();
        Environment(std::env::vars_os().map(|(name, value)| (lossy(name), lossy(value))).collect())
    }

    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// The value, unless it is unset or empty.
    pub fn non_empty(&self, name: &str) -> Option<&str> {
        self.get(name).filter(|value| !value.is_empty())
    }

    /// Whether this process is in a Pod that has a ServiceAccount.
    pub fn is_in_pod(&self) -> bool {
        self.get("KUBERNETES_SERVICE_HOST").is_some() && Path::new(SERVICE_ACCOUNT).join("token").exists()
    }

    /// Our variables, in order.
    pub fn ours(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str).filter(|name| name.starts_with(PREFIX))
    }
}

impl<N: Into<String>, V: Into<String>> FromIterator<(N, V)> for Environment {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(variables: I) -> Environment {
        Environment(variables.into_iter().map(|(name, value)| (name.into(), value.into())).collect())
    }
}

/// Whether Kubernetes injects a variable of this form for a Service in the namespace of the Pod.
///
/// A Service called `stateward` gives `STATEWARD_SERVICE_HOST`, `STATEWARD_PORT=tcp://...`,
/// `STATEWARD_PORT_8642_TCP_ADDR`; one called `stateward-hub` gives `STATEWARD_HUB_SERVICE_HOST`.
pub fn is_service_variable(name: &str) -> bool {
    name.ends_with("_SERVICE_HOST")
        || name.ends_with("_SERVICE_PORT")
        || name.contains("_SERVICE_PORT_")
        || name.ends_with("_PORT")
        || name.contains("_PORT_")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::keys::KEYS;

    #[test]
    fn no_key_has_a_variable_that_kubernetes_may_inject() {
        let service =
            ["STATEWARD_SERVICE_HOST", "STATEWARD_PORT", "STATEWARD_PORT_8642_TCP", "STATEWARD_SERVICE_PORT_H"];
        for name in service {
            assert!(is_service_variable(name), "{name}");
        }
        for key in KEYS {
            assert!(!is_service_variable(&key.variable()), "{}", key.path);
            assert!(!OTHER_VARIABLES.contains(&key.variable().as_str()), "{}", key.path);
        }
    }
}
