//! Deferred frees: those of a signal handler that interrupted a slow path. The interrupted
//! thread may hold locks, so the handler only links the object into a list through the freed
//! objects, and the end of the next slow path frees them.
//!
//! Neighbour: [`crate::yard::slow_path`], whose end calls [`Yard::run_deferred`].

use crate::cache::slots::slot_of;
use crate::engine::Engine;
use crate::pages::Cause;
use crate::platform::Platform;
use crate::sync::Ordering;
use crate::yard::{Place, Yard};

/// The first word of an object that `run_deferred` has taken off the list: no link.
const DONE: usize = usize::MAX;

impl<P: Platform, E: Engine> Yard<P, E> {
    /// Defers a free of a handler that interrupted a slow path to the end of the next slow path.
    /// The object's first word is the link.
    pub(crate) fn defer(&self, address: usize) {
        if !matches!(self.place_of(address), Place::Object { begin: true, .. } | Place::Large(_)) {
            return;
        }
        if self.heap.own_bytes(address).is_some() {
            if self.is_guarded() {
                self.free_guarded(address);
            } else {
                let _ = self.heap.unmap_own(address);
            }
            return;
        }
        let mut head = self.deferred.load(Ordering::Relaxed);
        let link = self.link_of(address);
        loop {
            // SAFETY: a live allocation that its owner gave to us.
            unsafe { self.platform().write_word(link, head) };
            // Release pairs with the Acquire in `free_deferred`.
            match self.deferred.compare_exchange_weak(
                head,
                address,
                Ordering::Release,
                Ordering::Relaxed,
            ) {
                Ok(_) => return,
                Err(seen) => head = seen,
            }
        }
    }

    #[cold]
    #[inline(never)]
    pub(crate) fn run_deferred(&self) {
        self.running_deferred.fetch_add(1, Ordering::Relaxed);
        self.free_deferred();
        // Release pairs with the Acquire in `finish_deferred`.
        self.running_deferred.fetch_sub(1, Ordering::Release);
    }

    /// As [`Yard::run_deferred`], and waits for those that other threads run: no lock is held.
    pub(crate) fn finish_deferred(&self) {
        self.run_deferred();
        while let running @ 1.. = self.running_deferred.load(Ordering::Acquire) {
            self.platform().wait_at_most(&self.running_deferred, running, 1);
        }
    }

    fn free_deferred(&self) {
        // Acquire pairs with the Release in `defer`; Release: who finds the list empty because of
        // this sees the count of `run_deferred`.
        let mut at = self.deferred.swap(0, Ordering::AcqRel);
        while at != 0 {
            let link = self.link_of(at);
            // SAFETY: `defer` put it there; it is ours now.
            let next = unsafe { self.platform().read_word(link) };
            if next == DONE {
                // Handlers freed it twice: the list is a cycle.
                if let Some(class) = self.class_at(at) {
                    self.heap.misuse(Cause::DoubleFree, at, slot_of(class).0);
                }
                return;
            }
            // SAFETY: as above.
            unsafe { self.platform().write_word(link, DONE) };
            let cache = self.class_at(at).map(|class| self.caches.get(class));
            if link == at
                && let Some(constructor) = cache.and_then(|cache| cache.shape().constructor)
            {
                // The link overwrote what it made.
                constructor.call(at);
            }
            let freed = self.free_inside(cache, at);
            debug_assert!(freed.is_ok());
            at = next;
        }
    }
}
