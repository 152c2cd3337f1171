//! What callers send, and what it means to the hub.

use async_graphql::{Enum, ID, InputObject};
use jiff::SignedDuration;

use super::scalars::{Any, BackendInput, LockOwnerID, NodePath, Version};
use crate::model::{AttributeRef, ReferenceError, TypeRef};
use crate::rules::names;
use crate::types::PathPattern;
use crate::{
    AttributeFilter, Batch, Change, Cursor, Error, Filter, Json, NewRecord, Relation, Rule, StorageChoice,
    TypeFilter as Types, Versions,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum)]
pub(super) enum FilterRule {
    Include,
    Exclude,
}

/// Which versions attributes and createdBy are looked for in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum)]
pub(super) enum VersionScope {
    Any,
    Latest,
}

#[derive(InputObject)]
pub(super) struct AttributeFilterInput {
    path: NodePath,
    #[graphql(default_with = "Some(FilterRule::Include)")]
    rule: Option<FilterRule>,
    /// Absent: any.
    revision: Option<Version>,
}

#[derive(InputObject)]
pub(super) struct TypeRefFilterInput {
    /// A path, or a regular expression for whole paths, which finds Types by the nodes that they are attached to, too.
    path: NodePath,
    /// Absent: any.
    revision: Option<Version>,
}

#[derive(Default, InputObject)]
pub(super) struct TypeInstanceFilter {
    attributes: Option<Vec<Option<AttributeFilterInput>>>,
    type_ref: Option<TypeRefFilterInput>,
    created_by: Option<String>,
    name: Option<String>,
    namespace: Option<String>,
    /// The id or the name of a storage backend.
    backend: Option<String>,
    /// ANY unless it is given.
    versions: Option<VersionScope>,
}

impl TypeInstanceFilter {
    pub(super) fn read(given: Option<TypeInstanceFilter>) -> Result<Filter, Error> {
        let TypeInstanceFilter { attributes, type_ref, created_by, name, namespace, backend, versions } =
            given.unwrap_or_default();
        if let Some(namespace) = &namespace {
            names::check_namespace(namespace)?;
        }
        let attributes = attributes.unwrap_or_default();
        check_attributes("filter.attributes", attributes.len())?;
        let attributes = attributes.into_iter().flatten().map(|AttributeFilterInput { path, rule, revision }| {
            Ok(AttributeFilter {
                path: parsed("filter.attributes.path", &path.0)?,
                revision: revision
                    .map(|Version(revision)| parsed("filter.attributes.revision", &revision))
                    .transpose()?,
                rule: match rule {
                    Some(FilterRule::Exclude) => Rule::Exclude,
                    Some(FilterRule::Include) | None => Rule::Include,
                },
            })
        });
        let type_ref = type_ref.map(|TypeRefFilterInput { path, revision }| {
            let path =
                PathPattern::parse(&path.0).map_err(|fault| Error::invalid(format!("filter.typeRef.path: {fault}")))?;
            let revision =
                revision.map(|Version(revision)| parsed("filter.typeRef.revision", &revision)).transpose()?;
            Ok::<_, Error>(Types { path, revision })
        });
        Ok(Filter {
            id: None,
            type_ref: type_ref.transpose()?,
            attributes: attributes.collect::<Result<_, Error>>()?,
            created_by,
            name,
            backend,
            versions: match versions {
                Some(VersionScope::Latest) => Versions::Latest,
                Some(VersionScope::Any) | None => Versions::Any,
            },
            namespaces: namespace.map(|namespace| vec![namespace]),
        })
    }
}

#[derive(InputObject)]
pub(super) struct TypeFilter {
    /// A path, or a regular expression for whole paths; absent: all.
    path_pattern: Option<NodePath>,
}

impl TypeFilter {
    pub(super) fn read(given: Option<TypeFilter>) -> Result<PathPattern, Error> {
        let pattern =
            given.and_then(|filter| filter.path_pattern).map_or_else(|| "*".to_owned(), |NodePath(path)| path);
        PathPattern::parse(&pattern).map_err(|fault| Error::invalid(format!("filter.pathPattern: {fault}")))
    }
}

#[derive(InputObject)]
pub(super) struct TypeInstanceTypeReferenceInput {
    path: NodePath,
    revision: Version,
}

#[derive(InputObject)]
pub(super) struct AttributeReferenceInput {
    path: NodePath,
    revision: Version,
}

impl AttributeReferenceInput {
    fn read(given: Vec<AttributeReferenceInput>) -> Result<Vec<AttributeRef>, Error> {
        check_attributes("attributes", given.len())?;
        let read = |AttributeReferenceInput { path, revision }: AttributeReferenceInput| {
            Ok(AttributeRef {
                path: parsed("attributes.path", &path.0)?,
                revision: parsed("attributes.revision", &revision.0)?,
            })
        };
        given.into_iter().map(read).collect()
    }
}

/// Every version has a copy of its own, and a statement can only ask for so many.
const MOST_ATTRIBUTES: usize = 256;

fn check_attributes(field: &str, count: usize) -> Result<(), Error> {
    if count <= MOST_ATTRIBUTES {
        return Ok(());
    }
    Err(Error::invalid(format!("{field}: there are {count}, and {MOST_ATTRIBUTES} is the most; leave some out")))
}

#[derive(InputObject)]
pub(super) struct CreateTypeInstanceInput {
    /// How the records of one request name one another.
    alias: Option<String>,
    /// Unique and for ever.
    name: Option<String>,
    /// Absent: that of the setting hub.namespace.
    namespace: Option<String>,
    created_by: Option<String>,
    type_ref: TypeInstanceTypeReferenceInput,
    attributes: Option<Vec<AttributeReferenceInput>>,
    value: Option<Any>,
    backend: Option<BackendInput>,
    /// The same as backend.context.
    additional_parameters: Option<Any>,
}

impl CreateTypeInstanceInput {
    pub(super) fn read(self) -> Result<NewRecord, Error> {
        let CreateTypeInstanceInput {
            alias,
            name,
            namespace,
            created_by,
            type_ref,
            attributes,
            value,
            backend,
            additional_parameters,
        } = self;
        let type_ref = TypeRef {
            path: parsed("typeRef.path", &type_ref.path.0)?,
            revision: parsed("typeRef.revision", &type_ref.revision.0)?,
        };
        let backend = match (backend, document(additional_parameters)) {
            (None, None) => None,
            (None, context) => Some(StorageChoice { id: None, context }),
            (Some(BackendInput(choice)), parameters) => {
                let context = one_of(choice.context, parameters)?;
                Some(StorageChoice { id: choice.id, context })
            }
        };
        let attributes = AttributeReferenceInput::read(attributes.unwrap_or_default())?;
        Ok(NewRecord { alias, name, namespace, created_by, type_ref, attributes, value: document(value), backend })
    }
}

/// From and to are each an alias of this request, or the id of a record that is there.
#[derive(InputObject)]
pub(super) struct TypeInstanceUsesRelationInput {
    from: String,
    to: String,
}

#[derive(InputObject)]
pub(super) struct CreateTypeInstancesInput {
    type_instances: Vec<CreateTypeInstanceInput>,
    uses_relations: Vec<TypeInstanceUsesRelationInput>,
    /// A request of the same caller with the same key is answered as the first time, for a day.
    idempotency_key: Option<String>,
}

impl CreateTypeInstancesInput {
    pub(super) fn read(self) -> Result<Batch, Error> {
        let records = self.type_instances.into_iter().map(CreateTypeInstanceInput::read);
        let relations =
            self.uses_relations.into_iter().map(|TypeInstanceUsesRelationInput { from, to }| Relation { from, to });
        Ok(Batch {
            records: records.collect::<Result<_, Error>>()?,
            relations: relations.collect(),
            idempotency_key: self.idempotency_key,
        })
    }
}

#[derive(InputObject)]
pub(super) struct UpdateTypeInstanceBackendInput {
    context: Option<Any>,
}

/// What is absent stays as it was.
#[derive(InputObject)]
pub(super) struct UpdateTypeInstanceInput {
    /// An empty list clears them.
    attributes: Option<Vec<AttributeReferenceInput>>,
    value: Option<Any>,
    backend: Option<UpdateTypeInstanceBackendInput>,
    /// The same as backend.context.
    additional_parameters: Option<Any>,
}

#[derive(InputObject)]
pub(super) struct UpdateTypeInstancesInput {
    id: ID,
    #[graphql(name = "ownerID")]
    owner_id: Option<LockOwnerID>,
    created_by: Option<String>,
    /// Refuses the change if another version is the newest.
    expected_resource_version: Option<i32>,
    type_instance: UpdateTypeInstanceInput,
}

impl UpdateTypeInstancesInput {
    pub(super) fn read(self) -> Result<Change, Error> {
        let UpdateTypeInstanceInput { attributes, value, backend, additional_parameters } = self.type_instance;
        let context = document(backend.and_then(|backend| backend.context));
        let expected = self.expected_resource_version.map(u32::try_from).transpose();
        Ok(Change {
            id: self.id.0,
            owner: self.owner_id.map(|LockOwnerID(owner)| owner),
            created_by: self.created_by,
            attributes: attributes.map(AttributeReferenceInput::read).transpose()?,
            value: document(value),
            context: one_of(context, document(additional_parameters))?,
            expected: expected.map_err(|_| Error::invalid("expectedResourceVersion: versions are counted from 1"))?,
        })
    }
}

#[derive(InputObject)]
pub(super) struct LockTypeInstancesInput {
    pub(super) ids: Vec<ID>,
    #[graphql(name = "ownerID")]
    pub(super) owner_id: LockOwnerID,
    /// A duration such as 30s or 5m, after which the lock ends by itself.
    expires_in: Option<String>,
}

impl LockTypeInstancesInput {
    pub(super) fn lease(&self) -> Result<Option<SignedDuration>, Error> {
        let lease = self.expires_in.as_deref().map(str::parse).transpose();
        lease.map_err(|_| Error::invalid("expiresIn: it is not a duration such as 30s, 5m or PT1H"))
    }
}

#[derive(InputObject)]
pub(super) struct UnlockTypeInstancesInput {
    pub(super) ids: Vec<ID>,
    #[graphql(name = "ownerID")]
    pub(super) owner_id: LockOwnerID,
}

pub(super) fn texts(ids: Vec<ID>) -> Vec<String> {
    ids.into_iter().map(|ID(id)| id).collect()
}

/// Where a page begins and how long it may be.
pub(super) fn page(first: Option<i32>, after: Option<&str>) -> Result<(Option<usize>, Option<Cursor>), Error> {
    let first = first.map(usize::try_from).transpose().map_err(|_| Error::invalid("first: it must not be negative"))?;
    Ok((first, after.map(Cursor::parse).transpose()?))
}

/// Null is absent.
pub(super) fn document(given: Option<Any>) -> Option<Json> {
    given.map(|Any(json)| json).filter(|json| !json.is_null())
}

/// The same thing has two names; one of them is enough.
fn one_of(context: Option<Json>, parameters: Option<Json>) -> Result<Option<Json>, Error> {
    match (context, parameters) {
        (Some(context), Some(parameters)) if context != parameters => Err(Error::invalid(
            "additionalParameters: they are the same as backend.context, which is there, too; leave one out",
        )),
        (context, parameters) => Ok(context.or(parameters)),
    }
}

pub(super) fn parsed<T: std::str::FromStr<Err = ReferenceError>>(field: &str, text: &str) -> Result<T, Error> {
    text.parse().map_err(|fault| Error::invalid(format!("{field}: {fault}")))
}
