//! Describes, as data, what the slab allocators of each Linux kernel release do.
//!
//! [`RELEASES`] has a row for each release that changed something. The type of each column has a
//! table of [words](mod@words): people type them, reports show them, and their numbers cross
//! process boundaries. [`settings`] has a row for each setting that people may change, through any
//! interface, and [`engines`] one for each allocator.
//!
//! Neighbours: the engines implement the rules; libraries read [`settings`] from their environment,
//! and the lab's replays apply them. Invariant: nothing here depends on an allocator, on the
//! standard library or on memory.
#![no_std]
#![forbid(unsafe_code)]
#![warn(missing_docs)]

#[macro_use]
pub mod words;
mod cpu_slabs;
pub mod engines;
pub mod orders;
pub mod page_lists;
mod release;
pub mod settings;
mod sheaves;
mod slab;

pub use cpu_slabs::{Accounting, Bands, Freezing, of_band};
pub use orders::OrderRule;
pub use page_lists::PageLists;
pub use release::{
    CPU_SLAB_RELEASES, CountedCpus, Early, Front, OrderFormula, RELEASES, Release, version_of,
};
pub use sheaves::KernelSheaves;
pub use slab::{Arrays, Emptied, Placed, Policy, Reclaim, Taken};

/// The example of the README runs as those of the documentation do.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
