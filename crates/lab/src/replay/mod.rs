//! Runs a prepared trace through the caches of a modelled kernel.
//!
//! An allocation takes an object from the model and records its slab; the free returns the object
//! to that slab, wherever the real kernel had it. [`crate::check`] compares slab counts over time
//! with the kernel's.
//!
//! [`start`] puts the initial slabs in place, [`run`] executes the steps, [`report`] describes the
//! state at the end and in between.
//!
//! Invariants: the same trace, rules and start always give the same result; memory is bounded by
//! the trace's live objects and the model's slabs.

mod changes;
pub mod contend;
pub mod events;
mod in_sheaves;
mod layout;
mod lists;
pub mod memory;
pub mod others;
mod outcome;
mod pages;
mod plan;
mod rcu_sheaves;
pub mod report;
mod run;
pub mod start;
mod tasks;
mod timers;

use run::Run;

pub use outcome::{ReplayFailure, Replayed, Unsound};
pub use plan::{Limit, ParkedSlabs, Plan, Relief, Start};

/// Replays a trace.
///
/// # Errors
/// If an audit was requested and found wrong books, or the trace's file changed meanwhile.
pub fn replay(plan: &Plan<'_>) -> Result<Replayed, ReplayFailure> {
    let mut run = Run::new(plan);
    let before = run.sample(*plan.prepared.span.start());
    let reached = run.steps()?;
    run.finish(before, reached)
}
