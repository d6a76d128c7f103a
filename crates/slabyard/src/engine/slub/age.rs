//! What is parked and not used goes home: sheaves of CPUs that rest, full
//! sheaves that nobody takes out of the barn, empty slabs of idle caches.
//!
//! Draining another CPU's stack stops it first ([`Platform::stop`]); one fence
//! serves many stacks. The caller holds the drain lock.

use super::{Cache, Moving};
use crate::page::Ground;
use crate::platform::Platform;
use crate::sync::Ordering;

impl Cache {
    /// One tick: unwanted sheaves of the barn go home; an idle cache ends its
    /// empty slabs. Returns true if something went.
    pub fn tick<P: Platform>(&self, g: &Ground<P>) -> bool {
        let begun = self.shown.begun();
        let idle = self.seen.swap(begun, Ordering::Relaxed) == begun;
        let mut went = false;
        for _ in 0..self.barn_unwanted(g) {
            went |= self.flush_one(g);
        }
        if idle {
            self.barn_forget_empty(g);
        }
        if idle && self.nr_slabs() > 0 {
            went |= self.discard_empty(g) > 0;
        }
        went
    }

    /// As [`Cache::moving`], for what the tick does: it does not make the cache busy.
    fn moving_aside(&self) -> Moving<'_> {
        self.seen.fetch_add(1, Ordering::Relaxed);
        self.moving()
    }

    /// Everything parked on the node goes home, empty slabs end.
    pub fn shrink_node<P: Platform>(&self, g: &Ground<P>) {
        while self.flush_one(g) {}
        self.barn_forget_empty(g);
        self.discard_empty(g);
    }

    /// Full sheaves of the barn go home, down to so many.
    pub fn flush_barn_above<P: Platform>(&self, g: &Ground<P>, sheaves: u32) {
        while self.nr_full(g) > sheaves && self.flush_one(g) {}
    }

    fn flush_one<P: Platform>(&self, g: &Ground<P>) -> bool {
        let _moving = self.moving_aside();
        let Some(mut sheaf) = self.barn_take_full(g) else {
            return false;
        };
        self.flush(g, &mut sheaf);
        self.barn_put_empty(g, sheaf);
        true
    }

    /// The objects of a stopped stack of this cache, whose top was `top`, go home.
    /// The caller takes the stack away.
    pub fn drain_stopped<P: Platform>(&self, g: &Ground<P>, top: u32) {
        let _moving = self.moving_aside();
        self.put_home(g, g.sheaves.objects_of(top));
    }

    /// This CPU's own sheaves go home, without stopping anybody: what a platform
    /// that cannot stop does for the row of the calling thread.
    pub fn drain_own<P: Platform>(&self, g: &Ground<P>) {
        let _moving = self.moving_aside();
        for slot in [self.shape().main(), self.shape().spare()] {
            if let Ok(Some(mut sheaf)) = self.check_out(g, slot) {
                self.flush(g, &mut sheaf);
                self.barn_put_empty(g, sheaf);
            }
        }
    }
}
