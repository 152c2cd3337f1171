//! Which state a command is about, and where the server has it.

use clap::Args;
use states::Key;

/// A state, and the store that is meant if not the one that its namespace is routed to.
#[derive(Args, Clone, Debug)]
pub struct Target {
    /// The state, by its namespace and name
    #[arg(value_name = "NAMESPACE/NAME", value_parser = key)]
    pub state: Key,
    /// A store of the server, if not the one that the namespace is routed to
    #[arg(long, value_name = "STORE")]
    pub store: Option<String>,
}

impl Target {
    /// The path of the state in the management API, and what is below it.
    pub fn path<'a>(&'a self, below: &[&'a str]) -> Vec<&'a str> {
        let mut path = vec!["api", "states", self.state.namespace(), self.state.name()];
        path.extend(below);
        path
    }

    /// The path that Terraform's clients use.
    pub fn protocol_path(&self) -> [&str; 3] {
        ["state", self.state.namespace(), self.state.name()]
    }

    pub fn store_query(&self) -> (&str, Option<&str>) {
        ("store", self.store.as_deref())
    }

    /// The query that every path below takes, and one more pair.
    pub fn query<'a>(&'a self, name: &'a str, value: Option<&'a str>) -> [(&'a str, Option<&'a str>); 2] {
        [self.store_query(), (name, value)]
    }
}

/// The path of all states.
pub const COLLECTION: [&str; 2] = ["api", "states"];

pub fn key(text: &str) -> Result<Key, String> {
    let (namespace, name) =
        text.split_once('/').ok_or_else(|| "a state is NAMESPACE/NAME, such as team-a/network".to_owned())?;
    Key::new(namespace, name)
        .map_err(|_| "a state is NAMESPACE/NAME: lower-case letters, digits and '-', in the name also '.'".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_a_namespace_and_a_name() {
        assert_eq!(key("team-a/net.prod").unwrap().to_string(), "team-a/net.prod");
        for wrong in ["", "app", "/app", "a/", "a/b/c", "A/b", "a/../b", "a.b/c"] {
            assert!(key(wrong).is_err(), "{wrong}");
        }
    }
}
