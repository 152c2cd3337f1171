//! `stateward token`: static tokens of a server without a cluster.

use std::time::Duration;

use clap::{Args, Subcommand};
use http::Method;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::each::Each;
use super::failure::Failure;
use super::output::{self, Format};
use crate::client::{Client, ClientArgs};
use crate::config::{Environment, Secret, units};

/// Create, list and revoke static tokens
#[derive(Args)]
pub struct Token {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    client: ClientArgs,
}

#[derive(Subcommand)]
enum Command {
    Create(Create),
    /// List the tokens; the tokens themselves are never shown again
    List,
    Revoke(Revoke),
}

/// Create a token and print it: the only time that it is shown
///
/// The token alone goes to stdout, so that `TOKEN=$(stateward token create ...)` works.
#[derive(Args)]
struct Create {
    /// What the token is called in lists and in the audit log
    name: String,
    /// A role, and the namespaces in which it holds, such as viewer@team-*; may be repeated
    #[arg(long = "grant", value_name = "ROLE@NAMESPACES", required = true, value_parser = grant)]
    grants: Vec<String>,
    /// The user that the token stands for, if not one named after the token
    #[arg(long)]
    user: Option<String>,
    /// A group of that user; may be repeated
    #[arg(long = "group", value_name = "GROUP")]
    groups: Vec<String>,
    /// How long the token lives, such as 12h or 30d; for ever if left out
    #[arg(long, value_name = "TIME", value_parser = life)]
    expires: Option<Duration>,
}

/// Revoke tokens, at once and in every process on the same database
#[derive(Args)]
struct Revoke {
    /// The id or name of a token
    #[arg(value_name = "ID|NAME", required = true)]
    tokens: Vec<String>,
}

#[derive(Serialize)]
struct NewToken<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    user: Option<&'a str>,
    groups: &'a [String],
    grants: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_in_seconds: Option<u64>,
}

#[derive(Deserialize)]
struct TokenFacts {
    id: String,
    name: String,
    #[serde(default)]
    user: String,
    #[serde(default)]
    groups: Vec<String>,
    #[serde(default)]
    grants: Vec<String>,
    #[serde(default)]
    created_at: String,
    expires_at: Option<String>,
    /// Only in the answer to its creation.
    token: Option<Secret>,
}

#[derive(Deserialize)]
struct TokenList {
    items: Vec<TokenFacts>,
}

const COLLECTION: [&str; 3] = ["api", "v1", "tokens"];

impl Token {
    pub async fn run(self, environment: &Environment) -> anyhow::Result<()> {
        let format = self.client.output;
        let client = Client::new(&self.client, environment).await?;
        match self.command {
            Command::Create(create) => create.run(&client, format).await,
            Command::List => list(&client, format).await,
            Command::Revoke(revoke) => revoke.run(&client, format).await,
        }
    }
}

impl Create {
    async fn run(self, client: &Client, format: Format) -> anyhow::Result<()> {
        let request = NewToken {
            name: &self.name,
            user: self.user.as_deref(),
            groups: &self.groups,
            grants: &self.grants,
            expires_in_seconds: self.expires.map(|time| time.as_secs()),
        };
        let answer = client.send(Method::POST, &COLLECTION, &request).await?;
        if format != Format::Table {
            return output::show(format, &answer, String::new);
        }
        let facts: TokenFacts = client.read(&answer)?;
        let expires = facts.expires_at.as_deref().map_or("never expires".to_owned(), |time| format!("expires {time}"));
        output::talk(format_args!(
            "created token {} ({}) for user {} with {}; {}",
            output::plain(&facts.name),
            output::plain(&facts.id),
            output::plain(&facts.user),
            output::plain(&facts.grants.join(", ")),
            output::plain(&expires),
        ));
        output::print(facts.token.as_ref().map_or("", Secret::expose))
    }
}

async fn list(client: &Client, format: Format) -> anyhow::Result<()> {
    let answer = client.call(Method::GET, &COLLECTION).await?;
    let list: TokenList = client.read(&answer)?;
    output::show(format, &answer, || {
        let rows: Vec<Vec<String>> = list.items.into_iter().map(row).collect();
        output::table(&["ID", "NAME", "USER", "GROUPS", "GRANTS", "CREATED", "EXPIRES"], &rows)
    })
}

fn row(facts: TokenFacts) -> Vec<String> {
    let expires = facts.expires_at.unwrap_or_else(|| "never".to_owned());
    let joined = |items: Vec<String>| if items.is_empty() { "-".to_owned() } else { items.join(",") };
    let (groups, grants) = (joined(facts.groups), joined(facts.grants));
    vec![facts.id, facts.name, facts.user, groups, grants, facts.created_at, expires]
}

impl Revoke {
    /// Goes on to the end of the list, shows what was revoked, and then fails if one of them failed.
    async fn run(self, client: &Client, format: Format) -> anyhow::Result<()> {
        let each = Each::delete(client, &COLLECTION, &self.tokens, "revoke").await;
        let row = |answer: &Value| client.read(answer).map(|facts: TokenFacts| vec![facts.id, facts.name]);
        let rows = each.answers.iter().map(row);
        let rows: Vec<Vec<String>> = rows.collect::<Result<_, Failure>>()?;
        let data = serde_json::json!({ "items": each.answers });
        output::show(format, &data, || output::table(&["REVOKED", "NAME"], &rows))?;
        each.end()
    }
}

fn grant(text: &str) -> Result<String, String> {
    match text.split_once('@') {
        Some((role, namespaces)) if !role.is_empty() && !namespaces.is_empty() => Ok(text.to_owned()),
        _ => Err("a grant is ROLE@NAMESPACES, such as viewer@team-*".to_owned()),
    }
}

fn life(text: &str) -> Result<Duration, String> {
    match units::duration(text) {
        Some(time) if time.as_secs() > 0 => Ok(time),
        _ => Err(format!("a life is at least a second and has a unit, such as 12h or 30d, at most {}", units::LONGEST)),
    }
}
