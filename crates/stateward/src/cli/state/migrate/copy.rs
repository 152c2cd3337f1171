//! Copies one state from one place to another: lock both, read, check, write, read back, leave a sign, release.
//!
//! Safe to run again after an end at any step. The ID of the locks follows from the two places, so that a second run
//! holds what the first one left locked; bytes that are there already are not written again.

use anyhow::Context as _;
use aws_lc_rs::digest::{Context, SHA256};
use futures::TryStreamExt as _;
use serde::Serialize;
use serde_json::Value;

use super::super::held;
use super::super::push::check;
use super::super::spooled::Spooled;
use super::failpoints::Step;
use super::progress::Progress;
use super::side::{Destination, Left, Locking, Side, Source};
use crate::cli::failure::{Exit, Failure};
use crate::cli::output;
use crate::cli::output::hexadecimal;
use crate::client::transfer::Pieces;
use crate::config::Environment;

/// How a copy is made.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    pub source: Keep,
    pub lock: SourceLock,
    pub force: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    AsItIs,
    Tombstone,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourceLock {
    Taken,
    LeftOut,
}

/// What was copied.
#[derive(Debug, Serialize)]
pub struct Copied {
    pub from: String,
    pub to: String,
    pub result: Outcome,
    pub size: Option<u64>,
    pub sha256: Option<String>,
    pub serial: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    Copied,
    /// The same bytes were there.
    AlreadyThere,
    /// An earlier run came to its end.
    AlreadyMoved,
}

impl Outcome {
    pub fn words(self) -> &'static str {
        match self {
            Outcome::Copied => "copied",
            Outcome::AlreadyThere => "already there",
            Outcome::AlreadyMoved => "already moved",
        }
    }
}

/// Copies; both places are as they were if it fails before the destination was written.
pub async fn copy(
    source: &mut dyn Source,
    destination: &mut dyn Destination,
    options: Options,
    progress: &Progress,
    environment: &Environment,
) -> anyhow::Result<Copied> {
    let (from, to) = (source.place(), destination.place());
    let info =
        held::lock_info(&lock_id(&from, &to), "migration", &format!("stateward state migrate to {to}"), environment);
    let (mut source_lock, mut destination_lock) = (Claim::None, Claim::None);
    let done = held::interruptible(async {
        if let Some(place) = source.moved().await? {
            // The run that moved it may have ended before it released them. A source that has moved is a Stateward, which
            // knows whose lock it has; of another place only a LOCK tells whether it is ours.
            if options.lock == SourceLock::Taken {
                source_lock = Claim::Perhaps;
            }
            if place == to {
                let _ = lock(destination, &mut destination_lock, &info).await;
            }
            return already_moved(&from, &to, &place, destination).await;
        }
        let locked = match options.lock {
            SourceLock::Taken => lock(source, &mut source_lock, &info).await?,
            SourceLock::LeftOut => Held::No,
        };
        // Nobody but the holder of its lock may say that a state has moved: another may be writing to it.
        let options = if locked == Held::No { Options { source: Keep::AsItIs, ..options } } else { options };
        Step::SourceLocked.hit();
        lock(destination, &mut destination_lock, &info).await?;
        Step::BothLocked.hit();
        transfer(source, destination, &info, options, progress, environment).await
    })
    .await;
    progress.end();
    let first = unlock(destination, destination_lock, &info).await;
    Step::DestinationFree.hit();
    let second = unlock(source, source_lock, &info).await;
    for (place, released) in [(&to, first), (&from, second)] {
        let Err(error) = released else { continue };
        match &done {
            Ok(copied) if copied.result != Outcome::AlreadyMoved => {
                return Err(error).with_context(|| format!("it is copied, but {place} is still locked"));
            }
            Ok(_) => {}
            // It was not ours after all.
            Err(_) if exit_of(&error) == Some(Exit::Locked) => {}
            Err(_) => output::talk(format_args!("failed to release the lock of {place}: {error:#}")),
        }
    }
    done
}

async fn transfer(
    source: &mut dyn Source,
    destination: &mut dyn Destination,
    info: &Value,
    options: Options,
    progress: &Progress,
    environment: &Environment,
) -> anyhow::Result<Copied> {
    let (from, to) = (source.place(), destination.place());
    progress.step("reading", None);
    let pieces = progress.watch(source.open().await?);
    let state = Spooled::read(&from, pieces, environment).await?;
    let existing = destination.existing().await?;
    let same = existing.as_ref().is_some_and(|existing| existing.sha256.as_deref() == Some(&state.sha256()));
    if !same {
        if !options.force {
            check(&to, &state, existing.as_ref())?;
        }
        progress.step("writing", Some(state.facts.size));
        destination.write(&state, progress.watch(state.pieces()), info).await?;
    }
    Step::Written.hit();
    progress.step("comparing", Some(state.facts.size));
    let found = sha256(progress.watch(destination.read_back().await?)).await?;
    if found != state.sha256() {
        let message = format!("{to} does not hold what was written: its SHA-256 is {found}, not {}", state.sha256());
        return Err(Failure::new(Exit::Unverified, message, "the source is as it was; run it again").into());
    }
    Step::Verified.hit();
    if options.source == Keep::Tombstone && source.leave(&to, info).await? == Left::Tombstone {
        Step::Left.hit();
    }
    Ok(Copied {
        from,
        to,
        result: if same { Outcome::AlreadyThere } else { Outcome::Copied },
        size: Some(state.facts.size),
        sha256: Some(state.sha256()),
        serial: state.facts.serial.clone(),
    })
}

/// The source has a tombstone: fine if it names this destination and something is there, which may have changed since.
async fn already_moved(from: &str, to: &str, place: &str, destination: &mut dyn Destination) -> anyhow::Result<Copied> {
    let hint = "`stateward state restore` makes the source usable again";
    if place != to {
        let message = format!("{from} has moved to {}", output::plain(place));
        return Err(Failure::new(Exit::Conflict, message, hint).into());
    }
    let Some(existing) = destination.existing().await? else {
        let message = format!("{from} has moved to {to}, where there is no state");
        return Err(Failure::new(Exit::Conflict, message, hint).into());
    };
    Ok(Copied {
        from: from.to_owned(),
        to: to.to_owned(),
        result: Outcome::AlreadyMoved,
        size: None,
        sha256: existing.sha256,
        serial: existing.serial,
    })
}

/// Whether a lock may be ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Claim {
    None,
    /// It was given to us, or asked for without an answer.
    Perhaps,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Held {
    Yes,
    No,
}

async fn lock<S: Side + ?Sized>(side: &mut S, claim: &mut Claim, info: &Value) -> anyhow::Result<Held> {
    // For as long as there is no answer, and should Ctrl-C end the wait for one.
    *claim = Claim::Perhaps;
    match side.lock(info).await {
        Ok(Locking::Locked) => Ok(Held::Yes),
        Ok(Locking::Impossible(why)) => {
            *claim = Claim::None;
            output::talk(format_args!("{} is not locked: {}", side.place(), output::plain(&why)));
            Ok(Held::No)
        }
        Err(error) => {
            // A refusal is an answer: the lock is not ours to release, and some backends do not ask whose it is.
            if exit_of(&error) != Some(Exit::Unavailable) {
                *claim = Claim::None;
            }
            Err(error)
        }
    }
}

async fn unlock<S: Side + ?Sized>(side: &mut S, claim: Claim, info: &Value) -> anyhow::Result<()> {
    match claim {
        Claim::None => Ok(()),
        Claim::Perhaps => side.unlock(info).await,
    }
}

/// The same two places have the same ID, in the form that Terraform's clients use.
fn lock_id(from: &str, to: &str) -> String {
    let digest = aws_lc_rs::digest::digest(&SHA256, format!("stateward state migrate\0{from}\0{to}").as_bytes());
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&digest.as_ref()[..16]);
    uuid::Builder::from_custom_bytes(bytes).into_uuid().to_string()
}

async fn sha256(mut pieces: Pieces) -> anyhow::Result<String> {
    let mut digest = Context::new(&SHA256);
    while let Some(piece) = pieces.try_next().await? {
        digest.update(&piece);
    }
    Ok(hexadecimal(digest.finish().as_ref()))
}

fn exit_of(error: &anyhow::Error) -> Option<Exit> {
    error.downcast_ref::<Failure>().map(|failure| failure.exit)
}
