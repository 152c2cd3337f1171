//! A record in the form that changes it. Pure.

use crate::document::Document;

/// What a backend takes of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takes {
    Values,
    /// Its value lies elsewhere and cannot be changed through the hub.
    ContextAlone,
}

/// The update that changes nothing: the record's id, and its attributes, value and context in this version.
pub fn update(record: &Document, version: &str, takes: Takes) -> Result<Document, String> {
    let at = |keys: &[&str]| record.at(&[&[version], keys].concat()).cloned();
    if let Some(fault) = at(&["spec", "valueError"]).filter(|_| takes == Takes::Values) {
        return Err(format!("its value could not be read: {}", fault.as_str().unwrap_or_default()));
    }
    let mut change =
        Document::map([("attributes", at(&["metadata", "attributes"]).unwrap_or(Document::List(Vec::new())))]);
    if let Some(value) = at(&["spec", "value"]).filter(|_| takes == Takes::Values) {
        change.put("value", value);
    }
    if let Some(context) = at(&["spec", "backend", "context"]) {
        change.put("backend", Document::map([("context", context)]));
    }
    let id = record.get("id").cloned().unwrap_or_default();
    Ok(Document::map([("id", id), ("typeInstance", change)]))
}

/// The same for an editor, with what cannot be changed as a comment.
pub fn for_editor(record: &Document, version: &str, takes: Takes) -> Result<String, String> {
    let text = |keys: &[&str], otherwise: &str| {
        crate::cli::output::plain(record.at(keys).and_then(Document::as_str).unwrap_or(otherwise))
    };
    let number = record.at(&[version, "resourceVersion"]).map(Document::to_json).unwrap_or_default();
    let mut edited = format!(
        "# {} {}:{}, version {number}.\n# Saving makes a new version; leave the file as it is to change nothing.\n",
        text(&["name"], "TypeInstance"),
        text(&["typeRef", "path"], ""),
        text(&["typeRef", "revision"], ""),
    );
    edited.push_str(&update(record, version, takes)?.to_yaml());
    let shown = record.at(&[version, "spec", "value"]).filter(|_| takes == Takes::ContextAlone);
    if let Some(value) = shown {
        edited.push_str("# The backend takes no values; what it has now:\n");
        let value = Document::map([("value", value.clone())]).to_yaml();
        value.lines().for_each(|line| edited.push_str(&format!("#   {line}\n")));
    }
    Ok(edited)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RECORD: &str = r#"{"id":"a1","name":null,"typeRef":{"path":"cap.type.x","revision":"0.1.0"},
        "latestResourceVersion":{"resourceVersion":3,"metadata":{"attributes":[{"path":"cap.a","revision":"0.1.0"}]},
        "spec":{"value":{"n":1.50},"valueError":null,"backend":{"context":{"name":"x"}}}}}"#;

    #[test]
    fn a_record_becomes_the_update_that_changes_nothing() {
        let record = Document::read(RECORD).unwrap();
        let table = [
            (
                Takes::Values,
                r#"{"id":"a1","typeInstance":{"attributes":[{"path":"cap.a","revision":"0.1.0"}],"value":{"n":1.50},"backend":{"context":{"name":"x"}}}}"#,
            ),
            (
                Takes::ContextAlone,
                r#"{"id":"a1","typeInstance":{"attributes":[{"path":"cap.a","revision":"0.1.0"}],"backend":{"context":{"name":"x"}}}}"#,
            ),
        ];
        for (takes, expected) in table {
            assert_eq!(update(&record, "latestResourceVersion", takes).unwrap().to_json(), expected);
            let edited = Document::read(&for_editor(&record, "latestResourceVersion", takes).unwrap()).unwrap();
            assert_eq!(edited.to_json(), expected, "an editor that saves at once changes nothing");
        }
    }

    #[test]
    fn a_value_that_cannot_be_changed_is_a_comment_and_one_that_cannot_be_read_an_error() {
        let record = Document::read(RECORD).unwrap();
        let text = for_editor(&record, "latestResourceVersion", Takes::ContextAlone).unwrap();
        assert!(text.contains("#   value:\n#     \"n\": 1.50\n"), "{text}");
        assert!(!for_editor(&record, "latestResourceVersion", Takes::Values).unwrap().contains("#   value"));
        let broken = Document::read(&RECORD.replace("\"valueError\":null", "\"valueError\":\"away\"")).unwrap();
        assert_eq!(
            update(&broken, "latestResourceVersion", Takes::Values).unwrap_err(),
            "its value could not be read: away"
        );
        assert!(update(&broken, "latestResourceVersion", Takes::ContextAlone).is_ok());
    }
}
