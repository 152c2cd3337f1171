//! The one knob for heavy tests.

use std::sync::LazyLock;

/// How much a random, matrix, soak or size test does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// `make test`: every case at least once, the suite inside its time.
    Small,
    /// `make soak`: the counts of the acceptance lines; time limits that they name are asserted.
    Full,
}

impl Scale {
    /// `small` in `make test`, `full` in `make soak`.
    pub fn of<T>(self, small: T, full: T) -> T {
        match self {
            Scale::Small => small,
            Scale::Full => full,
        }
    }

    /// Whether time limits named by acceptance lines are asserted in this run.
    pub fn is_full(self) -> bool {
        self == Scale::Full
    }
}

/// The scale of this run: `STATEWARD_SCALE=full` is what `make soak` sets.
pub fn scale() -> Scale {
    static SCALE: LazyLock<Scale> = LazyLock::new(|| match std::env::var("STATEWARD_SCALE").as_deref() {
        Ok("full") => Scale::Full,
        _ => Scale::Small,
    });
    *SCALE
}

/// The seed of a random test: `STATEWARD_SEED` if set, else a fresh one; printed, so that a failure can be repeated.
pub fn seed(test: &str) -> u64 {
    let given = std::env::var("STATEWARD_SEED").ok().and_then(|text| text.parse().ok());
    let seed = given.unwrap_or_else(|| fastrand::u64(..));
    #[expect(clippy::print_stderr, reason = "cargo shows it when the test fails")]
    {
        eprintln!("{test}: STATEWARD_SEED={seed}");
    }
    seed
}
