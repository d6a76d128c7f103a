//! Grace periods, one at a time: any thread that waits for one can advance it, in slices.
//!
//! Neighbours: [`super`] explains why one phase suffices; [`crate::waiting`] polls in slow paths.
//! Invariant: at the end of grace period e, every section whose epoch is below e is over, and every
//! section still open sees all that was unlinked before the epoch became e.

use super::grace::{DELIVERY_MS, EPOCH_SHIFT, Epoch, FENCED, Grace, NEST, TAKEN};
use super::readers::Rcu;
use crate::platform::Platform;
use crate::sync::{Ordering, fence};

impl Rcu {
    /// The grace period that ends after all sections that are open now: the next one that begins.
    /// One that is under way may have fenced already.
    pub(crate) fn wanted(&self) -> Epoch {
        // SeqCst: what the caller unlinked comes before; a reader that has the next epoch sees it.
        fence(Ordering::SeqCst);
        Epoch((self.epoch.load(Ordering::SeqCst) >> EPOCH_SHIFT) + 1)
    }

    /// True if this grace period has ended.
    #[inline]
    pub(crate) fn is_over(&self, epoch: Epoch) -> bool {
        // Acquire: what readers did in their sections comes before. Pairs with the Release in
        // `poll`.
        self.completed.load(Ordering::Acquire) >= epoch.0
    }

    /// Advances grace periods until this one ends, as far as that goes without waiting: by one
    /// fence at most. True if it has ended. The caller is in a slow path.
    pub(crate) fn poll<P: Platform>(&self, p: &P, wanted: Epoch) -> bool {
        if self.is_over(wanted) {
            return true;
        }
        let Some(mut grace) = self.grace.try_lock(p) else { return false };
        if grace.epoch == 0 {
            if self.is_over(wanted) {
                return true;
            }
            self.begin_grace(p, &mut grace);
        }
        if self.is_grace_over(p, &mut grace) {
            self.completed.store(grace.epoch, Ordering::Release);
            grace.epoch = 0;
        }
        self.is_over(wanted)
    }

    fn begin_grace<P: Platform>(&self, p: &P, grace: &mut Grace) {
        // SeqCst: pairs with the loads in `enter` and `count_section`.
        let before = self.epoch.fetch_add(1 << EPOCH_SHIFT, Ordering::SeqCst);
        *grace = Grace { epoch: (before >> EPOCH_SHIFT) + 1, ..Grace::new() };
        if !p.fence_readers() {
            self.epoch.fetch_or(FENCED, Ordering::SeqCst);
            let knows = |word: u64| word & TAKEN == 0 || word & FENCED != 0;
            if !self.each_place().all(|place| knows(place.word.load(Ordering::SeqCst))) {
                grace.looks_at = p.now_ms() + DELIVERY_MS;
            }
        }
        fence(Ordering::SeqCst);
    }

    fn is_grace_over<P: Platform>(&self, p: &P, grace: &mut Grace) -> bool {
        if grace.looks_at != 0 && p.now_ms() < grace.looks_at {
            return false;
        }
        while grace.next < self.places.len() {
            // Acquire pairs with the Release of the end of the section.
            let word = self.places.get(grace.next).word.load(Ordering::Acquire);
            if word & NEST != 0 && word >> EPOCH_SHIFT < grace.epoch {
                return false;
            }
            grace.next += 1;
        }
        self.is_uncounted(grace.epoch - 1)
    }
}
