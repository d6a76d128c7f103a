//! Pages of a fixed memory: ten bytes for each, in a table at the memory's begin, and a buddy.
//!
//! Each free object of a slab holds the number of the next one in its first two bytes; so a slab has
//! no bitmap, and a machine of 8 MiB has 20 KiB of entries.
//!
//! Neighbours: [`table`] has an [`entry`] for each page; [`buddy`] hands out blocks of 2^order pages;
//! [`meta`] cuts pages for the allocator's own small tables; [`repair`] makes the lists of both anew;
//! [`crate::engine`]'s engines have the slabs.

mod buddy;
mod entry;
mod meta;
mod repair;
mod table;

pub use entry::{ENTRY_BYTES, Entry, MOST_ORDER, NONE, PageKind};
pub use meta::Pages;
pub use table::{MetaRef, MetaWord, TooSmall};
