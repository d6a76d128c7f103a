//! Slabyard's policy on numbers: what the caches of a modelled kernel do, without their memory.
//!
//! The policy is `slabyard`'s: its traits name what a cache's slabs, stacks and pages must do, and
//! a yard implements them for memory. Here they are implemented by counts, so that a replay of a
//! trace costs a few instructions an event, on a machine of any shape.
//!
//! * [`cache`]: a cache whose slabs are counted, not filled; SLUB and SLAB of each release.
//! * [`slob`]: SLOB, whose pages are memory of the model.
//! * [`page_lists`]: the page allocator's per-CPU lists, and a buddy behind them.
//! * [`counters`]: what one cache counts.
//!
//! The lab replays traces here. One call is under way at a time: nothing is shared between threads.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod cache;
pub mod counters;
pub mod page_lists;
pub mod slob;
