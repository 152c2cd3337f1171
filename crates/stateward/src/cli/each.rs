//! One call for each of several names: goes on to the end of the list, and then fails if one of them failed.

use http::Method;
use serde_json::Value;

use super::failure::Failure;
use super::output;
use crate::client::Client;

/// What was answered, and the first failure.
#[derive(Default)]
pub struct Each {
    pub answers: Vec<Value>,
    failure: Option<Failure>,
}

impl Each {
    /// Deletes each of these from a collection. What fails is told at once, as a failure to do `what`.
    pub async fn delete(client: &Client, collection: &[&str], names: &[String], what: &str) -> Each {
        let mut each = Each::default();
        for name in names {
            let path: Vec<&str> = collection.iter().copied().chain([name.as_str()]).collect();
            match client.call(Method::DELETE, &path).await {
                Ok(answer) => each.answers.push(answer),
                Err(error) => {
                    output::talk(format_args!("failed to {what} {}: {error}", output::plain(name)));
                    each.failure = each.failure.or(Some(error));
                }
            }
        }
        each
    }

    /// To be asked after the answers were shown.
    pub fn end(self) -> anyhow::Result<()> {
        self.failure.map_or(Ok(()), |failure| Err(failure.into()))
    }
}
