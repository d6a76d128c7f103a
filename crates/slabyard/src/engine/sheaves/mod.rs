//! The sheaves engine: SLUB with sheaves as its per-CPU layer.
//!
//! A cache is a chain of layers, from the fast path down: each CPU's main and spare
//! [sheaf](check_out), the node's [barn] of full and empty sheaves, the node's list of partial
//! slabs ([`super::partial`]), the pages below. Of the walks in `docs/design.md`, "I am a
//! malloc(64) call" passes through [`alloc`], "I am a freed object" through [`free`].
//!
//! # Equation (asserted by `verify`)
//!
//! For each slab: free + parked + in transit + live = objects.

mod adapt;
pub mod alloc;
pub mod barn;
pub mod check_out;
mod engine;
mod exchange;
pub mod free;
pub mod reclaim;
mod working_set;

use super::slabs::Stacks;
use super::{Changed, Header, Shape};
use crate::sync::{Lock, Ordering, Rank};
pub use engine::{Sheaves, SheavesOnNodes};
use working_set::WorkingSet;

/// What a cache with sheaves has at one node beside its list. `C` is a barn's list of sheaves.
pub struct NodeSheaves<C = u32> {
    barn: Lock<barn::Barn<C>>,
    working_set: WorkingSet,
}

impl<C> NodeSheaves<C> {
    /// The state of a cache that is not in use; `full` and `empty` are lists of no sheaf.
    pub const fn new(full: C, empty: C) -> Self {
        let barn = Lock::new(Rank::Barn, barn::Barn::new(full, empty));
        NodeSheaves { barn, working_set: WorkingSet::new() }
    }

    /// Gives a cache that begins its sheaves' capacity and its barn's limits.
    pub fn publish_limits(cache: &Header) {
        let shape = cache.shape();
        cache.shown.sheaf_capacity.store(shape.stack_objects.into(), Ordering::Relaxed);
        cache.set_barn_limits(barn::most_full(shape.geometry.size), barn::MOST_EMPTY);
    }

    /// Changes a tunable; `None` if it is none of sheaves.
    pub(super) fn tune<S: Stacks<Chain = C>>(
        &self,
        on: S,
        name: &str,
        value: u32,
    ) -> Option<Changed> {
        let cache = on.cache();
        let (full, empty) = cache.barn_limits();
        let old = match name {
            "sheaf_capacity" => {
                // Each stack takes it over in its next slow path.
                let old = cache.set_sheaf_capacity(value.clamp(1, Shape::STACK_OBJECTS));
                return Some(Changed { old, drains: true });
            }
            "min_partial" => cache.set_min_partial(value),
            "barn_full" => {
                self.set_barn_full_limit(on, value);
                self.flush_barn_above(on, value);
                full
            }
            "barn_empty" => {
                cache.shown.barn_empty_limit.store(value.into(), Ordering::Relaxed);
                self.barn_forget_empty(on);
                empty
            }
            _ => return None,
        };
        Some(Changed { old, drains: false })
    }
}
