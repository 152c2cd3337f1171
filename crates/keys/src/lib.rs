//! Named keys: wrap, unwrap, rotate, and streams sealed under them.
//!
//! The one door is [`Keyring`]. It makes a fresh data key for whatever is to be sealed and wraps it with a named key,
//! which lives in a file, in a Kubernetes Secret or in the transit engine of Vault or OpenBao ([`Key`], one file per
//! kind in `kinds/`). A named key has versions: the newest wraps, the older ones still unwrap, so that rotation
//! re-wraps small data keys and never touches what they seal. Data is sealed in frames ([`Stream`]), or as a whole
//! file with a header ([`Sealer`], [`Opener`]).
//!
//! What must never be here: a key, a token or the answer of a key service in a log, an error or a Debug text; a key
//! that wraps without saying what for (the context is always authenticated); a second way to make a nonce.

mod error;

mod data_key;
mod stream;
mod wrapped;

mod binding;
mod versions;

pub mod key_file;

mod kinds;

mod keyring;
mod sealed;

pub use data_key::DataKey;
pub use error::Error;
pub use key_file::Sharing;
pub use keyring::{Keyring, Settings, is_name};
pub use kinds::{Auth, Key, Vault, VaultSettings};
pub use sealed::{Opener, SealedError, Sealer};
pub use stream::{Position, Stream};
pub use wrapped::Wrapped;
