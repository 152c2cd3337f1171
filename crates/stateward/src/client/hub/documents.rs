//! Every GraphQL document that this program sends. Nobody else writes one.

/// A page of records with the fields of [`ROW`] or [`WHOLE`], which follows it. A record may be used by any number of others:
/// only so many are asked for.
pub const PAGE: &str = "query($filter: TypeInstanceFilter, $first: Int, $after: String, $related: Int) {
  typeInstancesPage(filter: $filter, first: $first, after: $after) {
    items { ...Fields }
    endCursor hasNextPage
  }
}";

/// One record, in the same way.
pub const RECORD: &str = "query($id: ID!, $related: Int) { typeInstance(id: $id) { ...Fields } }";

/// What the table of records shows: no value is fetched for it.
pub const ROW: &str = " fragment Fields on TypeInstance {
  id name lockedBy lockError
  typeRef { path revision }
  uses(first: $related) { id } usedBy(first: $related) { id }
  latestResourceVersion { resourceVersion }
}";

/// A record with a version of its; `VERSION` stands for the field that selects it.
pub const WHOLE: &str = " fragment Fields on TypeInstance {
  id name namespace createdAt
  lockedBy lockError lockedAt lockExpiresAt
  typeRef { path revision }
  backend { id abstract }
  uses(first: $related) { id name typeRef { path revision } }
  usedBy(first: $related) { id name typeRef { path revision } }
  VERSION {
    resourceVersion createdBy createdAt
    metadata { attributes { path revision } }
    spec { value valueError backend { context } }
  }
}";

/// Which store keeps the values of a record.
pub const BACKEND_OF: &str = "query($id: ID!) { typeInstance(id: $id) { id backend { id } } }";

pub const CREATE: &str = "mutation($in: CreateTypeInstancesInput!) { createTypeInstances(in: $in) { id alias } }";

pub const UPDATE: &str = "mutation($in: [UpdateTypeInstancesInput]!) {
  updateTypeInstances(in: $in) { id name typeRef { path revision } latestResourceVersion { resourceVersion } }
}";

pub const DELETE: &str = "mutation($id: ID!, $owner: LockOwnerID) { deleteTypeInstance(id: $id, ownerID: $owner) }";

pub const ORPHAN: &str = "mutation($ids: [ID!]!, $owner: LockOwnerID) {
  orphanTypeInstances(ids: $ids, ownerID: $owner) { leftOutside { id name backendID what versions contextKeys error } }
}";

pub const LOCK: &str = "mutation($in: LockTypeInstancesInput!) { lockTypeInstances(in: $in) }";

pub const UNLOCK: &str = "mutation($in: UnlockTypeInstancesInput!) { unlockTypeInstances(in: $in) }";

pub const FORCE_UNLOCK: &str = "mutation($ids: [ID!]!) { forceUnlockTypeInstances(ids: $ids) }";

pub const MOVE: &str = "mutation($ids: [ID!]!, $to: ID!, $owner: LockOwnerID) {
  moveTypeInstances(ids: $ids, to: $to, ownerID: $owner) { id name backend { id } latestResourceVersion { resourceVersion } }
}";

pub const JOURNAL: &str = "{ journal { id operation backendID typeInstances startedAt attempts error } }";

pub const RETRY_JOURNAL: &str = "mutation($id: ID!) { retryJournalEntry(id: $id) }";

pub const ABANDON_JOURNAL: &str = "mutation($id: ID!) {
  abandonJournalEntry(id: $id) { leftOutside { id name backendID what versions contextKeys error } }
}";

/// All stores, with whether they answer.
pub const BACKENDS: &str = "{
  storageBackends {
    id name namespace url acceptValue contextSchema default typeInstanceCount
    typeRef { path revision }
    health { status message }
  }
}";

/// All stores as rules need them: nobody is asked how they are.
pub const KNOWN_BACKENDS: &str = "{
  storageBackends { id name url acceptValue default typeRef { path revision } typeInstance { createdAt } }
}";

pub const BACKEND: &str = "query($id: ID!) {
  storageBackend(id: $id) {
    id name namespace url acceptValue contextSchema default typeInstanceCount
    typeRef { path revision }
    health { status message }
  }
}";

pub const RETIRE: &str = "mutation($id: ID!, $to: ID, $orphan: Boolean!) {
  retireStorageBackend(id: $id, moveTo: $to, orphan: $orphan) {
    id moved left leftOutside { id name backendID what versions contextKeys error }
  }
}";

pub const PRE_CREATE_VALUE: &str =
    "query($backend: ID!, $context: Any) { preCreateValue(backend: $backend, context: $context) }";

pub const APPLY_TYPES: &str = "mutation($manifests: [String!]!) {
  applyTypes(manifests: $manifests) { path latestRevision { revision } revisions { revision spec { additionalRefs } } }
}";

pub const TYPES: &str = "query($filter: TypeFilter) {
  types(filter: $filter) {
    path name prefix
    latestRevision { revision }
    revisions { revision metadata { displayName description } spec { additionalRefs jsonSchema } }
  }
}";
