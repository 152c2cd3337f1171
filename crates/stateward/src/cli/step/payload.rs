//! From a payload and artifacts to what is sent to the hub. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;

use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::pbkdf2;

use super::artifact::Artifact;
use crate::cli::output::hexadecimal;
use crate::document::Document;

/// Artifacts by the name of their file.
pub type Artifacts = BTreeMap<String, Artifact>;

/// What a payload asks for, in its order.
#[derive(Clone, Debug)]
pub struct Payload {
    whole: Document,
    records: Vec<Document>,
    /// The files that belong to the records.
    pub names: Vec<String>,
    /// Those of records that have a value or a context by themselves: the draft has them in the payload.
    given: BTreeSet<String>,
}

/// Which of the two payloads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The input of `createTypeInstances`, with files named after aliases.
    Upload,
    /// A list of the inputs of `updateTypeInstances`, with files named after ids.
    Update,
}

impl Payload {
    pub fn read(document: Document, kind: Kind) -> Result<Payload, String> {
        let (list, key) = match kind {
            Kind::Upload => (document.at(&["typeInstances"]), "alias"),
            Kind::Update => (Some(&document), "id"),
        };
        let records = match list {
            None | Some(Document::Null) => Vec::new(),
            Some(Document::List(records)) => records.clone(),
            Some(_) if kind == Kind::Upload => return Err("typeInstances: it must be a list".to_owned()),
            Some(_) => return Err("the payload must be a list of updates".to_owned()),
        };
        let (mut names, mut given) = (Vec::new(), BTreeSet::new());
        for (index, record) in records.iter().enumerate() {
            let name = record.at(&[key]).and_then(Document::as_str);
            let name = name.ok_or_else(|| format!("[{index}].{key}: it is needed: it names the file of the record"))?;
            if name.is_empty() || name.contains('/') || name == "." || name == ".." {
                return Err(format!("[{index}].{key}: it names no file in the directory"));
            }
            if names.iter().any(|known| known == name) {
                return Err(format!("[{index}].{key}: it is there twice"));
            }
            names.push(name.to_owned());
            let content = if kind == Kind::Upload { Some(record) } else { record.at(&["typeInstance"]) };
            if content.is_some_and(has_content) {
                given.insert(name.to_owned());
            }
        }
        Ok(Payload { whole: document, records, names, given })
    }

    /// Whether a record needs no artifact.
    pub fn has_content(&self, name: &str) -> bool {
        self.given.contains(name)
    }

    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// The backends that records of an upload name, by id or name.
    pub fn backends(&self) -> BTreeSet<&str> {
        self.records.iter().filter_map(backend_of).collect()
    }

    /// The input that creates the records whose artifacts are there, with the relations among what is left. `context_alone` says
    /// whether a backend takes no values.
    pub fn upload(&self, artifacts: &Artifacts, context_alone: impl Fn(&str) -> bool) -> Document {
        let mut records = Vec::new();
        for (record, name) in self.records.iter().zip(&self.names) {
            let Some(artifact) = artifacts.get(name) else { continue };
            let drops = backend_of(record).is_some_and(&context_alone);
            let mut record = record.clone();
            if let Some(value) = artifact.value.clone().filter(|_| !drops) {
                record.put("value", value);
            } else if drops {
                record.take("value");
            }
            if let Some(context) = artifact.context.clone() {
                match record.get("backend").cloned() {
                    Some(mut backend) if backend.is_map() => {
                        record.take("additionalParameters");
                        backend.put("context", context);
                        record.put("backend", backend);
                    }
                    _ => record.put("additionalParameters", context),
                }
            }
            records.push(record);
        }
        let relations = self.whole.at(&["usesRelations"]).and_then(Document::as_list).unwrap_or_default();
        let is_gone = |end: &str| self.names.iter().any(|name| name == end) && !artifacts.contains_key(end);
        let stays = |relation: &&Document| {
            ["from", "to"].iter().all(|end| !relation.at(&[end]).and_then(Document::as_str).is_some_and(is_gone))
        };
        let relations: Vec<Document> = relations.iter().filter(stays).cloned().collect();
        let mut input = self.whole.clone();
        input.put("typeInstances", Document::List(records));
        input.put("usesRelations", Document::List(relations));
        input
    }

    /// The changes of the records whose artifacts are there.
    pub fn update(&self, artifacts: &Artifacts, context_alone: impl Fn(&str) -> bool) -> Vec<Document> {
        let mut changes = Vec::new();
        for (change, name) in self.records.iter().zip(&self.names) {
            let Some(artifact) = artifacts.get(name) else { continue };
            let mut change = change.clone();
            let mut instance = change.take("typeInstance").unwrap_or_default();
            if context_alone(name) {
                instance.take("value");
            } else if let Some(value) = artifact.value.clone() {
                instance.put("value", value);
            }
            if let Some(context) = artifact.context.clone() {
                instance.take("additionalParameters");
                instance.put("backend", Document::map([("context", context)]));
            }
            if !instance.is_map() {
                instance = Document::Map(Vec::new());
            }
            change.put("typeInstance", instance);
            changes.push(change);
        }
        changes
    }

    /// The key under which a repeated upload is the same one: all that is sent, for what differs is another upload.
    ///
    /// The hub keeps it as it is, and there are values in what it is made of: it is made slowly, for whoever wants to guess them.
    pub fn key(&self, input: &Document) -> String {
        let salt = digest(&SHA256, self.whole.to_json().as_bytes());
        let mut key = [0; 32];
        let text = input.to_json();
        pbkdf2::derive(pbkdf2::PBKDF2_HMAC_SHA256, ROUNDS, salt.as_ref(), text.as_bytes(), &mut key);
        format!("step-upload-{}", hexadecimal(&key))
    }
}

const ROUNDS: NonZeroU32 = NonZeroU32::new(100_000).unwrap();

fn has_content(record: &Document) -> bool {
    [&["value"][..], &["additionalParameters"], &["backend", "context"]].iter().any(|path| record.at(path).is_some())
}

/// The id or name of a backend, in either vocabulary.
fn backend_of(record: &Document) -> Option<&str> {
    let backend = record.at(&["backend"])?;
    backend.as_str().or_else(|| backend.at(&["id"]).and_then(Document::as_str))
}

#[cfg(test)]
mod tests {
    use super::*;

    const UPLOAD: &str = "
typeInstances:
- alias: config
  attributes: []
  backend: null
  createdBy: default/act-1
  typeRef: {path: cap.type.config, revision: 0.1.0}
  value: null
- alias: release
  attributes: []
  backend: {id: helm, context: null}
  createdBy: default/act-1
  typeRef: {path: cap.type.release, revision: 0.1.0}
  value: null
usesRelations:
- {from: config, to: release}
- {from: config, to: existing-id}
";

    fn artifacts(texts: &[(&str, &str)]) -> Artifacts {
        let read = |text: &str| Artifact::of(Document::read(text).unwrap()).unwrap();
        texts.iter().map(|(name, text)| ((*name).to_owned(), read(text))).collect()
    }

    fn upload(text: &str) -> Payload {
        Payload::read(Document::read(text).unwrap(), Kind::Upload).unwrap()
    }

    #[test]
    fn artifacts_go_into_their_records() {
        let payload = upload(UPLOAD);
        assert_eq!(payload.names, ["config", "release"]);
        assert_eq!(payload.backends().into_iter().collect::<Vec<_>>(), ["helm"]);
        let given = artifacts(&[("config", "n: 1.50"), ("release", "value: shown\nadditionalParameters: {name: r}")]);
        let input = payload.upload(&given, |backend| backend == "helm");
        let list = |path: &[&str]| input.at(path).unwrap().to_json();
        assert_eq!(
            list(&["typeInstances"]),
            r#"[{"alias":"config","attributes":[],"backend":null,"createdBy":"default/act-1","typeRef":{"path":"cap.type.config","revision":"0.1.0"},"value":{"n":1.50}},{"alias":"release","attributes":[],"backend":{"id":"helm","context":{"name":"r"}},"createdBy":"default/act-1","typeRef":{"path":"cap.type.release","revision":"0.1.0"}}]"#
        );
        assert_eq!(
            list(&["usesRelations"]),
            r#"[{"from":"config","to":"release"},{"from":"config","to":"existing-id"}]"#
        );
        let with_values = payload.upload(&given, |_| false);
        assert_eq!(
            with_values.at(&["typeInstances"]).unwrap().as_list().unwrap()[1].at(&["value"]),
            Some(&"shown".into())
        );
    }

    #[test]
    fn a_backend_that_is_a_text_gets_parameters() {
        let payload = upload("typeInstances: [{alias: a, backend: 3ef2e4ac, value: null}]");
        let input = payload.upload(&artifacts(&[("a", "additionalParameters: {name: r}")]), |_| true);
        assert_eq!(
            input.to_json(),
            r#"{"typeInstances":[{"alias":"a","backend":"3ef2e4ac","additionalParameters":{"name":"r"}}],"usesRelations":[]}"#
        );
    }

    #[test]
    fn what_has_no_artifact_is_left_out_with_its_relations() {
        let payload = upload(UPLOAD);
        let input = payload.upload(&artifacts(&[("config", "value: 1")]), |_| false);
        assert_eq!(input.at(&["typeInstances"]).unwrap().as_list().unwrap().len(), 1);
        assert_eq!(input.at(&["usesRelations"]).unwrap().to_json(), r#"[{"from":"config","to":"existing-id"}]"#);
    }

    #[test]
    fn a_repeated_upload_has_the_same_key_and_another_one_has_another() {
        let key = |text: &str, given: &[(&str, &str)]| {
            let payload = upload(text);
            payload.key(&payload.upload(&artifacts(given), |_| false))
        };
        let (both, one) = ([("config", "1"), ("release", "1")], [("config", "1")]);
        let first = key(UPLOAD, &both);
        assert_eq!(first, key(UPLOAD, &both));
        for (text, given) in [
            (UPLOAD.to_owned(), &[("config", "1"), ("release", "2")][..]),
            (UPLOAD.to_owned(), &one[..]),
            (UPLOAD.replace("act-1", "act-2"), &both[..]),
            (UPLOAD.replace("createdBy: default/act-1", "createdBy: null"), &both[..]),
        ] {
            assert_ne!(first, key(&text, given), "{text} {given:?}");
        }
        assert!(first.len() < 128);
    }

    #[test]
    fn records_with_a_value_or_a_context_need_no_artifact() {
        let table = [
            ("{alias: a, value: 0}", "{id: a, typeInstance: {value: false}}", true),
            ("{alias: a, additionalParameters: {}}", "{id: a, typeInstance: {additionalParameters: {}}}", true),
            ("{alias: a, backend: {context: {}}}", "{id: a, typeInstance: {backend: {context: {}}}}", true),
            ("{alias: a, value: null, backend: {id: b, context: null}}", "{id: a, value: 1}", false),
            ("{alias: a, backend: b, attributes: [1]}", "{id: a, typeInstance: {attributes: [1]}}", false),
        ];
        for (record, change, expected) in table {
            let new = upload(&format!("typeInstances: [{record}]"));
            assert_eq!(new.has_content("a"), expected, "{record}");
            let changes = Payload::read(Document::read(&format!("[{change}]")).unwrap(), Kind::Update).unwrap();
            assert_eq!(changes.has_content("a"), expected, "{change}");
        }
    }

    #[test]
    fn updates_take_what_their_artifacts_have() {
        let text = "- {id: a, ownerID: o, createdBy: o, typeInstance: {attributes: []}}\n- {id: b}\n- {id: c, typeInstance: {value: 1}}";
        let payload = Payload::read(Document::read(text).unwrap(), Kind::Update).unwrap();
        let given =
            artifacts(&[("a", "value: 1.50"), ("b", "value: 1\nbackend: {context: {k: 1}}"), ("c", "value: 2")]);
        let changes = payload.update(&given, |id| id == "c");
        let shown: Vec<String> = changes.iter().map(Document::to_json).collect();
        assert_eq!(
            shown,
            [
                r#"{"id":"a","ownerID":"o","createdBy":"o","typeInstance":{"attributes":[],"value":1.50}}"#,
                r#"{"id":"b","typeInstance":{"value":1,"backend":{"context":{"k":1}}}}"#,
                r#"{"id":"c","typeInstance":{}}"#,
            ]
        );
        assert_eq!(payload.update(&artifacts(&[("b", "x: 1")]), |_| false).len(), 1);
    }

    #[test]
    fn payloads_without_records_are_empty_and_bad_ones_are_named() {
        for (text, kind) in
            [("", Kind::Upload), ("typeInstances: []", Kind::Upload), ("[]", Kind::Update), ("", Kind::Update)]
        {
            assert!(Payload::read(Document::read(text).unwrap(), kind).unwrap().is_empty(), "{text}");
        }
        for (text, kind, fault) in [
            ("typeInstances: {}", Kind::Upload, "typeInstances: it must be a list"),
            ("typeInstances: [{}]", Kind::Upload, "[0].alias: it is needed"),
            ("typeInstances: [{alias: ../a}]", Kind::Upload, "[0].alias: it names no file"),
            ("typeInstances: [{alias: a}, {alias: a}]", Kind::Upload, "[1].alias: it is there twice"),
            ("a: 1", Kind::Update, "the payload must be a list"),
            ("[{typeInstance: {}}]", Kind::Update, "[0].id: it is needed"),
        ] {
            let told = Payload::read(Document::read(text).unwrap(), kind).unwrap_err();
            assert!(told.contains(fault), "{told}");
        }
    }
}
