//! The sheaves engine: SLUB with sheaves as its per-CPU layer.
//!
//! A cache is a chain of layers, from the fast path down: each CPU's main and spare
//! [sheaf](check_out), the node's [barn] of full and empty sheaves, the node's list of partial
//! slabs ([`super::partial`]), the pages below. Walks: "I am a malloc(64) call" comes through
//! [`alloc`], "I am a freed object" through [`free`].
//!
//! # Equation (asserted by `verify`)
//!
//! For each slab: free + parked + in transit + live = objects.

mod adapt;
pub mod alloc;
pub mod barn;
pub mod check_out;
mod exchange;
pub mod free;
pub mod nodes;
pub mod reclaim;
mod working_set;

use super::slabs::Stacks;
use super::{
    Changed, EngineFacts, EngineKind, Header, Inspect, PageSlabs, PassState, Repair, Shape,
    SlowPaths, orphans,
};
use crate::pages::sheaf::NO_SHEAF;
use crate::platform::{Platform, Slot};
use crate::sync::{Lock, Ordering, Rank};
use slabyard_abi::engines::EngineName;
use working_set::WorkingSet;

/// What a cache with sheaves has beside its header. `C` is a barn's list of sheaves; `TAGGED`
/// says that pushes ask for a stack's tag, because other engines of the yard need it.
pub struct Sheaves<C = u32, const TAGGED: bool = false> {
    barn: Lock<barn::Barn<C>>,
    working_set: WorkingSet,
}

impl<C, const TAGGED: bool> Sheaves<C, TAGGED> {
    /// The state of a cache that is not in use; `full` and `empty` are lists of no sheaf.
    pub const fn new(full: C, empty: C) -> Self {
        let barn = Lock::new(Rank::Barn, barn::Barn::new(full, empty));
        Sheaves { barn, working_set: WorkingSet::new() }
    }

    /// Gives a cache that begins its sheaves' capacity and its barn's limits.
    pub fn publish_limits(cache: &Header) {
        let shape = cache.shape();
        cache.shown.sheaf_capacity.store(shape.stack_objects.into(), Ordering::Relaxed);
        cache.set_barn_limits(barn::most_full(shape.geometry.size), barn::MOST_EMPTY);
    }
}

impl<const TAGGED: bool> EngineKind for Sheaves<u32, TAGGED> {
    const TAGGED: bool = TAGGED;
    const NEW: Self = Self::new(NO_SHEAF, NO_SHEAF);

    #[inline]
    fn facts(&self) -> EngineFacts {
        EngineFacts { parks_in_sheaves: true, ..EngineFacts::of(EngineName::Slub) }
    }
}

impl<const TAGGED: bool> SlowPaths for Sheaves<u32, TAGGED> {
    fn begin(&self, cache: &Header) {
        Self::publish_limits(cache);
    }

    fn alloc<P: Platform>(&self, on: PageSlabs<'_, P>) -> Option<usize> {
        self.alloc_slow(on)
    }

    fn free<P: Platform>(&self, on: PageSlabs<'_, P>, address: usize) {
        self.free_slow(on, address);
    }

    fn flush_own<P: Platform>(&self, on: PageSlabs<'_, P>, slot: Slot) {
        self.flush_stack(on, slot);
    }

    fn reclaim<P: Platform>(&self, on: PageSlabs<'_, P>, found: &mut PassState, most: u32) -> bool {
        self.reclaim_piece(on, found, most)
    }

    fn flush_node<P: Platform>(&self, on: PageSlabs<'_, P>, most: u32) -> bool {
        self.flush_piece(on, most) > 0 || self.end_empties(on)
    }

    fn shrink<P: Platform>(&self, on: PageSlabs<'_, P>) {
        self.shrink_node(on);
    }

    fn set<P: Platform>(&self, on: PageSlabs<'_, P>, name: &str, value: u32) -> Option<Changed> {
        self.tune(on, name, value)
    }
}

impl<const TAGGED: bool> Inspect for Sheaves<u32, TAGGED> {
    fn each_parked<P: Platform>(&self, on: PageSlabs<'_, P>, f: impl FnMut(usize)) {
        self.each_in_barn(on, f);
    }

    fn is_published<P: Platform>(&self, on: PageSlabs<'_, P>) -> bool {
        self.is_barn_published(on)
    }
}

impl<const TAGGED: bool> Repair for Sheaves<u32, TAGGED> {
    fn begin_child<P: Platform>(&self, on: PageSlabs<'_, P>) -> u64 {
        orphans::empty_list(on);
        self.count_barn_anew(on)
    }
}

impl<C, const TAGGED: bool> Sheaves<C, TAGGED> {
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
