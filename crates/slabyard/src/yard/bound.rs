//! The bound on one call: the most that an allocation or a free does, whatever waits.
//!
//! A call does its own work, and one step of a pass ([`super::reclaim::pass`]) if it takes the
//! slow path. Exempt is what somebody asked for: a trim, a request from outside, a
//! refused page; and frees that a signal handler left to the slow path that it
//! interrupted, each of which is a call of its own. A request above
//! [`super::LARGEST_RUN`] costs in proportion to its size: it is mapped and unmapped
//! whole, and may give as many bytes back as it takes, in whole huge pages.
//!
//! The tests count what calls do, and hold it against these numbers.

use crate::engine::slub::Shape;
use crate::pages::huge::HUGE;
use crate::pages::purge;
use crate::platform::GRANULE;

/// Slab operations of the call's own work: objects of one bitmap word put into a slab, or
/// objects taken out of one.
pub const OWN_SLAB_OPERATIONS: u64 = Shape::MOST_PIECE as u64;

/// Slab operations of a call: its own, and as many as a sheaf has objects in the step, which
/// may bring one stack home.
pub const SLAB_OPERATIONS: u64 = OWN_SLAB_OPERATIONS + Shape::SHEAF_OBJECTS as u64;

/// Fences of all CPUs.
pub const FENCES: u64 = 1;

/// Calls by which pages are given back to the system.
pub const GIVE_BACKS: u64 = 1;

/// Bytes of such a call.
pub const GIVE_BACK_BYTES: u64 = purge::MOST_BYTES as u64;

/// Bytes by which a request above [`super::LARGEST_RUN`] may give back more than it takes.
pub const MORE_BYTES: u64 = (2 * HUGE * GRANULE) as u64;
