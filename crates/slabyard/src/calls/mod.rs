//! Floor 9: the functions that programs call. A fast path is one pop or one push; if it fails, the
//! call takes the slow path here.
//!
//! ```text
//! alloc: class_for -> pop, or
//!        alloc_in_slow_path -> slow_path::enter -> inside::alloc_once -> engine: spare, barn, slabs
//!                           -> trim::drain_all, and once more, without memory
//! free:  class_at -> push, or
//!        free_in_slow_path -> slow_path::enter -> inside::free_inside -> engine: spare, barn, slabs
//! ```
//!
//! [`banked`] serves runs without a slow path; [`resize`] and [`growth`] serve `realloc`; [`bulk`]
//! and [`prefill`] move many objects; [`trim`] and [`help`] give memory back on request;
//! [`readers`] has RCU read-side sections and deferred frees.
//!
//! Neighbours: [`crate::slow_path`] and [`crate::inside`] do the slow work; [`crate::created`]
//! serves created caches.

pub(crate) mod banked;
pub mod bulk;
pub mod growth;
pub mod help;
pub(crate) mod prefetch;
pub mod prefill;
pub mod readers;
pub mod resize;
pub mod trim;

use crate::cache::classes::STEP;
use crate::cache::slots::slot_of;
use crate::cache::{Cache, classes, debug_of};
use crate::calls::banked::{bank, take_banked};
use crate::calls::prefetch::{fetch_for_alloc, fetch_for_free};
use crate::calls::trim::drain_all;
use crate::debugging::is_to_fail;
use crate::debugging::large::map_block;
use crate::engine::Engine;
use crate::inside::{alloc_once, free_inside, push};
use crate::platform::mark::Mark;
use crate::platform::{Platform, count_down};
use crate::reclaim::countdown::is_countdown_over;
use crate::reclaim::sparse::look_at_parked;
use crate::slow_path::{Background, enter, slow_path_of_free};
use crate::verify::close::check_free;
use crate::waiting::deferred::defer;
use crate::yard::depth::RUN_CALLS;
use crate::yard::{AddressKind, MOST_BYTES, Yard};

impl<P: Platform, E: Engine> Yard<P, E> {
    /// The class that serves a request: the smallest that fits, or the first if the engine serves
    /// each request by its exact size. `None`: a run or a mapping does.
    #[inline]
    pub fn class_for(&self, bytes: usize, align: usize) -> Option<usize> {
        if E::SIZED
            && let Some(serves) = serves(self, bytes, align)
        {
            return serves.then_some(0);
        }
        let class = classes::class_for_aligned(bytes, align)?;
        aligns(self, class, align).then_some(class)
    }

    /// Allocates `bytes` aligned to `align` (a power of two). `None` if there is no memory even
    /// after all that is parked was drained.
    #[inline]
    pub fn alloc(&self, bytes: usize, align: usize) -> Option<usize> {
        // Larger than each class.
        if bytes > classes::LARGEST
            && let Some(address) = take_banked(self, bytes, align)
        {
            return Some(address);
        }
        alloc_in_slow_path(self, bytes, align)
    }

    /// Allocates by the fast path first.
    #[inline]
    pub fn alloc_fast(&self, bytes: usize, align: usize) -> Option<usize> {
        if !self.wants_every_call()
            && let Some(class) = classes::class_for_aligned(bytes, align)
            && let Some(address) = self.platform().pop(slot_of(class))
        {
            return Some(address);
        }
        self.alloc(bytes, align)
    }

    /// Frees an allocation in the slow path.
    ///
    /// # Errors
    /// Where the address is, if it is not the start of a live allocation; nothing has changed.
    #[inline]
    pub fn free(&self, address: usize) -> Result<(), AddressKind> {
        let class = self.heap.class_at(address);
        if class.is_none() && bank(self, address) {
            return Ok(());
        }
        free_in_slow_path(self, class, address)
    }

    /// Frees by the fast path first.
    ///
    /// # Errors
    /// As [`Yard::free`].
    #[inline]
    pub fn free_fast(&self, address: usize) -> Result<(), AddressKind> {
        // The countdown counts the frees of runs, too.
        let class = self.heap.class_at(address);
        if count_down(self.platform(), 1)
            && let Some(class) = class
            && push(self, self.caches.get(class), address)
        {
            return Ok(());
        }
        self.free(address)
    }
}

/// About how many calls about a cache, or about runs, make one slow path.
#[inline]
fn calls_of<E: Engine>(cache: Option<&Cache<E>>) -> u32 {
    cache.map_or(RUN_CALLS, |cache| cache.shape().calls())
}

#[inline(never)]
fn alloc_in_slow_path<P: Platform, E: Engine>(
    yard: &Yard<P, E>,
    bytes: usize,
    align: usize,
) -> Option<usize> {
    // As large as the address space: a drain would not help.
    if (bytes | align) >= MOST_BYTES || is_to_fail(yard, bytes, align) {
        return None;
    }
    let class = yard.class_for(bytes, align);
    let cache = class.map(|class| &yard.caches.classes()[class]);
    fetch_for_alloc(yard, cache);
    let mark = Mark::new();
    let Some(_slow_path) = enter(yard, calls_of(cache), Background::Any, Some(&mark)) else {
        return alloc_outside(yard, bytes, align);
    };
    alloc_or_drain(yard, cache, bytes, align)
}

/// The caller is in a slow path.
fn alloc_or_drain<P: Platform, E: Engine>(
    yard: &Yard<P, E>,
    cache: Option<&Cache<E>>,
    bytes: usize,
    align: usize,
) -> Option<usize> {
    if let Some(address) = alloc_once(yard, cache, bytes, align) {
        return Some(address);
    }
    yard.platform().page_refused();
    drain_all(yard);
    alloc_once(yard, cache, bytes, align)
}

/// Allocates outside of a slow path: in a handler that interrupted one of this thread, which
/// may hold locks. Makes a mapping, which needs no lock.
///
/// A class's object is aligned by its size, and who asks for an alignment may ask for a class
/// instead ([`classes::request_for_aligned`]): so a mapping instead of one has its size's
/// alignment, too.
#[cold]
fn alloc_outside<P: Platform, E: Engine>(
    yard: &Yard<P, E>,
    bytes: usize,
    align: usize,
) -> Option<usize> {
    let by_size = classes::class_for_aligned(bytes, align)
        .map_or(1, |class| 1 << classes::ROWS[class].0.trailing_zeros());
    map_block(yard, bytes, align.max(by_size))
}

#[inline(never)]
fn free_in_slow_path<P: Platform, E: Engine>(
    yard: &Yard<P, E>,
    class: Option<usize>,
    address: usize,
) -> Result<(), AddressKind> {
    let spent = is_countdown_over(yard);
    let cache = class.map(|class| yard.caches.get(class));
    fetch_for_free(yard, cache, address);
    let mark = Mark::new();
    let is_close = yard.checks.are_close();
    let calls = if is_close { RUN_CALLS } else { calls_of(cache) };
    let Some(_slow_path) = slow_path_of_free(yard, calls, spent, &mark) else {
        defer(yard, address);
        return Ok(());
    };
    if is_close {
        return free_closely(yard, class, address, spent);
    }
    // The periodic slow path: the sheaf may have room.
    if !(spent && cache.is_some_and(|cache| push(yard, cache, address))) {
        free_inside(yard, cache, address)?;
    }
    look_at_parked(yard, cache, spent);
    Ok(())
}

/// As [`free_inside`], with the close checks of [`crate::verify::close`].
#[cold]
#[inline(never)]
fn free_closely<P: Platform, E: Engine>(
    yard: &Yard<P, E>,
    class: Option<usize>,
    address: usize,
    spent: bool,
) -> Result<(), AddressKind> {
    let cache = class.map(|class| yard.caches.get(class));
    if !is_sized(yard)
        && let Some((class, cache)) = class.zip(cache)
        && debug_of(cache).is_none()
        && (!check_free(yard, class, address)? || spent && push(yard, cache, address))
    {
        return Ok(());
    }
    free_inside(yard, cache, address)
}

/// True if the objects of a class are aligned: with debugging those of larger classes are less
/// than without.
#[inline(always)]
fn aligns<P: Platform, E: Engine>(yard: &Yard<P, E>, class: usize, align: usize) -> bool {
    if !E::SIZED || align <= STEP {
        return true;
    }
    let geometry = &yard.caches.classes()[class].shape().geometry;
    ((geometry.size | geometry.first) as usize).is_multiple_of(align)
}

/// True if malloc's engine serves each request by its size: then it knows where each object
/// begins, and checks each free.
#[inline(always)]
pub(crate) fn is_sized<P: Platform, E: Engine>(yard: &Yard<P, E>) -> bool {
    E::SIZED && serves(yard, 1, 1).is_some()
}

fn serves<P: Platform, E: Engine>(yard: &Yard<P, E>, bytes: usize, align: usize) -> Option<bool> {
    let first = &yard.caches.classes()[0];
    first.engine.serves(first, bytes, align)
}
