//! The state backend as its callers meet it.

mod codec;
