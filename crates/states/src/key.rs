//! Where a state is: a namespace and a name, with the same rules on every store.

use std::fmt;

use access::http::{is_dns_label, is_dns_subdomain};

/// The namespace and name of a state; there is no other way to make one than by checking both.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    namespace: String,
    name: String,
}

/// What is wrong with a namespace or a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadKey {
    #[error("the namespace in the path is not a DNS label")]
    Namespace,
    #[error("the name in the path is not a DNS subdomain")]
    Name,
}

impl Key {
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Result<Key, BadKey> {
        let (namespace, name) = (namespace.into(), name.into());
        if !is_dns_label(&namespace) {
            return Err(BadKey::Namespace);
        }
        if !is_dns_subdomain(&name) {
            return Err(BadKey::Name);
        }
        Ok(Key { namespace, name })
    }

    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    pub fn name(&self) -> &str {
        &self.name
    }
}

impl fmt::Display for Key {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.namespace, self.name)
    }
}
