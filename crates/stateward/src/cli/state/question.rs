//! Asks before something that people regret; only where somebody can answer.

use std::io::{BufRead as _, IsTerminal as _, Write as _};

use clap::Args;

use crate::cli::failure::{Exit, Failure};
use crate::cli::output::plain;

/// The flag that answers the question in advance.
#[derive(Args, Clone, Copy, Debug)]
pub struct Yes {
    /// Do not ask
    #[arg(short, long)]
    yes: bool,
}

impl Yes {
    /// Goes on only with the agreement of whoever sits there. Without a terminal nobody is asked, and `--yes` must say it.
    pub fn agree(self, question: &str) -> Result<(), Failure> {
        if self.yes {
            return Ok(());
        }
        let (stdin, mut stderr) = (std::io::stdin(), std::io::stderr());
        if !stdin.is_terminal() {
            let message = format!("nobody can be asked: {}", plain(question));
            return Err(Failure::usage(message, "say --yes to do it without a question"));
        }
        let _ = write!(stderr, "{} [y/N] ", plain(question));
        let _ = stderr.flush();
        let mut answer = String::new();
        let _ = stdin.lock().read_line(&mut answer);
        if matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes") {
            return Ok(());
        }
        Err(Failure::new(Exit::Failed, "nothing was done", "answer y, or say --yes"))
    }
}
