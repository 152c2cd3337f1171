//! What a step of a workflow leaves in a file, and what a downloaded record looks like. Pure.

use crate::document::Document;

/// A value, a context, or both.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Artifact {
    pub value: Option<Document>,
    pub context: Option<Document>,
}

impl Artifact {
    /// Reads `value`, `backend.context` and `additionalParameters`; a document that has none of these keys is itself the value, as
    /// it was before there were backends.
    pub fn of(mut document: Document) -> Result<Artifact, String> {
        let in_backend = document.get("backend").is_some_and(|backend| backend.get("context").is_some());
        let has = |key: &str| document.get(key).is_some();
        if !has("value") && !has("additionalParameters") && !in_backend {
            return Ok(Artifact { value: given(Some(document)), context: None });
        }
        let context = given(document.take("backend").and_then(|mut backend| backend.take("context")));
        let parameters = given(document.take("additionalParameters"));
        if context.is_some() && parameters.is_some() && context != parameters {
            return Err("backend.context and additionalParameters differ: leave one of them out".to_owned());
        }
        Ok(Artifact { value: given(document.take("value")), context: context.or(parameters) })
    }

    /// The file of a record: `id`, its value, and its context where there is one.
    pub fn of_record(record: &Document, version: &str) -> Result<Document, String> {
        let spec = |keys: &[&str]| record.at(&[&[version, "spec"], keys].concat()).cloned();
        if let Some(fault) = spec(&["valueError"]) {
            return Err(format!("its value could not be read: {}", fault.as_str().unwrap_or_default()));
        }
        let id = record.get("id").cloned().unwrap_or_default();
        let mut document = Document::map([("id", id), ("value", spec(&["value"]).unwrap_or_default())]);
        if let Some(context) = spec(&["backend", "context"]) {
            document.put("backend", Document::map([("context", context)]));
        }
        Ok(document)
    }
}

/// Null is absent.
fn given(document: Option<Document>) -> Option<Document> {
    document.filter(|document| !document.is_null())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_of_an_artifact_is_read() {
        let table = [
            ("value: foo", Some("\"foo\""), None),
            ("additionalParameters: {name: r}", None, Some(r#"{"name":"r"}"#)),
            (
                "value: foo\nadditionalParameters: {key: bar, value: baz}",
                Some("\"foo\""),
                Some(r#"{"key":"bar","value":"baz"}"#),
            ),
            ("backend: {context: {name: r}}", None, Some(r#"{"name":"r"}"#)),
            ("value: {n: 1.50}\nbackend: {context: {a: 1}}", Some(r#"{"n":1.50}"#), Some(r#"{"a":1}"#)),
            ("id: a\nvalue: 12345678901234567890123", Some("12345678901234567890123"), None),
            // The form from before: the whole document is the value.
            ("host: db\nport: 5432", Some(r#"{"host":"db","port":5432}"#), None),
            ("backend: {url: x}", Some(r#"{"backend":{"url":"x"}}"#), None),
            ("[1, 2]", Some("[1,2]"), None),
            ("just text", Some("\"just text\""), None),
            ("value: null", None, None),
            ("value: null\nbackend: {context: null}", None, None),
            ("additionalParameters: {a: 1}\nbackend: {context: {a: 1}}", None, Some(r#"{"a":1}"#)),
            ("", None, None),
        ];
        for (text, value, context) in table {
            let artifact = Artifact::of(Document::read(text).unwrap()).unwrap();
            let shown = |document: Option<Document>| document.map(|document| document.to_json());
            let expected = (value.map(str::to_owned), context.map(str::to_owned));
            assert_eq!((shown(artifact.value), shown(artifact.context)), expected, "{text}");
        }
        let both = Document::read("additionalParameters: {a: 1}\nbackend: {context: {a: 2}}").unwrap();
        assert!(Artifact::of(both).unwrap_err().contains("differ"));
    }

    #[test]
    fn a_record_becomes_a_file() {
        let record = |spec: &str| Document::read(&format!("{{\"id\":\"a\",\"v\":{{\"spec\":{spec}}}}}")).unwrap();
        let table = [
            (
                r#"{"value":{"n":1.50},"valueError":null,"backend":{"context":null}}"#,
                r#"{"id":"a","value":{"n":1.50}}"#,
            ),
            (r#"{"value":1,"backend":{"context":{"k":2}}}"#, r#"{"id":"a","value":1,"backend":{"context":{"k":2}}}"#),
        ];
        for (spec, expected) in table {
            assert_eq!(Artifact::of_record(&record(spec), "v").unwrap().to_json(), expected);
        }
        assert!(
            Artifact::of_record(&record(r#"{"value":null,"valueError":"away"}"#), "v").unwrap_err().contains("away")
        );
    }
}
