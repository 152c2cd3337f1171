//! What people write to create records, and the one form in which the hub takes it. Pure.
//!
//! Three forms are read: the whole input of `createTypeInstances`; one record of it; and a record as it is shown, with
//! `metadata.name` and `latestResourceVersion`, which is how the proposal of delegated storage writes them.

use crate::document::Document;

/// What is wrong with a document.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {fault}")]
pub struct Misfit {
    pub field: String,
    pub fault: String,
}

/// The input of `createTypeInstances` that a document means.
pub fn creation(document: Document) -> Result<Document, Misfit> {
    if !document.is_map() {
        return Err(misfit("document", "it is not a map with typeInstances, or with the typeRef of one record"));
    }
    if document.get("typeInstances").is_none() {
        let record = shown(document)?;
        return Ok(Document::map([
            ("typeInstances", Document::List(vec![record])),
            ("usesRelations", Document::List(Vec::new())),
        ]));
    }
    let mut input = document;
    let Some(Document::List(records)) = input.take("typeInstances") else {
        return Err(misfit("typeInstances", "it must be a list"));
    };
    let records = records.into_iter().map(shown).collect::<Result<Vec<_>, _>>()?;
    if records.len() > 1 {
        let nameless = records.iter().position(|record| record.at(&["alias"]).is_none());
        if let Some(index) = nameless {
            let field = format!("typeInstances[{index}].alias");
            return Err(misfit(&field, "it is needed where a document has more than one record"));
        }
    }
    input.put("typeInstances", Document::List(records));
    if input.at(&["usesRelations"]).is_none() {
        input.put("usesRelations", Document::List(Vec::new()));
    }
    Ok(input)
}

/// A record as it is created. What the hub alone decides (its id, its versions) is left out.
fn shown(mut record: Document) -> Result<Document, Misfit> {
    if record.at(&["typeRef"]).is_none() {
        return Err(misfit("typeRef", "it is needed: the path and revision of a Type"));
    }
    record.take("id");
    if let Some(mut metadata) = record.take("metadata") {
        move_in(&mut metadata, "name", &mut record);
        move_in(&mut metadata, "namespace", &mut record);
    }
    if let Some(mut version) = record.take("latestResourceVersion") {
        if let Some(attributes) = version.take("metadata").and_then(|mut metadata| metadata.take("attributes")) {
            record.put("attributes", attributes);
        }
        let mut spec = version.take("spec").unwrap_or_default();
        if let Some(context) = spec.take("backend").and_then(|mut backend| backend.take("context")) {
            spec.put("additionalParameters", context);
        }
        for key in ["value", "additionalParameters"] {
            move_in(&mut spec, key, &mut record);
            move_in(&mut version, key, &mut record);
        }
        move_in(&mut version, "createdBy", &mut record);
    }
    Ok(record)
}

fn move_in(from: &mut Document, key: &str, to: &mut Document) {
    if let Some(value) = from.take(key).filter(|value| !value.is_null()) {
        to.put(key, value);
    }
}

/// The changes that a document means: one, or a list of them.
pub fn changes(document: Document) -> Result<Vec<Document>, Misfit> {
    let changes = match document {
        Document::List(changes) => changes,
        change => vec![change],
    };
    for (index, change) in changes.iter().enumerate() {
        if change.at(&["id"]).and_then(Document::as_str).is_none() {
            return Err(misfit(&format!("[{index}].id"), "it is needed: the id or the name of a record"));
        }
        if change.at(&["typeInstance"]).is_none_or(|change| !change.is_map()) {
            return Err(misfit(&format!("[{index}].typeInstance"), "it is needed: attributes, value or backend"));
        }
    }
    Ok(changes)
}

fn misfit(field: &str, fault: &str) -> Misfit {
    Misfit { field: field.to_owned(), fault: fault.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(text: &str) -> Result<String, String> {
        creation(Document::read(text).unwrap()).map(|input| input.to_json()).map_err(|misfit| misfit.to_string())
    }

    #[test]
    fn every_form_comes_to_the_input_of_the_hub() {
        let table = [
            (
                "typeInstances: [{alias: a, typeRef: {path: p, revision: 0.1.0}, value: 1.50}]",
                r#"{"typeInstances":[{"alias":"a","typeRef":{"path":"p","revision":"0.1.0"},"value":1.50}],"usesRelations":[]}"#,
            ),
            (
                "typeRef: {path: p, revision: 0.1.0}\nbackend: helm-storage\nadditionalParameters: {name: x}",
                r#"{"typeInstances":[{"typeRef":{"path":"p","revision":"0.1.0"},"backend":"helm-storage","additionalParameters":{"name":"x"}}],"usesRelations":[]}"#,
            ),
            (
                "id: 3ef2e4ac\nmetadata: {name: helm-storage}\ntypeRef: {path: p, revision: 0.1.0}\nlatestResourceVersion:\n  metadata:\n    \
                 attributes: [{path: a, revision: 0.1.0}]\n  value: {url: 'u:1'}\nbackend: capact-redis",
                r#"{"typeInstances":[{"typeRef":{"path":"p","revision":"0.1.0"},"backend":"capact-redis","name":"helm-storage","attributes":[{"path":"a","revision":"0.1.0"}],"value":{"url":"u:1"}}],"usesRelations":[]}"#,
            ),
            (
                "typeRef: {path: p, revision: 0.1.0}\nlatestResourceVersion: {createdBy: me, spec: {value: 1, backend: {context: {a: 2}}}}\nbackend: b",
                r#"{"typeInstances":[{"typeRef":{"path":"p","revision":"0.1.0"},"backend":"b","value":1,"additionalParameters":{"a":2},"createdBy":"me"}],"usesRelations":[]}"#,
            ),
        ];
        for (text, expected) in table {
            assert_eq!(made(text).unwrap(), expected, "{text}");
        }
    }

    #[test]
    fn what_is_missing_is_named() {
        let table = [
            ("1", "document: it is not a map"),
            ("typeInstances: {}", "typeInstances: it must be a list"),
            ("value: 1", "typeRef: it is needed"),
            (
                "typeInstances: [{alias: a, typeRef: {path: p}}, {typeRef: {path: p}}]",
                "typeInstances[1].alias: it is needed where a document has more than one record",
            ),
        ];
        for (text, fault) in table {
            let told = made(text).unwrap_err();
            assert!(told.contains(fault), "{told}");
        }
        let change = |text: &str| changes(Document::read(text).unwrap()).map_err(|misfit| misfit.to_string());
        assert_eq!(change("id: a\ntypeInstance: {value: 1}").unwrap().len(), 1);
        assert_eq!(change("[{id: a, typeInstance: {}}, {id: b, typeInstance: {}}]").unwrap().len(), 2);
        assert!(change("[{id: a, typeInstance: {}}, {typeInstance: {}}]").unwrap_err().starts_with("[1].id"));
        assert!(change("id: a").unwrap_err().starts_with("[0].typeInstance"));
    }
}
