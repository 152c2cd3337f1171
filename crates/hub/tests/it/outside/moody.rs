//! A backend that misbehaves as it is told, around one that does not, and remembers what it was asked.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use backends::{Answer, Code, Document, Driver, Failure, Mode, Target, Update};
use tokio::sync::watch;

/// How a method behaves.
#[derive(Clone, Debug)]
pub(crate) enum Mood {
    /// Never answers, and does nothing.
    Hang,
    /// Refuses.
    Fail(Code),
    /// Refuses this record only.
    FailFor(String, Code),
    /// Does it, and the answer is lost.
    Lose,
    /// Does it, and answers this.
    Say(&'static str),
    /// Does it when this turns true.
    Wait(watch::Receiver<bool>),
    /// Says that it took too long, and does it when this turns true.
    Late(watch::Receiver<bool>),
}

#[derive(Debug)]
pub(crate) struct Moody {
    pub(crate) inner: Arc<dyn Driver>,
    moods: Mutex<HashMap<&'static str, Mood>>,
    /// What was asked, each with its context.
    calls: Mutex<Vec<(&'static str, Option<String>)>>,
}

impl Moody {
    pub(crate) fn around(inner: Arc<dyn Driver>) -> Moody {
        Moody { inner, moods: Mutex::default(), calls: Mutex::default() }
    }

    pub(crate) fn set(&self, method: &'static str, mood: Mood) {
        self.moods.lock().unwrap().insert(method, mood);
    }

    /// All methods at once.
    pub(crate) fn die(&self) {
        for method in METHODS {
            self.set(method, Mood::Hang);
        }
    }

    pub(crate) fn be_well(&self) {
        self.moods.lock().unwrap().clear();
    }

    /// How often a method was called.
    pub(crate) fn count(&self, method: &str) -> usize {
        self.contexts(method).len()
    }

    /// The contexts that a method was called with.
    pub(crate) fn contexts(&self, method: &str) -> Vec<Option<String>> {
        let calls = self.calls.lock().unwrap();
        calls.iter().filter(|(called, _)| *called == method).map(|(_, context)| context.clone()).collect()
    }

    fn called(&self, method: &'static str, target: &Target<'_>) -> Option<Mood> {
        let context = target.context.map(|context| String::from_utf8(context.0.to_vec()).unwrap());
        self.calls.lock().unwrap().push((method, context));
        let mood = self.moods.lock().unwrap().get(method).cloned();
        mood.filter(|mood| !matches!(mood, Mood::FailFor(other, _) if other != target.id))
    }
}

const METHODS: [&str; 9] = [
    "GetValue",
    "GetPreCreateValue",
    "OnCreate",
    "OnUpdate",
    "OnDelete",
    "OnDeleteRevision",
    "GetLockedBy",
    "OnLock",
    "OnUnlock",
];

/// What a late call needs after its caller has gone.
struct Late {
    id: String,
    context: Option<Document>,
    key: String,
}

impl Late {
    fn of(target: &Target<'_>) -> Late {
        Late { id: target.id.to_owned(), context: target.context.cloned(), key: target.key.to_owned() }
    }

    fn target(&self) -> Target<'_> {
        Target { id: &self.id, context: self.context.as_ref(), key: &self.key, within: Duration::from_secs(10) }
    }
}

fn spoken<T>(answer: T) -> impl FnOnce(&'static str) -> T {
    move |_text| answer
}

/// Behaves as the mood says; `$late` is the same call without its caller.
macro_rules! moody {
    ($self:ident, $method:literal, $target:ident, $call:expr, |$say:ident| $said:expr, |$inner:ident, $late:ident| $again:expr) => {
        Box::pin(async move {
            match $self.called($method, &$target) {
                None => $call.await,
                Some(Mood::Hang) => std::future::pending().await,
                Some(Mood::Fail(code) | Mood::FailFor(_, code)) => Err(Failure::new(code, "as it was told")),
                Some(Mood::Wait(mut gate)) => {
                    let _ = gate.wait_for(|open| *open).await;
                    $call.await
                }
                Some(Mood::Lose) => {
                    $call.await?;
                    Err(Failure::new(Code::Unknown, "the answer was lost"))
                }
                Some(Mood::Say($say)) => {
                    let done = $call.await?;
                    let _ = &done;
                    Ok($said)
                }
                Some(Mood::Late(mut gate)) => {
                    let ($inner, $late) = (Arc::clone(&$self.inner), Late::of(&$target));
                    tokio::spawn(async move {
                        let _ = gate.wait_for(|open| *open).await;
                        let _ = $again.await;
                    });
                    Err(Failure::new(Code::DeadlineExceeded, "it took too long"))
                }
            }
        })
    };
}

fn document(text: &'static str) -> Document {
    Document(text.as_bytes().to_vec().into())
}

impl Driver for Moody {
    fn mode(&self) -> Mode {
        self.inner.mode()
    }

    fn get_value<'a>(&'a self, target: Target<'a>, version: u32) -> Answer<'a, Option<Document>> {
        moody!(
            self,
            "GetValue",
            target,
            self.inner.get_value(target, version),
            |text| Some(document(text)),
            |inner, late| { inner.get_value(late.target(), version) }
        )
    }

    fn get_pre_create_value<'a>(&'a self, target: Target<'a>) -> Answer<'a, Option<Document>> {
        self.inner.get_pre_create_value(target)
    }

    fn on_create<'a>(&'a self, target: Target<'a>, value: Option<&'a Document>) -> Answer<'a, Option<Document>> {
        let owned = value.cloned();
        moody!(
            self,
            "OnCreate",
            target,
            self.inner.on_create(target, value),
            |text| Some(document(text)),
            |inner, late| { inner.on_create(late.target(), owned.as_ref()) }
        )
    }

    fn on_update<'a>(&'a self, target: Target<'a>, update: Update<'a>) -> Answer<'a, Option<Document>> {
        let (value, version) = (update.value.cloned(), update.version);
        moody!(
            self,
            "OnUpdate",
            target,
            self.inner.on_update(target, update),
            |text| Some(document(text)),
            |inner, late| {
                let (owner, old_version, old_context) = (None, version - 1, None);
                inner.on_update(
                    late.target(),
                    Update { version, value: value.as_ref(), owner, old_version, old_context },
                )
            }
        )
    }

    fn on_delete<'a>(&'a self, target: Target<'a>, owner: Option<&'a str>) -> Answer<'a, ()> {
        moody!(self, "OnDelete", target, self.inner.on_delete(target, owner), |text| spoken(())(text), |inner, late| {
            inner.on_delete(late.target(), None)
        })
    }

    fn on_delete_revision<'a>(&'a self, target: Target<'a>, version: u32, owner: Option<&'a str>) -> Answer<'a, ()> {
        let call = self.inner.on_delete_revision(target, version, owner);
        moody!(self, "OnDeleteRevision", target, call, |text| spoken(())(text), |inner, late| {
            inner.on_delete_revision(late.target(), version, None)
        })
    }

    fn get_locked_by<'a>(&'a self, target: Target<'a>) -> Answer<'a, Option<String>> {
        let call = self.inner.get_locked_by(target);
        moody!(self, "GetLockedBy", target, call, |text| Some(text.to_owned()), |inner, late| {
            inner.get_locked_by(late.target())
        })
    }

    fn on_lock<'a>(&'a self, target: Target<'a>, owner: &'a str) -> Answer<'a, ()> {
        let holder = owner.to_owned();
        moody!(self, "OnLock", target, self.inner.on_lock(target, owner), |text| spoken(())(text), |inner, late| {
            inner.on_lock(late.target(), &holder)
        })
    }

    fn on_unlock<'a>(&'a self, target: Target<'a>) -> Answer<'a, ()> {
        moody!(self, "OnUnlock", target, self.inner.on_unlock(target), |text| spoken(())(text), |inner, late| {
            inner.on_unlock(late.target())
        })
    }

    fn health(&self, within: Duration) -> Answer<'_, ()> {
        self.inner.health(within)
    }
}
