//! Whole drains, on request: every parked object returns to its slab at once.
//!
//! These cause a drain: a trim, another process's request, memory that the kernel refused, the exit
//! of a thread with a private slot, and rows that a fork left behind. Drains are exempt from the
//! bound on one call ([`crate::bound`]).
//!
//! A drain may take only the empty slabs off CPU partial lists, and leave the others there.
//!
//! Neighbour: [`super::pass`] drains idle stacks without a request, in slices.

use crate::cache::Cache;
use crate::cache::slots::number_of;
use crate::engine::Engine;
use crate::pages::{Sheaf, percpu, purge};
use crate::platform::{GRANULE, Platform, Slot, Stack, stop};
use crate::reclaim::countdown::kick_all_rows;
use crate::reclaim::walk::{Stacks, caches_of, entries, next_stack};
use crate::sync::Ordering;
use crate::yard::Yard;
use slabyard_abi::region::front::BELOW_SHEAVES;

/// Stacks stopped at once: one fence for all. They lie on the stack of a slow path.
pub(crate) const BATCH: usize = 24;

/// Row, slot and top of stacks to stop.
pub(crate) type Stops = [(usize, Slot, u32); BATCH];

/// Drains stacks: of all rows, or of the caller's row where the platform cannot stop other
/// CPUs. Called with the drain lock held.
pub(crate) fn drain_stacks<P: Platform, E: Engine>(yard: &Yard<P, E>, stacks: Stacks) {
    if !(yard.platform().can_stop() && drain_rows(yard, stacks)) {
        drain_own_stacks(yard, stacks);
    }
}

/// Returns to the slabs what engines park for no CPU, and discards empty slabs.
pub(crate) fn shrink_caches<P: Platform, E: Engine>(yard: &Yard<P, E>, stacks: Stacks) {
    for number in caches_of(yard, stacks) {
        let cache = yard.caches.get(number);
        cache.engine.shrink(cache.on(&yard.heap));
    }
}

/// Gives all that is free back to the kernel after a drain. Returns the bytes of pages, with those
/// that went back since so many were [cleaned](crate::pages::PageHeap), and of sheaves.
pub(crate) fn give_back<P: Platform, E: Engine>(yard: &Yard<P, E>, cleaned: usize) -> [usize; 2] {
    // Ended slabs went to this CPU's lists of runs.
    drain_stacks(yard, Stacks::Runs);
    let mut granules = yard.heap.purge(0, usize::MAX);
    // With debugging, pages went back as their slabs ended.
    granules += yard.heap.cleaned.load(Ordering::Relaxed).wrapping_sub(cleaned);
    purge::release_metadata(&yard.heap);
    [granules * GRANULE, yard.heap.sheaves.rest(yard.platform())]
}

/// False if the kernel refused to stop them: some stacks may not be drained. Called with the
/// drain lock held.
pub(crate) fn drain_rows<P: Platform, E: Engine>(yard: &Yard<P, E>, stacks: Stacks) -> bool {
    let rows = yard.platform().rows();
    let has_stack = |(row, slot): &(usize, Slot)| {
        yard.heap.sheaves.count_of(rows.entry(*row, *slot).top()).is_some()
    };
    stop_each(yard, entries(yard, stacks).filter(has_stack), |row, slot, top| {
        flush_stopped(yard, row, slot, top);
    })
}

/// Stops the stacks of these entries, a batch at a time, and calls `f` with row, slot and top of
/// each. False if the kernel refuses to stop them: `f` was called with those of earlier batches.
pub(crate) fn stop_each<P: Platform, E: Engine>(
    yard: &Yard<P, E>,
    mut entries: impl Iterator<Item = (usize, Slot)>,
    mut f: impl FnMut(usize, Slot, u32),
) -> bool {
    loop {
        let mut stops: Stops = [(0, Slot(0), 0); BATCH];
        let mut n = 0;
        for (stop, (row, slot)) in stops.iter_mut().zip(&mut entries) {
            *stop = (row, slot, 0);
            n += 1;
        }
        if n == 0 {
            return true;
        }
        let stops = &mut stops[..n];
        let keep = |row, slot, top| yard.idle_stacks.keep_top(row, slot, top);
        if !stop(yard.platform(), stops, &keep) {
            return false;
        }
        stops.iter().for_each(|&(row, slot, top)| f(row, slot, top));
    }
}

fn drain_own_stacks<P: Platform, E: Engine>(yard: &Yard<P, E>, stacks: Stacks) {
    let mut next = 0;
    while let Some(slot) = next_stack(yard, stacks, next) {
        drain_own(yard, slot);
        next = slot.0 + 1;
    }
}

/// Returns the objects of a stopped stack to the slabs (its runs to the buddy), and takes
/// the stack out of its row.
pub(crate) fn flush_stopped<P: Platform, E: Engine>(
    yard: &Yard<P, E>,
    row: usize,
    slot: Slot,
    top: u32,
) {
    // From now on other threads may take its objects out of their slabs again: the child of a
    // fork must not return them there.
    yard.idle_stacks.forget_top(row, slot);
    let stack = Stack { top, end: 0 };
    let empty = yard.heap.sheaves.adopt(stack).map(|stack| flush_stack(yard, slot, stack));
    yard.platform().rows().entry(row, slot).start_without();
    if let Some(empty) = empty {
        yard.heap.sheaves.give(yard.platform(), empty);
    }
}

/// Returns what a stack has that no other thread reaches; returns the array.
fn flush_stack<P: Platform, E: Engine>(yard: &Yard<P, E>, slot: Slot, mut stack: Sheaf) -> Sheaf {
    if let Some(number) = number_of(slot) {
        let cache = yard.caches.get(number);
        return cache.engine.flush_stopped(cache.on(&yard.heap), slot, stack);
    }
    yard.heap.free_runs_of(&mut stack);
    stack
}

/// Drains a stack of the calling thread's own row.
pub(crate) fn drain_own<P: Platform, E: Engine>(yard: &Yard<P, E>, slot: Slot) {
    if let Some(number) = number_of(slot) {
        let cache = yard.caches.get(number);
        cache.engine.flush_own(cache.on(&yard.heap), slot);
    } else if percpu::has_runs(slot) {
        while let Some(address) = yard.platform().pop(slot) {
            yard.heap.free_parked_run(address);
        }
    }
}

/// Where the platform cannot stop other CPUs: requests a drain of each row. The next free of
/// each thread takes the slow path, which sees the request.
pub(crate) fn request_drains<P: Platform, E: Engine>(yard: &Yard<P, E>) {
    yard.drain_requests.fetch_add(1, Ordering::Relaxed);
    kick_all_rows(yard);
}

/// In a slow path: drains the caller's row if a drain was requested since its last.
///
/// It waits for no other drain: a thread that trims again and again hardly ever opens the lock, and
/// each of the caller's slow paths would wait for it. The next slow path tries again.
#[inline(always)]
pub(crate) fn answer_drain<P: Platform, E: Engine>(yard: &Yard<P, E>) {
    let requests = u64::from(yard.drain_requests.load(Ordering::Relaxed));
    if requests != 0 {
        answer_drains(yard, requests);
    }
}

#[cold]
#[inline(never)]
fn answer_drains<P: Platform, E: Engine>(yard: &Yard<P, E>, requests: u64) {
    let p = yard.platform();
    // No cache uses slot 0: its word holds the last request that the row answered.
    let Some(row) = p.row_hint() else { return };
    let answered = yard.idle_stacks.get(row, Slot(0));
    if answered.load(Ordering::Relaxed) == requests {
        return;
    }
    if let Some(_guard) = yard.drain.try_lock(p) {
        answered.store(requests, Ordering::Relaxed);
        drain_own_row(yard);
    } else {
        // The next free takes the slow path.
        p.rows().countdown(row).store(0, Ordering::Relaxed);
    }
}

/// Takes a stack as it stands out of an entry that no other thread uses, and returns its
/// objects to the slabs. Called with the drain lock held.
pub(crate) fn take_stack<P: Platform, E: Engine>(yard: &Yard<P, E>, row: usize, slot: Slot) {
    let p = yard.platform();
    let Ok(stack) = p.rows().entry(row, slot).replace(Stack::NONE) else {
        return;
    };
    if let Some(stack) = yard.heap.sheaves.adopt(stack) {
        yard.heap.sheaves.give(p, flush_stack(yard, slot, stack));
    }
}

/// Drains the caller's row. The runs of discarded slabs go to the buddy at last. Called with the
/// drain lock held.
pub(crate) fn drain_own_row<P: Platform, E: Engine>(yard: &Yard<P, E>) {
    drain_own_stacks(yard, Stacks::Caches);
    drain_own_stacks(yard, Stacks::Runs);
}

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
    let mut lists = p.rows().used().map(|row| (row, spare)).filter(has_list).peekable();
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

#[cfg(test)]
mod tests;
