//! A backend that takes no values: what a context names is the value.

use std::time::Duration;

use backends::{Answer, Document, Driver, Failure, Mode, Target, Update};

#[derive(Debug)]
pub(crate) struct Shown;

fn done<'a, T: Send + 'a>(answer: T) -> Answer<'a, T> {
    Box::pin(std::future::ready(Ok::<_, Failure>(answer)))
}

/// What it makes of a context.
fn value(target: Target<'_>) -> Option<Document> {
    let context = std::str::from_utf8(&target.context?.0).unwrap();
    Some(Document(format!("{{\"shown\":{context}}}").into_bytes().into()))
}

impl Driver for Shown {
    fn mode(&self) -> Mode {
        Mode::Context
    }

    fn get_value<'a>(&'a self, target: Target<'a>, _version: u32) -> Answer<'a, Option<Document>> {
        done(value(target))
    }

    fn get_pre_create_value<'a>(&'a self, target: Target<'a>) -> Answer<'a, Option<Document>> {
        done(value(target))
    }

    fn on_create<'a>(&'a self, _target: Target<'a>, value: Option<&'a Document>) -> Answer<'a, Option<Document>> {
        assert!(value.is_none(), "it takes none");
        done(None)
    }

    fn on_update<'a>(&'a self, _target: Target<'a>, update: Update<'a>) -> Answer<'a, Option<Document>> {
        assert!(update.value.is_none(), "it takes none");
        done(None)
    }

    fn on_delete<'a>(&'a self, _target: Target<'a>, _owner: Option<&'a str>) -> Answer<'a, ()> {
        done(())
    }

    fn on_delete_revision<'a>(&'a self, _target: Target<'a>, _version: u32, _owner: Option<&'a str>) -> Answer<'a, ()> {
        done(())
    }

    fn get_locked_by<'a>(&'a self, _target: Target<'a>) -> Answer<'a, Option<String>> {
        done(None)
    }

    fn on_lock<'a>(&'a self, _target: Target<'a>, _owner: &'a str) -> Answer<'a, ()> {
        done(())
    }

    fn on_unlock<'a>(&'a self, _target: Target<'a>) -> Answer<'a, ()> {
        done(())
    }

    fn health(&self, _within: Duration) -> Answer<'_, ()> {
        done(())
    }
}
