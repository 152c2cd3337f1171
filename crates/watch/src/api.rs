//! The calls to the API server: each with a deadline, none with another verb than get, list or watch.
//!
//! Answers are parsed here and not by the client, which would log the whole text of one that it cannot read.

use std::time::Duration;

use futures::{Stream, StreamExt};
use kube::Resource;
use kube::api::{ApiResource, DynamicObject, GetParams, ListParams, WatchEvent, WatchParams};
use kube::core::Request;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::time::timeout;

use crate::Why;
use crate::clean::{Caution, clean};
use crate::event::Key;
use crate::fault::Fault;
use crate::source::{Content, Settings, Source};

#[derive(Clone)]
pub(crate) struct Api {
    source: Source,
    caution: Caution,
    list_deadline: Duration,
    deadline: Duration,
}

/// A page of a list.
pub(crate) struct Page {
    pub(crate) objects: Vec<DynamicObject>,
    /// The version of the whole list.
    pub(crate) version: String,
    /// How to ask for the next page.
    pub(crate) next: Option<String>,
}

/// Something that a watch told.
pub(crate) enum Told {
    Applied(Box<DynamicObject>),
    Deleted(Box<DynamicObject>),
    Bookmark(String),
    Fault(Fault),
}

/// What a read of one object found, and as of which version.
pub(crate) struct Found {
    pub(crate) object: Option<Box<DynamicObject>>,
    pub(crate) version: String,
}

/// Whether the cluster serves the kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Served {
    Yes,
    No,
    /// It could not be asked.
    Unknown(Why),
}

impl Api {
    pub(crate) fn new(source: Source, settings: &Settings) -> Api {
        let caution = if source.is_secret() { Caution::Secret } else { Caution::Usual };
        Api { source, caution, list_deadline: settings.list_deadline, deadline: settings.deadline }
    }

    /// A page of a consistent list: the first one is a quorum read, the others continue it.
    pub(crate) async fn page(self, next: Option<String>, limit: u32) -> Result<Page, Fault> {
        let mut wanted = self.wanted().limit(limit);
        wanted.continue_token = next;
        let namespace = self.source.namespace.as_deref();
        let page: List = self.ask(self.list_deadline, self.list_request(namespace, &wanted)?).await?;
        let mut objects = page.items.unwrap_or_default();
        for object in &mut objects {
            self.clean(object);
        }
        let next = page.metadata.next.filter(|next| !next.is_empty());
        Ok(Page { objects, version: page.metadata.resource_version, next })
    }

    /// Reads one object by a list of one: that is a quorum read as well as a get is, but it says of which version it is,
    /// selectors count, and a kind that is not served is not taken for an object that is not there.
    pub(crate) async fn find(&self, key: &Key) -> Result<Found, Fault> {
        if self.source.namespace.as_deref().is_some_and(|namespace| namespace != &*key.namespace) {
            return Err(Fault::Lost(Why::Refused));
        }
        let by_name = format!("metadata.name={}", escaped(&key.name));
        let mut wanted = self.wanted();
        wanted.field_selector = Some(match wanted.field_selector {
            Some(fields) => format!("{fields},{by_name}"),
            None => by_name,
        });
        let namespace = if key.namespace.is_empty() { None } else { Some(&*key.namespace) };
        let found: List = self.ask(self.deadline, self.list_request(namespace, &wanted)?).await?;
        let mut objects = found.items.unwrap_or_default();
        let position = objects.iter().position(|object| Key::of(object) == *key);
        let object = position.map(|position| {
            let mut object = objects.swap_remove(position);
            self.clean(&mut object);
            Box::new(object)
        });
        Ok(Found { object, version: found.metadata.resource_version })
    }

    /// Begins a watch after `version` that the API server ends after about `time`.
    pub(crate) async fn watch(self, version: String, time: Duration) -> Result<impl Stream<Item = Told> + Send, Fault> {
        let wanted = WatchParams {
            label_selector: self.source.labels.clone(),
            field_selector: self.source.fields.clone(),
            timeout: Some(u32::try_from(time.as_secs()).unwrap_or(u32::MAX).clamp(1, 290)),
            bookmarks: true,
            send_initial_events: false,
        };
        let request = Request::new(self.path(self.source.namespace.as_deref()));
        let request = match self.content() {
            Content::Whole => request.watch(&wanted, &version),
            Content::Metadata => request.watch_metadata(&wanted, &version),
        };
        let request = request.map_err(|_| Fault::Lost(Why::Refused))?;
        let begun = self.source.client.request_events::<DynamicObject>(request);
        let events = within(self.deadline, begun).await?;
        Ok(events.map(move |event| match event {
            Ok(WatchEvent::Added(object) | WatchEvent::Modified(object)) => Told::Applied(self.cleaned(object)),
            Ok(WatchEvent::Deleted(object)) => Told::Deleted(self.cleaned(object)),
            Ok(WatchEvent::Bookmark(bookmark)) => Told::Bookmark(bookmark.metadata.resource_version),
            Ok(WatchEvent::Error(status)) => Told::Fault(Fault::of_status(&status)),
            Err(error) => Told::Fault(Fault::of(&error)),
        }))
    }

    /// Whether the kind is gone from the cluster, and not just hidden by a server that is starting, by a proxy that
    /// answers 404 to everything, or by a failing extension.
    pub(crate) async fn served(self) -> Served {
        let definition = match self.definition().await {
            Ok(definition) => definition,
            Err(why) => return Served::Unknown(why),
        };
        if let Some(definition) = definition {
            return if serves(&definition, &self.source.resource) { Served::Yes } else { Served::No };
        }
        let client = &self.source.client;
        let ApiResource { group, version, api_version, plural, .. } = &self.source.resource;
        // Whatever answers must be an API server, which has a core group.
        if let Err(fault) = within(self.deadline, client.list_core_api_versions()).await {
            return Served::Unknown(fault.why());
        }
        let resources = if group.is_empty() {
            within(self.deadline, client.list_core_api_resources(version)).await
        } else {
            within(self.deadline, client.list_api_group_resources(api_version)).await
        };
        match resources {
            Ok(list) if list.resources.iter().any(|resource| resource.name == *plural) => Served::Yes,
            Ok(_) | Err(Fault::NotServed) => Served::No,
            Err(fault) => Served::Unknown(fault.why()),
        }
    }

    /// The CustomResourceDefinition, if there is one and it may be read.
    async fn definition(&self) -> Result<Option<Value>, Why> {
        let ApiResource { group, plural, .. } = &self.source.resource;
        if group.is_empty() {
            return Ok(None);
        }
        let request = Request::new("/apis/apiextensions.k8s.io/v1/customresourcedefinitions")
            .get(&format!("{plural}.{group}"), &GetParams::default())
            .map_err(|_| Why::Refused)?;
        match self.ask(self.deadline, request).await {
            Ok(definition) => Ok(Some(definition)),
            Err(Fault::NotServed | Fault::Lost(Why::Forbidden)) => Ok(None),
            Err(fault) => Err(fault.why()),
        }
    }

    pub(crate) fn kind(&self) -> &str {
        &self.source.resource.kind
    }

    pub(crate) fn cluster(&self) -> &str {
        &self.source.cluster
    }

    fn list_request(&self, namespace: Option<&str>, wanted: &ListParams) -> Result<HttpRequest, Fault> {
        let request = Request::new(self.path(namespace));
        let request = match self.content() {
            Content::Whole => request.list(wanted),
            Content::Metadata => request.list_metadata(wanted),
        };
        request.map_err(|_| Fault::Lost(Why::Refused))
    }

    fn path(&self, namespace: Option<&str>) -> String {
        DynamicObject::url_path(&self.source.resource, namespace)
    }

    fn wanted(&self) -> ListParams {
        let mut wanted = ListParams::default();
        wanted.label_selector.clone_from(&self.source.labels);
        wanted.field_selector.clone_from(&self.source.fields);
        wanted
    }

    fn content(&self) -> Content {
        match self.caution {
            Caution::Secret => Content::Metadata,
            Caution::Usual => self.source.content,
        }
    }

    fn clean(&self, object: &mut DynamicObject) {
        clean(object, &self.source.resource, self.caution);
    }

    fn cleaned(&self, mut object: DynamicObject) -> Box<DynamicObject> {
        self.clean(&mut object);
        Box::new(object)
    }

    async fn ask<T: DeserializeOwned>(&self, limit: Duration, request: HttpRequest) -> Result<T, Fault> {
        let text = within(limit, self.source.client.request_text(request)).await?;
        serde_json::from_str(&text).map_err(|_| Fault::Lost(Why::Unreadable))
    }
}

type HttpRequest = http::Request<Vec<u8>>;

#[derive(Deserialize)]
struct List {
    metadata: ListMeta,
    items: Option<Vec<DynamicObject>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ListMeta {
    #[serde(default)]
    resource_version: String,
    #[serde(rename = "continue")]
    next: Option<String>,
}

/// A value of a field selector, in which these three have a meaning.
fn escaped(value: &str) -> String {
    value.replace('\\', r"\\").replace(',', r"\,").replace('=', r"\=")
}

async fn within<T>(limit: Duration, call: impl Future<Output = kube::Result<T>>) -> Result<T, Fault> {
    match timeout(limit, call).await {
        Ok(answer) => answer.map_err(|error| Fault::of(&error)),
        Err(_elapsed) => Err(Fault::Lost(Why::Unreachable)),
    }
}

/// Whether a definition names this version as served.
fn serves(definition: &Value, resource: &ApiResource) -> bool {
    let versions = definition["spec"]["versions"].as_array();
    versions
        .into_iter()
        .flatten()
        .any(|version| version["name"] == resource.version.as_str() && version["served"] == true)
}
