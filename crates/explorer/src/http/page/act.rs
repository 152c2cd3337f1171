//! What the buttons do, and what became of each row.

use access::http::Problem;
use axum::extract::{FromRequestParts as _, Request, State};
use axum::response::Response;

use super::super::Http;
use super::super::actions::ResultAnswer;
use super::super::deeds::Deed;
use super::html::escape;
use super::login::read;
use super::table::object;
use super::visitor::{Visitor, from_own_page, own_page};
use super::{failed, page};

pub(super) async fn act(State(http): State<Http>, request: Request) -> Response {
    let (mut parts, body) = request.into_parts();
    if let Err(problem) = from_own_page(&parts.headers) {
        return failed(None, &problem);
    }
    let visitor = match Visitor::from_request_parts(&mut parts, &http).await {
        Ok(visitor) => visitor,
        Err(response) => return response,
    };
    let form = read(Request::from_parts(parts, body)).await.unwrap_or_default();
    let Some(deed) = Deed::parse(form.one("action")) else {
        return failed(
            Some(&visitor),
            &Problem::bad_request("that cannot be done", "go back and use one of the buttons"),
        );
    };
    match visitor.asked.act(deed, form.all("id")).await {
        Ok(answer) => page("Done", Some(&visitor), &results(deed, &answer.results, own_page(form.one("next")))),
        Err(problem) if form.all("id").is_empty() => {
            let cure = Problem::bad_request("no row is selected", "go back and select some");
            failed(Some(&visitor), &Problem { status: problem.status, ..cure })
        }
        Err(problem) => failed(Some(&visitor), &problem),
    }
}

fn results(deed: Deed, results: &[ResultAnswer], next: &str) -> String {
    let done = results.iter().filter(|result| result.done).count();
    let line = |result: &ResultAnswer| {
        let told = result.fault.as_deref().unwrap_or("done");
        format!(
            "<tr><td><a href=\"{}\">{}</a></td><td>{}</td></tr>",
            object(&result.id),
            escape(&result.id),
            escape(told)
        )
    };
    let lines: String = results.iter().map(line).collect();
    format!(
        "<h1>{}: {done} of {} done</h1><table><thead><tr><th>Object</th><th>Result</th></tr></thead><tbody>{lines}</tbody>\
         </table><p><a href=\"{}\">Back</a></p>",
        deed.name(),
        results.len(),
        escape(next)
    )
}
