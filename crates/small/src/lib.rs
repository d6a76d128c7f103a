//! The requests that the boot of a small machine makes to its kernel's allocator, one by one.
//!
//! A [`boot::Boot`] generates such a load from a seed, using only its own memory: it runs without
//! an OS as well as in the lab, and makes the same requests. A `Boot` is an iterator of
//! [`Request`]s. The program that serves them stores what it allocated for each slot, and needs no
//! other state:
//!
//! ```
//! use slabyard_small::boot::Boot;
//! use slabyard_small::{Request, SLOTS};
//!
//! let mut bytes_at = vec![0u32; SLOTS];
//! let (mut live, mut peak) = (0, 0);
//! for request in Boot::new(1) {
//!     match request {
//!         Request::Alloc { slot, what } => {
//!             bytes_at[slot as usize] = what.bytes();
//!             live += what.bytes();
//!         }
//!         Request::Free { slot } => live -= std::mem::take(&mut bytes_at[slot as usize]),
//!         Request::Pages { .. } | Request::FreePages { .. } | Request::Reach(_) => {}
//!     }
//!     peak = peak.max(live);
//! }
//! assert!(peak > 500_000);
//! ```
//!
//! `caches` and `tables` define the requested objects; modelled kernels in the lab, or a yard in
//! the firmware image, serve the requests. Invariants: a slot is reused only when it is empty; each
//! `Free` names a slot that holds an object, each `FreePages` one for which pages were requested,
//! and frees nothing if that request failed. Equal seeds give equal loads.

#![no_std]
#![forbid(unsafe_code)]

pub mod boot;
mod caches;
pub mod random;
mod request;
mod tables;

pub use caches::{CACHES, Cache, CacheKind, ObjectType};
pub use request::{Checkpoint, Request, SLOTS};
