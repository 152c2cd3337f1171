//! Lists over states: those that there are, and their locks.
//!
//! Nothing is shown or counted of a namespace in which the caller may not `list` what its states are kept in.

use std::collections::{BTreeMap, BTreeSet};

use ::http::{StatusCode, Uri};
use access::Action;
use access::http::api::{self, Answer, Input, Operation, answer, query};
use access::http::{Caller, Problem};
use axum::extract::State as Shared;
use axum::response::Response;
use axum::routing::get;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use schemars::SchemaGenerator;

use super::super::problem::{bad_key, problem};
use super::answers::{Items, LockAnswer, Page, StateAnswer};
use super::input::{CONTINUE, LIMIT, NAMESPACE, bad_continue, limit, namespace};
use super::operation::Route;
use crate::engine::{State, States, each_head};
use crate::key::Key;
use crate::store::Resource;

const LIST: &[Input] = &[
    NAMESPACE,
    Input::text("search", "Only states with this text in `namespace/name`, whatever the case"),
    Input::flag("deleted", "Deleted states too"),
    LIMIT,
    CONTINUE,
];
const LOCKS: &[Input] = &[NAMESPACE];

pub(super) const ROUTES: &[Route] = &[
    api::Route(
        || get(states),
        Operation::new(
            "GET",
            "/api/states",
            "listStates",
            "The states that the caller may list, by namespace and name",
        )
        .needs("list, in each namespace that is shown and counted")
        .query(LIST)
        .answers(Answer::Json(SchemaGenerator::subschema_for::<Page<StateAnswer>>)),
    ),
    api::Route(
        || get(locks),
        Operation::new("GET", "/api/states/locks", "listLocks", "The locks of the states that the caller may list")
            .needs("list, in each namespace that is shown")
            .query(LOCKS)
            .answers(Answer::Json(SchemaGenerator::subschema_for::<Items<LockAnswer>>)),
    ),
];

async fn states(Shared(states): Shared<States>, caller: Caller, uri: Uri) -> Result<Response, Problem> {
    let mut query = query(&uri, LIST)?;
    let namespace = namespace(&mut query)?;
    let search = query.text("search").map(|search| search.to_lowercase());
    let (deleted, limit) = (query.flag("deleted")?, limit(&mut query)?);
    let after = query.text("continue").map(|token| Place::read(&token)).transpose()?;
    let mut found = listed(&states, &caller, namespace.as_deref()).await?;
    if let Some(search) = search {
        found.retain(|state| state.key().to_string().contains(&search));
    }
    let shown = each_head(found, |found| StateAnswer::of(&found).filter(|state| deleted || !state.is_deleted()));
    let shown = shown.await.map_err(problem)?;
    let total = u64::try_from(shown.len()).unwrap_or(u64::MAX);
    let start = after.map_or(0, |place| shown.partition_point(|state| state.order() <= place.order()));
    let more = shown.len() > start + limit;
    let items: Vec<StateAnswer> = shown.into_iter().skip(start).take(limit).collect();
    let r#continue = items.last().filter(|_| more).map(|state| Place::of(state).write());
    Ok(answer(Page { items, r#continue, total }))
}

async fn locks(Shared(states): Shared<States>, caller: Caller, uri: Uri) -> Result<Response, Problem> {
    let namespace = namespace(&mut query(&uri, LOCKS)?)?;
    let found = listed(&states, &caller, namespace.as_deref()).await?;
    let locks = each_head(found, |found| Some(LockAnswer::of(&found.state, found.head?.lock.as_ref()?)));
    Ok(answer(Items { items: locks.await.map_err(problem)? }))
}

/// How many permissions are asked at the same time.
const QUESTIONS_AT_ONCE: usize = 8;

/// What a permission to list is about: a namespace, and the group and resource that its states are kept in.
type Question = (String, &'static str, &'static str);

/// The states that the caller may list. Whoever names a namespace in which that is nothing at all is refused.
async fn listed(states: &States, caller: &Caller, namespace: Option<&str>) -> Result<Vec<State>, Problem> {
    let found = states.find(namespace).await.map_err(problem)?;
    let mut questions: BTreeSet<Question> = found.iter().map(question).collect();
    let usual = match namespace {
        Some(namespace) => Some(question(&states.at(Key::new(namespace, "any").map_err(bad_key)?))),
        None => None,
    };
    questions.extend(usual.clone());
    let asked: Vec<_> = questions.into_iter().map(|question| ask(caller, question)).collect();
    let answers: BTreeMap<Question, Result<(), Problem>> =
        stream::iter(asked).buffered(QUESTIONS_AT_ONCE).try_collect().await?;
    if let Some(usual) = usual
        && answers.values().all(Result::is_err)
        && let Some(Err(refused)) = answers.get(&usual)
    {
        return Err(refused.clone());
    }
    let may = |state: &State| matches!(answers.get(&question(state)), Some(Ok(())));
    Ok(found.into_iter().filter(may).collect())
}

/// A no is an answer; that nobody can tell is not.
async fn ask(caller: &Caller, question: Question) -> Result<(Question, Result<(), Problem>), Problem> {
    let (namespace, group, resource) = question.clone();
    match caller.may(&Action::on("list", group, resource).in_namespace(namespace)).await {
        Err(problem) if problem.status != StatusCode::FORBIDDEN => Err(problem),
        answer => Ok((question, answer)),
    }
}

fn question(state: &State) -> Question {
    let Resource { group, resource } = state.store().resource();
    (state.key().namespace().to_owned(), group, resource)
}

/// Where a page ended.
struct Place([String; 3]);

impl Place {
    fn of(state: &StateAnswer) -> Place {
        let (namespace, name, store) = state.order();
        Place([namespace, name, store].map(str::to_owned))
    }

    fn order(&self) -> (&str, &str, &str) {
        let [namespace, name, store] = &self.0;
        (namespace, name, store)
    }

    /// None of the three can hold a slash.
    fn write(&self) -> String {
        self.0.join("/")
    }

    fn read(token: &str) -> Result<Place, Problem> {
        let parts: Vec<String> = token.split('/').map(str::to_owned).collect();
        parts.try_into().map(Place).map_err(|_| bad_continue())
    }
}
