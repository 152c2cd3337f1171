//! Types as the schema shows them.

use async_graphql::{Object, SimpleObject};

use super::scalars::{Any, NodePath, Version};
use crate::Json;
use crate::types;

/// A Type with all its revisions, the oldest first.
pub(super) struct Type {
    path: crate::model::NodePath,
    revisions: Vec<types::Type>,
}

impl Type {
    /// Revisions of many Types, sorted by path.
    pub(super) fn group(sorted: Vec<types::Type>) -> Vec<Type> {
        let mut grouped: Vec<Type> = Vec::new();
        for revision in sorted {
            match grouped.last_mut().filter(|last| last.path == revision.reference.path) {
                Some(last) => last.revisions.push(revision),
                None => grouped.push(Type { path: revision.reference.path.clone(), revisions: vec![revision] }),
            }
        }
        grouped
    }
}

#[Object]
impl Type {
    async fn path(&self) -> NodePath {
        NodePath(self.path.to_string())
    }

    async fn name(&self) -> &str {
        self.path.name()
    }

    async fn prefix(&self) -> NodePath {
        NodePath(self.path.prefix().to_owned())
    }

    async fn latest_revision(&self) -> Option<TypeRevision> {
        self.revisions.last().map(TypeRevision::of)
    }

    async fn revision(&self, revision: Version) -> Option<TypeRevision> {
        self.revisions.iter().find(|known| known.reference.revision.as_str() == revision.0).map(TypeRevision::of)
    }

    async fn revisions(&self) -> Vec<TypeRevision> {
        self.revisions.iter().map(TypeRevision::of).collect()
    }
}

#[derive(SimpleObject)]
pub(super) struct TypeRevision {
    revision: Version,
    metadata: TypeMetadata,
    spec: TypeSpec,
}

#[derive(SimpleObject)]
struct TypeMetadata {
    path: NodePath,
    name: String,
    prefix: NodePath,
    display_name: Option<String>,
    description: Option<String>,
}

#[derive(SimpleObject)]
struct TypeSpec {
    /// The nodes that it is attached to beside the one in its path.
    additional_refs: Option<Vec<NodePath>>,
    /// As JSON, not as its text; null where values may be anything.
    json_schema: Option<Any>,
}

impl TypeRevision {
    fn of(known: &types::Type) -> TypeRevision {
        let path = &known.reference.path;
        let schema = known.schema.as_ref().and_then(|schema| Json::parse(&schema.to_string()).ok());
        TypeRevision {
            revision: Version(known.reference.revision.to_string()),
            metadata: TypeMetadata {
                path: NodePath(path.to_string()),
                name: path.name().to_owned(),
                prefix: NodePath(path.prefix().to_owned()),
                display_name: known.display_name.clone(),
                description: known.description.clone(),
            },
            spec: TypeSpec {
                additional_refs: Some(known.additional_refs.iter().map(|node| NodePath(node.to_string())).collect()),
                json_schema: schema.map(Any),
            },
        }
    }
}
