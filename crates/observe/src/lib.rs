//! Reads what an allocator tells of itself, and shows it.
//!
//! Floor 3 of the house: it imports `slabyard-abi` and not the engine, so
//! that it works on a machine without our allocator.
//! The walk "I am a number on the screen" passes through: [`report`] turns a
//! file into a [`Snapshot`], [`check`] compares its sums, [`json`] and
//! [`table`] show it.
//!
//! Invariants: a number that a source does not tell is `None`, never 0; every
//! name on the screen is a name of `abi`'s tables.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod check;
pub mod json;
pub mod report;
pub mod snapshot;
pub mod table;

pub use snapshot::{Cache, Numbers, Snapshot};
