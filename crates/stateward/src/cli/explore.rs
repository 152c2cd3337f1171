//! `stateward explore`: finds objects of all clusters, among those that you may see.

mod changes;
mod model;
mod who;

use clap::Args;
use http::Method;
use serde_json::{Value, json};

use super::failure::Failure;
use super::output::{self, Format};
use crate::client::{Client, ClientArgs};
use crate::config::Environment;
use model::{Answer, Clusters, Row};

/// Find objects of all clusters, among those that you may see
///
/// Words are looked for anywhere. kind:HelmRelease (or hr), ns:, cluster:, status:Failed, tenant:, name:pod*, label.app=web,
/// Object.spec.interval:5m, is:stale and is:deleted are conditions; a minus before one negates it, a star stands for anything,
/// quotes keep words together. All conditions must hold. A question that begins with a minus stands behind --.
#[derive(Args)]
pub struct Explore {
    /// The question, such as: kind:HelmRelease status:Failed -ns:kube-system podinfo
    #[arg(value_name = "QUERY", conflicts_with = "who_can_see")]
    query: Vec<String>,
    /// What to sort by: name, kind, namespace, cluster, tenant, status, message, category, created or age
    #[arg(long, value_name = "FIELD", default_value = "name")]
    sort: String,
    /// The other way round
    #[arg(long)]
    descending: bool,
    /// How many objects at most; 0 is all of them
    #[arg(long, value_name = "COUNT", default_value_t = 0)]
    limit: usize,
    /// Show counts by field instead of objects
    #[arg(long, conflicts_with = "watch")]
    facets: bool,
    /// Go on, and tell what changes
    #[arg(long, short)]
    watch: bool,
    /// Tell who can see an object, and by which binding and rule
    #[arg(long, value_name = "KIND/[NAMESPACE/]NAME")]
    who_can_see: Option<String>,
    /// The cluster of --who-can-see, if it is not the one that the server belongs to
    #[arg(long, value_name = "NAME", requires = "who_can_see")]
    cluster: Option<String>,
    #[command(flatten)]
    client: ClientArgs,
}

/// How many objects one answer holds.
const PAGE: usize = 500;

impl Explore {
    pub async fn run(self, environment: &Environment) -> anyhow::Result<()> {
        let format = self.client.output;
        let client = Client::new(&self.client, environment).await?;
        if let Some(object) = &self.who_can_see {
            return who::can_see(&client, format, object, self.cluster.as_deref()).await;
        }
        if self.facets {
            return self.facets(&client, format).await;
        }
        if self.watch {
            return changes::follow(&client, format, &self.question()).await;
        }
        self.find(&client, format).await
    }

    fn question(&self) -> String {
        self.query.join(" ")
    }

    async fn find(&self, client: &Client, format: Format) -> anyhow::Result<()> {
        let (objects, last) = self.pages(client).await?;
        let answer: Answer = client.read(&last)?;
        tell(&answer.clusters);
        if answer.total > objects.len() as u64 {
            output::talk(format_args!("{} of {} objects", objects.len(), answer.total));
        }
        let data =
            json!({ "objects": objects, "total": answer.total, "withheld": last["withheld"], "stale": last["stale"] });
        let rows: Vec<Row> = objects.iter().map(|object| client.read(object)).collect::<Result<_, Failure>>()?;
        output::show(format, &data, || {
            let rows: Vec<Vec<String>> = rows.iter().map(Row::cells).collect();
            output::table(&Row::HEADER, &rows)
        })
    }

    /// The objects of all pages, as many as are wanted, and the last answer.
    async fn pages(&self, client: &Client) -> Result<(Vec<Value>, Value), Failure> {
        let wanted = if self.limit == 0 { usize::MAX } else { self.limit };
        let (mut objects, mut cursor) = (Vec::new(), String::new());
        loop {
            let request = json!({
                "query": self.question(), "orderBy": self.sort, "descending": self.descending,
                "limit": PAGE.min(wanted - objects.len()), "cursor": cursor, "unstructured": false,
            });
            let mut answer = client.send(Method::POST, &["v1", "query"], &request).await?;
            let Value::Array(found) = answer["objects"].take() else { return Ok((objects, answer)) };
            let empty = found.is_empty();
            objects.extend(found);
            let next = answer["cursor"].as_str().map(str::to_owned);
            match next.filter(|next| !next.is_empty() && !empty && objects.len() < wanted) {
                Some(next) => cursor = next,
                None => return Ok((objects, answer)),
            }
        }
    }

    async fn facets(&self, client: &Client, format: Format) -> anyhow::Result<()> {
        let question = self.question();
        let answer = client.ask(Method::GET, &["v1", "facets"], &[("query", Some(question.as_str()))]).await?;
        let facets: model::Facets = client.read(&answer)?;
        tell(&facets.clusters);
        output::show(format, &answer, || output::table(&["FIELD", "VALUE", "OBJECTS"], &facets.rows()))
    }
}

/// What people must know of the clusters beside rows and counts.
fn tell(clusters: &Clusters) {
    for withheld in &clusters.withheld {
        output::talk(format_args!(
            "nothing is shown of the cluster {} for now: {}",
            output::plain(&withheld.cluster),
            output::plain(&withheld.reason)
        ));
    }
    for stale in &clusters.stale {
        let since = stale.since.as_deref().unwrap_or("some time");
        let cluster = output::plain(&stale.cluster);
        output::talk(format_args!("the cluster {cluster} has not been heard of since {}", output::plain(since)));
    }
    let collected = clusters.collected;
    if collected.clusters < collected.of {
        output::talk(format_args!("still collecting: {} of {} clusters are done", collected.clusters, collected.of));
    }
}
