//! Why the service refuses or fails. Whoever answers a caller tells the faults of input as 4xx and the others as 5xx; no text
//! holds a credential, or what a cluster said about one.

use crate::durable;

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Bad input: which field, what is wrong, what to do.
    #[error("{field}: {fault}")]
    Invalid { field: String, fault: String },

    #[error("there is no cluster named '{name}'")]
    NoSuchCluster { name: String },

    #[error("there is a cluster named '{name}' already: remove it first, or choose another name")]
    NameTaken { name: String },

    /// Two names for one cluster would show every object twice.
    #[error("this cluster (uid {uid}) is already here as '{name}': remove that first")]
    SameCluster { name: String, uid: String },

    /// It came by the configuration or by a Secret, and goes by them.
    #[error("the cluster '{name}' comes from {source_name} and is removed there")]
    NotAdded { name: String, source_name: &'static str },

    /// A new cluster must answer once, so that it is known which it is.
    #[error("the cluster cannot be asked which it is: {reason}")]
    Unreachable { reason: String },

    /// Nobody can tell now what is allowed there.
    #[error("nothing is shown of the cluster '{cluster}' for now: {reason}")]
    Withheld { cluster: String, reason: String },

    #[error(transparent)]
    Copy(#[from] durable::Error),

    #[error("failed to use the database: {0}")]
    Db(#[from] db::Error),

    #[error("failed to follow a cluster: {0}")]
    Watch(#[from] watch::Error),

    #[error("failed to seal or open the credentials of a cluster: {0}")]
    Seal(String),

    #[error("the explorer is closed")]
    Closed,
}

impl Error {
    pub(crate) fn invalid(field: impl Into<String>, fault: impl Into<String>) -> Error {
        Error::Invalid { field: field.into(), fault: fault.into() }
    }
}
