//! SLUB with sheaves and barns.
//!
//! Neighbours: [`slabyard::engine::sheaves`] is the policy, [`super::stacks`] implements its
//! sheaves.

use super::slabs::{CacheLimits, FixedSlabs, Object, SlabEngine};
use slabyard::engine::sheaves::NodeSheaves;
use slabyard::engine::slabs::{SheafAccess, Stacks};
use slabyard::engine::{Header, partial};
use slabyard::slab::Geometry;

/// Most full sheaves of a barn, and most empty ones (7.0).
const MOST_SHEAVES: u32 = 10;

/// SLUB with sheaves and barns (7.0).
pub enum Slub {}

impl SlabEngine for Slub {
    type State = NodeSheaves<u32>;
    const CPU_WORDS: u32 = 2;
    const NAME: &'static str = "slub";

    fn stack_objects(_: &Geometry, limits: &CacheLimits) -> u32 {
        limits.sheaf_objects
    }

    fn state(header: &Header, _: &CacheLimits) -> NodeSheaves<u32> {
        NodeSheaves::<u32>::publish_limits(header);
        header.set_barn_limits(MOST_SHEAVES, MOST_SHEAVES);
        NodeSheaves::new(0, 0)
    }

    fn alloc(on: FixedSlabs<'_, Self>) -> Option<Object> {
        on.pop_main().or_else(|| on.cache.state.alloc_slow(on))
    }

    fn free(on: FixedSlabs<'_, Self>, object: Object) {
        if !on.push_main(object) {
            on.cache.state.free_slow(on, object);
        }
    }

    fn alloc_below(on: FixedSlabs<'_, Self>) -> Option<Object> {
        partial::alloc_direct(on)
    }

    fn shrink(on: FixedSlabs<'_, Self>, cpus: impl Iterator<Item = u32>) {
        let sheaves = &on.cache.state;
        for on in cpus.map(|cpu| on.on_cpu(cpu)) {
            for slot in [on.cache.header.shape().main(), on.cache.header.shape().spare()] {
                if let Ok(Some(mut sheaf)) = on.check_out(slot) {
                    sheaves.flush(on, &mut sheaf, u32::MAX);
                    on.give_sheaf(sheaf);
                }
            }
        }
        sheaves.shrink_node(on);
    }

    fn each_parked(
        on: FixedSlabs<'_, Self>,
        cpus: impl Iterator<Item = u32>,
        f: &mut dyn FnMut(Object),
    ) {
        for on in cpus.map(|cpu| on.on_cpu(cpu)) {
            [0, 1].into_iter().for_each(|slot| on.each_in_stack(slot, f));
        }
        on.cache.state.each_in_barn(on, f);
    }
}
