//! The slow path of an allocation: the CPU's stack, which holds its slab's free objects, is empty.

use super::{CpuSlab, CpuSlabs, lists};
use crate::engine::partial_list::End;
use crate::engine::slabs::Held;
use crate::engine::{Counter, partial};

/// Allocates an object; `None` if there is no memory.
pub fn alloc_slow<S: CpuSlabs>(on: S) -> Option<S::Object> {
    let Ok(found) = on.check_out_slab() else {
        return partial::alloc_direct(on);
    };
    let mut slab = match found {
        // The thread moved to another CPU, or a push came between.
        Some(slab) if !slab.own.is_empty() && on.fits(slab.slab) => slab,
        found => match next_slab(on, found) {
            Some(slab) => slab,
            // Without memory for what a CPU has, a slab may still have an object.
            None => return partial::alloc_direct(on),
        },
    };
    let object = on.pop_own(&mut slab);
    check_in(on, slab);
    object
}

/// Checks a CPU's slab in.
pub fn check_in<S: CpuSlabs>(on: S, slab: CpuSlab<S::Own>) {
    if let Some(surplus) = on.check_in_slab(slab) {
        on.give_own(deactivate(on, surplus));
    }
}

/// A slab for the CPU, with free objects of its own, instead of the one that it had.
pub fn next_slab<S: CpuSlabs>(on: S, old: Option<CpuSlab<S::Own>>) -> Option<CpuSlab<S::Own>> {
    on.count(Counter::AllocSlowpath, 1);
    let shape = on.cache().shape();
    let own = match old {
        Some(old) if !on.fits(old.slab) => {
            on.count(Counter::AllocNodeMismatch, 1);
            deactivate(on, old)
        }
        Some(mut old) => {
            // Looks for what others freed; without any, the same compare-exchange leaves the
            // slab behind, full.
            on.count(Counter::CmpxchgSlab, 1);
            if on.near(old.slab).take_over(shape, old.slab, &mut old.own) > 0 {
                on.count(Counter::AllocRefill, 1);
                return Some(old);
            }
            on.count(Counter::DeactivateBypass, 1);
            old.own
        }
        None => on.new_own()?,
    };
    fill(on, own)
}

/// Fills a CPU's array from the next slab: of its list, of the node's, of other nodes', or a
/// new one.
fn fill<S: CpuSlabs>(on: S, mut own: S::Own) -> Option<CpuSlab<S::Own>> {
    let shape = on.cache().shape();
    let mut list = if on.cpu_rules().cpu_partial_lists { on.check_out_list() } else { None };
    let mut from_list = || {
        let list = list.as_mut()?;
        on.next_parked(list).filter(|slab| on.fits(*slab))?;
        on.unpark(list)
    };
    let mut slab = from_list();
    if slab.is_some() {
        on.count(Counter::CpuPartialAlloc, 1);
        on.count(Counter::CmpxchgSlab, 1);
    } else {
        slab = take_from_node(on, &mut list, &mut own);
        let mut nth = 0;
        while slab.is_none()
            && let Some(other) = on.elsewhere(nth)
        {
            if other.cache().listed().1 > other.cache().min_partial() {
                slab = take_from_node(other, &mut list, &mut own);
            }
            nth += 1;
        }
    }
    if let Some(list) = list {
        lists::check_in(on, list);
    }
    let slab = slab.or_else(|| partial::begin(on, shape));
    let Some(slab) = slab else {
        on.give_own(own);
        return None;
    };
    if own.is_empty() {
        on.near(slab).take_over(shape, slab, &mut own);
    }
    Some(CpuSlab { slab, own })
}

/// Under one hold of the list lock: the slab to use (the list's first), and those behind it for
/// the CPU's list.
fn take_from_node<S: CpuSlabs>(
    on: S,
    parked: &mut Option<S::List>,
    own: &mut S::Own,
) -> Option<u32> {
    let cache = on.cache();
    if cache.listed().1 == 0 {
        return None;
    }
    let rules = on.cpu_rules();
    let mut list = partial::lock(&on);
    let slab = list.first()?;
    if rules.freezing.freezes_used_under_lock() && is_contended(on, slab) {
        on.publish(&list);
        return None;
    }
    list.unlink(on, slab);
    on.count(Counter::AllocFromPartial, 1);
    on.count(Counter::CmpxchgSlab, 1);
    let mut available = on.free_of(slab).1;
    if rules.freezing.freezes_used_under_lock() {
        on.count(Counter::CmpxchgUnderLock, 1);
        on.take_over(cache.shape(), slab, own);
    }
    let mut moved = 0;
    while rules.wants_more(moved, available)
        && let Some(next) = list.first()
    {
        if rules.freezing.freezes_parked() && is_contended(on, next) {
            break;
        }
        let free = on.free_of(next).1;
        list.unlink(on, next);
        // Planted: where there are no lists it is on none now, and nobody will find it.
        if rules.cpu_partial_lists
            && !parked.as_mut().is_some_and(|parked| on.park(parked, next, free))
        {
            list.add(on, next, End::Head);
            break;
        }
        available += free;
        moved += 1;
        on.count(Counter::CpuPartialNode, rules.cpu_partial_lists.into());
        if rules.freezing.freezes_parked() {
            on.count(Counter::CmpxchgSlab, 1);
            on.count(Counter::CmpxchgUnderLock, 1);
            on.freeze(next);
        }
    }
    on.publish(&list);
    Some(slab)
}

/// True if the exchange fails that freezes a slab under the list lock. There it is not tried again:
/// a CPU that freed to the slab meanwhile would make all wait that want the lock, so the list is
/// left (9b1ea29bc0d7, to 6.7).
fn is_contended<S: CpuSlabs>(on: S, slab: u32) -> bool {
    let fails = on.is_contended(slab);
    if fails {
        on.count(Counter::CmpxchgSlab, 1);
        on.count(Counter::CmpxchgUnderLock, 1);
    }
    fails
}

/// Returns a CPU's slab with its free objects: to its node's list, or to its end. Returns the
/// array.
pub fn deactivate<S: CpuSlabs>(on: S, cpu_slab: CpuSlab<S::Own>) -> S::Own {
    let CpuSlab { slab, mut own } = cpu_slab;
    let on = on.near(slab);
    let cache = on.cache();
    let shape = cache.shape();
    // The slab is frozen: its free objects only become more.
    let expected = on.free_of(slab).1 + own.len();
    let locked = on.cpu_rules().freezing.thaws_under_lock()
        && expected > 0
        && !partial::ends(on, (shape, slab), cache.listed().1, expected, false);
    let list = locked.then(|| partial::lock(&on));
    let (before, free) = on.put_back(shape, slab, &mut own);
    on.count(Counter::CmpxchgSlab, 1);
    on.count(Counter::CmpxchgUnderLock, locked.into());
    on.count(Counter::DeactivateRemoteFrees, (before > 0).into());
    if free == 0 {
        on.count(Counter::DeactivateFull, 1);
        return own;
    }
    if !locked && partial::ends(on, (shape, slab), cache.listed().1, free, false) {
        on.count(Counter::DeactivateEmpty, 1);
        partial::end(on, shape, slab);
        return own;
    }
    let mut list = list.unwrap_or_else(|| partial::lock(&on));
    // Others freed its last objects between the look and the lock.
    if expected < free && partial::ends(on, (shape, slab), list.len(), free, false) {
        on.count(Counter::DeactivateEmpty, 1);
        on.end(shape, slab);
        drop(list);
        partial::ended(on, shape, slab);
        return own;
    }
    let (end, counter) = if before > 0 {
        (End::Tail, Counter::DeactivateToTail)
    } else {
        (End::Head, Counter::DeactivateToHead)
    };
    list.add(on, slab, end);
    on.publish(&list);
    on.count(counter, 1);
    own
}

/// Flushes all that a CPU holds: its slab and its list.
pub fn flush_cpu<S: CpuSlabs>(on: S) {
    if let Ok(Some(slab)) = on.check_out_slab() {
        on.count(Counter::CpuslabFlush, 1);
        on.give_own(deactivate(on, slab));
    }
    if let Some(mut list) = on.check_out_list() {
        lists::drain(on, &mut list);
        on.give_list(list);
    }
}
