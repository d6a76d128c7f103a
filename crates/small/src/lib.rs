//! The requests that the boot of a small machine makes to its kernel's allocator, one by one.
//!
//! A [`boot::Boot`] makes such a load from a seed, in no memory but its own: it runs in a program
//! without an operating system as it does in the lab, and makes the same requests in both. It is
//! an iterator of [`Request`]s. The program that serves them keeps what it allocated for each
//! slot, and needs to know no more:
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
//! Neighbours: `caches` and `tables` have the objects that are requested; the lab serves them by
//! modelled kernels, and the image for machines without a system by a yard.
//! Invariants: a slot is given out only while nothing lies there; each `Free` is of a slot that
//! has an object, each `FreePages` of one that pages were asked for; if these were refused, there
//! is nothing to give back. Equal seeds make equal loads.

#![no_std]
#![forbid(unsafe_code)]

pub mod boot;
mod caches;
pub mod random;
mod request;
mod tables;

pub use caches::{CACHES, Cache, CacheKind, ObjectType};
pub use request::{Checkpoint, Request, SLOTS};
