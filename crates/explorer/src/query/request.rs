//! The JSON request: the original's fields, and ours beside them.

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer};

use super::{Clause, Cursor, Error, Facets, Field, Order, Part, Pattern, Query, parse};

/// The body of `POST /v1/query`.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
#[schemars(rename = "Query")]
pub struct Request {
    /// Words to look for anywhere, taken as they are.
    #[serde(deserialize_with = "or_default")]
    pub terms: String,
    /// Conditions in the filter language, all to be fulfilled.
    #[serde(deserialize_with = "or_default")]
    pub filters: Vec<String>,
    /// The filter language in one text.
    #[serde(deserialize_with = "or_default")]
    pub query: String,
    #[serde(deserialize_with = "or_default")]
    pub offset: i64,
    /// 0: as many as the server gives at once.
    #[serde(deserialize_with = "or_default")]
    pub limit: i64,
    #[serde(deserialize_with = "or_default")]
    pub order_by: String,
    #[serde(deserialize_with = "or_default")]
    pub descending: bool,
    /// Where the last page ended or began, as its answer says; instead of `offset`.
    #[serde(deserialize_with = "or_default")]
    pub cursor: String,
    /// Whether counts by field are wanted.
    #[serde(deserialize_with = "or_default")]
    pub facets: bool,
    /// Labels to count beside the fields.
    #[serde(deserialize_with = "or_default")]
    pub facet_labels: Vec<String>,
    /// Whether the bodies of objects are wanted, as the original sent them; true by default.
    pub unstructured: Option<bool>,
}

/// A field that is null counts as left out, as in the original, whose JSON is that of protobufs.
fn or_default<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(field: D) -> Result<T, D::Error> {
    Option::deserialize(field).map(Option::unwrap_or_default)
}

/// More labels than a page could show.
const MOST_LABELS: usize = 32;
const MOST_FILTERS: usize = 64;

impl Request {
    /// What it asks, or the first fault in it.
    pub fn query(&self) -> Result<Query, Error> {
        let mut clauses = terms(&self.terms)?;
        if self.filters.len() > MOST_FILTERS {
            return Err(whole(Part::Filter(MOST_FILTERS), "there are too many filters", "64 are the most"));
        }
        for (place, filter) in self.filters.iter().enumerate() {
            clauses.extend(parse::clauses(filter, Part::Filter(place))?);
        }
        clauses.extend(parse::clauses(&self.query, Part::Query)?);
        let order = match self.order_by.as_str() {
            "" => Order::default(),
            name => Order::parse(name).ok_or_else(|| {
                let all = Order::ALL.map(Order::name).join(", ");
                whole(Part::OrderBy, "rows cannot be ordered by that", &format!("there are {all}"))
            })?,
        };
        let number = |part: Part, number: i64| {
            usize::try_from(number).map_err(|_| whole(part, "it is below 0", "write 0 or more, or leave it out"))
        };
        let (offset, limit) = (number(Part::Offset, self.offset)?, number(Part::Limit, self.limit)?);
        let after = self.after(order)?;
        if after.is_some() && offset > 0 {
            return Err(whole(
                Part::Offset,
                "there is a cursor too",
                "a cursor goes on where a page ended: leave one out",
            ));
        }
        let labels = self.facet_labels.iter().take(MOST_LABELS).cloned().collect();
        let facets = if self.facets { Facets::WithLabels(labels) } else { Facets::None };
        Ok(Query { clauses, order, descending: self.descending, limit, offset, after, facets })
    }

    fn after(&self, order: Order) -> Result<Option<Cursor>, Error> {
        if self.cursor.is_empty() {
            return Ok(None);
        }
        let begin = "leave it out to begin at the first page";
        let cursor = Cursor::decode(&self.cursor).map_err(|error| whole(Part::Cursor, &error.to_string(), begin))?;
        if (cursor.order, cursor.descending) != (order, self.descending) {
            return Err(whole(Part::Cursor, "it is from a page in another order", begin));
        }
        Ok(Some(cursor))
    }
}

fn terms(text: &str) -> Result<Vec<Clause>, Error> {
    if text.len() > parse::LONGEST {
        return Err(whole(Part::Terms, "they are too long", &format!("at most {} bytes are read", parse::LONGEST)));
    }
    let clause = |word: &str| Clause { field: Field::Text, patterns: vec![Pattern::exact(word)], negated: false };
    Ok(text.split_whitespace().map(clause).collect())
}

fn whole(part: Part, fault: &str, cure: &str) -> Error {
    Error { part, at: None, fault: fault.to_owned(), cure: cure.to_owned() }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn ask(request: serde_json::Value) -> Result<Query, Error> {
        serde_json::from_value::<Request>(request).unwrap().query()
    }

    #[test]
    fn the_originals_request_and_the_language_come_to_the_same() {
        let request = ask(json!({
            "terms": "podinfo failed", "filters": ["+kind:/(HelmRelease|Kustomization)/", "+cluster:\"local\""],
            "offset": 25, "limit": 25, "orderBy": "kind", "descending": true,
        }));
        let parsed = Query::parse(r#"podinfo failed kind:/(HelmRelease|Kustomization)/ cluster:"local""#).unwrap();
        let expected = Query { order: Order::Kind, descending: true, limit: 25, offset: 25, ..parsed };
        assert_eq!(request.unwrap(), expected);
        assert_eq!(ask(json!({})).unwrap(), Query::default());
        // Programs in Go send their empty lists so, and a cursor is null at the end.
        let fields = ["terms", "filters", "query", "offset", "limit", "orderBy", "descending", "cursor", "facets"];
        let nulls = fields.into_iter().chain(["facetLabels", "unstructured"]);
        let nulls = nulls.map(|field| (field.to_owned(), serde_json::Value::Null)).collect();
        assert_eq!(ask(serde_json::Value::Object(nulls)).unwrap(), Query::default());
        // Terms are text whatever they look like.
        let literal = ask(json!({ "terms": "kind:x *" })).unwrap();
        assert_eq!(literal.clauses.len(), 2);
        assert!(literal.clauses.iter().all(|clause| clause.field == Field::Text));
    }

    #[test]
    fn rows_are_ordered_by_any_name_of_a_field() {
        let table = [
            ("", Order::Name),
            ("clusterName", Order::Cluster),
            ("ns", Order::Namespace),
            ("msg", Order::Message),
            ("Status", Order::Status),
            ("age", Order::Age),
        ];
        for (name, order) in table {
            assert_eq!(ask(json!({ "orderBy": name })).unwrap().order, order, "{name}");
        }
        for bad in ["uid", "text", "labels.app", "Object.spec"] {
            assert!(ask(json!({ "orderBy": bad })).is_err(), "{bad}");
        }
    }

    #[test]
    fn faults_name_the_part() {
        let cursor = Cursor::decode(
            &Cursor {
                order: Order::Name,
                descending: false,
                value: super::super::SortValue::Text("a".to_owned()),
                key: crate::row::Key::from_id("c/n/g/v/K/a").unwrap(),
                side: super::super::Side::After,
            }
            .encode(),
        );
        let cursor = cursor.unwrap().encode();
        let table = [
            (json!({ "filters": ["kind:a", "status:no"] }), "filters[1] at character 8: there is no such status"),
            (json!({ "query": "a -" }), "query at character 3: nothing follows '-'"),
            (json!({ "orderBy": "size" }), "orderBy: rows cannot be ordered by that"),
            (json!({ "limit": -1 }), "limit: it is below 0"),
            (json!({ "offset": -1 }), "offset: it is below 0"),
            (json!({ "cursor": "x" }), "cursor: it is not a cursor"),
            (json!({ "cursor": cursor, "orderBy": "kind" }), "cursor: it is from a page in another order"),
            (json!({ "cursor": cursor, "descending": true }), "cursor: it is from a page in another order"),
            (json!({ "cursor": cursor, "offset": 5 }), "offset: there is a cursor too"),
            (json!({ "terms": "x".repeat(9000) }), "terms: they are too long"),
            (json!({ "filters": vec!["a"; 65] }), "filters[64]: there are too many filters"),
        ];
        for (request, text) in table {
            let error = ask(request.clone()).unwrap_err().to_string();
            assert!(error.starts_with(text), "{request}: {error}");
        }
        assert!(ask(json!({ "cursor": cursor })).unwrap().after.is_some());
    }
}
