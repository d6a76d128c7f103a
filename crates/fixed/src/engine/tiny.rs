//! SLUB_TINY: SLUB without sheaves or CPU slabs in front of its slabs.
//!
//! Neighbour: [`slabyard::engine::tiny`] is the policy.

use super::slabs::{CacheLimits, FixedSlabs, Object, SlabEngine};
use slabyard::engine::{Header, partial, tiny};

/// SLUB_TINY (6.2).
pub enum Tiny {}

impl SlabEngine for Tiny {
    type State = ();
    const CPU_WORDS: u32 = 0;
    const MOST_ORDER: u32 = 1;
    const NAME: &'static str = "tiny";

    fn state(header: &Header, limits: &CacheLimits) {
        header.set_min_partial(limits.min_partial.unwrap_or(0));
    }

    fn alloc(on: FixedSlabs<'_, Self>) -> Option<Object> {
        tiny::alloc_one(on)
    }

    fn free(on: FixedSlabs<'_, Self>, object: Object) {
        tiny::free_one(on, on.cache.header.shape(), &FixedSlabs::<Self>::group_of(object));
    }

    fn alloc_below(on: FixedSlabs<'_, Self>) -> Option<Object> {
        tiny::alloc_one(on)
    }

    fn shrink(on: FixedSlabs<'_, Self>, _: impl Iterator<Item = u32>) {
        partial::discard_all_empty(on);
    }

    fn each_parked(
        _: FixedSlabs<'_, Self>,
        _: impl Iterator<Item = u32>,
        _: &mut dyn FnMut(Object),
    ) {
    }
}
