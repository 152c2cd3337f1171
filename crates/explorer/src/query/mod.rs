//! How one asks: the filter language, the JSON request of the original, and what both come to.
//!
//! The doors are [`Query::parse`] for the language (`kind:HelmRelease status:Failed -ns:kube-system label.app=podinfo name:pod*
//! "quoted text" Object.spec.path:value`) and [`Request::query`](request::Request::query) for the JSON. Clauses are all to be
//! fulfilled; within one, any of its patterns. Nothing a user writes reaches an engine of regular expressions.

mod aliases;
mod cursor;
mod error;
mod parse;
mod pattern;
pub mod request;

pub use cursor::{BadCursor, Cursor, Side, SortValue};
pub use error::{Error, Part};
pub use pattern::Pattern;
pub use request::Request;

/// A question to the index.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query {
    pub clauses: Vec<Clause>,
    pub order: Order,
    pub descending: bool,
    /// How many rows at most; 0 is as many as the server gives at once.
    pub limit: usize,
    /// How many rows to leave out at the start.
    pub offset: usize,
    /// Only what comes after this, or before it.
    pub after: Option<Cursor>,
    pub facets: Facets,
}

/// Whether counts by field are wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Facets {
    #[default]
    None,
    /// Of all fields, and of these labels.
    WithLabels(Vec<String>),
}

/// One condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Clause {
    pub field: Field,
    /// Any of them suffices.
    pub patterns: Vec<Pattern>,
    pub negated: bool,
}

/// What a condition is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Field {
    Cluster,
    Namespace,
    Kind,
    Group,
    Name,
    Status,
    Message,
    Tenant,
    Category,
    Uid,
    Is,
    Label(String),
    /// A field of the body, by its path.
    Object(String),
    /// Anywhere: name, message, labels, body.
    Text,
}

impl Field {
    /// The field of a name in the filter language, `label.KEY` and `Object.PATH` among them.
    pub fn parse(name: &str) -> Option<Field> {
        aliases::field(name)
    }
}

/// The conditions of a question as they are written, one by one.
pub fn pieces(text: &str) -> Vec<&str> {
    parse::pieces(text)
}

/// The kind that a short name such as `hr` means, or the name itself.
pub fn kind_of(name: &str) -> &str {
    aliases::kind(name)
}

/// What rows are ordered by; rows that are equal in it are ordered by name, cluster, namespace, kind and group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    #[default]
    Name,
    Kind,
    Namespace,
    Cluster,
    Tenant,
    Status,
    Message,
    Category,
    /// The oldest first.
    Created,
    /// The youngest first.
    Age,
}

impl Order {
    pub const ALL: [Order; 10] = [
        Order::Name,
        Order::Kind,
        Order::Namespace,
        Order::Cluster,
        Order::Tenant,
        Order::Status,
        Order::Message,
        Order::Category,
        Order::Created,
        Order::Age,
    ];

    pub const fn name(self) -> &'static str {
        match self {
            Order::Name => "name",
            Order::Kind => "kind",
            Order::Namespace => "namespace",
            Order::Cluster => "cluster",
            Order::Tenant => "tenant",
            Order::Status => "status",
            Order::Message => "message",
            Order::Category => "category",
            Order::Created => "created",
            Order::Age => "age",
        }
    }

    /// The order of a name, or of any name that its field has in the filter language.
    pub fn parse(name: &str) -> Option<Order> {
        let named = |name: &str| Order::ALL.into_iter().find(|order| order.name().eq_ignore_ascii_case(name));
        named(name).or_else(|| named(aliases::field_name(name)?))
    }
}

impl Query {
    /// Reads the filter language.
    pub fn parse(text: &str) -> Result<Query, Error> {
        Ok(Query { clauses: parse::clauses(text, Part::Query)?, ..Query::default() })
    }
}
