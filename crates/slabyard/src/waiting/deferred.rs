//! Deferred frees: frees by a signal handler that interrupted a slow path. The interrupted thread
//! may hold locks, so the handler only links the object into a list that runs through the freed
//! objects; the end of the next slow path frees them.
//!
//! Neighbour: [`crate::slow_path`] calls [`run_deferred`] at its end.

use crate::cache::slots::slot_of;
use crate::debugging::large::free_guarded;
use crate::debugging::link_of;
use crate::engine::Engine;
use crate::inside::free_inside;
use crate::pages::Cause;
use crate::platform::Platform;
use crate::sync::Ordering;
use crate::yard::{AddressKind, Yard};

/// The first word of an object that `run_deferred` has taken off the list: no link.
const DONE: usize = usize::MAX;

/// Defers a free of a handler that interrupted a slow path to the end of the next slow path.
/// The object's first word is the link.
pub(crate) fn defer<P: Platform, E: Engine>(yard: &Yard<P, E>, address: usize) {
    if !matches!(
        yard.place_of(address),
        AddressKind::Object { begin: true, .. } | AddressKind::Large(_)
    ) {
        return;
    }
    if yard.heap.mappings.bytes_of(address).is_some() {
        if yard.is_guarded() {
            free_guarded(yard, address);
        } else {
            let _ = yard.heap.mappings.unmap(&yard.heap.platform, address);
        }
        return;
    }
    let mut head = yard.deferred.load(Ordering::Relaxed);
    let link = link_of(yard, address);
    loop {
        // SAFETY: a live allocation that its owner gave to us.
        unsafe { yard.platform().word(link) }.store(head as u64, Ordering::Relaxed);
        // Release pairs with the Acquire in `free_deferred`.
        let (set, seen) = (Ordering::Release, Ordering::Relaxed);
        match yard.deferred.compare_exchange_weak(head, address, set, seen) {
            Ok(_) => return,
            Err(seen) => head = seen,
        }
    }
}

#[cold]
#[inline(never)]
pub(crate) fn run_deferred<P: Platform, E: Engine>(yard: &Yard<P, E>) {
    yard.running_deferred.fetch_add(1, Ordering::Relaxed);
    free_deferred(yard);
    // Release pairs with the Acquire in `finish_deferred`.
    yard.running_deferred.fetch_sub(1, Ordering::Release);
}

/// As [`run_deferred`], and waits for those that other threads run: no lock is held.
pub(crate) fn finish_deferred<P: Platform, E: Engine>(yard: &Yard<P, E>) {
    run_deferred(yard);
    while let running @ 1.. = yard.running_deferred.load(Ordering::Acquire) {
        yard.platform().wait_at_most(&yard.running_deferred, running, 1);
    }
}

fn free_deferred<P: Platform, E: Engine>(yard: &Yard<P, E>) {
    // Acquire pairs with the Release in `defer`; Release: who finds the list empty because of
    // this sees the count of `run_deferred`.
    let mut at = yard.deferred.swap(0, Ordering::AcqRel);
    while at != 0 {
        let link = link_of(yard, at);
        // SAFETY: `defer` put it there; it is ours now.
        let next = unsafe { yard.platform().word(link) }.load(Ordering::Relaxed) as usize;
        if next == DONE {
            // Handlers freed it twice: the list is a cycle.
            if let Some(class) = yard.heap.class_at(at) {
                yard.heap.misuse(Cause::DoubleFree, at, slot_of(class).0);
            }
            return;
        }
        // SAFETY: as above.
        unsafe { yard.platform().word(link) }.store(DONE as u64, Ordering::Relaxed);
        let cache = yard.heap.class_at(at).map(|class| yard.caches.get(class));
        if link == at
            && let Some(constructor) = cache.and_then(|cache| cache.shape().constructor)
        {
            // The link overwrote what it made.
            constructor.call(at);
        }
        let freed = free_inside(yard, cache, at);
        debug_assert!(freed.is_ok());
        at = next;
    }
}
