//! Marks of parked objects: while a yard is quiesced, the bit of each parked object is set in its
//! slab's bitmap, so that a clear bit means a live object.
//!
//! Neighbours: [`super`] checks the bits, [`crate::live`] walks over the live objects. In the child
//! of a fork that interrupted a check, [`crate::child`] clears the marks.
//! Invariant: marks are cleared in the order in which they were set, so that marks after the first
//! fault, which were never set, are not cleared.

use super::fault::Fault;
use crate::cache::debug_of;
use crate::cache::slots::number_of;
use crate::engine::Engine;
use crate::observe::Quiesced;
use crate::platform::{Platform, Slot};
use crate::reclaim::walk::Stacks;
use crate::waiting::each_waiting;

/// The marks of some caches' parked objects.
pub(crate) struct Marks {
    stacks: Stacks,
    /// So many objects are marked.
    pub(crate) count: u64,
    /// What was wrong with an object: those behind it are not marked.
    pub(crate) fault: Option<Fault>,
}

impl Marks {
    /// Marks each object that a walk reaches: of one cache, or of all, and then of those that wait
    /// for readers, too.
    pub(crate) fn set<P: Platform, E: Engine>(
        quiesced: &Quiesced<'_, P, E>,
        stacks: Stacks,
    ) -> Self {
        let (mut count, mut fault) = (0, None);
        each(quiesced, stacks, &mut |slot, address| {
            if fault.is_some() {
                return;
            }
            let found = |what, found| Some(Fault { what, at: address, found, expected: 1 });
            let Some(number) = number_of(slot) else {
                if quiesced.yard().heap.parked_granules(address) == 0 {
                    fault = found("parked run is no run", 0);
                }
                return;
            };
            match quiesced.yard().cache(number).mark(&quiesced.yard().heap, address, true) {
                None => fault = found(Fault::PARKED_NONE, 0),
                Some(true) => fault = found(Fault::TWICE, 2),
                Some(false) => count += 1,
            }
        });
        Marks { stacks, count, fault }
    }

    /// Ends them: the bitmaps are what they were before.
    pub(crate) fn clear<P: Platform, E: Engine>(mut self, quiesced: &Quiesced<'_, P, E>) {
        each(quiesced, self.stacks, &mut |slot, address| {
            if self.count > 0
                && let Some(number) = number_of(slot)
            {
                quiesced.yard().cache(number).mark(&quiesced.yard().heap, address, false);
                self.count -= 1;
            }
        });
    }
}

/// Calls `f` with slot and address of each parked object and run, each time in the same order.
fn each<P: Platform, E: Engine>(
    quiesced: &Quiesced<'_, P, E>,
    stacks: Stacks,
    f: &mut dyn FnMut(Slot, usize),
) {
    // Another thread may change its private slot meanwhile: twice the same is not promised.
    if quiesced.reaches_all() {
        quiesced.each_parked_cpu(stacks, f);
    }
    let yard = quiesced.yard();
    if stacks == Stacks::All {
        each_waiting(yard, &mut |slot, address| {
            // One with debugging is live while it waits: its state says so.
            let is_live = number_of(slot).is_some_and(|number| {
                let cache = yard.cache(number);
                debug_of(cache).is_some_and(|debug| !debug.is_freed(cache.on(&yard.heap), address))
            });
            if !is_live {
                f(slot, address);
            }
        });
    }
    quiesced.each_parked_node(stacks, f);
}
