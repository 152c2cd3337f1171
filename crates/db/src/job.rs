//! A caller's closure without its types, as the engines carry it.
//!
//! The engine runs the job, perhaps several times, does what the verdict says, and answers once.

use std::panic::{AssertUnwindSafe, catch_unwind};

use tokio::sync::oneshot;

use crate::operation::{Keep, OperationId, Outcome};
use crate::{Error, Tx};

/// What kind of transaction a job wants.
#[derive(Clone, Debug)]
pub(crate) enum Mode {
    /// One snapshot; writes are refused.
    Read,
    /// A write that leaves the row of its operation.
    Write(OperationId, Keep),
    /// A write that leaves nothing by which a lost answer could be resolved: whoever asked for it reads back.
    Swap,
    /// The same, and it need not be on disk when it is answered.
    Note,
    /// A write of this crate's own that may safely be repeated after it took place; sees what others committed
    /// in the meantime.
    Bare,
    /// Like `Bare`, but its statements may take long.
    Migrate,
}

/// What is to become of the transaction after the closure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Keep,
    Undo,
    Panicked,
}

/// How a job ended.
#[derive(Debug)]
pub(crate) enum End {
    /// The verdict of its last run was carried out.
    Finished,
    /// Its operation had taken place before.
    Already,
    Failed(Error),
}

pub(crate) trait Job: Send {
    /// Runs the closure and keeps what it returned.
    fn run(&mut self, tx: &mut Tx<'_>) -> Verdict;

    /// Tells the caller. Nobody may be there any more.
    fn answer(self: Box<Self>, end: End);
}

/// What the caller of a job waits for.
pub(crate) type Answer<T, E> = oneshot::Receiver<Result<Outcome<T>, E>>;

/// Wraps a closure.
pub(crate) fn job<T, E, F>(body: F) -> (Box<dyn Job>, Answer<T, E>)
where
    F: Fn(&mut Tx<'_>) -> Result<T, E> + Send + 'static,
    T: Send + 'static,
    E: From<Error> + Send + 'static,
{
    let (reply, answer) = oneshot::channel();
    (Box::new(Call { body, returned: None, reply }), answer)
}

struct Call<T, E, F> {
    body: F,
    returned: Option<Result<T, E>>,
    reply: oneshot::Sender<Result<Outcome<T>, E>>,
}

impl<T, E, F> Job for Call<T, E, F>
where
    F: Fn(&mut Tx<'_>) -> Result<T, E> + Send,
    T: Send,
    E: From<Error> + Send,
{
    fn run(&mut self, tx: &mut Tx<'_>) -> Verdict {
        // A panicking closure leaves nothing behind: its transaction is rolled back and it never runs again.
        let Ok(returned) = catch_unwind(AssertUnwindSafe(|| (self.body)(tx))) else {
            return Verdict::Panicked;
        };
        let verdict = if returned.is_ok() { Verdict::Keep } else { Verdict::Undo };
        self.returned = Some(returned);
        verdict
    }

    fn answer(self: Box<Self>, end: End) {
        let answer = match (end, self.returned) {
            (End::Finished, Some(returned)) => returned.map(Outcome::Done),
            (End::Already, _) => Ok(Outcome::Already),
            (End::Failed(error), _) => Err(E::from(error)),
            (End::Finished, None) => Err(E::from(Error::Closed)),
        };
        // The caller may have gone away; what was committed stays committed.
        let _ = self.reply.send(answer);
    }
}
