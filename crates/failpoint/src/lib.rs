//! Named steps at which a test may crash, delay or fail a process.
//!
//! A crate lists its steps once with [`steps!`], which makes an enum with one method, `hit`. Without the feature
//! `testing`, `hit` is empty and nothing can be armed. With it, a test arms a step by name, in the same process
//! with [`arm`] or in a child through the variable that [`arm_from`] is given (only binaries read the environment).
//!
//! This crate must never decide anything: a step that is not armed does nothing.

/// Declares the enum of a crate's steps; the variants' names are what tests arm.
///
/// ```
/// failpoint::steps! {
///     /// Steps of a write.
///     pub enum Step {
///         /// The statement ran, nothing is committed.
///         BeforeCommit = "example.before_commit",
///     }
/// }
/// assert_eq!(Step::ALL.len(), 1);
/// Step::BeforeCommit.hit();
/// ```
#[macro_export]
macro_rules! steps {
    ($(#[$meta:meta])* $vis:vis enum $name:ident { $($(#[$variant_meta:meta])* $variant:ident = $text:literal),+ $(,)? }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        $vis enum $name { $($(#[$variant_meta])* $variant),+ }

        impl $name {
            /// Every step, for the test that covers them all.
            pub const ALL: &'static [$name] = &[$($name::$variant),+];

            /// The name under which a test arms this step.
            pub const fn name(self) -> &'static str {
                match self { $($name::$variant => $text),+ }
            }

            /// The process is at this step.
            #[inline]
            pub fn hit(self) {
                $crate::hit(self.name());
            }

            /// The process is at this step, which may be made to fail.
            #[inline]
            pub fn check(self) -> ::std::io::Result<()> {
                $crate::check(self.name())
            }
        }
    };
}

/// What an armed step does when it is hit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Abort the process: no destructor, no flush, like `kill -9` at a chosen place.
    Crash,
    /// Sleep this long, so that a test can act in the meantime.
    Delay(std::time::Duration),
    /// Wait until this file is there, so that a test decides when the process goes on.
    Hold(&'static str),
    /// Make `check` return an IO error that says it was injected.
    Fail,
}

#[cfg(not(feature = "testing"))]
mod inert {
    /// Does nothing in this build.
    #[inline]
    pub fn hit(_name: &'static str) {}

    /// Never fails in this build.
    #[inline]
    pub fn check(_name: &'static str) -> std::io::Result<()> {
        Ok(())
    }
}
#[cfg(not(feature = "testing"))]
pub use inert::{check, hit};

#[cfg(feature = "testing")]
mod armed;
#[cfg(feature = "testing")]
pub use armed::{arm, arm_from, check, disarm, hit};
