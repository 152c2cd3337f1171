//! GraphQL as clients meet it: every query and mutation, the words of the original, what each caller may see.

mod access;
mod ends;
mod lists;
mod locks;
mod malformed;
mod mutations;
mod raw;
mod seed;
mod storage;
mod texts;

use serde_json::Value;

/// The ids in a list of records.
pub(crate) fn ids(list: &Value) -> Vec<String> {
    let id = |item: &Value| item["id"].as_str().unwrap_or_else(|| panic!("{list}")).to_owned();
    list.as_array().unwrap_or_else(|| panic!("no list: {list}")).iter().map(id).collect()
}

#[test]
fn the_committed_schema_is_the_one_that_is_served() {
    assert_eq!(include_str!("../../../schema.graphql"), hub::graphql::sdl(), "run `cargo xtask generate`");
}
