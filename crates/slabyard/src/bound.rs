//! The bound on one call: the most work that one allocation or free does, however much background
//! work is due.
//!
//! A call does its own work and, in the slow path, one slice of a reclaim pass
//! ([`super::reclaim::pass`]). Whole drains ([`super::reclaim::drain`]) are exempt: a drain runs
//! only for a trim, another process's request, or a page that the kernel refused. Frees that a
//! signal handler deferred to the interrupted slow path are exempt too: each counts as a call of
//! its own. The cost of a request above [`crate::yard::LARGEST_RUN`] is proportional to its size.
//! The block is mapped and unmapped whole, and the request may purge up to its own size, in whole
//! huge pages. The free of a run above [`SHEDDING`] may purge up to [`SHED`] times the run's size.
//!
//! The tests count the work of each call and compare it with these numbers.

use crate::engine::Shape;
use crate::pages::huge::HUGE;
use crate::pages::purge;
use crate::platform::GRANULE;

/// Slab operations of the call's own work: objects of one bitmap word put into a slab, or
/// objects taken out of one.
pub const OWN_SLAB_OPERATIONS: u64 = Shape::MOST_PIECE as u64;

/// Slab operations of a call: its own, and in its slice as many as a sheaf has objects, because
/// a slice may flush one whole stack.
pub const SLAB_OPERATIONS: u64 = OWN_SLAB_OPERATIONS + Shape::STACK_OBJECTS as u64;

/// Fences of all CPUs in a call.
pub const FENCES: u64 = 1;

/// System calls that purge pages, in a call.
pub const GIVE_BACKS: u64 = 1;

/// Bytes that one such system call purges.
pub const GIVE_BACK_BYTES: u64 = purge::MOST_BYTES as u64;

/// The same where the kernel makes huge pages of its own accord: one of them, too.
pub const GIVE_BACK_HUGE: u64 = GIVE_BACK_BYTES + (HUGE * GRANULE) as u64;

/// The free of a run above [`SHEDDING`] bytes may purge [`SHED`] times as many.
pub const SHEDDING: usize = crate::large::SMALLEST_LARGE;
/// See [`SHEDDING`].
pub const SHED: u64 = crate::large::SHED as u64;

/// Bytes by which a request above [`crate::yard::LARGEST_RUN`] may purge more than it takes.
pub const MORE_BYTES: u64 = (2 * HUGE * GRANULE) as u64;
