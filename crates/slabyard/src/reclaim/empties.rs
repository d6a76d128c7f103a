//! On request, drains only the empty slabs of CPU partial lists; a CPU's other partial slabs stay
//! on its list.
//!
//! Neighbours: [`crate::mail`] requests it; [`crate::reclaim::drain`] drains whole stacks. The
//! caller holds the drain lock.

use crate::cache::Cache;
use crate::engine::Engine;
use crate::platform::{Platform, Slot, Stack};
use crate::reclaim::drain::stop_each;
use crate::yard::Yard;
use slabyard_abi::region::front::BELOW_SHEAVES;

/// Drains the lists of a cache of their empty slabs, and ends these. False if it could not
/// stop other threads' stacks, so that the caller's own alone is drained.
pub(crate) fn drain_empties<P: Platform, E: Engine>(yard: &Yard<P, E>, cache: &Cache<E>) -> bool {
    let on = cache.on(&yard.heap);
    let all = cache.engine.facts().has_objects_in_spare || drain_stopped_empties(yard, cache);
    if !all || cache.front() & BELOW_SHEAVES != 0 {
        cache.engine.drain_empties(on, None);
    }
    cache.engine.discard_empty(on);
    all
}

fn drain_stopped_empties<P: Platform, E: Engine>(yard: &Yard<P, E>, cache: &Cache<E>) -> bool {
    let (p, spare) = (yard.platform(), cache.shape().spare());
    let has_list = |(row, slot): &(usize, Slot)| !p.rows().entry(*row, *slot).is_none();
    let mut lists = (0..p.rows_used()).map(|row| (row, spare)).filter(has_list).peekable();
    if lists.peek().is_some() && !p.can_stop() {
        return false;
    }
    stop_each(yard, lists, |row, slot, top| {
        yard.idle_stacks.forget_top(row, slot);
        let entry = p.rows().entry(row, slot);
        let list = yard.heap.sheaves.adopt(Stack { top, end: 0 });
        let drained = |list| cache.engine.drain_empties(cache.on(&yard.heap), Some(list));
        match list.and_then(drained) {
            Some(left) => entry.start(yard.heap.sheaves.publish(left, 0).top),
            None => entry.start_without(),
        }
    })
}
