//! What is followed, and how patiently.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use kube::Client;
use kube::api::{ApiResource, DynamicObject};

use crate::Why;

/// One kind of one cluster.
#[derive(Clone)]
pub struct Source {
    /// What the consumer calls the cluster; names the stream together with the kind.
    pub cluster: String,
    /// Its own retries should be off (`default_retry`), so that faults are seen when they happen.
    pub client: Client,
    pub resource: ApiResource,
    /// Only this namespace.
    pub namespace: Option<String>,
    /// Label selector of the API server.
    pub labels: Option<String>,
    /// Field selector of the API server.
    pub fields: Option<String>,
    pub content: Content,
    pub filter: Filter,
    pub guard: Guard,
}

/// Asked whenever a stream was lost or came too late, before anything that it is told then counts: what answers at the same
/// address may be another cluster.
#[derive(Clone)]
pub struct Guard(Option<Arc<Question>>);

type Question = dyn Fn() -> BoxFuture<'static, Result<(), Why>> + Send + Sync;

impl Guard {
    pub fn none() -> Guard {
        Guard(None)
    }

    /// An error keeps the stream lost, for that reason; it is asked again.
    pub fn by(question: impl Fn() -> BoxFuture<'static, Result<(), Why>> + Send + Sync + 'static) -> Guard {
        Guard(Some(Arc::new(question)))
    }

    pub(crate) async fn ask(self) -> Result<(), Why> {
        match self.0 {
            Some(question) => question().await,
            None => Ok(()),
        }
    }
}

/// How much of each object is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// Everything; of a Secret never more than [`Content::Metadata`].
    Whole,
    /// Only metadata leaves the API server.
    Metadata,
}

/// Which objects count: one that no longer passes is deleted as far as the consumer is concerned.
#[derive(Clone)]
pub struct Filter(Option<Arc<Predicate>>);

type Predicate = dyn Fn(&DynamicObject) -> bool + Send + Sync;

impl Filter {
    pub fn everything() -> Filter {
        Filter(None)
    }

    pub fn by(predicate: impl Fn(&DynamicObject) -> bool + Send + Sync + 'static) -> Filter {
        Filter(Some(Arc::new(predicate)))
    }

    pub(crate) fn takes(&self, object: &DynamicObject) -> bool {
        self.0.as_ref().is_none_or(|predicate| predicate(object))
    }
}

impl Source {
    /// The whole kind in the whole cluster.
    pub fn new(cluster: &str, client: Client, resource: ApiResource) -> Source {
        Source {
            cluster: cluster.to_owned(),
            client,
            resource,
            namespace: None,
            labels: None,
            fields: None,
            content: Content::Whole,
            filter: Filter::everything(),
            guard: Guard::none(),
        }
    }

    pub(crate) fn is_secret(&self) -> bool {
        self.resource.group.is_empty() && self.resource.kind == "Secret"
    }
}

impl fmt::Debug for Source {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Source { cluster, resource, namespace, .. } = self;
        formatter
            .debug_struct("Source")
            .field("cluster", cluster)
            .field("kind", &resource.kind)
            .field("namespace", namespace)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(if self.0.is_some() { "Guard(by a question)" } else { "Guard(none)" })
    }
}

impl fmt::Debug for Filter {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(if self.0.is_some() { "Filter(by a predicate)" } else { "Filter(everything)" })
    }
}

/// How patient a stream is, and how much it holds.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Objects per page of a list.
    pub page: u32,
    /// Events that wait for the consumer before nothing more is read; as many, or a page, may come on top.
    pub queue: usize,
    /// How long the API server is asked to keep a watch. It says something at the end of it, so that a connection on
    /// which nothing comes for a little longer is half open: through any proxy, over any version of HTTP. It is also how
    /// soon a lost permission is noticed, because the API server checks that only when a watch begins.
    pub watch: Duration,
    /// How much later than that the end of a watch may come.
    pub grace: Duration,
    /// For a page of a list.
    pub list_deadline: Duration,
    /// For every other call, and for a watch to begin.
    pub deadline: Duration,
    /// After the first fault; doubled after each further one.
    pub first_pause: Duration,
    pub longest_pause: Duration,
    /// How soon a kind that the cluster does not serve is asked for again; doubled each time.
    pub absent_pause: Duration,
    /// Whoever hears of a kind by other means follows it anew and does not wait for this.
    pub longest_absent_pause: Duration,
    pub after_loss: AfterLoss,
}

/// What a stream does when it can be heard again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterLoss {
    /// Goes on where it was: the cluster tells what happened meanwhile and nothing else. That nothing more comes is taken from
    /// its being quiet for a moment.
    GoOn,
    /// Lists all: for few objects on which so much depends that the stream must be certain before it is synced.
    List,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            page: 500,
            queue: 2000,
            watch: Duration::from_secs(10),
            grace: Duration::from_secs(3),
            list_deadline: Duration::from_secs(30),
            deadline: Duration::from_secs(10),
            first_pause: Duration::from_millis(200),
            longest_pause: Duration::from_secs(20),
            absent_pause: Duration::from_secs(10),
            longest_absent_pause: Duration::from_mins(2),
            after_loss: AfterLoss::GoOn,
        }
    }
}
