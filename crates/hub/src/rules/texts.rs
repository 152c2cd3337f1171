//! The words of the original, which its clients compare letter by letter, and ours in the same shape where it had none.

use std::collections::HashSet;

use crate::{Error, Reason};

/// What is wrong with one part of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    pub reason: Reason,
    pub text: String,
}

impl Fault {
    pub fn new(reason: Reason, text: impl Into<String>) -> Fault {
        Fault { reason, text: text.into() }
    }

    pub fn not_found(ids: &[String]) -> Fault {
        Fault::new(Reason::NotFound, format!("TypeInstances with IDs \"{}\" were not found", listed(ids)))
    }

    pub fn locked(ids: &[String]) -> Fault {
        Fault::new(Reason::Locked, format!("TypeInstances with IDs \"{}\" are locked by different owner", listed(ids)))
    }

    pub fn busy(ids: &[String]) -> Fault {
        let text = format!("TypeInstances with IDs \"{}\" are being changed; try again", listed(ids));
        Fault::new(Reason::Retry, text)
    }

    /// What was refused, as a part of a whole; other errors are passed on.
    pub fn of(error: Error) -> Result<Fault, Error> {
        match error {
            Error::Refused { reason, message } => Ok(Fault { reason, text: message }),
            error => Err(error),
        }
    }

    pub fn outdated(id: &str, expected: u32, found: u32) -> Fault {
        let text = format!(
            "TypeInstance with ID \"{id}\" has resourceVersion {found}, not {expected} as expected; read it again"
        );
        Fault::new(Reason::Conflict, text)
    }
}

/// Each once, however often it was named.
fn listed(ids: &[String]) -> String {
    let mut seen = HashSet::new();
    let told: Vec<&str> = ids.iter().map(String::as_str).filter(|id| seen.insert(*id)).collect();
    told.join("\", \"")
}

pub fn duplicated_aliases() -> Error {
    Error::invalid(
        "Validation failed: Duplicated TypeInstance aliases. Please ensure that each TypeInstance alias is unique.",
    )
}

pub fn no_context(backend: &str) -> Error {
    Error::invalid(format!("Validation failed: Built-in storage backend with ID {backend} does not accept context"))
}

/// A context that nobody asked for by name, where only the built-in store is left.
pub fn context_for_nobody() -> Error {
    Error::invalid(
        "backend.context: it is for a storage backend, and none is named, ruled by the policy or marked as the default; name \
         one in backend.id",
    )
}

pub fn unknown_backends(ids: &[String]) -> Fault {
    let text = format!("TypeInstances for storage backends with IDs \"{}\" were not found", ids.join(","));
    Fault::new(Reason::NotFound, text)
}

pub fn bad_relations() -> Fault {
    let text =
        "Failed to create some relations. Please verify, if you use proper aliases or IDs in relations definition.";
    Fault::new(Reason::NotFound, text)
}

/// What a backend does not take, as the original tells it.
pub fn external(backend: &str, fault: &str) -> Fault {
    Fault::new(Reason::Invalid, format!("External backend \"{backend}\": {fault}"))
}

pub fn name_taken(name: &str) -> Fault {
    Fault::new(Reason::Conflict, format!("the name \"{name}\" belongs to another TypeInstance; choose another"))
}

pub fn name_reserved(name: &str) -> Fault {
    Fault::new(Reason::Retry, format!("the name \"{name}\" is being given to another TypeInstance; try again"))
}

pub fn key_in_use() -> Fault {
    Fault::new(Reason::Retry, "a request with the same idempotencyKey is under way; try again")
}

pub fn key_used_otherwise() -> Fault {
    let text = "the idempotencyKey was used for another request; make a new key for every request";
    Fault::new(Reason::Conflict, text)
}

pub fn unknown_type(reference: &str) -> Fault {
    let text = format!("the Type {reference} is not known here, and this server requires Types; apply it first");
    Fault::new(Reason::Invalid, text)
}

/// A value or a context that its schema refuses.
pub fn misfit(alias: &str, faults: &[String]) -> Fault {
    Fault::new(Reason::Invalid, format!("TypeInstance \"{alias}\": invalid input: {}", faults.join(", ")))
}

/// A value or a context that no schema can be asked about.
pub fn incomparable(name: &str) -> String {
    format!(
        "{name} has a number that is out of range or half of a surrogate pair, and cannot be compared with its schema"
    )
}

pub fn create(faults: &[Fault]) -> Error {
    bullets("failed to create the TypeInstances", faults)
}

pub fn update(faults: &[Fault]) -> Error {
    bullets("failed to update TypeInstances", faults)
}

/// The number of faults is told, but the word is never in the plural.
fn bullets(what: &str, faults: &[Fault]) -> Error {
    let texts: Vec<String> = faults.iter().map(|fault| format!("\n\t* Error: {}", fault.text)).collect();
    Error::refused(reason(faults), format!("{what}: {} error occurred:{}", faults.len(), texts.concat()))
}

pub fn lock(faults: &[Fault]) -> Error {
    inline("failed to lock TypeInstances", faults)
}

pub fn unlock(faults: &[Fault]) -> Error {
    inline("failed to unlock TypeInstances", faults)
}

fn inline(what: &str, faults: &[Fault]) -> Error {
    let texts: Vec<&str> = faults.iter().map(|fault| fault.text.as_str()).collect();
    let message = match texts.as_slice() {
        [text] => format!("{what}: 1 error occurred: {text}"),
        texts => format!("{what}: {} errors occurred: [{}]", texts.len(), texts.join(", ")),
    };
    Error::refused(reason(faults), message)
}

/// Why one record cannot be deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kept {
    NotFound,
    Locked,
    UsedBy(Vec<String>),
    BuiltIn,
    Busy,
    /// What its backend said.
    Backend(String),
    /// What its backend said, or that it said nothing: it goes as soon as it does.
    BackendLater(String),
}

pub fn delete(id: &str, kept: &Kept) -> Error {
    let (reason, text) = match kept {
        Kept::NotFound => (Reason::NotFound, "TypeInstance was not found".to_owned()),
        Kept::Locked => (Reason::Locked, "TypeInstance is locked by different owner".to_owned()),
        Kept::UsedBy(users) => {
            let text = "TypeInstance is used by other TypeInstances, you must first remove ";
            (Reason::InUse, format!("{text}{}", listed(users)))
        }
        Kept::Busy => (Reason::Retry, "TypeInstance is being changed; try again".to_owned()),
        Kept::Backend(text) => (Reason::Backend, text.clone()),
        Kept::BackendLater(text) => {
            let later = "it is not known whether that took place; the TypeInstance goes as soon as its backend answers";
            (Reason::Backend, format!("{text}; {later}"))
        }
        Kept::BuiltIn => (Reason::InUse, "TypeInstance is the built-in storage backend, which stays".to_owned()),
    };
    Error::refused(reason, format!("failed to delete TypeInstance with ID \"{id}\": {text}"))
}

pub fn moving(id: &str, fault: &Fault) -> Error {
    Error::refused(fault.reason, format!("failed to move TypeInstance with ID \"{id}\": {}", fault.text))
}

fn reason(faults: &[Fault]) -> Reason {
    faults.first().map_or(Reason::Invalid, |fault| fault.reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(ids: &[&str]) -> Vec<String> {
        ids.iter().map(|id| (*id).to_owned()).collect()
    }

    #[test]
    fn the_texts_are_those_of_the_original() {
        let (missing, locked) = (Fault::not_found(&ids(&["a", "b"])), Fault::locked(&ids(&["c"])));
        let table = [
            (
                lock(std::slice::from_ref(&missing)),
                "failed to lock TypeInstances: 1 error occurred: TypeInstances with IDs \"a\", \"b\" were not found",
            ),
            (
                unlock(&[missing.clone(), locked.clone()]),
                "failed to unlock TypeInstances: 2 errors occurred: [TypeInstances with IDs \"a\", \"b\" were not found, \
                 TypeInstances with IDs \"c\" are locked by different owner]",
            ),
            (
                update(&[locked]),
                "failed to update TypeInstances: 1 error occurred:\n\t* Error: TypeInstances with IDs \"c\" are locked by \
                 different owner",
            ),
            (
                create(&[missing.clone(), bad_relations()]),
                "failed to create the TypeInstances: 2 error occurred:\n\t* Error: TypeInstances with IDs \"a\", \"b\" were \
                 not found\n\t* Error: Failed to create some relations. Please verify, if you use proper aliases or IDs in \
                 relations definition.",
            ),
            (
                update(&[Fault::locked(&ids(&["x", "y", "x"]))]),
                "failed to update TypeInstances: 1 error occurred:\n\t* Error: TypeInstances with IDs \"x\", \"y\" are locked \
                 by different owner",
            ),
            (delete("x", &Kept::NotFound), "failed to delete TypeInstance with ID \"x\": TypeInstance was not found"),
            (
                delete("x", &Kept::Locked),
                "failed to delete TypeInstance with ID \"x\": TypeInstance is locked by different owner",
            ),
            (
                delete("x", &Kept::UsedBy(ids(&["a", "b"]))),
                "failed to delete TypeInstance with ID \"x\": TypeInstance is used by other TypeInstances, you must first \
                 remove a\", \"b",
            ),
        ];
        for (error, expected) in table {
            assert_eq!(error.to_string(), expected);
        }
    }
}
