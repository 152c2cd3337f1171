//! Rows in memory, and the answers to questions about them.
//!
//! The door is [`Index`]. A row has a number, its slot; everything that is known about rows is a set of slots, or a column
//! with a value per slot: words, labels, scopes, statuses. What a caller may see is such a set too, and comes first in every
//! answer. Columns are counted and sorted by numbers, which dictionaries give to texts in their order.
//!
//! In reading order: texts and sets ([`dictionary`], `posting`), what is searched in ([`words`], [`prepare`], `terms`, `names`,
//! `labels`, `scopes`), the rows (`rows`), and what is answered (`visible`, `filter`, `select`, `facets`, `suggest`, `changes`, `follow`).
//!
//! Nothing is removed later: a row that goes is out of every set when the call returns, which [`Index::audit`] recounts.

mod dictionary;
mod order;
mod posting;
mod slab;
pub(crate) mod words;

mod labels;
mod names;
mod prepare;
mod scopes;
mod terms;

mod lifecycle;
mod namespaces;
mod rows;
mod settings;
mod visibility;

mod audit;
mod changes;
mod facets;
mod filter;
mod follow;
mod inventory;
mod search;
mod select;
mod suggest;
mod visible;

pub use changes::{Change, Changes, Position};
pub use facets::{Facet, FacetValue};
pub use follow::{Follower, Gone, Step};
pub use inventory::Kept;
pub use lifecycle::{Deletion, Reconciled};
pub use prepare::{Prepared, Preparer};
pub use rows::{Index, Slot};
pub use search::{Found, Page};
pub use settings::{Retention, Settings, Sizes};
pub use suggest::Suggestion;
pub use visibility::{Grants, Scope, View, Visibility, Withheld};
