//! Runs Slabyard's policies on counts instead of memory, to simulate a kernel's caches.
//!
//! The policy is `slabyard`'s: its traits say what a cache's slabs, stacks and pages must do, and a
//! yard implements these traits for memory. Here counts implement them, so that a replay takes a
//! few instructions per event, on a machine of any shape.
//!
//! * [`cache`]: a cache whose slabs hold counts instead of objects; SLUB and SLAB of each release.
//! * [`slob`]: SLOB, whose pages are records in memory.
//! * [`page_lists`]: the page allocator's per-CPU lists, and the buddy allocator behind them.
//! * [`counters`]: the counters of one cache.
//!
//! The lab replays traces here. One call is under way at a time: no model is shared between
//! threads.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod cache;
pub mod counters;
pub mod page_lists;
pub mod slob;
