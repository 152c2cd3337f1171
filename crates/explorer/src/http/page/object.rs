//! The page of one object: what it is, its YAML, what happened to it, what it has to do with others, and why it is seen.

use axum::response::Response;
use jiff::Timestamp;
use serde_json::Value;

use super::super::answers::ObjectAnswer;
use super::super::asked::Named;
use super::super::explain::{ExplainAnswer, RbacAnswer, ReasonAnswer};
use super::super::object::RelatedAnswer;
use super::html::escape;
use super::table::{list, status};
use super::visitor::Visitor;
use super::{failed, page};

pub(super) async fn show(visitor: Visitor) -> Response {
    let id = visitor.parameters().one("id").to_owned();
    match content(&visitor, &id).await {
        Ok((title, content)) => page(&title, Some(&visitor), &content),
        Err(problem) => failed(Some(&visitor), &problem),
    }
}

async fn content(visitor: &Visitor, id: &str) -> Result<(String, String), access::http::Problem> {
    let named = Named::find(visitor.asked.clone(), id).await?;
    let now = Timestamp::now();
    let (body, related, events) = (named.body().await?, named.related().await?, named.events());
    // The rules may be withheld for a moment; the rest of the page is not.
    let why = match named.explain() {
        Ok(explained) => explain(&explained),
        Err(problem) => format!("<p class=\"notice\">{}</p>", escape(&problem.message)),
    };
    let row = ObjectAnswer::of(named.found);
    let events = if events.is_empty() { "<p>None that you may see.</p>".to_owned() } else { list(&events, now) };
    let content = format!(
        "<h1>{} <small>{}</small></h1>{}{}<h2>YAML</h2>{}<h2>Events</h2>{events}{}<h2>Why you see this</h2>{why}",
        escape(&row.name),
        escape(&row.kind),
        facts(&row, now),
        acts(&row),
        yaml(body.as_deref()),
        relations(&related, now)
    );
    Ok((format!("{} {}", row.kind, row.name), content))
}

fn facts(row: &ObjectAnswer, now: Timestamp) -> String {
    let labels: Vec<String> = row.labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let facts = [
        ("Cluster", escape(&row.cluster)),
        ("Namespace", escape(&row.namespace)),
        ("Group and version", escape(&format!("{} {}", row.api_group, row.api_version))),
        ("Tenant", escape(&row.tenant)),
        ("Status", status(row, now)),
        ("Message", escape(&row.message)),
        ("Labels", escape(&labels.join(" "))),
        ("Created", escape(row.created_at.as_deref().unwrap_or_default())),
        ("Id", escape(&row.id)),
    ];
    let lines = facts.iter().filter(|(_, value)| !value.trim().is_empty());
    let lines: Vec<String> = lines.map(|(name, value)| format!("<dt>{name}</dt><dd>{value}</dd>")).collect();
    format!("<dl class=\"facts\">{}</dl>", lines.concat())
}

fn acts(row: &ObjectAnswer) -> String {
    format!(
        "<form class=\"acts\" method=\"post\" action=\"/explore/act\"><input type=\"hidden\" name=\"id\" value=\"{}\">\
         <input type=\"hidden\" name=\"next\" value=\"{}\"><button name=\"action\" value=\"reconcile\">Reconcile</button> \
         <button name=\"action\" value=\"suspend\">Suspend</button> \
         <button name=\"action\" value=\"resume\">Resume</button></form>",
        escape(&row.id),
        super::table::object(&row.id)
    )
}

fn yaml(body: Option<&str>) -> String {
    let Some(body) = body else { return "<p>Only those who may <code>get</code> the object see it.</p>".to_owned() };
    let value: Option<Value> = serde_json::from_str(body).ok();
    let text = value.and_then(|value| serde_saphyr::to_string(&value).ok()).unwrap_or_else(|| body.to_owned());
    format!("<pre tabindex=\"0\">{}</pre>", escape(&text))
}

fn relations(related: &RelatedAnswer, now: Timestamp) -> String {
    let families = [
        ("Owners", &related.owners),
        ("Sources", &related.sources),
        ("Depends on", &related.depends_on),
        ("Inventory", &related.inventory),
    ];
    let shown = families.iter().filter(|(_, rows)| !rows.is_empty());
    let shown: Vec<String> = shown.map(|(title, rows)| format!("<h2>{title}</h2>{}", list(rows, now))).collect();
    shown.concat()
}

fn explain(explained: &ExplainAnswer) -> String {
    let who = format!(
        "<p>You are {} there{}.</p>",
        escape(&explained.user),
        match explained.groups.as_slice() {
            [] => String::new(),
            groups => format!(", in {}", escape(&groups.join(", "))),
        }
    );
    if explained.authorizer == "review" {
        return format!("{who}<p>The cluster's own authorizers decide, and give no reasons.</p>");
    }
    let named = |object: &Option<RbacAnswer>| {
        object.as_ref().map(|RbacAnswer { kind, namespace, name }| {
            let place = if namespace.is_empty() { String::new() } else { format!("{namespace}/") };
            escape(&format!("{kind} {place}{name}"))
        })
    };
    let line = |reason: &ReasonAnswer| {
        let subject = &reason.subject;
        let place = if subject.namespace.is_empty() { String::new() } else { format!("{}/", subject.namespace) };
        format!(
            "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
            escape(&reason.verb),
            escape(&format!("{} {place}{}", subject.kind, subject.name)),
            named(&reason.binding).unwrap_or_else(|| "none is needed".to_owned()),
            named(&reason.role).unwrap_or_default(),
            reason.rule.map(|rule| rule.to_string()).unwrap_or_default()
        )
    };
    let lines: String = explained.reasons.iter().map(line).collect();
    format!(
        "{who}<table><thead><tr><th>Verb</th><th>Subject</th><th>Binding</th><th>Role</th><th>Rule</th></tr></thead>\
         <tbody>{lines}</tbody></table>"
    )
}
