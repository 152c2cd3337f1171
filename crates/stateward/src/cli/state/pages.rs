//! Lists that come in pages.

use http::Method;
use serde::Deserialize;
use serde_json::Value;

use crate::cli::failure::Failure;
use crate::client::{Client, Query};

#[derive(Deserialize)]
struct Page {
    items: Vec<Value>,
    #[serde(rename = "continue")]
    next: Option<String>,
}

/// How many items one answer holds.
const PAGE: &str = "500";

/// The items of all pages.
pub async fn all(client: &Client, path: &[&str], query: Query<'_>) -> Result<Vec<Value>, Failure> {
    let (mut items, mut next) = (Vec::new(), None::<String>);
    loop {
        let mut query = query.to_vec();
        query.extend([("limit", Some(PAGE)), ("continue", next.as_deref())]);
        let answer = client.ask(Method::GET, path, &query).await?;
        let page: Page = client.read(&answer)?;
        // A server that promises more and gives nothing must not keep us here.
        let empty = page.items.is_empty();
        items.extend(page.items);
        next = page.next.filter(|next| !next.is_empty() && !empty);
        if next.is_none() {
            return Ok(items);
        }
    }
}
