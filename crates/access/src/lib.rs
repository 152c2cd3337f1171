//! Who is this, may they, and a log of both.

pub mod audit;
