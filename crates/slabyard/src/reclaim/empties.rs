//! On request, drains only the empty slabs of CPU partial lists; a CPU's other partial slabs stay
//! on its list.
//!
//! Neighbours: [`crate::mail`] requests it; [`crate::reclaim::drain`] drains whole stacks. The
//! caller holds the drain lock.

use crate::cache::Cache;
use crate::engine::Engine;
use crate::platform::{Platform, Slot, Stack, stop};
use crate::reclaim::drain::BATCH;
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
    let has_list = |row: &usize| !p.rows().entry(*row, spare).is_none();
    let mut rows = (0..p.rows_used()).filter(has_list).peekable();
    while rows.peek().is_some() {
        let mut stops = [(0, Slot(0), 0); BATCH];
        let mut n = 0;
        for (stop, row) in stops.iter_mut().zip(&mut rows) {
            *stop = (row, spare, 0);
            n += 1;
        }
        let stops = &mut stops[..n];
        if !p.can_stop() || !stop(p, stops) {
            return false;
        }
        for &(row, slot, top) in &*stops {
            let entry = p.rows().entry(row, slot);
            let Some(list) = yard.heap.sheaves.adopt(Stack { top, end: 0 }) else {
                entry.start_without();
                continue;
            };
            match cache.engine.drain_empties(cache.on(&yard.heap), Some(list)) {
                Some(left) => entry.start(yard.heap.sheaves.publish(left, 0).top),
                None => entry.start_without(),
            }
        }
    }
    true
}
