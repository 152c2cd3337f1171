//! Which clusters there should be, and making it so: the local one, those of the database, those of Secrets.
//!
//! Every change goes through [`Roster::settle`], one at a time: it asks all three sources, ends what should not be there,
//! with everything that is known of it, and begins what should. A name belongs to the first source that has it, in that order.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::error::Error;
use super::member::{Connection, Member, Parts, find_uid};
use super::options::{Local, NewCluster, Rules};
use super::registry::{Record, Registry};
use super::report::Source;
use super::secrets::Described;
use super::shared::Shared;
use super::{identity, kubeconfig};

#[derive(Debug)]
pub(crate) struct Roster {
    local: Option<Local>,
    registry: Registry,
    /// What the Secrets say; `None` until they were read.
    described: Mutex<Option<Vec<Described>>>,
    /// Why the Secrets are not read now.
    unread: Mutex<Option<String>>,
    /// Names that two sources have, with what is wrong.
    refused: Mutex<Vec<(String, Source, String)>>,
    turn: tokio::sync::Mutex<()>,
}

/// A cluster that should be there.
enum Wanted {
    Local(Box<Local>),
    Added(Record),
    Secret(Described),
}

impl Roster {
    /// `described`: nothing if there will be no Secrets.
    pub(crate) fn new(local: Option<Local>, registry: Registry, described: Option<Vec<Described>>) -> Roster {
        Roster {
            local,
            registry,
            described: Mutex::new(described),
            unread: Mutex::default(),
            refused: Mutex::default(),
            turn: tokio::sync::Mutex::default(),
        }
    }

    /// What the Secrets say now.
    pub(crate) fn describe(&self, described: Vec<Described>) {
        *self.described.lock().unwrap_or_else(PoisonError::into_inner) = Some(described);
    }

    /// Why the Secrets are not read now, or that they are.
    pub(crate) fn unread(&self, fault: Option<String>) {
        *self.unread.lock().unwrap_or_else(PoisonError::into_inner) = fault;
    }

    /// What is wrong beside single clusters.
    pub(crate) fn faults(&self) -> Vec<String> {
        self.unread.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }

    pub(crate) fn refused(&self) -> Vec<(String, Source, String)> {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Makes the clusters that are followed those that should be.
    pub(crate) async fn settle(&self, shared: &Arc<Shared>) -> Result<(), Error> {
        let _turn = self.turn.lock().await;
        self.settle_now(shared).await
    }

    /// Adds a cluster to the database, after it has said which it is.
    pub(crate) async fn add(&self, shared: &Arc<Shared>, new: &NewCluster) -> Result<(), Error> {
        check_name(&new.name)?;
        identity::check(&new.rules)?;
        let connection = Connection::new(kubeconfig::read(&new.kubeconfig).await?)?;
        let uid = find_uid(&connection.client, shared.settings.deadline).await?;
        let _turn = self.turn.lock().await;
        if shared.member(&new.name).is_some_and(|member| member.source != Source::Added) {
            return Err(Error::NameTaken { name: new.name.clone() });
        }
        if let Some(name) = shared.name_of(&uid).filter(|name| *name != new.name) {
            return Err(Error::SameCluster { name, uid });
        }
        self.registry.put(&new.name, &uid, &new.rules, &new.kubeconfig).await?;
        self.settle_now(shared).await
    }

    /// Removes a cluster from the database, and here everything that is known of it.
    pub(crate) async fn remove(&self, shared: &Arc<Shared>, name: &str) -> Result<(), Error> {
        let _turn = self.turn.lock().await;
        let removed = match self.registry.remove(name).await {
            // No cluster can have such a name.
            Err(Error::Db(db::Error::Nul { .. })) => false,
            removed => removed?,
        };
        if !removed {
            return Err(match shared.member(name) {
                Some(member) if member.source != Source::Added => {
                    Error::NotAdded { name: name.to_owned(), source_name: member.source.as_str() }
                }
                Some(_) | None => Error::NoSuchCluster { name: name.to_owned() },
            });
        }
        self.settle_now(shared).await
    }

    async fn settle_now(&self, shared: &Arc<Shared>) -> Result<(), Error> {
        let (wanted, complete) = self.wanted().await?;
        let running: Vec<Arc<Member>> = shared.members().values().cloned().collect();
        for member in running {
            match wanted.get(&member.name) {
                Some(wanted) if wanted.revision() == member.revision && wanted.source() == member.source => continue,
                // New credentials or rules: what is known of it stays.
                Some(_) => member.stop().await,
                None if complete || member.source != Source::Secret => {
                    member.stop().await;
                    shared.purge(&member.name).await?;
                }
                None => continue,
            }
            shared.members_mut().remove(&member.name);
            shared.changed.bump();
        }
        // What a crash left of clusters that were removed, or what others removed while this process did not run. Those of
        // Secrets wait until it is known which Secrets there are.
        let is_over = |name: &String| !wanted.contains_key(name) && (complete || !shared.may_be_of_a_secret(name));
        for name in shared.known_names().into_iter().filter(is_over) {
            shared.purge(&name).await?;
        }
        for (name, wanted) in wanted {
            let known = shared.member(&name);
            // One that could not be connected to is tried again: the key of its kubeconfig may have been out of reach.
            if known.as_ref().is_some_and(|member| member.is_connected()) {
                continue;
            }
            let parts = self.parts(name.clone(), wanted).await?;
            if known.is_none() || parts.connection.is_ok() {
                shared.members_mut().insert(name, Member::start(shared, parts));
                shared.changed.bump();
            }
        }
        Ok(())
    }

    /// The clusters that should be there, and whether all sources were asked.
    async fn wanted(&self) -> Result<(BTreeMap<String, Wanted>, bool), Error> {
        let added = self.registry.list().await?.into_iter().map(|record| (record.name.clone(), Wanted::Added(record)));
        let local = self.local.iter().map(|local| (local.name.clone(), Wanted::Local(Box::new(local.clone()))));
        let described = self.described.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let complete = described.is_some();
        let mut described = described.unwrap_or_default();
        described.sort_by(|one, other| one.secret.cmp(&other.secret));
        let described = described.into_iter().map(|described| (described.name.clone(), Wanted::Secret(described)));
        let mut wanted: BTreeMap<String, Wanted> = BTreeMap::new();
        let mut refused = Vec::new();
        for (name, cluster) in local.chain(added).chain(described) {
            match wanted.get(&name) {
                Some(first) => {
                    let fault =
                        format!("the name is taken by a cluster from {}: choose another", first.source().as_str());
                    refused.push((name, cluster.source(), fault));
                }
                None => drop(wanted.insert(name, cluster)),
            }
        }
        *self.refused.lock().unwrap_or_else(PoisonError::into_inner) = refused;
        Ok((wanted, complete))
    }

    async fn parts(&self, name: String, wanted: Wanted) -> Result<Parts, Error> {
        let (source, revision) = (wanted.source(), wanted.revision());
        let (rules, connection) = match wanted {
            Wanted::Local(local) => {
                let address = kubeconfig::without_credentials(local.address);
                let rules = Rules { tokens: local.tokens, authorizer: local.authorizer, ..Rules::default() };
                (rules, Ok(Connection { client: local.client, address }))
            }
            Wanted::Added(record) => {
                let opened = async { connect(&self.registry.open(&record).await?).await };
                let connection = opened.await.map_err(|error| error.to_string());
                (record.rules, connection)
            }
            Wanted::Secret(described) => {
                let checked = async {
                    let content = described.content.map_err(|fault| Error::invalid("secret", fault))?;
                    check_name(&name)?;
                    identity::check(&content.rules)?;
                    let connection = connect(&content.kubeconfig).await?;
                    Ok::<_, Error>((content.rules, connection))
                };
                match checked.await {
                    Ok((rules, connection)) => (rules, Ok(connection)),
                    Err(error) => (Rules::default(), Err(format!("Secret '{}': {error}", described.secret))),
                }
            }
        };
        Ok(Parts { name, source, revision, rules, connection })
    }
}

impl Wanted {
    fn source(&self) -> Source {
        match self {
            Wanted::Local(_) => Source::Local,
            Wanted::Added(_) => Source::Added,
            Wanted::Secret(_) => Source::Secret,
        }
    }

    fn revision(&self) -> String {
        match self {
            Wanted::Local(_) => String::new(),
            Wanted::Added(record) => record.revision.clone(),
            Wanted::Secret(described) => format!("{}/{}", described.secret, described.revision),
        }
    }
}

async fn connect(text: &str) -> Result<Connection, Error> {
    Connection::new(kubeconfig::read(text).await?)
}

/// Names stand in paths, metrics and Secrets.
pub(crate) fn check_name(name: &str) -> Result<(), Error> {
    if keys::is_name(name) {
        return Ok(());
    }
    Err(Error::invalid(
        "name",
        "it must be small letters, digits and hyphens, at most 63, with a letter or a digit at both ends",
    ))
}
