//! Slabyard: the Linux kernel's slab allocators as user-space software.
//!
//! A program has three ways in: an [`ObjectCache`] is the allocator of one type, a [`Global`] that of
//! the whole program, and both live in a [`ProcessYard`].
//!
//! ```
//! use slabyard::{CacheBox, ObjectCache, ProcessYard};
//!
//! static YARD: ProcessYard = ProcessYard::new();
//!
//! let names = ObjectCache::<String>::new("names", &YARD)?;
//! let name: CacheBox<String> = names.alloc("a name".to_string());
//! assert_eq!((name.len(), names.live()), (6, Some(1)));
//! # Ok::<(), slabyard::typed::CreateError>(())
//! ```
//!
//! A [`yard::Yard`] is one whole allocator: a platform, pages, caches. Modules
//! are floors, and a module imports its own floor or one below:
//!
//! | floor | modules |
//! |---|---|
//! | 6 | [`typed`]: object caches; [`global`]: the allocator of a program; `allocator`: that of collections |
//! | 5 | [`yard`]; [`process`]: a yard that is a `static`; [`cache`], `choice`, [`created`], `child`, [`bulk`], [`prefill`], [`live`], [`guarded`], `large`, `place`, [`reap`], `sized`, `surplus`, [`observe`], [`verify`], [`waiting`] |
//! | 4 | [`engine`]: policy, without `unsafe` |
//! | 3 | [`slab`]: descriptors, free sets, geometry |
//! | 2 | [`pages`]: region, buddy, lists of CPUs, mappings; [`rcu`]: readers, grace periods |
//! | 1 | [`platform`]: per-CPU stacks, Linux; `gate` |
//! | 0 | [`sync`]: atomics, ranked locks |
//!
//! `docs/design.md` has the walks "I am a malloc(64) call" and "I am a freed object".
#![cfg_attr(not(test), no_std)]
#![warn(missing_docs)]
// What only the platform and the doors of Linux use.
#![cfg_attr(not(target_os = "linux"), allow(dead_code))]

#[cfg(all(feature = "allocator-api2", target_os = "linux"))]
pub mod allocator;
pub mod bulk;
pub mod cache;
mod child;
mod choice;
pub mod created;
pub mod engine;
#[doc(hidden)] // For tests.
pub mod gate;
#[cfg(target_os = "linux")]
pub mod global;
mod growth;
pub mod guarded;
mod jumped;
mod large;
pub mod live;
pub mod observe;
pub mod pages;
mod place;
pub mod platform;
mod prefetch;
pub mod prefill;
#[cfg(target_os = "linux")]
pub mod process;
pub mod rcu;
pub mod reap;
mod sized;
pub mod slab;
mod sparse;
mod surplus;
pub mod sync;
#[cfg(target_os = "linux")]
pub mod typed;
pub mod verify;
pub mod waiting;
pub mod yard;

#[cfg(target_os = "linux")]
pub use global::Global;
#[cfg(target_os = "linux")]
pub use process::ProcessYard;
#[cfg(target_os = "linux")]
pub use typed::{Batch, CacheBox, ObjectCache};

/// The examples of the README run as those of the documentation do.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
