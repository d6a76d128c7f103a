//! Pages of fixed memory: a ten-byte entry per page, in a table at the start of the memory, and a
//! buddy allocator.
//!
//! Each free object of a slab stores the number of the next free object in its first two bytes, so
//! a slab needs no bitmap. A machine of 8 MiB has 20 KiB of entries.
//!
//! Neighbours: [`table`] has an [`entry`] for each page; [`buddy`] hands out blocks of 2^order
//! pages; [`meta`] cuts pages into pieces for the allocator's own small tables. [`repair`] rebuilds
//! the lists of `buddy` and `meta`; the engines of [`crate::engine`] manage the slabs.

mod buddy;
mod entry;
mod meta;
mod repair;
mod table;

pub use entry::{ENTRY_BYTES, Entry, MOST_ORDER, NONE, PageKind};
pub use meta::Pages;
pub use table::{MetaRef, MetaWord, TooSmall};
