//! What a stream tells, and the names that it uses for objects.

use std::fmt;
use std::sync::Arc;

use kube::api::{ApiResource, DynamicObject};

/// One thing that happened.
#[derive(Clone)]
pub enum Event {
    /// The object is as this says: new, changed, or just told again. Terminating objects are applied until they are gone.
    /// Without managedFields and `last-applied-configuration`; of a Secret only the metadata without annotations.
    Applied(Box<DynamicObject>),
    /// The object is gone, or left the filter.
    Deleted(Deleted),
    /// The cluster no longer serves the kind: a `Deleted` for each known object follows. A consumer that wants to remove
    /// all of them in one transaction does so now.
    Absent,
    /// Everything that a list told, and what it lacked, has been handed out.
    Synced,
}

/// An object that is gone.
#[derive(Clone)]
pub struct Deleted {
    pub key: Key,
    /// Which incarnation; `None` when the stream never knew the object. A name that was made again has another uid.
    pub uid: Option<Uid>,
    /// As it was last seen, where the API server told; a deletion during downtime leaves none.
    pub last: Option<Box<DynamicObject>>,
}

impl Deleted {
    /// The least that names the object: kind, namespace, name and uid.
    pub fn minimal(&self, resource: &ApiResource) -> DynamicObject {
        let mut object = DynamicObject::new(&self.key.name, resource);
        object.metadata.namespace = (!self.key.namespace.is_empty()).then(|| self.key.namespace.to_string());
        object.metadata.uid = self.uid.as_ref().map(|uid| uid.as_str().to_owned());
        object
    }
}

/// Where an object is: its name and, unless the kind is cluster-scoped, its namespace.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    /// Empty for a cluster-scoped object.
    pub namespace: Arc<str>,
    pub name: Arc<str>,
}

impl Key {
    pub fn new(namespace: &str, name: &str) -> Key {
        Key { namespace: namespace.into(), name: name.into() }
    }

    pub fn of(object: &DynamicObject) -> Key {
        let metadata = &object.metadata;
        Key::new(metadata.namespace.as_deref().unwrap_or_default(), metadata.name.as_deref().unwrap_or_default())
    }
}

impl fmt::Display for Key {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.namespace.is_empty() {
            write!(formatter, "{}/", self.namespace)?;
        }
        formatter.write_str(&self.name)
    }
}

/// Tells apart objects that had the same name one after the other.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Uid(Arc<str>);

impl Uid {
    pub fn new(text: &str) -> Uid {
        Uid(text.into())
    }

    /// Some aggregated kinds have no uid: there the name is all that tells objects apart.
    pub fn of(object: &DynamicObject) -> Uid {
        match object.metadata.uid.as_deref() {
            Some(uid) if !uid.is_empty() => Uid::new(uid),
            _ => Uid::new(&format!("name:{}", Key::of(object))),
        }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Uid {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// Names only: objects may hold what does not belong into a log.
impl fmt::Debug for Event {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Event::Applied(object) => write!(formatter, "Applied({}, {})", Key::of(object), Uid::of(object)),
            Event::Deleted(deleted) => deleted.fmt(formatter),
            Event::Absent => formatter.write_str("Absent"),
            Event::Synced => formatter.write_str("Synced"),
        }
    }
}

impl fmt::Debug for Deleted {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let uid = self.uid.as_ref().map_or("-", Uid::as_str);
        write!(formatter, "Deleted({}, {uid})", self.key)
    }
}
