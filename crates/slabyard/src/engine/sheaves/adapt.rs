//! Counts overflow misses, and adapts the barn's limit at each reclaim pass.
//!
//! Neighbour: [`super::working_set`] has the counts and explains the rule.

use super::NodeSheaves;
use crate::engine::sheaves::barn::most_full;
use crate::engine::sheaves::working_set::{FALL, RISE, SMALL_PART, WorkingSet};
use crate::engine::slabs::Stacks;
use crate::engine::{Header, Shape};
use crate::sync::Ordering;

impl<C> NodeSheaves<C> {
    /// Counts objects that were flushed because the barn was full.
    pub(super) fn count_flushed(&self, objects: u32) {
        self.working_set.flushed.fetch_add(objects, Ordering::Relaxed);
    }

    /// Counts objects that were refilled from slabs because the barn had none; raises the
    /// limit if enough of them had been flushed before.
    pub(super) fn count_refilled<S: Stacks<Chain = C>>(&self, on: S, objects: u32) {
        let WorkingSet { flushed, overflow_misses, .. } = &self.working_set;
        let left = flushed.load(Ordering::Relaxed);
        if left == 0 || !on.rules().adapts || self.working_set.is_fixed() {
            return;
        }
        let missed = left.min(objects);
        flushed.store(left - missed, Ordering::Relaxed);
        let misses = overflow_misses.load(Ordering::Relaxed) + missed;
        let price = RISE * on.cache().sheaf_capacity();
        if misses >= price {
            self.raise(on, misses / price);
        }
        overflow_misses.store(misses % price, Ordering::Relaxed);
    }

    #[cold]
    fn raise<S: Stacks<Chain = C>>(&self, on: S, sheaves: u32) {
        let _barn = self.barn.lock(on.park());
        if !self.working_set.is_fixed() {
            let limit = on.cache().barn_full_limit(on.shown_node());
            let raised = (limit + sheaves).min(Self::highest_limit(on.cache())).max(limit);
            on.cache().set_barn_full_limit(on.shown_node(), raised);
        }
    }

    /// The highest limit that use may raise it to.
    fn highest_limit(cache: &Header) -> u32 {
        if cache.shape().geometry.size > Shape::SMALL {
            return u32::MAX;
        }
        (cache.out() / SMALL_PART) as u32 / cache.sheaf_capacity()
    }

    /// Called at each reclaim pass, under the barn's lock: this many full sheaves were unused
    /// since the last one.
    pub(super) fn lower_limit<S: Stacks<Chain = C>>(&self, on: S, sheaves: u32) {
        self.working_set.flushed.store(0, Ordering::Relaxed);
        if !self.working_set.is_fixed() {
            let least = most_full(on.cache().shape().geometry.size);
            let limit = on.cache().barn_full_limit(on.shown_node());
            let fall = sheaves.max(limit.saturating_sub(least).div_ceil(FALL));
            on.cache().set_barn_full_limit(on.shown_node(), limit.saturating_sub(fall).max(least));
        }
    }
}
