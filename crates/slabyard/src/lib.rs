//! Slabyard: the Linux kernel's slab allocators as user-space software.
//!
//! An [`ObjectCache`] allocates objects of one type, a [`Global`] serves a whole program; both live
//! in a [`ProcessYard`].
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
//! A [`yard::Yard`] is one whole allocator: a platform, pages, caches. Modules are on floors; a
//! module imports only its own floor and those below:
//!
//! | floor | modules |
//! |---|---|
//! | 10 | [`typed`]: object caches; [`global`]: the allocator of a program; `allocator`: for collections; `blocks`: what both do |
//! | 9 | [`calls`]: what programs call; [`created`]: caches that they create; [`reap`], [`live`], `choice`; [`verify`], [`observe`]; [`process`]: a yard that is a `static` |
//! | 8 | `slow_path`: a thread enters, serves its call, and leaves |
//! | 7 | `inside`: the work of a call in a slow path; `reclaim`: gives memory back; `large`: runs and mappings; [`debugging`]: checks of objects, runs and mappings; [`waiting`]: frees that wait; `mail`: requests of other processes; `child`, `jumped`: repair; `place`, `quiesced`; [`bound`] |
//! | 6 | [`yard`]: the state of one allocator |
//! | 5 | [`cache`]: a header and an engine, size classes, the table of all caches |
//! | 4 | [`engine`]: policy, without `unsafe` |
//! | 3 | [`slab`]: descriptors, free sets, geometry |
//! | 2 | [`pages`]: region, buddy, per-CPU page lists, mappings; [`rcu`]: readers, grace periods |
//! | 1 | the crate `slabyard-platform`, as [`platform`]: per-CPU stacks, Linux; [`gate`]; [`table`]: metadata at fixed addresses; [`sync`]: atomics, ranked locks |
//!
//! Of these, [`typed`], [`global`], [`process`] and `allocator` are stable. The others, for the
//! repository's own libraries, are hidden: `cargo doc` shows them with `--document-hidden-items`.
//!
//! `docs/design.md` follows a call and an object through the code: "I am a malloc(64) call" and "I
//! am a freed object".
#![cfg_attr(not(test), no_std)]
#![warn(missing_docs)]
// What only the doors of Linux use.
#![cfg_attr(not(target_os = "linux"), allow(dead_code))]

#[cfg(all(feature = "allocator-api2", target_os = "linux"))]
pub mod allocator;
#[cfg(target_os = "linux")]
mod blocks;
#[doc(hidden)]
pub mod bound;
#[doc(hidden)]
pub mod cache;
#[doc(hidden)]
pub mod calls;
#[doc(hidden)]
pub mod child;
mod choice;
#[doc(hidden)]
pub mod created;
#[doc(hidden)]
pub mod debugging;
#[doc(hidden)]
pub mod engine;
#[cfg(target_os = "linux")]
pub mod global;
mod inside;
mod jumped;
mod large;
#[doc(hidden)]
pub mod live;
#[doc(hidden)]
pub mod mail;
#[doc(hidden)]
pub mod observe;
#[doc(hidden)]
pub mod pages;
#[doc(hidden)]
pub mod place;
#[cfg(target_os = "linux")]
pub mod process;
mod quiesced;
#[doc(hidden)]
pub mod rcu;
#[doc(hidden)]
pub mod reap;
#[doc(hidden)]
pub mod reclaim;
#[doc(hidden)]
pub mod slab;
#[doc(hidden)]
pub mod slow_path;
#[cfg(target_os = "linux")]
pub mod typed;
#[doc(hidden)]
pub mod verify;
#[doc(hidden)]
pub mod waiting;
#[doc(hidden)]
pub mod yard;

#[cfg(target_os = "linux")]
pub use global::Global;
#[cfg(target_os = "linux")]
pub use process::ProcessYard;
#[doc(hidden)]
pub use slabyard_platform as platform;
#[doc(hidden)]
pub use slabyard_platform::{gate, sync, table};
#[cfg(all(any(target_arch = "aarch64", target_arch = "x86_64"), target_os = "linux"))]
#[doc(hidden)]
pub use slabyard_platform::{
    rseq_announce, rseq_descriptor, rseq_pop, rseq_push, rseq_push_if, weak_address,
};
#[cfg(target_os = "linux")]
pub use typed::{Batch, CacheBox, ObjectCache};

/// The examples of the README run as those of the documentation do.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
