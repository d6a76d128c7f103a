//! Yards (allocators) on fixed memory, for firmware, kernels, and memory that processes share: on
//! one or a few 32-bit or 64-bit CPUs, from 64 KiB up.
//!
//! ```
//! use slabyard_fixed::{Memory, Spin, Tiny, Yard};
//!
//! static MEMORY: Memory<{ 64 << 10 }> = Memory::new();
//! static YARD: Yard<Spin<512>, Tiny> = Yard::new(Spin::new());
//!
//! YARD.init(&MEMORY)?;
//! let block = YARD.malloc(100).expect("there is room");
//! // SAFETY: it was not freed before, and nobody uses it.
//! unsafe { YARD.mfree(block) };
//! assert!(YARD.fixed_bytes() <= 4096);
//! # Ok::<(), slabyard_fixed::TooSmall>(())
//! ```
//!
//! A [`Yard`] has a board ([`Board`]: how calls exclude each other, how large a page is) and an
//! engine ([`FixedEngine`]: [`Tiny`], [`Slob`], [`Slub`], [`CpuSlab`], [`Slab`]). Besides the pages
//! that it hands out, a yard takes memory for its own struct, ten bytes per page, and
//! [`Yard::cache_bytes`] per cache; unused features take no memory.
//!
//! This crate does not implement [`slabyard_platform::Platform`] for the yards of `slabyard`,
//! because these assume that address space costs nothing. They have per-CPU rows of 64 KiB for
//! lock-free fast paths, 64 bytes per page, 62 size classes in the yard's struct, and tables that
//! start at 64 KiB. The policy is the same ([`slabyard::engine`]).
//!
//! | floor | modules |
//! |---|---|
//! | 4 | [`typed`]: object caches; [`report`]: texts; `shared`: yards that processes share |
//! | 3 | [`yard`]: every call; [`verify`]: the checker; [`mod@repair`]: after a call that did not end |
//! | 2 | [`on_slabs`], [`slob`]: addresses and sizes for an engine; [`caches`]: caches by number, with what [`tally`] adds up |
//! | 1 | [`engine`]: policy on these pages, without `unsafe`; [`orders`]: of slabs |
//! | 0 | [`board`], `robust`: who may call; [`live_map`]: what is live; [`pages`]: the memory; [`memory`] |
#![no_std]
#![warn(missing_docs)]

#[cfg(test)]
extern crate std;

mod board;
mod caches;
mod engine;
mod live_map;
mod memory;
mod on_slabs;
pub mod orders;
mod pages;
#[doc(hidden)]
pub mod planted;
mod repair;
mod report;
#[cfg(target_os = "linux")]
mod robust;
#[cfg(target_os = "linux")]
mod shared;
mod slob;
mod tally;
mod typed;
mod verify;
mod yard;

pub use board::{Alone, Board, Spin};
pub use caches::{CacheId, CacheSettings, FixedEngine, Settings};
pub use engine::{CpuSlab, Slab, Slub, Tiny};
pub use live_map::LiveMap;
pub use memory::Memory;
pub use pages::{ENTRY_BYTES, MOST_ORDER, TooSmall};
pub use report::{Buddy, Failure};
#[cfg(target_os = "linux")]
pub use robust::Robust;
pub use slob::Slob;
pub use tally::Counts;
pub use typed::{CacheBox, ObjectCache};
pub use yard::Yard;

/// The example of the README runs as those of the documentation do.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
