//! Frees of a signal handler that interrupted a slow path: locks may be held below it,
//! so the next slow path does them. Until then they are a list through the objects.
//!
//! Neighbour: [`super::slow_path`], whose end calls [`Yard::run_deferred`].

use super::{Place, Yard};
use crate::cache::classes;
use crate::pages::Cause;
use crate::platform::Platform;
use crate::sync::Ordering;

/// First word of an object whose deferred free is being done: no link.
const DONE: usize = usize::MAX;

impl<P: Platform> Yard<P> {
    /// A free inside of a handler that interrupted a slow path: the next slow
    /// path does it. The object's first word links it.
    pub(super) fn defer(&self, address: usize) {
        if !matches!(self.place_of(address), Place::Object { begin: true, .. } | Place::Large(_)) {
            return;
        }
        if self.heap.own_bytes(address).is_some() {
            let _ = self.heap.unmap_own(address);
            return;
        }
        let mut head = self.deferred.load(Ordering::Relaxed);
        loop {
            // SAFETY: a live allocation that its owner gave to us.
            unsafe { self.platform().write_word(address, head) };
            // Release pairs with the Acquire in `run_deferred`.
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
    pub(super) fn run_deferred(&self) {
        let mut at = self.deferred.swap(0, Ordering::Acquire);
        while at != 0 {
            // SAFETY: `defer` put it there; it is ours now.
            let next = unsafe { self.platform().read_word(at) };
            if next == DONE {
                // Freed twice by handlers: the list goes in a circle.
                if let Some(class) = self.class_at(at) {
                    self.heap.misuse(Cause::DoubleFree, at, classes::slot_of(class).0);
                }
                return;
            }
            // SAFETY: as above.
            unsafe { self.platform().write_word(at, DONE) };
            let freed = self.free_inside(self.class_at(at), at);
            debug_assert!(freed.is_ok());
            at = next;
        }
    }
}
