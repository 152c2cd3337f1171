//! A driver that writes down what it is asked and says yes, to see what arrives on the other side of the wire.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::watch;

use backends::{Answer, Document, Driver, Mode, Target, Update};

use crate::place::document;

#[derive(Debug)]
pub(crate) struct Recorder {
    mode: Mode,
    asked: Mutex<Vec<String>>,
    held: watch::Sender<bool>,
    /// How many creations are held, and the most that ever were.
    inside: AtomicUsize,
    most: AtomicUsize,
}

impl Recorder {
    pub(crate) fn new(mode: Mode) -> Recorder {
        Recorder {
            mode,
            asked: Mutex::default(),
            held: watch::Sender::new(false),
            inside: AtomicUsize::default(),
            most: AtomicUsize::default(),
        }
    }

    /// What was asked since the last time.
    pub(crate) fn asked(&self) -> Vec<String> {
        std::mem::take(&mut self.asked.lock().unwrap())
    }

    /// Creations are written down, and then wait.
    pub(crate) fn hold(&self) {
        self.held.send_replace(true);
    }

    /// Those that wait go on.
    pub(crate) fn release(&self) {
        self.held.send_replace(false);
    }

    /// The most creations that were held at a time.
    pub(crate) fn most(&self) -> usize {
        self.most.load(Ordering::SeqCst)
    }

    fn note<'a, T: Send + 'a>(&self, call: &str, target: Target<'_>, rest: String, answer: T) -> Answer<'a, T> {
        assert!(target.within <= Duration::from_secs(30) && !target.within.is_zero(), "{:?}", target.within);
        let line = format!("{call} {:?} {} {:?} {rest}", target.id, show(target.context), target.key);
        self.asked.lock().unwrap().push(line.trim_end().to_owned());
        Box::pin(std::future::ready(Ok(answer)))
    }
}

fn show(document: Option<&Document>) -> String {
    document.map_or("-".to_owned(), |document| String::from_utf8(document.0.to_vec()).unwrap())
}

impl Driver for Recorder {
    fn mode(&self) -> Mode {
        self.mode
    }

    fn get_value<'a>(&'a self, target: Target<'a>, version: u32) -> Answer<'a, Option<Document>> {
        self.note("get_value", target, format!("{version}"), Some(document("\"value\"")))
    }

    fn get_pre_create_value<'a>(&'a self, target: Target<'a>) -> Answer<'a, Option<Document>> {
        self.note("get_pre_create_value", target, String::new(), Some(document("\"before\"")))
    }

    fn on_create<'a>(&'a self, target: Target<'a>, value: Option<&'a Document>) -> Answer<'a, Option<Document>> {
        let noted = self.note("on_create", target, show(value), Some(document("{\"made\":1}")));
        Box::pin(async move {
            if *self.held.borrow() {
                let inside = self.inside.fetch_add(1, Ordering::SeqCst) + 1;
                self.most.fetch_max(inside, Ordering::SeqCst);
                let _ = self.held.subscribe().wait_for(|held| !held).await;
                self.inside.fetch_sub(1, Ordering::SeqCst);
                self.asked.lock().unwrap().push("and went on".to_owned());
            }
            noted.await
        })
    }

    fn on_update<'a>(&'a self, target: Target<'a>, update: Update<'a>) -> Answer<'a, Option<Document>> {
        let Update { version, value, owner, old_version, old_context } = update;
        let rest = format!("{version} {} {owner:?} {old_version} {}", show(value), show(old_context));
        self.note("on_update", target, rest, None)
    }

    fn on_delete<'a>(&'a self, target: Target<'a>, owner: Option<&'a str>) -> Answer<'a, ()> {
        self.note("on_delete", target, format!("{owner:?}"), ())
    }

    fn on_delete_revision<'a>(&'a self, target: Target<'a>, version: u32, owner: Option<&'a str>) -> Answer<'a, ()> {
        self.note("on_delete_revision", target, format!("{version} {owner:?}"), ())
    }

    fn get_locked_by<'a>(&'a self, target: Target<'a>) -> Answer<'a, Option<String>> {
        self.note("get_locked_by", target, String::new(), Some("somebody".to_owned()))
    }

    fn on_lock<'a>(&'a self, target: Target<'a>, owner: &'a str) -> Answer<'a, ()> {
        self.note("on_lock", target, owner.to_owned(), ())
    }

    fn on_unlock<'a>(&'a self, target: Target<'a>) -> Answer<'a, ()> {
        self.note("on_unlock", target, String::new(), ())
    }

    fn health(&self, _within: Duration) -> Answer<'_, ()> {
        Box::pin(std::future::ready(Ok(())))
    }
}
