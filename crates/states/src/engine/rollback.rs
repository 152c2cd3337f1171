//! Rollback: an old version becomes the current one again, with a serial above the current one.
//!
//! Only the digits of the serial change, because clients compare the rest; what a client encrypted goes back byte for
//! byte, because its serial stands inside of the encryption too. The version streams through a receiver like an upload.

use std::io::{self, Write};

use tokio::runtime::Handle;

use super::locking::refused;
use super::{State, Written};
use crate::Error;
use crate::codec::{self, Received, Receiver, SpoolPlace, Unreadable};
use crate::head::{Head, Version};
use crate::lock::{Decision, Wish};

/// What a rollback made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RolledBack {
    pub version: u64,
    pub serial: Option<String>,
}

/// How often somebody else may write in between.
const ATTEMPTS: u32 = 5;

impl State {
    /// Writes an old version as a new one, if the caller's lock allows it.
    pub async fn rollback(&self, number: u64, id: Option<&str>, user: &str) -> Result<RolledBack, Error> {
        for _attempt in 0..ATTEMPTS {
            let head = self.head().await?.ok_or(Error::NotFound)?;
            let current = head.here()?.visible().ok_or(Error::NotFound)?;
            self.must_proceed(&head, id, user)?;
            let old = self.version(number).await?;
            if current.number == number {
                return Ok(RolledBack { version: number, serial: current.facts.serial.clone() });
            }
            let serial = raised(current, &old)?;
            let last = head.last_version;
            let received = self.receive_again(old, serial).await?;
            let serial = received.facts.serial.clone();
            match self.write(received, id, user).await? {
                // Somebody who takes no locks wrote since the serial was chosen: it may be too low.
                Written::Version(version) if version != last + 1 => {}
                Written::Version(version) => return Ok(RolledBack { version, serial }),
                Written::Same => {
                    let head = self.head().await?.ok_or(Error::NotFound)?;
                    let version = head.visible().map_or(last, |version| version.number);
                    return Ok(RolledBack { version, serial });
                }
            }
        }
        Err(Error::Busy { attempts: ATTEMPTS })
    }

    /// Whoever may not write is told so before anything is read.
    fn must_proceed(&self, head: &Head, id: Option<&str>, user: &str) -> Result<(), Error> {
        match self.decide(head, Wish::Change(id), user, jiff::Timestamp::now()) {
            Decision::Proceed => Ok(()),
            other => Err(refused(&other, head)),
        }
    }

    /// Runs a version through the receiver; `serial` replaces its own.
    async fn receive_again(&self, version: Version, serial: Option<u64>) -> Result<Received, Error> {
        let mut receiver = Receiver::new(self.settings.codec.clone(), SpoolPlace::new(self.settings.spool.clone()));
        let (state, runtime, number) = (self.clone(), Handle::current(), version.number);
        let received = tokio::task::spawn_blocking(move || {
            let mut source = |out: &mut dyn Write| runtime.block_on(state.pass(&version, out));
            let copied = match serial {
                Some(serial) => codec::with_serial(&mut source, serial, &mut receiver),
                None => source(&mut receiver).map_err(Unreadable::Source),
            };
            copied.map_err(|error| unreadable(error, number))?;
            Ok(receiver.finish(None)?)
        });
        received.await.map_err(|error| Error::Internal(error.to_string()))?
    }
}

/// The serial that makes a version the newest; `None` where it must stay as it is.
fn raised(current: &Version, old: &Version) -> Result<Option<u64>, Error> {
    if old.facts.encrypted {
        return Ok(None);
    }
    let number = |version: &Version| version.facts.serial.as_ref().and_then(|serial| serial.parse::<u64>().ok());
    let own = number(old).ok_or(Error::NoSerial)?;
    let above = match number(current) {
        Some(serial) => serial.checked_add(1).ok_or(Error::NoSerial)?,
        None => own,
    };
    Ok(Some(above.max(own)))
}

/// What went wrong in a pass over a version.
pub(super) fn unreadable(error: Unreadable, number: u64) -> Error {
    let inner = |error: io::Error| {
        let found = error.downcast::<Error>().or_else(|error| error.downcast().map(Error::BadState));
        found.unwrap_or_else(|error| Error::Damaged(format!("version {number}: {error}")))
    };
    match error {
        Unreadable::Encrypted => Error::Encrypted,
        Unreadable::NoSerial => Error::NoSerial,
        Unreadable::Source(error) | Unreadable::Output(error) => inner(error),
        Unreadable::NotAState(_) => Error::NotAState,
    }
}
