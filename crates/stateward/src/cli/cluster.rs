//! `stateward cluster`: the clusters whose objects are collected.

use std::io::Read as _;
use std::path::PathBuf;

use anyhow::Context;
use clap::{Args, Subcommand, ValueEnum};
use http::Method;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::each::Each;
use super::failure::Failure;
use super::output::{self, Format};
use crate::client::{Client, ClientArgs};
use crate::config::Environment;

/// Add, list and remove clusters whose objects are collected
#[derive(Args)]
pub struct Cluster {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    client: ClientArgs,
}

#[derive(Subcommand)]
enum Command {
    Add(Add),
    /// List the clusters and how far their objects are collected
    List,
    Remove(Remove),
}

/// Add a cluster, or give one new credentials and rules
///
/// The kubeconfig must hold everything itself: certificates and tokens, not the names of files, no command to run and no proxy.
/// Its user needs get, list and watch on the kinds that are collected, on namespaces and on RBAC; it is sealed in the database.
#[derive(Args)]
struct Add {
    /// What the cluster is called here: a DNS label
    name: String,
    /// File with the kubeconfig; - is the standard input
    #[arg(long = "from", value_name = "FILE")]
    from: PathBuf,
    /// Who callers of the server are there: nobody, the same user and groups, or whom --map says
    #[arg(long, value_enum, default_value_t)]
    identity: Identity,
    /// Somebody here and who that is there, such as user:jane=jane:dev or group:dev=:viewers; may be repeated
    #[arg(long = "map", value_name = "user|group:NAME=USER[:GROUP...]", value_parser = mapping)]
    map: Vec<Value>,
    /// Who a static token is there, by the token's user, such as ci=robot:viewers; may be repeated
    #[arg(long = "token-user", value_name = "TOKEN-USER=USER[:GROUP...]", value_parser = token_user)]
    token_users: Vec<(String, Value)>,
    /// What decides there who sees what: RBAC alone, or whatever the cluster has, asked by SubjectAccessReviews
    #[arg(long, value_enum, default_value_t)]
    authorizer: Authorizer,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum Identity {
    #[default]
    None,
    Shared,
    Map,
}

#[derive(Clone, Copy, Default, ValueEnum)]
enum Authorizer {
    #[default]
    Rbac,
    Review,
}

/// Remove clusters that were added, with everything that was collected of them
#[derive(Args)]
struct Remove {
    #[arg(value_name = "NAME", required = true)]
    names: Vec<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Facts {
    name: String,
    source: String,
    authorizer: String,
    synced: usize,
    of: usize,
    objects: Option<u64>,
    stale_since: Option<String>,
    withheld: Option<String>,
    fault: Option<String>,
}

#[derive(Deserialize)]
struct List {
    clusters: Vec<Facts>,
    #[serde(default)]
    faults: Vec<String>,
}

const COLLECTION: [&str; 2] = ["v1", "clusters"];

impl Cluster {
    pub async fn run(self, environment: &Environment) -> anyhow::Result<()> {
        let format = self.client.output;
        let client = Client::new(&self.client, environment).await?;
        match self.command {
            Command::Add(add) => add.run(&client, format).await,
            Command::List => list(&client, format).await,
            Command::Remove(remove) => remove.run(&client, format).await,
        }
    }
}

impl Add {
    async fn run(self, client: &Client, format: Format) -> anyhow::Result<()> {
        let kubeconfig = self.kubeconfig()?;
        if !self.map.is_empty() && self.identity != Identity::Map {
            return Err(Failure::usage("--map has no effect", "add --identity map").into());
        }
        let identity = match self.identity {
            Identity::None => json!("none"),
            Identity::Shared => json!("shared"),
            Identity::Map => json!({ "map": self.map }),
        };
        let authorizer = match self.authorizer {
            Authorizer::Rbac => "rbac",
            Authorizer::Review => "review",
        };
        let tokens: Map<String, Value> = self.token_users.into_iter().collect();
        let request = json!({
            "name": self.name, "kubeconfig": kubeconfig, "identity": identity, "tokens": tokens, "authorizer": authorizer,
        });
        let answer = client.send(Method::POST, &COLLECTION, &request).await?;
        let facts: Facts = client.read(&answer)?;
        output::show(format, &answer, || table(&[facts]))
    }

    fn kubeconfig(&self) -> anyhow::Result<String> {
        let mut text = String::new();
        if self.from.as_os_str() == "-" {
            std::io::stdin()
                .read_to_string(&mut text)
                .context("failed to read the kubeconfig from the standard input")?;
            return Ok(text);
        }
        let read = std::fs::read_to_string(&self.from);
        read.with_context(|| format!("failed to read the kubeconfig {}", self.from.display()))
    }
}

async fn list(client: &Client, format: Format) -> anyhow::Result<()> {
    let answer = client.call(Method::GET, &COLLECTION).await?;
    let list: List = client.read(&answer)?;
    for fault in &list.faults {
        output::talk(format_args!("{}", output::plain(fault)));
    }
    output::show(format, &answer, || table(&list.clusters))
}

fn table(clusters: &[Facts]) -> String {
    let rows: Vec<Vec<String>> = clusters.iter().map(Facts::cells).collect();
    output::table(&["NAME", "SOURCE", "AUTHORIZER", "KINDS", "OBJECTS", "CONDITION"], &rows)
}

impl Facts {
    fn cells(&self) -> Vec<String> {
        let stale = || self.stale_since.as_ref().map(|since| format!("stale since {since}"));
        let withheld = || self.withheld.as_ref().map(|reason| format!("withheld: {reason}"));
        let condition = self.fault.clone().or_else(withheld).or_else(stale).unwrap_or_else(|| "ok".to_owned());
        vec![
            self.name.clone(),
            self.source.clone(),
            self.authorizer.clone(),
            format!("{}/{}", self.synced, self.of),
            self.objects.map_or("-".to_owned(), |objects| objects.to_string()),
            condition,
        ]
    }
}

impl Remove {
    /// Goes on to the end of the list, shows what was removed, and then fails if one of them failed.
    async fn run(self, client: &Client, format: Format) -> anyhow::Result<()> {
        let each = Each::delete(client, &COLLECTION, &self.names, "remove").await;
        let name = |answer: &Value| vec![answer["name"].as_str().unwrap_or_default().to_owned()];
        let rows: Vec<Vec<String>> = each.answers.iter().map(name).collect();
        output::show(format, &json!({ "items": each.answers }), || output::table(&["REMOVED"], &rows))?;
        each.end()
    }
}

/// `user:NAME=USER[:GROUP...]` or `group:NAME=...`, as the server takes it.
fn mapping(text: &str) -> Result<Value, String> {
    let malformed = || "a mapping is user:NAME=USER[:GROUP...] or group:NAME=USER[:GROUP...]".to_owned();
    let (from, there) = text.rsplit_once('=').ok_or_else(malformed)?;
    let (kind, name) = from.split_once(':').filter(|(_, name)| !name.is_empty()).ok_or_else(malformed)?;
    match kind {
        "user" | "group" => Ok(json!({ "from": { kind: name }, "as": person(there).ok_or_else(malformed)? })),
        _ => Err(malformed()),
    }
}

fn token_user(text: &str) -> Result<(String, Value), String> {
    let malformed = || "a token's user is TOKEN-USER=USER[:GROUP...]".to_owned();
    let (token, there) = text.split_once('=').filter(|(token, _)| !token.is_empty()).ok_or_else(malformed)?;
    Ok((token.to_owned(), person(there).ok_or_else(malformed)?))
}

/// `USER[:GROUP...]`; the user may be empty if there is a group.
fn person(text: &str) -> Option<Value> {
    let mut names = text.split(':');
    let user = names.next().filter(|user| !user.is_empty());
    let groups: Vec<&str> = names.collect();
    let whole = groups.iter().all(|group| !group.is_empty()) && (user.is_some() || !groups.is_empty());
    let mut person = json!({ "groups": groups });
    if let Some(user) = user {
        person["user"] = user.into();
    }
    whole.then_some(person)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_are_written_as_a_user_and_groups() {
        assert_eq!(
            mapping("user:jane=j:a:b"),
            Ok(json!({"from": {"user": "jane"}, "as": {"user": "j", "groups": ["a", "b"]}}))
        );
        assert_eq!(mapping("group:dev=:v"), Ok(json!({"from": {"group": "dev"}, "as": {"groups": ["v"]}})));
        assert_eq!(token_user("ci=robot"), Ok(("ci".to_owned(), json!({"user": "robot", "groups": []}))));
        for bad in ["", "user:jane", "jane=j", "user:=j", "robot:x=y", "user:jane=", "user:jane=j:"] {
            assert!(mapping(bad).is_err(), "{bad}");
        }
        assert!(token_user("=x").is_err() && token_user("ci").is_err());
    }
}
