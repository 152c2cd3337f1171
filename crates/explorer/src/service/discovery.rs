//! Which of the wanted kinds a cluster serves, in which version and under which plural.
//!
//! The cluster is asked for its whole table of contents (aggregated discovery) with the tag of the last one: as long as nothing
//! changed, that is one answer without a body, however many kinds are waited for. An API server that has no such table is asked
//! group by group, less and less often. A kind is *not served* only if the cluster says so: what cannot be asked is unknown.

use std::sync::Arc;
use std::time::Duration;

use http::header::{ACCEPT, ETAG, IF_NONE_MATCH};
use http::{HeaderValue, Request, StatusCode};
use http_body_util::BodyExt as _;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{APIGroup, APIResourceList};
use kube::Client;
use kube::api::ApiResource;
use kube::client::Body;
use kube::core::discovery::v2::{APIGroupDiscovery, APIGroupDiscoveryList, APIVersionDiscovery};
use serde::Deserialize;
use tokio::time::timeout;

use crate::kinds::KindSpec;

/// The table of contents, or whatever an older server has in its place.
const TABLE: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";
/// A server without a table is left alone for at most so many looks.
const LONGEST_REST: u32 = 6;

/// Whether a cluster serves a kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Served {
    As(Resource),
    No,
    /// It could not be asked, or an extension of it does not answer.
    Unknown,
}

/// How a cluster serves a kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Resource {
    pub(crate) resource: ApiResource,
    /// Whether its objects live in namespaces.
    pub(crate) namespaced: bool,
}

/// What is known of a cluster.
pub(crate) struct Discovery {
    client: Client,
    deadline: Duration,
    /// All kinds that are ever asked for.
    wanted: Arc<[KindSpec]>,
    /// Of the core group, and of all others.
    tables: [Table; 2],
}

#[derive(Debug)]
struct Table {
    path: &'static str,
    known: Known,
}

#[derive(Debug)]
enum Known {
    Nothing,
    /// The groups of wanted kinds, with the tag under which the cluster keeps them.
    Groups {
        tag: Option<HeaderValue>,
        groups: Vec<APIGroupDiscovery>,
    },
    /// It has none, and is asked group by group: how many looks it is left alone, and how many the next time.
    NoTable {
        rest: u32,
        next: u32,
    },
}

impl Discovery {
    pub(crate) fn new(client: Client, deadline: Duration, wanted: Arc<[KindSpec]>) -> Discovery {
        let table = |path| Table { path, known: Known::Nothing };
        Discovery { client, deadline, wanted, tables: [table("/api"), table("/apis")] }
    }

    /// Asks what changed, where it concerns these kinds.
    pub(crate) async fn look(&mut self, missing: &[&KindSpec]) {
        let wanted: Vec<&str> = self.wanted.iter().map(|spec| spec.group.as_str()).collect();
        for table in self.tables.iter_mut().filter(|table| missing.iter().any(|spec| table.has(&spec.group))) {
            let asked = timeout(self.deadline, table.ask(&self.client, &wanted)).await;
            // What was known before may be true no more.
            table.known = asked.ok().flatten().unwrap_or(Known::Nothing);
        }
    }

    /// How a kind is served, as of the last look.
    pub(crate) async fn served(&self, spec: &KindSpec) -> Served {
        let table = self.tables.iter().find(|table| table.has(&spec.group));
        match table.map(|table| &table.known) {
            Some(Known::Groups { groups, .. }) => in_groups(groups, spec),
            Some(Known::NoTable { rest: 0, .. }) => {
                let asked = timeout(self.deadline, ask_group(&self.client, spec)).await;
                asked.unwrap_or(Served::Unknown)
            }
            Some(Known::NoTable { .. } | Known::Nothing) | None => Served::Unknown,
        }
    }
}

impl Table {
    fn has(&self, group: &str) -> bool {
        (self.path == "/api") == group.is_empty()
    }

    /// What is known now; `None` if there was no answer.
    async fn ask(&mut self, client: &Client, wanted: &[&str]) -> Option<Known> {
        let known = match std::mem::replace(&mut self.known, Known::Nothing) {
            // Groups were asked for after the last look.
            Known::NoTable { rest: 0, next } => {
                return Some(Known::NoTable { rest: next, next: (next * 2).min(LONGEST_REST) });
            }
            Known::NoTable { rest, next } => return Some(Known::NoTable { rest: rest - 1, next }),
            known => known,
        };
        let mut request = Request::get(self.path).header(ACCEPT, TABLE);
        if let Known::Groups { tag: Some(tag), .. } = &known {
            request = request.header(IF_NONE_MATCH, tag);
        }
        let response = client.send(request.body(Body::empty()).ok()?).await.ok()?;
        match response.status() {
            StatusCode::NOT_MODIFIED => Some(known),
            StatusCode::OK => {
                let tag = response.headers().get(ETAG).cloned();
                let text = response.into_body().collect().await.ok()?.to_bytes();
                Some(read(&text, tag, wanted))
            }
            _ => None,
        }
    }
}

/// An answer that is no table is the list of an older server.
fn read(text: &[u8], tag: Option<HeaderValue>, wanted: &[&str]) -> Known {
    #[derive(Deserialize)]
    struct Typed {
        kind: String,
    }
    let typed = serde_json::from_slice::<Typed>(text);
    let table = serde_json::from_slice::<APIGroupDiscoveryList>(text);
    match (typed, table) {
        (Ok(typed), Ok(table)) if typed.kind == "APIGroupDiscoveryList" => {
            let groups = table.items.into_iter().filter(|group| wanted.contains(&name_of(group)));
            Known::Groups { tag, groups: groups.collect() }
        }
        (Ok(_), _) => Known::NoTable { rest: 0, next: 1 },
        (Err(_), _) => Known::Nothing,
    }
}

fn name_of(group: &APIGroupDiscovery) -> &str {
    group.metadata.as_ref().and_then(|metadata| metadata.name.as_deref()).unwrap_or_default()
}

fn in_groups(groups: &[APIGroupDiscovery], spec: &KindSpec) -> Served {
    let Some(group) = groups.iter().find(|group| name_of(group) == spec.group) else { return Served::No };
    let named = |version: &&APIVersionDiscovery| spec.version.is_none() || version.version == spec.version;
    // The preferred one comes first.
    let versions: Vec<&APIVersionDiscovery> = group.versions.iter().filter(named).collect();
    let found = versions.iter().find_map(|version| resource_in(version, spec));
    match found {
        Some(resource) => Served::As(resource),
        // An extension that does not answer is in the table with what it had, or with nothing.
        None if versions.iter().any(|version| version.freshness.as_deref() == Some("Stale")) => Served::Unknown,
        None => Served::No,
    }
}

fn resource_in(version: &APIVersionDiscovery, spec: &KindSpec) -> Option<Resource> {
    let found = version.resources.iter().find(|resource| {
        resource.response_kind.as_ref().is_some_and(|found| found.kind.as_deref() == Some(&*spec.kind))
            && can_be_followed(&resource.verbs)
    });
    let found = found?;
    let namespaced = found.scope.as_deref() != Some("Cluster");
    Some(Resource { resource: resource(spec, version.version.clone()?, found.resource.clone()?), namespaced })
}

/// The same from a server without a table. Only the group that is wanted is asked for, so that a broken extension of the API
/// server disturbs nobody else.
async fn ask_group(client: &Client, spec: &KindSpec) -> Served {
    let versions = match &spec.version {
        Some(version) => Ok(vec![version.clone()]),
        None if spec.group.is_empty() => Ok(vec!["v1".to_owned()]),
        None => versions(client, &spec.group).await,
    };
    let versions = match versions {
        Ok(versions) => versions,
        Err(error) => return refused(&error),
    };
    let mut served = Served::No;
    for version in versions {
        let listed = if spec.group.is_empty() {
            client.list_core_api_resources(&version).await
        } else {
            client.list_api_group_resources(&format!("{}/{version}", spec.group)).await
        };
        match listed {
            Ok(listed) => {
                if let Some((plural, namespaced)) = plural(&listed, &spec.kind) {
                    return Served::As(Resource { resource: resource(spec, version, plural), namespaced });
                }
            }
            Err(error) if refused(&error) == Served::No => {}
            Err(_) => served = Served::Unknown,
        }
    }
    served
}

/// The versions of a group, the preferred one first.
async fn versions(client: &Client, group: &str) -> kube::Result<Vec<String>> {
    let request = Request::get(format!("/apis/{group}")).body(Vec::new()).map_err(kube::Error::HttpError)?;
    let found: APIGroup = client.request(request).await?;
    let preferred = found.preferred_version.map(|preferred| preferred.version);
    let others = found.versions.into_iter().map(|version| version.version);
    let others: Vec<String> = others.filter(|version| Some(version) != preferred.as_ref()).collect();
    Ok(preferred.into_iter().chain(others).collect())
}

/// Only a 404 says that something is not there.
fn refused(error: &kube::Error) -> Served {
    match error {
        kube::Error::Api(status) if status.code == 404 => Served::No,
        _ => Served::Unknown,
    }
}

/// The plural of a kind that can be followed, and whether its objects live in namespaces.
fn plural(listed: &APIResourceList, kind: &str) -> Option<(String, bool)> {
    let found = listed
        .resources
        .iter()
        .find(|resource| resource.kind == kind && !resource.name.contains('/') && can_be_followed(&resource.verbs));
    found.map(|resource| (resource.name.clone(), resource.namespaced))
}

fn can_be_followed(verbs: &[String]) -> bool {
    ["list", "watch"].iter().all(|verb| verbs.iter().any(|known| known == verb))
}

fn resource(spec: &KindSpec, version: String, plural: String) -> ApiResource {
    let api_version = if spec.group.is_empty() { version.clone() } else { format!("{}/{version}", spec.group) };
    ApiResource { group: spec.group.clone(), kind: spec.kind.clone(), version, api_version, plural }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn spec(text: &str) -> KindSpec {
        KindSpec::parse(text).unwrap()
    }

    fn table() -> serde_json::Value {
        let resource = |kind: &str, plural: &str, verbs: &[&str]| {
            let scope = if kind == "New" { "Cluster" } else { "Namespaced" };
            let kind = json!({"group": "", "version": "", "kind": kind});
            json!({"resource": plural, "responseKind": kind, "scope": scope, "verbs": verbs})
        };
        let all = ["get", "list", "watch"];
        json!({"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": [
            {"metadata": {"name": "a.example"}, "versions": [
                {"version": "v2", "freshness": "Current", "resources": [resource("New", "news", &all), resource("Old", "olds", &all)]},
                {"version": "v1", "freshness": "Current", "resources": [resource("Old", "olds", &all), resource("Deed", "deeds", &["create"])]},
            ]},
            {"metadata": {"name": "broken.example"}, "versions": [
                {"version": "v1", "freshness": "Stale", "resources": [resource("Kept", "kepts", &all)]},
            ]},
            {"metadata": {"name": "other.example"}, "versions": []},
        ]})
    }

    #[test]
    fn a_kind_is_served_in_the_first_version_that_has_it_and_not_served_only_by_a_fresh_word() {
        let wanted = ["a.example", "broken.example", "missing.example"];
        let known = read(table().to_string().as_bytes(), None, &wanted);
        let Known::Groups { groups, .. } = known else { panic!("{known:?}") };
        assert_eq!(groups.len(), 2, "only what is wanted is kept");
        let found = |text: &str| match in_groups(&groups, &spec(text)) {
            Served::As(Resource { resource, namespaced }) => {
                let scope = if namespaced { "in namespaces" } else { "in the cluster" };
                format!("{} {} {scope}", resource.api_version, resource.plural)
            }
            Served::No => "no".to_owned(),
            Served::Unknown => "unknown".to_owned(),
        };
        let table = [
            ("New.a.example", "a.example/v2 news in the cluster"),
            ("Old.a.example", "a.example/v2 olds in namespaces"),
            ("a.example/v1/Old", "a.example/v1 olds in namespaces"),
            ("a.example/v1/New", "no"),
            ("a.example/v3/New", "no"),
            ("Deed.a.example", "no"),
            ("Never.a.example", "no"),
            ("Kept.broken.example", "broken.example/v1 kepts in namespaces"),
            ("Lost.broken.example", "unknown"),
            ("Any.missing.example", "no"),
        ];
        for (kind, expected) in table {
            assert_eq!(found(kind), expected, "{kind}");
        }
    }

    #[test]
    fn an_answer_that_is_no_table_is_an_older_server_or_nothing() {
        let older = json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": []}).to_string();
        assert!(matches!(read(older.as_bytes(), None, &[]), Known::NoTable { rest: 0, .. }));
        assert!(matches!(read(b"<html>", None, &[]), Known::Nothing));
    }
}
