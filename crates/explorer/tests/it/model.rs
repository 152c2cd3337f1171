//! Rows in a list, grants in a list, and every question answered by looking at each of them.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use explorer::index::{Grants, Scope, View, Visibility};
use explorer::query::{Clause, Field, Order, Query};
use explorer::{Key, Row};
use serde_json::Value;

/// The rows and what belongs to them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Model {
    pub(crate) rows: BTreeMap<Key, Row>,
    /// By cluster and namespace.
    pub(crate) tenants: HashMap<(String, String), String>,
    /// By cluster.
    pub(crate) stale: BTreeSet<String>,
}

/// What somebody may see of a cluster.
#[derive(Clone, Debug)]
pub(crate) enum Sight {
    Withheld,
    Everything,
    /// Rules for rows, rules for bodies.
    Granted(Vec<Rule>, Vec<Rule>),
}

/// `None` is every resource, every namespace, every name.
#[derive(Clone, Debug)]
pub(crate) struct Rule {
    pub(crate) resource: Option<String>,
    pub(crate) namespace: Option<String>,
    pub(crate) names: Option<Vec<String>>,
}

pub(crate) type Sights = BTreeMap<String, Sight>;

/// The rules as the index takes them.
struct Compiled(Vec<Rule>);

impl Grants for Compiled {
    fn scope(&self, _group: &str, resource: &str) -> Scope {
        let mut scope = Scope::default();
        for rule in self.0.iter().filter(|rule| rule.resource.as_deref().is_none_or(|of| of == resource)) {
            match (&rule.namespace, &rule.names) {
                (None, None) => scope.everywhere = true,
                (Some(namespace), None) => drop(scope.namespaces.insert(namespace.clone())),
                (namespace, Some(names)) => {
                    scope.names.extend(names.iter().map(|name| (namespace.clone(), name.clone())));
                }
            }
        }
        scope
    }
}

pub(crate) fn visibility(sights: &Sights) -> Visibility {
    sights.iter().fold(Visibility::default(), |visibility, (cluster, sight)| {
        let view = match sight {
            Sight::Withheld => View::Withheld("no rules".to_owned()),
            Sight::Everything => View::Everything,
            Sight::Granted(rows, bodies) => {
                View::Granted { rows: Arc::new(Compiled(rows.clone())), bodies: Arc::new(Compiled(bodies.clone())) }
            }
        };
        visibility.with(cluster, view)
    })
}

fn allows(rules: &[Rule], row: &Row) -> bool {
    rules.iter().any(|rule| {
        let namespace = match &rule.namespace {
            None => true,
            Some(namespace) => !row.key.namespace.is_empty() && *namespace == row.key.namespace && !row.orphaned,
        };
        namespace
            && rule.resource.as_deref().is_none_or(|resource| resource == row.resource)
            && rule.names.as_ref().is_none_or(|names| names.contains(&row.key.name))
    })
}

pub(crate) fn sees(sights: &Sights, row: &Row) -> bool {
    match sights.get(&row.key.cluster) {
        None | Some(Sight::Withheld) => false,
        Some(Sight::Everything) => true,
        Some(Sight::Granted(rows, _)) => allows(rows, row),
    }
}

pub(crate) fn sees_body(sights: &Sights, row: &Row) -> bool {
    sees(sights, row)
        && match sights.get(&row.key.cluster) {
            Some(Sight::Granted(_, bodies)) => allows(bodies, row),
            _ => true,
        }
}

/// Words as they are found: letters, digits, `_`, and dots between digits. The texts of these tests hold no uids and such.
pub(crate) fn words(text: &str) -> BTreeSet<String> {
    let chars: Vec<char> = text.chars().collect();
    let mut found = BTreeSet::new();
    let mut word = String::new();
    for (at, character) in chars.iter().enumerate() {
        let digit = |at: Option<usize>| at.and_then(|at| chars.get(at)).is_some_and(char::is_ascii_digit);
        let inner_dot = *character == '.' && digit(at.checked_sub(1)) && digit(Some(at + 1));
        if character.is_alphanumeric() || *character == '_' || inner_dot {
            word.extend(character.to_lowercase());
        } else if !word.is_empty() {
            found.insert(std::mem::take(&mut word));
        }
    }
    found.insert(word);
    found.retain(|word| word.len() >= 2);
    found
}

fn body_words(value: &Value, into: &mut BTreeSet<String>) {
    match value {
        Value::Null | Value::Bool(_) => {}
        Value::Number(number) => into.extend(words(&number.to_string())),
        Value::String(text) => into.extend(words(text)),
        Value::Array(list) => list.iter().for_each(|value| body_words(value, into)),
        Value::Object(map) => map.iter().for_each(|(key, value)| {
            into.extend(words(key));
            body_words(value, into);
        }),
    }
}

/// Every value at a path, lists left out of it.
fn fields(value: &Value, path: &str, into: &mut BTreeSet<(String, String)>) {
    match value {
        Value::Null => {}
        Value::Array(list) => list.iter().for_each(|value| fields(value, path, into)),
        Value::Object(map) => map.iter().for_each(|(key, value)| {
            let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
            fields(value, &path, into);
        }),
        Value::String(text) => drop(into.insert((path.to_owned(), text.to_lowercase()))),
        other => drop(into.insert((path.to_owned(), other.to_string()))),
    }
}

impl Model {
    pub(crate) fn tenant(&self, row: &Row) -> &str {
        self.tenants.get(&(row.key.cluster.clone(), row.key.namespace.clone())).map_or("", String::as_str)
    }

    /// All rows that fulfil the conditions, for somebody.
    pub(crate) fn matching<'a>(&'a self, clauses: &[Clause], sights: &Sights) -> Vec<&'a Row> {
        let fits = |row: &&Row| {
            sees(sights, row)
                && clauses.iter().all(|clause| {
                    clause.negated
                        != clause.patterns.iter().any(|pattern| self.fits(&clause.field, pattern, row, sights))
                })
        };
        self.rows.values().filter(fits).collect()
    }

    fn fits(&self, field: &Field, pattern: &explorer::query::Pattern, row: &Row, sights: &Sights) -> bool {
        let folded = || Clause { field: Field::Text, patterns: vec![pattern.clone()], negated: false };
        let small = |text: &str| {
            // Compares without capitals by comparing what was written in small letters.
            let query = Query::parse(&format!("name:{}", folded().patterns[0].text().to_lowercase())).unwrap();
            query.clauses[0].patterns[0].matches(&text.to_lowercase())
        };
        let body = || sees_body(sights, row).then(|| serde_json::from_str::<Value>(&row.body).unwrap());
        match field {
            Field::Cluster => pattern.matches(&row.key.cluster),
            Field::Namespace => pattern.matches(&row.key.namespace),
            Field::Kind => small(&row.key.kind),
            Field::Group => pattern.matches(&row.key.group),
            Field::Name => pattern.matches(&row.key.name),
            Field::Status => small(row.status.as_str()),
            Field::Category => small(&row.category),
            Field::Tenant => pattern.matches(self.tenant(row)),
            Field::Uid => pattern.matches(&row.uid),
            Field::Is => match pattern.as_exact().unwrap() {
                "deleted" => row.deleted_at.is_some(),
                "live" => row.deleted_at.is_none(),
                "terminating" => row.terminating,
                _ => self.stale.contains(&row.key.cluster),
            },
            Field::Label(key) => row.labels.iter().any(|(of, value)| of == key && pattern.matches(value)),
            Field::Message => match pattern.as_exact() {
                Some("") => row.message.is_empty(),
                Some(text) => words(text).is_subset(&words(&row.message)),
                None => small(&row.message),
            },
            Field::Object(path) => {
                let mut found = BTreeSet::new();
                if let Some(body) = body() {
                    fields(&body, "", &mut found);
                }
                found.contains(&(path.clone(), pattern.as_exact().unwrap().to_lowercase()))
            }
            Field::Text => {
                let text = pattern.first().to_lowercase();
                let mut known = words(&row.key.name);
                known.extend(words(&row.message));
                row.labels.iter().for_each(|(key, value)| known.extend(words(key).into_iter().chain(words(value))));
                if let Some(body) = body() {
                    body_words(&body, &mut known);
                }
                let wanted = words(&text);
                let found = |word: &String| {
                    let is_last = pattern.as_prefix().is_some() && text.ends_with(word.as_str());
                    known.iter().any(|known| if is_last { known.starts_with(word.as_str()) } else { known == word })
                };
                row.key.name.to_lowercase().contains(&text) || (!wanted.is_empty() && wanted.iter().all(found))
            }
        }
    }

    /// In the order of a question.
    pub(crate) fn sorted<'a>(&self, mut rows: Vec<&'a Row>, order: Order, descending: bool) -> Vec<&'a Row> {
        rows.sort_by(|one, other| {
            let ordering = self.compare(order, one, other);
            if descending { ordering.reverse() } else { ordering }
        });
        rows
    }

    fn compare(&self, order: Order, one: &Row, other: &Row) -> Ordering {
        let by = |of: fn(&Row) -> &str| of(one).cmp(of(other));
        let created = one.created.unwrap_or(i64::MIN).cmp(&other.created.unwrap_or(i64::MIN));
        let first = match order {
            Order::Name => Ordering::Equal,
            Order::Kind => by(|row| &row.key.kind),
            Order::Namespace => by(|row| &row.key.namespace),
            Order::Cluster => by(|row| &row.key.cluster),
            Order::Tenant => self.tenant(one).cmp(self.tenant(other)),
            Order::Status => by(|row| row.status.as_str()),
            Order::Message => by(|row| &row.message),
            Order::Category => by(|row| &row.category),
            Order::Created => created,
            Order::Age => created.reverse(),
        };
        let key = |row: &Row| {
            let Key { cluster, namespace, group, kind, name } = row.key.clone();
            (name, cluster, namespace, kind, group)
        };
        first.then_with(|| key(one).cmp(&key(other)))
    }

    /// Counts by field and value.
    pub(crate) fn facets(&self, rows: &[&Row], labels: &[String]) -> BTreeMap<String, BTreeMap<String, u64>> {
        let mut facets: BTreeMap<String, BTreeMap<String, u64>> = BTreeMap::new();
        for field in ["cluster", "namespace", "kind", "status", "tenant", "category"] {
            facets.entry(field.to_owned()).or_default();
        }
        for label in labels {
            facets.entry(format!("labels.{label}")).or_default();
        }
        let mut count = |field: &str, value: &str| {
            *facets.entry(field.to_owned()).or_default().entry(value.to_owned()).or_default() += 1;
        };
        for row in rows {
            count("cluster", &row.key.cluster);
            count("namespace", &row.key.namespace);
            count("kind", &row.key.kind);
            count("status", row.status.as_str());
            count("category", &row.category);
            if !self.tenant(row).is_empty() {
                count("tenant", self.tenant(row));
            }
            for (key, value) in row.labels.iter().filter(|(key, _)| labels.contains(key)) {
                count(&format!("labels.{key}"), value);
            }
        }
        facets
    }
}
