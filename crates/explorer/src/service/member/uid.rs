//! Which cluster answers: the uid of its namespace kube-system.

use std::fmt;
use std::time::Duration;

use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, Client};
use tokio::time::timeout;
use watch::Why;

use crate::service::error::Error;

/// Why it is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unknown {
    /// An answer with this status.
    Refused(u16),
    NoConnection,
    Silent,
    /// There is a namespace, without a uid.
    Nameless,
}

/// The uid of the cluster, for those who tell people why there is none.
pub(crate) async fn find(client: &Client, deadline: Duration) -> Result<String, Error> {
    ask(client, deadline).await.map_err(|unknown| Error::Unreachable { reason: unknown.to_string() })
}

pub(super) async fn ask(client: &Client, deadline: Duration) -> Result<String, Unknown> {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    match timeout(deadline, namespaces.get("kube-system")).await {
        Ok(Ok(found)) => found.metadata.uid.ok_or(Unknown::Nameless),
        Ok(Err(kube::Error::Api(status))) => Err(Unknown::Refused(status.code)),
        Ok(Err(_)) => Err(Unknown::NoConnection),
        Err(_elapsed) => Err(Unknown::Silent),
    }
}

impl Unknown {
    /// What it means for a stream.
    pub(super) fn why(self) -> Why {
        match self {
            Unknown::Refused(401) => Why::Unauthorized,
            Unknown::Refused(403) => Why::Forbidden,
            Unknown::Refused(429) => Why::Busy,
            Unknown::Refused(500..) => Why::Failing,
            Unknown::Refused(_) | Unknown::Nameless => Why::Refused,
            Unknown::NoConnection | Unknown::Silent => Why::Unreachable,
        }
    }
}

impl fmt::Display for Unknown {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Unknown::Refused(401) => "it refuses the credentials: renew them",
            Unknown::Refused(403) => "permission is missing: grant get on the namespace kube-system",
            Unknown::Refused(404) => "it has no namespace kube-system: is this an API server?",
            Unknown::Refused(code) => return write!(formatter, "it answered with status {code}"),
            Unknown::NoConnection => {
                "there is no connection: check the server's address and certificate-authority-data"
            }
            Unknown::Silent => "it does not answer in time",
            Unknown::Nameless => "its namespace kube-system has no uid",
        })
    }
}
