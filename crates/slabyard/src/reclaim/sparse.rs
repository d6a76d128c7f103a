//! Sparse caches: few of their objects are live, and parked objects keep their slabs in use.
//!
//! A parked object keeps its slab in use as a live one does. If a program frees its objects in
//! random order, each slab may be left with one object in a sheaf, and no page becomes free. A pass
//! would flush the idle sheaves, but only calls advance a pass, and no call can know that it is the
//! last before the program goes idle ([`crate::reclaim::surplus`]).
//!
//! A slab without a live object can be discarded once all its parked objects are flushed. So a
//! cache with more slabs than live objects is *sparse*: at least the difference can be discarded. A
//! slow free that finds its cache sparse, by enough to be worth a flush, requests the flush. From
//! then on slow paths run slices of it: they stop the stacks of all CPUs and flush them, then flush
//! the barn and discard empty slabs. The next free on each CPU finds no stack; while the cache is
//! sparse, it frees the object to its slab (`Header::is_sparse`).
//!
//! A program that fills and empties its heap in a loop would refill the flushed objects from their
//! slabs. So each object that is flushed here takes a token, like a page of the
//! [surplus](super::surplus). Tokens accrue with time, up to four per heap page; a process starts
//! with one per page.
//!
//! Tried and rejected: four tokens per page at the start (1.04 times the time of short loads); none
//! at the start (43 MiB when idle instead of 11); unlimited tokens (1.3 times the time of the load
//! `eight_queues`); checks of eight caches at once, not two (1.6 % more instructions, no less
//! memory).
//!
//! Neighbours: slow frees request a flush, [`crate::reclaim::ticker`] makes them run slices.
//! Invariant: the words are hints, except the position in [`Flushing`], which the drain lock
//! protects.

use crate::cache::Cache;
use crate::engine::{Engine, Shape};
use crate::platform::{GRANULE, Platform};
use crate::reclaim::pass::{Slice, drain_idle};
use crate::reclaim::walk::Stacks;
use crate::sync::Ordering;
use crate::yard::Yard;
use crate::yard::pass::Pass;
use crate::yard::sparse::{Flushing, TOKENS_A_LOOK, bit, is_among};

/// This many bytes of slabs that would go are worth a flush: an eighth of what may stay.
const LEAST_BYTES: u64 = 64 << 10;
/// And this many for each object that is flushed and refilled, which takes 0.1 us: four times as
/// long as to fault these bytes in again at most.
const BYTES_AN_OBJECT: u64 = 256;
/// In a smaller heap no page would go back ([`crate::reclaim::surplus`]).
const LEAST_HEAP: usize = (4 << 20) / GRANULE;

/// What a cache costs beside its objects: fences, and looks at its rows.
const TOKENS_A_CACHE: u64 = 64;

/// This many caches a rare free looks at.
const LOOKS: usize = 2;
/// Slab operations of a slice.
const SLICE: u32 = Shape::STACK_OBJECTS;

fn bytes_of(shape: &Shape) -> u64 {
    u64::from(shape.geometry.granules()) * GRANULE as u64
}

/// At a free in the slow path: looks for sparse caches if this one may be, a little while after
/// some were found, and where the free is rare (`spent`): there, others may be that have no slow
/// path of their own.
#[inline]
pub(crate) fn look_at_parked<P: Platform, E: Engine>(
    yard: &Yard<P, E>,
    cache: Option<&Cache<E>>,
    spent: bool,
) {
    let Some(cache) = cache else { return };
    let sparse = &yard.surplus.sparse;
    let may_be = may_be_sparse(yard, cache);
    if (may_be || spent || sparse.is_watching())
        && !sparse.is_asked()
        && yard.surplus.is_on()
        && yard.heap.region.top() >= LEAST_HEAP
    {
        find_sparse(yard, cache, may_be, spent);
    }
}

#[cold]
#[inline(never)]
fn find_sparse<P: Platform, E: Engine>(
    yard: &Yard<P, E>,
    cache: &Cache<E>,
    may_be: bool,
    spent: bool,
) {
    let sparse = &yard.surplus.sparse;
    if sparse.is_muted() {
        return;
    }
    // It looks at each row: where there are many, more rarely.
    let rare = (yard.platform().rows().nr_used() as u32 / 4).max(1);
    let is_sparse =
        may_be && cache.begun().is_multiple_of(rare) && parked_of_sparse(yard, cache).is_some();
    let is_due = is_sparse || sparse.count_look();
    if !is_due && !spent {
        return;
    }
    // No cache is destroyed meanwhile.
    let p = yard.platform();
    let Some(_pass) = yard.drain.try_lock(p) else { return };
    if !is_due && !is_one_sparse(yard) {
        return;
    }
    let (mut caches, mut lacks) = (0, false);
    let tokens = sparse.refill(p.now_ms(), yard.heap.region.top() as u64);
    let mut spent = TOKENS_A_LOOK;
    for number in yard.caches.used.caches() {
        if let Some(parked) = parked_of_sparse(yard, yard.caches.get(number)) {
            let after = spent + parked + TOKENS_A_CACHE;
            if after <= tokens {
                spent = after;
                caches |= bit(number);
            } else {
                lacks = true;
            }
        }
    }
    sparse.spent.fetch_add(spent, Ordering::Relaxed);
    sparse.found(caches, lacks);
}

/// False if a cache has few slabs, or more live objects than slabs however much the stacks hold.
#[inline]
fn may_be_sparse<P: Platform, E: Engine>(yard: &Yard<P, E>, cache: &Cache<E>) -> bool {
    let shape = cache.shape();
    let slabs = u64::from(cache.nr_slabs());
    let most_stacked = 2 * u64::from(shape.stack_objects) * yard.platform().rows().nr_used() as u64;
    slabs * bytes_of(shape) >= LEAST_BYTES
        && cache.out().saturating_sub(cache.barn_objects()) <= slabs + most_stacked
}

/// True if one of the next few caches is sparse. Called with the drain lock held.
fn is_one_sparse<P: Platform, E: Engine>(yard: &Yard<P, E>) -> bool {
    let mut next = yard.surplus.sparse.next.load(Ordering::Relaxed) as usize;
    let is_sparse = (0..LOOKS).any(|_| {
        let number = yard.caches.used.next_cache(next).unwrap_or(0);
        next = number + 1;
        parked_of_sparse(yard, yard.caches.get(number)).is_some()
    });
    yard.surplus.sparse.next.store(next as u32, Ordering::Relaxed);
    is_sparse
}

/// The parked objects of a cache that is sparse by as much as is worth the flush.
fn parked_of_sparse<P: Platform, E: Engine>(yard: &Yard<P, E>, cache: &Cache<E>) -> Option<u64> {
    // Before the sheaves' headers are read, which are in no cache.
    if !may_be_sparse(yard, cache) || !cache.engine.facts().parks_in_sheaves {
        return None;
    }
    let (shape, slabs) = (cache.shape(), u64::from(cache.nr_slabs()));
    let parked = cache.barn_objects() + stacked(yard, shape);
    let live = cache.out().saturating_sub(parked);
    let would_go = slabs.saturating_sub(live) * bytes_of(shape);
    (would_go >= LEAST_BYTES.max(parked * BYTES_AN_OBJECT)).then_some(parked)
}

/// Objects in a cache's stacks, as of a moment ago.
fn stacked<P: Platform, E: Engine>(yard: &Yard<P, E>, shape: &Shape) -> u64 {
    let p = yard.platform();
    let objects = p.rows().used().map(|row| {
        let count = |slot| yard.heap.sheaves.count_of(p.rows().entry(row, slot).top());
        u64::from(count(shape.main()).unwrap_or(0) + count(shape.spare()).unwrap_or(0))
    });
    objects.sum()
}

/// Makes a slice of the flush of sparse caches. False if there is none to make.
pub(crate) fn flush_sparse<P: Platform, E: Engine>(yard: &Yard<P, E>, pass: &mut Pass) -> bool {
    if pass.flushing.caches == 0 {
        let caches = yard.surplus.sparse.caches.load(Ordering::Relaxed);
        pass.flushing = Flushing { caches, ..Flushing::NONE };
    }
    let caches = pass.flushing.caches;
    if caches == 0 {
        return false;
    }
    core::mem::swap(&mut pass.at, &mut pass.flushing.at);
    let stacks = drain_idle(yard, pass, 0, Stacks::Some(caches));
    core::mem::swap(&mut pass.at, &mut pass.flushing.at);
    if matches!(stacks, Slice::PhaseDone) && !flush_barns_of_sparse(yard, &mut pass.flushing) {
        yard.surplus.sparse.flushed(caches);
        pass.flushing.caches = 0;
    }
    true
}

/// Flushes full sheaves of barns, by about [`SLICE`] slab operations, and ends empty slabs. False
/// if none is left.
fn flush_barns_of_sparse<P: Platform, E: Engine>(yard: &Yard<P, E>, work: &mut Flushing) -> bool {
    let mut left = SLICE;
    while let Some(number) = yard.caches.used.next_cache(work.cache) {
        if left == 0 {
            return true;
        }
        work.cache = number;
        if is_among(work.caches, number) {
            let cache = yard.caches.get(number);
            let out = cache.out();
            if cache.engine.flush_node(cache.on(&yard.heap), left) {
                left = left.saturating_sub(out.saturating_sub(cache.out()).max(1) as u32);
                continue;
            }
        }
        work.cache += 1;
    }
    false
}
