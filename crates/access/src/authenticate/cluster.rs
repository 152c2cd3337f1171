//! The authorities that the API server itself uses, as it publishes them for extensions.

use std::time::Duration;

use http::HeaderName;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::Api;
use tokio::time::timeout;

use super::certificate::{Authorities, AuthorityError, ClientAuthority, Trust};
use super::front_proxy::{FrontProxy, HeaderNames};

const NAMESPACE: &str = "kube-system";
const NAME: &str = "extension-apiserver-authentication";

/// Reads the client CA and the front-proxy settings of the cluster; what it publishes may speak of `system:` names.
/// Needs the Role `extension-apiserver-authentication-reader` in `kube-system`.
pub async fn cluster_authorities(client: kube::Client, deadline: Duration) -> Result<Authorities, AuthorityError> {
    let maps: Api<ConfigMap> = Api::namespaced(client, NAMESPACE);
    let late = || AuthorityError::Lookup(Box::new(kube::Error::Service("no answer in time".into())));
    let map = timeout(deadline, maps.get(NAME)).await.map_err(|_| late())?.map_err(Box::new)?;
    let data = map.data.unwrap_or_default();
    let field = |name: &str| data.get(name).map(String::as_str).filter(|text| !text.trim().is_empty());

    let mut authorities = Authorities::default();
    if let Some(pem) = field("client-ca-file") {
        authorities.clients.push(authority("client-ca-file", pem)?);
    }
    if let Some(pem) = field("requestheader-client-ca-file") {
        let list = |name: &'static str| strings(name, field(name));
        let headers = |name: &'static str| {
            let parsed = list(name)?.iter().map(|name| name.parse::<HeaderName>()).collect::<Result<_, _>>();
            parsed.map_err(|_| AuthorityError::Damaged { field: name })
        };
        authorities.front_proxies.push(FrontProxy {
            authority: authority("requestheader-client-ca-file", pem)?,
            allowed_names: list("requestheader-allowed-names")?,
            headers: HeaderNames {
                user: headers("requestheader-username-headers")?,
                uid: headers("requestheader-uid-headers")?,
                group: headers("requestheader-group-headers")?,
                extra_prefix: headers("requestheader-extra-headers-prefix")?,
            },
        });
    }
    Ok(authorities)
}

fn authority(field: &str, pem: &str) -> Result<ClientAuthority, AuthorityError> {
    ClientAuthority::from_pem(&format!("the field '{field}' of {NAMESPACE}/{NAME}"), pem.as_bytes(), Trust::System)
}

fn strings(field: &'static str, json: Option<&str>) -> Result<Vec<String>, AuthorityError> {
    json.map_or(Ok(Vec::new()), |json| serde_json::from_str(json).map_err(|_| AuthorityError::Damaged { field }))
}
