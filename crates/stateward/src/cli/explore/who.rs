//! `stateward explore --who-can-see`

use http::Method;
use serde::Deserialize;

use crate::cli::output::{self, Format};
use crate::client::Client;

#[derive(Deserialize)]
struct Answer {
    reasons: Vec<Reason>,
}

#[derive(Deserialize)]
struct Reason {
    verb: String,
    subject: Named,
    binding: Option<Named>,
    role: Option<Named>,
    rule: Option<usize>,
}

#[derive(Deserialize)]
struct Named {
    kind: String,
    namespace: String,
    name: String,
}

pub async fn can_see(client: &Client, format: Format, object: &str, cluster: Option<&str>) -> anyhow::Result<()> {
    let query = [("object", Some(object)), ("cluster", cluster)];
    let answer = client.ask(Method::GET, &["v1", "who-can-see"], &query).await?;
    let reasons: Answer = client.read(&answer)?;
    output::show(format, &answer, || {
        let rows: Vec<Vec<String>> = reasons.reasons.iter().map(Reason::cells).collect();
        output::table(&["VERB", "SUBJECT", "BINDING", "ROLE", "RULE"], &rows)
    })
}

impl Reason {
    fn cells(&self) -> Vec<String> {
        let named = |object: &Option<Named>| object.as_ref().map_or("-".to_owned(), Named::text);
        let rule = self.rule.map_or("-".to_owned(), |rule| rule.to_string());
        vec![self.verb.clone(), self.subject.text(), named(&self.binding), named(&self.role), rule]
    }
}

impl Named {
    fn text(&self) -> String {
        let Named { kind, namespace, name } = self;
        if namespace.is_empty() { format!("{kind} {name}") } else { format!("{kind} {namespace}/{name}") }
    }
}
