//! The search page: a question, what it finds, and ways to ask further. All of it is in the URL.

use access::http::Problem;
use axum::response::Response;
use jiff::Timestamp;

use super::super::answers::{ClustersAnswer, FacetAnswer, QueryAnswer};
use super::super::query::found;
use super::html::{escape, link};
use super::table::{age, selectable};
use super::visitor::Visitor;
use super::{failed, page};
use crate::query::request::Request;
use crate::query::{Order, pieces};

/// As many as the original shows.
const ROWS: i64 = 25;
const COLUMNS: [(&str, &str); 8] = [
    ("name", "Name"),
    ("kind", "Kind"),
    ("namespace", "Namespace"),
    ("cluster", "Cluster"),
    ("tenant", "Tenant"),
    ("status", "Status"),
    ("message", "Message"),
    ("age", "Age"),
];
/// So many values of a facet are shown at once.
const VALUES: usize = 12;

/// What the URL says.
#[derive(Clone)]
struct Asking {
    text: String,
    sort: Order,
    descending: bool,
    cursor: String,
}

pub(super) async fn show(visitor: Visitor) -> Response {
    let pairs = visitor.parameters();
    let asking = Asking {
        text: pairs.one("q").trim().to_owned(),
        sort: Order::parse(pairs.one("sort")).unwrap_or_default(),
        descending: pairs.one("desc") == "1",
        cursor: pairs.one("cursor").to_owned(),
    };
    match asking.answer(&visitor).await {
        Ok((answer, visible)) => page("Search", Some(&visitor), &asking.render(&answer, visible)),
        Err(problem) if problem.status == ::http::StatusCode::BAD_REQUEST => {
            let content = format!("{}{}", asking.form(), fault(&problem));
            let mut response = page("Search", Some(&visitor), &content);
            *response.status_mut() = problem.status;
            response
        }
        Err(problem) => failed(Some(&visitor), &problem),
    }
}

fn fault(problem: &Problem) -> String {
    format!("<p class=\"fault\" role=\"alert\">{}</p><p>{}</p>", escape(&problem.message), escape(&problem.hint))
}

impl Asking {
    /// The answer, and how many rows there are that the visitor may see at all.
    async fn answer(&self, visitor: &Visitor) -> Result<(QueryAnswer, u64), Problem> {
        let request = Request {
            query: self.text.clone(),
            limit: ROWS,
            order_by: self.sort.name().to_owned(),
            descending: self.descending,
            cursor: self.cursor.clone(),
            facets: true,
            unstructured: Some(false),
            ..Request::default()
        };
        let sight = visitor.asked.sight().await;
        let answer = found(visitor.asked.explorer(), &request, &sight).await?;
        let visible = match answer.total {
            0 if !self.text.is_empty() => {
                let all = crate::query::Query { limit: 1, ..Default::default() };
                visitor.asked.explorer().read(|index| index.query(&all, &sight)).total
            }
            total => total,
        };
        Ok((answer, visible))
    }

    fn render(&self, answer: &QueryAnswer, visible: u64) -> String {
        let now = Timestamp::now();
        let rows: String = answer.objects.iter().map(|row| selectable(row, now)).collect();
        let results = if answer.objects.is_empty() {
            format!("<p class=\"empty\">{}</p>", escape(&self.empty(answer, visible)))
        } else {
            format!(
                "<form method=\"post\" action=\"/explore/act\"><input type=\"hidden\" name=\"next\" value=\"{}\">\
                 <div class=\"acts\"><button name=\"action\" value=\"reconcile\">Reconcile</button> \
                 <button name=\"action\" value=\"suspend\">Suspend</button> \
                 <button name=\"action\" value=\"resume\">Resume</button></div>\
                 <table><thead><tr><th></th>{}</tr></thead><tbody>{rows}</tbody></table></form>",
                self.link(),
                self.header()
            )
        };
        format!(
            "{}{}<div id=\"results\" data-query=\"{}\"><p class=\"count\" role=\"status\">{}</p>{}\
             <div class=\"columns\"><aside aria-label=\"Facets\">{}</aside><section>{results}{}</section></div></div>",
            self.form(),
            self.chips(),
            escape(&self.text),
            count(answer),
            notices(&answer.clusters, now),
            self.facets(answer.facets.as_deref().unwrap_or_default()),
            self.pages(answer)
        )
    }

    /// Why there is nothing: these are different things to do something about.
    fn empty(&self, answer: &QueryAnswer, visible: u64) -> String {
        let collected = answer.clusters.collected;
        if visible > 0 && !self.cursor.is_empty() {
            return "There are no more rows.".to_owned();
        }
        if visible > 0 {
            return "Nothing matches.".to_owned();
        }
        if collected.clusters < collected.of {
            return format!("Still collecting: {} of {} clusters are done.", collected.clusters, collected.of);
        }
        "There is nothing that you may see.".to_owned()
    }

    fn form(&self) -> String {
        let descending = if self.descending { "1" } else { "" };
        let hidden = |name: &str, value: &str| match value {
            "" => String::new(),
            value => format!("<input type=\"hidden\" name=\"{name}\" value=\"{}\">", escape(value)),
        };
        format!(
            "<form class=\"search\" method=\"get\" action=\"/explore\" role=\"search\"><label for=\"q\">Search</label>\
             <input id=\"q\" name=\"q\" type=\"search\" value=\"{}\" placeholder=\"kind:HelmRelease status:Failed podinfo\" \
             autocomplete=\"off\" spellcheck=\"false\">{}{}<button>Search</button></form>",
            escape(&self.text),
            hidden("sort", if self.sort == Order::default() { "" } else { self.sort.name() }),
            hidden("desc", descending)
        )
    }

    /// Each condition of the question, with a way to take it out.
    fn chips(&self) -> String {
        let pieces = pieces(&self.text);
        if pieces.is_empty() {
            return String::new();
        }
        let chip = |piece: &&str| {
            let rest = without(&pieces, piece);
            let (place, shown) = (self.asking(rest).link(), escape(piece));
            format!(
                "<li><a href=\"{place}\" aria-label=\"Remove {shown}\">{shown} <span aria-hidden=\"true\">×</span></a></li>"
            )
        };
        let chips: String = pieces.iter().map(chip).collect();
        let clear = self.asking("").link();
        format!("<ul class=\"chips\" aria-label=\"Conditions\">{chips}<li><a href=\"{clear}\">clear all</a></li></ul>")
    }

    fn header(&self) -> String {
        let column = |(field, title): &(&str, &str)| {
            let sorted = self.sort.name() == *field;
            let (mark, direction) = match (sorted, self.descending) {
                (true, false) => (" ▲", " aria-sort=\"ascending\""),
                (true, true) => (" ▼", " aria-sort=\"descending\""),
                (false, _) => ("", ""),
            };
            let order = Order::parse(field).unwrap_or_default();
            let place =
                Asking { sort: order, descending: sorted && !self.descending, ..self.asking(&*self.text) }.link();
            format!("<th{direction}><a href=\"{place}\">{title}{mark}</a></th>")
        };
        COLUMNS.iter().map(column).collect()
    }

    fn facets(&self, facets: &[FacetAnswer]) -> String {
        let pieces = pieces(&self.text);
        let facet = |facet: &FacetAnswer| {
            let value = |(value, count): (&String, &u64)| {
                let condition = condition(&facet.field, value);
                let chosen = pieces.contains(&condition.as_str());
                let text = if chosen { without(&pieces, &condition) } else { with(&self.text, &condition) };
                let place = self.asking(text).link();
                let (pressed, shown) = (if chosen { " class=\"chosen\"" } else { "" }, escape(value));
                let shown = if shown.is_empty() { "(none)".to_owned() } else { shown };
                format!("<li><a{pressed} href=\"{place}\">{shown}</a> <span class=\"n\">{count}</span></li>")
            };
            let values: String = facet.values.iter().zip(&facet.counts).take(VALUES).map(value).collect();
            let more = (facet.values.len() + facet.more).saturating_sub(VALUES);
            let more = if more > 0 { format!("<li class=\"more\">and {more} more</li>") } else { String::new() };
            format!("<h2>{}</h2><ul>{values}{more}</ul>", escape(&facet.field))
        };
        facets.iter().filter(|facet| !facet.values.is_empty()).map(facet).collect()
    }

    fn pages(&self, answer: &QueryAnswer) -> String {
        let mut links = String::new();
        if !self.cursor.is_empty() {
            let first = self.asking(&*self.text).link();
            links.push_str(&format!("<a rel=\"first\" href=\"{first}\">First page</a> "));
        }
        let at = |cursor: &String| Asking { cursor: cursor.clone(), ..self.clone() }.link();
        if let Some(previous) = answer.previous.as_ref().map(at) {
            links.push_str(&format!("<a rel=\"prev\" href=\"{previous}\">Previous page</a> "));
        }
        if let Some(next) = answer.cursor.as_ref().map(at) {
            links.push_str(&format!("<a rel=\"next\" href=\"{next}\">Next page</a>"));
        }
        if links.is_empty() { links } else { format!("<nav class=\"pages\" aria-label=\"Pages\">{links}</nav>") }
    }

    /// The page with the first rows that another question finds.
    fn asking(&self, text: impl Into<String>) -> Asking {
        Asking { text: text.into(), cursor: String::new(), ..self.clone() }
    }

    /// The URL that says this.
    fn link(&self) -> String {
        let sort = if self.sort == Order::default() { "" } else { self.sort.name() };
        let descending = if self.descending { "1" } else { "" };
        link("/explore", &[("q", &self.text), ("sort", sort), ("desc", descending), ("cursor", &self.cursor)])
    }
}

fn count(answer: &QueryAnswer) -> String {
    let rows = if answer.total == 1 { "1 object".to_owned() } else { format!("{} objects", answer.total) };
    let mut text = rows;
    if answer.incomplete {
        text.push_str("; some bodies have more words than are searched");
    }
    if !answer.unsearched.is_empty() {
        text.push_str(&format!("; not searched in bodies: {}", escape(&answer.unsearched.join(", "))));
    }
    text
}

/// What is not as it should be with the clusters.
fn notices(clusters: &ClustersAnswer, now: Timestamp) -> String {
    let mut text = String::new();
    for withheld in &clusters.withheld {
        text.push_str(&format!(
            "<p class=\"notice\">Nothing is shown of the cluster {} for now: {}</p>",
            escape(&withheld.cluster),
            escape(&withheld.reason)
        ));
    }
    for stale in &clusters.stale {
        let age = stale.since.as_deref().map(|since| format!(" for {}", age(since, now))).unwrap_or_default();
        text.push_str(&format!(
            "<p class=\"notice\">The cluster {} has not been heard of{age}: its rows may be out of date.</p>",
            escape(&stale.cluster)
        ));
    }
    let collected = clusters.collected;
    if collected.clusters < collected.of {
        text.push_str(&format!(
            "<p class=\"notice\">Still collecting: {} of {} clusters are done.</p>",
            collected.clusters, collected.of
        ));
    }
    text
}

/// A condition for one value of a facet, as the filter language has it.
fn condition(field: &str, value: &str) -> String {
    let quoted: String = value
        .chars()
        .flat_map(|letter| if matches!(letter, '"' | '\\') { vec!['\\', letter] } else { vec![letter] })
        .collect();
    format!("{field}:\"{quoted}\"")
}

fn with(text: &str, condition: &str) -> String {
    if text.is_empty() { condition.to_owned() } else { format!("{text} {condition}") }
}

fn without(pieces: &[&str], condition: &str) -> String {
    let rest: Vec<&str> = pieces.iter().copied().filter(|piece| *piece != condition).collect();
    rest.join(" ")
}
