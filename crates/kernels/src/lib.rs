//! What each Linux kernel release does in its slab allocators, as data.
//!
//! [`RELEASES`] has a row for each release that changed something. The types of its columns have
//! their [words](mod@words): those that people type, that reports show, and whose numbers cross a process
//! boundary, from one table each.
//!
//! Neighbours: the engines do what a rule says; `slabyard-abi` has options that take the words, and
//! the lab settings.
//! Invariant: nothing here depends on an allocator, on the standard library or on memory.
#![no_std]
#![forbid(unsafe_code)]
#![warn(missing_docs)]

#[macro_use]
pub mod words;
mod cpu_slabs;
mod page_lists;
mod release;
mod slab;

pub use cpu_slabs::{Accounting, Bands, Freezing, of_band};
pub use page_lists::PageLists;
pub use release::{
    CPU_SLAB_RELEASES, CountedCpus, Early, Front, OrderFormula, RELEASES, Release, version_of,
};
pub use slab::{Arrays, Emptied, Placed, Policy, Reclaim, Taken};

/// The example of the README runs as those of the documentation do.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
