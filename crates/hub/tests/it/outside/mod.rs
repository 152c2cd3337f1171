//! Backends beside a hub: some that behave as the original's do, and some that misbehave as they are told.

pub(crate) mod grpc;
pub(crate) mod moody;
pub(crate) mod original;
pub(crate) mod shown;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use backends::{Code, Driver, Failure};
use hub::{Batch, Connect, Endpoint, Hub, Json, NewRecord, Settings, StorageChoice, Times};

use crate::place::{Place, create, json, new, settings, type_ref};
use moody::Moody;
use original::Original;
use shown::Shown;

/// Drivers by their urls.
#[derive(Debug, Default)]
pub(crate) struct Shelf(Mutex<HashMap<String, Arc<dyn Driver>>>);

impl Shelf {
    pub(crate) fn put(&self, url: &str, driver: Arc<dyn Driver>) {
        self.0.lock().unwrap().insert(url.to_owned(), driver);
    }
}

impl Connect for Shelf {
    fn connect(&self, endpoint: &Endpoint) -> Result<Arc<dyn Driver>, Failure> {
        let driver = self.0.lock().unwrap().get(&endpoint.url).cloned();
        driver.ok_or_else(|| Failure::new(Code::Unavailable, format!("nothing is at {}", endpoint.url)))
    }
}

/// A hub with a shelf of backends.
pub(crate) struct World {
    pub(crate) place: Place,
    pub(crate) hub: Hub,
    pub(crate) shelf: Arc<Shelf>,
}

/// A registered backend: its record, what it has, and how it behaves.
pub(crate) struct Outside {
    pub(crate) id: String,
    pub(crate) original: Arc<Original>,
    pub(crate) moody: Arc<Moody>,
}

/// Long enough for a busy machine where everything is well.
pub(crate) fn patient() -> Settings {
    let times = Times { recover_every: Duration::from_millis(50), ..Times::default() };
    Settings { times, ..settings() }
}

/// Short, for tests in which somebody does not answer.
pub(crate) fn hasty() -> Settings {
    let times = Times {
        call: Duration::from_millis(1500),
        read: Duration::from_millis(1500),
        lock_question: Duration::from_millis(1500),
        margin: Duration::from_secs(2),
        grace: Duration::from_millis(700),
        recover_every: Duration::from_millis(50),
        ..Times::default()
    };
    Settings { times, ..settings() }
}

impl World {
    pub(crate) async fn new(place: Place, settings: Settings) -> World {
        let shelf = Arc::new(Shelf::default());
        let hub = place.hub_on(settings, Arc::clone(&shelf) as Arc<dyn Connect>).await;
        World { place, hub, shelf }
    }

    /// Another hub on the same database, with the same backends.
    pub(crate) async fn second(&self, settings: Settings) -> Hub {
        self.place.hub_on(settings, Arc::clone(&self.shelf) as Arc<dyn Connect>).await
    }

    /// A backend that takes values and no context.
    pub(crate) async fn register(&self, name: &str) -> Outside {
        self.register_with(name, "null").await
    }

    pub(crate) async fn register_with(&self, name: &str, context_schema: &str) -> Outside {
        let original = Arc::new(Original::at(&self.place.directory.join(name)));
        let moody = Arc::new(Moody::around(Arc::clone(&original) as Arc<dyn Driver>));
        let url = format!("{name}:50051");
        self.shelf.put(&url, Arc::clone(&moody) as Arc<dyn Driver>);
        let record = NewRecord { name: Some(name.to_owned()), ..storage(&url, context_schema) };
        Outside { id: create(&self.hub, record).await, original, moody }
    }

    /// A backend that takes no values: its id, and how it behaves.
    pub(crate) async fn register_shown(&self, name: &str) -> (String, Arc<Moody>) {
        let moody = Arc::new(Moody::around(Arc::new(Shown)));
        let url = format!("{name}:50051");
        self.shelf.put(&url, Arc::clone(&moody) as Arc<dyn Driver>);
        let value = format!(r#"{{"url":"{url}","acceptValue":false,"contextSchema":{{"type":"object"}}}}"#);
        let record = NewRecord { name: Some(name.to_owned()), value: Some(json(&value)), ..storage(&url, "null") };
        (create(&self.hub, record).await, moody)
    }

    /// Looks after the journal until it is empty.
    pub(crate) async fn settled(&self) {
        let hub = self.hub.clone();
        testbed::eventually(Duration::from_secs(60), || {
            let hub = hub.clone();
            async move {
                hub.tend().await.unwrap();
                hub.journal().await.unwrap().is_empty()
            }
        })
        .await;
    }
}

/// The record of a backend.
pub(crate) fn storage(url: &str, context_schema: &str) -> NewRecord {
    let value = format!(r#"{{"url":"{url}","acceptValue":true,"contextSchema":{context_schema}}}"#);
    NewRecord { value: Some(json(&value)), ..NewRecord::new(type_ref("cap.core.type.hub.storage.test", "0.1.0")) }
}

/// A record with a value in a backend.
pub(crate) fn kept_in(backend: &str, value: &str) -> NewRecord {
    NewRecord { backend: Some(choice(backend, None)), ..new(value) }
}

pub(crate) fn choice(backend: &str, context: Option<Json>) -> StorageChoice {
    StorageChoice { id: Some(backend.to_owned()), context }
}

pub(crate) fn batch(records: Vec<NewRecord>) -> Batch {
    Batch { records, ..Batch::default() }
}

/// What a backend has of a record: the texts of its versions.
pub(crate) fn versions(original: &Original, id: &str) -> Vec<(u32, String)> {
    original.kept(id).map(|kept| kept.versions.into_iter().collect()).unwrap_or_default()
}
