//! Reclaim, which gives memory back: idle parked objects return to their slabs, empty slabs are
//! discarded, and free pages are returned to the kernel.
//!
//! ```text
//!              pages wait to be purged               a tick, an eighth of the decay time
//!    idle -------------------------------> ticking --------------------------------------+
//!     ^                                     ^  |                                         |
//!     |   8 passes found nothing to do      |  | each slow path: one slice               v
//!     +-------------------------------------+--+------------------------------- pass: stacks,
//!                                              |                                caches, runs,
//!                                              +--- purge backlog first         pages, metadata
//! ```
//!
//! [`ticker`] decides when a pass begins and how often a slow path must run;
//! [`rate`](crate::yard::rate) measures how often the program frees; [`countdown`] makes a CPU
//! enter the slow path after a given number of frees; [`pass`] is the work, cut into slices;
//! [`drain`] does all of it at once, on request.
//!
//! Neighbours: [`crate::slow_path`] runs a slice in each slow path; the engine's `age` and the page
//! heap's `purge` do the work of a slice.

pub(crate) mod clock;
pub(crate) mod countdown;
pub(crate) mod drain;
pub(crate) mod live;
pub(crate) mod pass;
pub(crate) mod sparse;
pub mod surplus;
pub mod ticker;
pub(crate) mod walk;
