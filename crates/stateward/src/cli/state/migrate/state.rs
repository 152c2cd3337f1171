//! A state of the server that the command talks to.

use http::Method;
use serde_json::{Value, json};

use super::super::held;
use super::super::model::State;
use super::super::push::{Existing, existing};
use super::super::spooled::Spooled;
use super::super::target::Target;
use super::side::{Destination, Doing, Left, Locking, Side, Source, id};
use crate::cli::failure::{Exit, Failure};
use crate::client::Client;
use crate::client::transfer::Pieces;

pub struct StateSide<'c> {
    client: &'c Client,
    target: Target,
}

impl<'c> StateSide<'c> {
    pub fn new(client: &'c Client, target: Target) -> StateSide<'c> {
        StateSide { client, target }
    }

    async fn download(&self) -> anyhow::Result<Pieces> {
        let query = [self.target.store_query()];
        Ok(self.client.download(&self.target.path(&["raw"]), &query).await?.pieces())
    }
}

impl Side for StateSide<'_> {
    fn place(&self) -> String {
        let key = &self.target.state;
        match &self.target.store {
            Some(store) => format!("{key} in the store {store}"),
            None => format!("{}/state/{key}", self.client.address()),
        }
    }

    fn lock<'a>(&'a mut self, info: &'a Value) -> Doing<'a, Locking> {
        Box::pin(async {
            held::take(self.client, &self.target, info).await?;
            Ok(Locking::Locked)
        })
    }

    fn unlock<'a>(&'a mut self, info: &'a Value) -> Doing<'a, ()> {
        Box::pin(async { Ok(held::release(self.client, &self.target, info).await?) })
    }
}

impl Source for StateSide<'_> {
    fn moved(&mut self) -> Doing<'_, Option<String>> {
        Box::pin(async {
            let answer = self.client.ask(Method::GET, &self.target.path(&[]), &[self.target.store_query()]).await?;
            let state: State = self.client.read(&answer)?;
            if state.deleted.is_some() {
                let message = format!("{} was deleted", self.place());
                return Err(Failure::new(Exit::NotFound, message, "`stateward state restore` takes it back").into());
            }
            Ok(state.moved.map(|moved| moved.to))
        })
    }

    fn open(&mut self) -> Doing<'_, Pieces> {
        Box::pin(self.download())
    }

    fn leave<'a>(&'a mut self, to: &'a str, info: &'a Value) -> Doing<'a, Left> {
        Box::pin(async move {
            let body = json!({ "to": to, "lock_id": id(info) });
            let path = self.target.path(&["moved"]);
            self.client.send_with(Method::POST, &path, &[self.target.store_query()], &body).await?;
            Ok(Left::Tombstone)
        })
    }
}

impl Destination for StateSide<'_> {
    fn existing(&mut self) -> Doing<'_, Option<Existing>> {
        Box::pin(async { Ok(existing(self.client, &self.target).await?) })
    }

    fn write<'a>(&'a mut self, state: &'a Spooled, pieces: Pieces, info: &'a Value) -> Doing<'a, ()> {
        Box::pin(async {
            let (path, query) = (self.target.path(&["raw"]), self.target.query("ID", Some(id(info))));
            self.client.upload(Method::PUT, &path, &query, state.upload(pieces)).await?;
            Ok(())
        })
    }

    fn read_back(&mut self) -> Doing<'_, Pieces> {
        Box::pin(self.download())
    }
}
