//! What the steps around a workflow are given.

use super::{Plan, Run};
use crate::document::Document;

impl Plan {
    /// The payload of `step upload`: the input of `createTypeInstances`, without values.
    pub fn upload(&self, run: &Run) -> Document {
        let records = self.outputs.iter().map(|output| {
            let backend = output
                .backend
                .as_deref()
                .map_or(Document::Null, |id| Document::map([("id", id.into()), ("context", Document::Null)]));
            Document::map([
                ("alias", output.name.as_str().into()),
                ("attributes", Document::List(Vec::new())),
                ("backend", backend),
                ("createdBy", run.created_by.as_deref().into()),
                (
                    "typeRef",
                    Document::map([
                        ("path", output.type_ref.path.as_str().into()),
                        ("revision", output.type_ref.revision.as_str().into()),
                    ]),
                ),
                ("value", Document::Null),
            ])
        });
        let relations = self.relations.iter();
        let relations =
            relations.map(|(from, to)| Document::map([("from", from.as_str().into()), ("to", to.as_str().into())]));
        Document::map([("typeInstances", records.collect()), ("usesRelations", relations.collect())])
    }

    /// The payload of `step update`. Attributes are not in it, so that they stay as they are.
    pub fn update(&self, run: &Run) -> Document {
        let owner = run.owner.as_deref().or(run.created_by.as_deref());
        let updates = self.updates.iter().map(|update| {
            Document::map([
                ("id", update.id.as_str().into()),
                ("ownerID", owner.into()),
                ("createdBy", run.created_by.as_deref().into()),
                ("typeInstance", Document::Map(Vec::new())),
            ])
        });
        updates.collect()
    }

    /// What `APP_DOWNLOAD_CONFIG` has: each record that goes in, and its file.
    pub fn download(&self, run: &Run) -> String {
        let directory = run.download_dir.trim_end_matches('/');
        let pairs = self.downloads.iter().map(|(name, id)| format!("{{{id},{directory}/{name}.yaml}}"));
        pairs.collect::<Vec<_>>().join(",")
    }

    /// Which artifact of which step becomes the file of which record.
    pub fn artifacts(&self) -> Document {
        let outputs = self.outputs.iter().map(|output| {
            Document::map([
                ("name", output.name.as_str().into()),
                ("step", output.step.as_str().into()),
                ("from", output.from.as_str().into()),
                ("backend", output.backend.as_deref().into()),
            ])
        });
        let updates = self.updates.iter().map(|update| {
            Document::map([
                ("name", update.name.as_str().into()),
                ("step", update.step.as_str().into()),
                ("from", update.from.as_str().into()),
                ("id", update.id.as_str().into()),
            ])
        });
        Document::map([("outputs", outputs.collect()), ("updates", updates.collect())])
    }
}
