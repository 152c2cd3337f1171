//! The rules that hold for the visitor, and how the clusters are doing: for those who miss something.

use axum::response::Response;

use super::super::clusters::{ClusterAnswer, in_sight};
use super::super::explain::{RbacAnswer, SubjectAnswer};
use super::super::rules::RuleAnswer;
use super::html::escape;
use super::page;
use super::visitor::Visitor;

pub(super) async fn show(visitor: Visitor) -> Response {
    let rules = visitor.asked.rules();
    let clusters = in_sight(visitor.asked.explorer(), &visitor.asked.caller).await;
    let clusters: String = clusters.iter().map(cluster).collect();
    let lines: String = rules.rules.iter().map(rule).collect();
    let withheld: Vec<String> = rules
        .withheld
        .iter()
        .map(|withheld| format!("<p class=\"notice\">{}: {}</p>", escape(&withheld.cluster), escape(&withheld.reason)))
        .collect();
    let content = format!(
        "<h1>Access rules</h1>{}<table><thead><tr><th>Cluster</th><th>Namespace</th><th>Kinds</th><th>Names</th>\
         <th>Verbs</th><th>Subjects</th><th>Binding</th><th>Role</th></tr></thead><tbody>{lines}</tbody></table>\
         <h2>Clusters</h2><table><thead><tr><th>Name</th><th>Collected</th><th>Stale since</th><th>Withheld</th></tr>\
         </thead><tbody>{clusters}</tbody></table>",
        withheld.concat()
    );
    page("Access rules", Some(&visitor), &content)
}

fn cluster(cluster: &ClusterAnswer) -> String {
    row(&[
        cluster.name.clone(),
        format!("{} of {} kinds", cluster.synced, cluster.of),
        cluster.stale_since.clone().unwrap_or_default(),
        cluster.withheld.clone().unwrap_or_default(),
    ])
}

fn rule(rule: &RuleAnswer) -> String {
    let subject = |subject: &SubjectAnswer| format!("{} {}", subject.kind, place(&subject.namespace, &subject.name));
    let object = |object: &RbacAnswer| format!("{} {}", object.kind, place(&object.namespace, &object.name));
    let subjects: Vec<String> = rule.subjects.iter().map(subject).collect();
    row(&[
        rule.cluster.clone(),
        rule.namespace.clone(),
        rule.accessible_kinds.join(", "),
        rule.accessible_resource_names.join(", "),
        rule.verbs.join(", "),
        subjects.join(", "),
        rule.provided_by_binding.as_ref().map(object).unwrap_or_default(),
        rule.provided_by_role.as_ref().map(object).unwrap_or_default(),
    ])
}

fn place(namespace: &str, name: &str) -> String {
    if namespace.is_empty() { name.to_owned() } else { format!("{namespace}/{name}") }
}

fn row(cells: &[String]) -> String {
    let cells: Vec<String> = cells.iter().map(|cell| escape(cell)).collect();
    format!("<tr><td>{}</td></tr>", cells.join("</td><td>"))
}
