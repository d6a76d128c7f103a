//! Slabyard: the Linux kernel's slab allocators as user-space software.
//!
//! A [`yard::Yard`] is one whole allocator: a platform, pages, caches. Modules
//! are floors, and a module imports its own floor or one below:
//!
//! | floor | modules |
//! |---|---|
//! | 5 | [`yard`], [`cache`], `choice`, [`created`], [`bulk`], [`prefill`], [`live`], `large`, `place`, [`reap`], `sized`, [`observe`], [`verify`], [`waiting`] |
//! | 4 | [`engine`]: policy, without `unsafe` |
//! | 3 | [`slab`]: descriptors, free sets, geometry |
//! | 2 | [`pages`]: region, buddy, lists of CPUs, mappings; [`rcu`]: readers, grace periods |
//! | 1 | [`platform`]: per-CPU stacks, Linux, the modelled machine; `gate`; [`shrinker`] |
//! | 0 | [`sync`]: atomics, ranked locks |
//!
//! `docs/design.md` has the walks "I am a malloc(64) call" and "I am a freed object".
#![cfg_attr(not(any(test, feature = "machine")), no_std)]
#![warn(missing_docs)]

#[cfg(any(test, feature = "cpu-slab"))]
extern crate alloc;

pub mod bulk;
pub mod cache;
mod choice;
pub mod created;
pub mod engine;
mod gate;
mod large;
pub mod live;
pub mod observe;
pub mod pages;
mod place;
pub mod platform;
pub mod prefill;
pub mod process;
pub mod rcu;
pub mod reap;
pub mod shrinker;
mod sized;
pub mod slab;
pub mod sync;
pub mod typed;
pub mod verify;
pub mod waiting;
pub mod yard;

pub use process::ProcessYard;
pub use typed::{CacheBox, ObjectCache};

/// Expands to its text if this crate is built without the standard library: the final library
/// then needs items that only one crate may define.
#[cfg(any(test, feature = "machine"))]
#[macro_export]
macro_rules! without_std {
    ($($text:item)*) => {};
}

/// Expands to its text if this crate is built without the standard library: the final library
/// then needs items that only one crate may define.
#[cfg(not(any(test, feature = "machine")))]
#[macro_export]
macro_rules! without_std {
    ($($text:item)*) => { $($text)* };
}
