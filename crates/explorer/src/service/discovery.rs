//! Which of the wanted kinds a cluster serves, in which version and under which plural.
//!
//! Only the groups that are wanted are asked for, so that a broken extension of the API server disturbs nobody else.

use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{APIGroup, APIResourceList};
use kube::Client;
use kube::api::ApiResource;
use tokio::time::timeout;

use crate::kinds::KindSpec;

/// How the cluster serves a kind; `None` while it does not, or cannot be asked.
pub(crate) async fn resolve(client: &Client, spec: &KindSpec, deadline: Duration) -> Option<ApiResource> {
    let versions = match &spec.version {
        Some(version) => vec![version.clone()],
        None if spec.group.is_empty() => vec!["v1".to_owned()],
        None => versions(client, &spec.group, deadline).await?,
    };
    for version in versions {
        let listed = async {
            if spec.group.is_empty() {
                client.list_core_api_resources(&version).await
            } else {
                client.list_api_group_resources(&format!("{}/{version}", spec.group)).await
            }
        };
        let listed = timeout(deadline, listed).await.ok()?;
        let Ok(listed) = listed else { continue };
        if let Some(plural) = plural(&listed, &spec.kind) {
            let api_version = if spec.group.is_empty() { version.clone() } else { format!("{}/{version}", spec.group) };
            let (group, kind) = (spec.group.clone(), spec.kind.clone());
            return Some(ApiResource { group, version, api_version, kind, plural });
        }
    }
    None
}

/// The versions of a group, the preferred one first.
async fn versions(client: &Client, group: &str, deadline: Duration) -> Option<Vec<String>> {
    let request = http::Request::get(format!("/apis/{group}")).body(Vec::new()).ok()?;
    let found: APIGroup = timeout(deadline, client.request(request)).await.ok()?.ok()?;
    let preferred = found.preferred_version.map(|preferred| preferred.version);
    let others = found.versions.into_iter().map(|version| version.version);
    let others: Vec<String> = others.filter(|version| Some(version) != preferred.as_ref()).collect();
    Some(preferred.into_iter().chain(others).collect())
}

/// The plural of a kind that can be followed.
fn plural(listed: &APIResourceList, kind: &str) -> Option<String> {
    let can = |verbs: &[String], verb: &str| verbs.iter().any(|known| known == verb);
    let found = listed.resources.iter().find(|resource| {
        resource.kind == kind
            && !resource.name.contains('/')
            && can(&resource.verbs, "list")
            && can(&resource.verbs, "watch")
    });
    found.map(|resource| resource.name.clone())
}
