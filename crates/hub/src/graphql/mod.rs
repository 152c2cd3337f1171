//! The hub's schema, in the words of the original's Local Hub and with what was added to it.
//!
//! The door is [`Api`]: it takes a [`Request`] as a client wrote it and a [`Guard`], and answers. Resolvers only translate; what
//! is allowed and what is right is decided by the guard and the hub. `scan`, `limits` and `rewrite` look at a document before
//! it is validated, `raw` keeps JSON as it was written, `loads` reads for many fields at once, and `order` puts them into
//! the client's order.

mod fault;
mod inputs;
mod instance;
mod instrumentation;
mod limits;
mod loads;
mod mutation;
mod order;
mod query;
mod raw;
mod rewrite;
mod scalars;
mod scan;
mod session;
mod storage;
mod subscription;
mod types;

use std::fmt;
use std::sync::Arc;

use async_graphql::parser::types::{ExecutableDocument, OperationDefinition, OperationType};
use async_graphql::{Positioned, Response, Schema, parser};
use futures::StreamExt as _;
use futures::stream::BoxStream;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::guard::Guard;
use loads::Loads;
use mutation::Mutation;
use order::Order;
use query::Query;
use raw::Inputs;
use session::Session;
use subscription::Subscriptions;

pub use fault::Fault;
pub use limits::QueryLimits;

pub(crate) use subscription::Followed;

type HubSchema = Schema<Query, Mutation, Subscriptions>;

/// Answers requests. Cheap to clone.
#[derive(Clone)]
pub struct Api(Arc<Inner>);

struct Inner {
    schema: HubSchema,
    inputs: Inputs,
    settings: Settings,
}

#[derive(Clone, Copy, Debug)]
pub struct Settings {
    pub query: QueryLimits,
    /// Records that one answer has at most, relations included.
    pub answer_records: usize,
    /// Bytes of values and contexts that one answer has at most.
    pub answer_bytes: usize,
}

/// What a client sends.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Request {
    query: String,
    #[serde(default)]
    operation_name: Option<String>,
    #[serde(default)]
    variables: Option<Box<RawValue>>,
}

/// A request that was looked at and may be carried out.
pub struct Prepared {
    request: async_graphql::Request,
    kind: OperationType,
    order: Order,
}

impl Api {
    pub fn new(settings: Settings) -> Result<Api, parser::Error> {
        let schema = Schema::build(Query, Mutation, Subscriptions);
        // Fragments are levels, too, beside those that the setting counts.
        let schema = schema.limit_directives(DIRECTIVES).limit_recursive_depth(limits::LEVELS).finish();
        let inputs = Inputs::of(&schema.sdl())?;
        Ok(Api(Arc::new(Inner { schema, inputs, settings })))
    }

    /// Looks at a request before anything of it is carried out.
    pub fn prepare(&self, request: Request) -> Result<Prepared, Fault> {
        let Request { query, operation_name, variables } = request;
        scan::check(&query)?;
        let query = scan::respelt(&query).into_owned();
        // Some clients send an empty name with a document that has one operation.
        let operation_name = operation_name.filter(|name| !name.is_empty());
        let mut document = parser::parse_query(&query).map_err(|error| unreadable(&error))?;
        limits::check(&document, self.0.settings.query)?;
        rewrite::leaves(&mut document);
        let operation = operation(&document, operation_name.as_deref())?;
        let variables = self.0.inputs.variables(&operation.node, variables.as_deref())?;
        let kind = operation.node.ty;
        let order = Order::of(&operation.node.selection_set.node, &document.fragments);
        if let Some(name) = order.repeated().filter(|_| kind == OperationType::Mutation) {
            let text = format!("query: '{name}' is selected twice and done once: leave one out, or give it an alias");
            return Err(Fault::malformed(text));
        }
        let mut request = async_graphql::Request::new(query).variables(variables);
        request.operation_name = operation_name;
        request.set_parsed_query(document);
        Ok(Prepared { request, kind, order })
    }

    pub async fn execute(&self, guard: Guard, prepared: Prepared) -> Response {
        let loads = Loads::default();
        let session = Session::new(guard, self.0.settings, &loads);
        let response = loads.serve(self.0.schema.execute(prepared.request.data(session))).await;
        coded(prepared.order.put(response))
    }

    /// The answers to a request, one after another: those of a subscription, or the one of anything else.
    pub(crate) fn follow(&self, followed: Followed, prepared: Prepared) -> BoxStream<'static, Response> {
        let loads = Loads::default();
        let session = Session::new(followed.borrow().clone(), self.0.settings, &loads);
        let Prepared { request, order, .. } = prepared;
        let responses = loads.serve_all(self.0.schema.execute_stream(request.data(session).data(followed)));
        responses.map(move |response| coded(order.put(response))).boxed()
    }
}

impl Prepared {
    pub fn is_subscription(&self) -> bool {
        self.kind == OperationType::Subscription
    }
}

/// The schema in its own language.
pub fn sdl() -> String {
    Schema::build(Query, Mutation, Subscriptions).finish().sdl()
}

/// Directives on one field.
const DIRECTIVES: usize = 8;

/// The operation that is meant.
fn operation<'a>(
    document: &'a ExecutableDocument,
    name: Option<&str>,
) -> Result<&'a Positioned<OperationDefinition>, Fault> {
    let mut operations = document.operations.iter();
    match name {
        Some(name) => {
            let found = operations.find(|(known, _)| known.is_some_and(|known| known == name));
            found
                .map(|(_, operation)| operation)
                .ok_or_else(|| Fault::malformed("operationName: the document has no such operation"))
        }
        None => match (operations.next(), operations.next()) {
            (Some((_, operation)), None) => Ok(operation),
            _ => Err(Fault::malformed("operationName: the document has several operations; name one")),
        },
    }
}

/// What does not fit the schema gets its code here; everything else has one. What was found instead is not told: values may
/// be secrets.
fn coded(mut response: Response) -> Response {
    for error in &mut response.errors {
        let extensions = error.extensions.get_or_insert_default();
        if extensions.get("code").is_none() {
            extensions.set("code", "BAD_REQUEST");
            if let Some(end) = error.message.find(", found ") {
                error.message.truncate(end);
            }
        }
    }
    response
}

/// The parser's own text would repeat a line of the document, and values with it.
fn unreadable(error: &parser::Error) -> Fault {
    let place = error.positions().next().map(|place| format!(" at line {}, column {}", place.line, place.column));
    Fault::malformed(format!("query: it is not GraphQL{}", place.unwrap_or_default()))
}

impl fmt::Debug for Api {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Api").field("settings", &self.0.settings).finish_non_exhaustive()
    }
}

impl fmt::Debug for Prepared {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Prepared").field("kind", &self.kind).finish_non_exhaustive()
    }
}
