//! Laying the sources over one another: flag over variable over file over default.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::environment::{Environment, OTHER_VARIABLES, is_service_variable};
use super::keys::{Fallback, KEYS, Key};
use super::kind::Raw;
use super::secret::HIDDEN;
use super::suggest::nearest;
use super::{Invalid, Problem, Settings, check, file};

/// The file that is read when none is named, if it is there.
pub const DEFAULT_FILE: &str = "/etc/stateward/config.yaml";

/// What the command line says.
#[derive(Clone, Default)]
pub struct Given {
    /// `--config`.
    pub file: Option<PathBuf>,
    /// Flags of keys, by the path of the key; a repeated flag gives several texts.
    pub flags: BTreeMap<&'static str, Vec<String>>,
}

/// Where a value came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    Default,
    File { path: PathBuf, line: u64 },
    Variable(String),
    Flag(String),
}

impl fmt::Display for Source {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::Default => write!(formatter, "default"),
            Source::File { path, line } => write!(formatter, "{}", file::place(path, *line)),
            Source::Variable(name) => write!(formatter, "env {name}"),
            Source::Flag(name) => write!(formatter, "flag --{name}"),
        }
    }
}

/// One key with the value that won.
pub struct Entry {
    pub key: &'static Key,
    pub source: Source,
    value: Option<Raw>,
}

impl Entry {
    /// The value as it may be shown: a text, a list of texts or null; never a secret.
    pub fn shown(&self) -> Value {
        match &self.value {
            None if self.key.kind.is_list() => Value::Array(Vec::new()),
            None => Value::Null,
            Some(_) if self.key.kind.is_secret() => Value::from(HIDDEN),
            Some(Raw::Text(text)) => Value::from(text.as_str()),
            Some(Raw::List(items)) => Value::from(items.clone()),
        }
    }
}

/// Every key with its value and source, and all that is wrong or odd.
pub struct Resolution {
    pub entries: Vec<Entry>,
    pub problems: Vec<Problem>,
    pub warnings: Vec<Problem>,
    settings: Option<Settings>,
}

impl Resolution {
    /// The typed settings, or everything that is wrong.
    pub fn settings(self) -> Result<Settings, Invalid> {
        match self.settings {
            Some(settings) if self.problems.is_empty() => Ok(settings),
            _ => Err(Invalid(self.problems)),
        }
    }

    /// The path that a single key holds, whatever is wrong elsewhere.
    pub fn path_of(&self, key: &str) -> Option<PathBuf> {
        let entry = self.entries.iter().find(|entry| entry.key.path == key)?;
        entry.shown().as_str().map(PathBuf::from)
    }
}

/// Finds the value of every key.
pub fn resolve(given: &Given, environment: &Environment) -> Resolution {
    let (mut from_file, mut problems) = read_file(given, environment);
    let mut entries = Vec::new();
    for key in KEYS {
        entries.push(winner(key, given, environment, &mut from_file));
    }

    let mut tree = Map::new();
    let mut complete = true;
    for entry in &entries {
        match read(entry) {
            Ok(value) => place(&mut tree, entry.key.path, value),
            Err(problem) => {
                complete = false;
                problems.push(problem);
            }
        }
    }
    let mut settings = None;
    if complete {
        // The fields follow the table (a test sees to it), so this fails only for numbers beyond the machine's size.
        match serde_json::from_value::<Settings>(Value::Object(tree)) {
            Ok(read) => settings = Some(read),
            Err(error) => problems.push(Problem::new("configuration", error.to_string(), "write a smaller value")),
        }
    }
    let mut warnings = unknown_variables(environment);
    if let Some(settings) = &settings {
        problems.extend(check::contradictions(settings));
        warnings.extend(check::missing_files(settings));
    }
    Resolution { entries, problems, warnings, settings }
}

/// The same for a server that is to start here, or for whoever asks what it would do: what it lacks here counts too.
pub fn resolve_to_serve(given: &Given, environment: &Environment) -> Resolution {
    let mut resolution = resolve(given, environment);
    let lacking = resolution.settings.as_ref().map(|settings| check::without_a_cluster(settings, environment));
    resolution.problems.extend(lacking.unwrap_or_default());
    resolution
}

type FileValues = BTreeMap<&'static str, (Option<Raw>, Source)>;

fn read_file(given: &Given, environment: &Environment) -> (FileValues, Vec<Problem>) {
    let named = given.file.clone().or_else(|| environment.non_empty("STATEWARD_CONFIG").map(PathBuf::from));
    let path = match &named {
        Some(path) => path.as_path(),
        None => Path::new(DEFAULT_FILE),
    };
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if named.is_none() && error.kind() == std::io::ErrorKind::NotFound => return Default::default(),
        Err(error) => {
            let cure = "name a readable file with --config or STATEWARD_CONFIG";
            let problem = Problem::new("configuration file", format!("failed to read: {error}"), cure);
            return (FileValues::new(), vec![problem.at(path.display())]);
        }
    };
    let (assignments, problems) = file::read(path, &text);
    let values = assignments.into_iter().map(|assignment| {
        let source = Source::File { path: path.to_owned(), line: assignment.line };
        (assignment.key.path, (assignment.value, source))
    });
    (values.collect(), problems)
}

fn winner(key: &'static Key, given: &Given, environment: &Environment, from_file: &mut FileValues) -> Entry {
    if let Some(texts) = given.flags.get(key.path) {
        // Only list flags repeat; their items add up.
        return Entry { key, source: Source::Flag(key.flag()), value: unless_empty(key, &texts.join(",")) };
    }
    let variable = key.variable();
    if let Some(text) = environment.get(&variable) {
        return Entry { key, source: Source::Variable(variable), value: unless_empty(key, text) };
    }
    if let Some((value, source)) = from_file.remove(key.path) {
        let value = match value {
            Some(Raw::Text(text)) => unless_empty(key, &text),
            other => other,
        };
        return Entry { key, source, value };
    }
    let value = key.default_text(environment).and_then(|text| unless_empty(key, &text));
    Entry { key, source: Source::Default, value }
}

/// An empty text unsets a key, so that a variable can take back what the file says.
fn unless_empty(key: &Key, text: &str) -> Option<Raw> {
    if text.trim().is_empty() { None } else { Some(key.kind.split(text)) }
}

fn read(entry: &Entry) -> Result<Value, Problem> {
    let misfit = match &entry.value {
        Some(raw) => match entry.key.kind.read(raw) {
            Ok(value) => return Ok(value),
            Err(misfit) => Problem::new(entry.key.path, misfit.fault, misfit.cure),
        },
        None if entry.key.kind.is_list() => return Ok(Value::Array(Vec::new())),
        None if entry.key.default == Fallback::Unset => return Ok(Value::Null),
        None if entry.source == Source::Default => Problem::new(
            entry.key.path,
            "has no default here, as HOME is not set",
            format!("set {}", entry.key.variable()),
        ),
        None => Problem::new(entry.key.path, "is empty", format!("write {}", entry.key.kind.syntax())),
    };
    Err(misfit.at(&entry.source))
}

fn place(tree: &mut Map<String, Value>, path: &str, value: Value) {
    match path.split_once('.') {
        None => _ = tree.insert(path.to_owned(), value),
        Some((group, name)) => {
            let group = tree.entry(group).or_insert_with(|| Value::Object(Map::new()));
            group[name] = value;
        }
    }
}

/// A variable with our prefix that means nothing is odd, but not an error: Kubernetes injects such variables for
/// every Service of the namespace, and a newer chart may set keys of a newer version.
fn unknown_variables(environment: &Environment) -> Vec<Problem> {
    let variables: Vec<String> = KEYS.iter().map(Key::variable).collect();
    let known = || variables.iter().map(String::as_str).chain(OTHER_VARIABLES.iter().copied());
    let unknown = environment.ours().filter(|name| !is_service_variable(name) && known().all(|known| known != *name));
    unknown
        .map(|name| {
            let cure = match nearest(name, known()) {
                Some(variable) => format!("did you mean {variable}?"),
                None => "remove it if it was meant for stateward".to_owned(),
            };
            Problem::new(name, "is not a known variable", cure)
        })
        .collect()
}
