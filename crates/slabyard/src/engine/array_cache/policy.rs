//! How each kernel version treats a node's free slabs.
//!
//! A [`Policy`] is the part that changed between kernels, read from the table of
//! `slabyard-kernels`. A [`Choice`] is a policy, and whether CPUs have arrays (uniprocessor kernels
//! had none until October 2002: each allocation and each free takes the list's lock).
//!
//! Neighbours: [`super::lists`] applies the policy when a slab becomes empty, [`super::clock`] and
//! [`super::reap`] when memory is needed or time passes; [`super::limits`] has the arrays' sizes.

use super::limits::Limits;
use crate::sync::{AtomicU32, Ordering};
pub use slabyard_kernels::{Arrays, Emptied, Placed, Policy, Reclaim, Taken};

/// What a cache follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// What becomes of free slabs.
    pub reclaim: Reclaim,
    /// False: CPUs have no arrays, as a kernel for one CPU.
    pub has_arrays: bool,
}

impl Default for Choice {
    fn default() -> Self {
        Choice { reclaim: Reclaim::Today, has_arrays: true }
    }
}

impl Choice {
    /// Every policy, with arrays and without.
    pub fn all() -> impl Iterator<Item = Choice> {
        let both = |reclaim| [true, false].map(|has_arrays| Choice { reclaim, has_arrays });
        Reclaim::ALL.into_iter().flat_map(both)
    }

    /// What arrays hold of a cache that begins.
    #[must_use]
    pub fn limits(self, size: u32, page_bytes: u32, possible_cpus: u32) -> Limits {
        let now = || Limits::of(size, page_bytes, possible_cpus);
        match self.reclaim.policy().arrays {
            _ if !self.has_arrays => Limits { limit: 0, sharedfactor: 0, ..now() },
            Arrays::Of2_4 => Limits::of_2_4(size, page_bytes),
            Arrays::Alone => Limits { sharedfactor: 0, ..now() },
            Arrays::Shared => now(),
        }
    }

    /// The order of a slab: of kernels' own policies the lowest that wastes an eighth at most, but
    /// not above one above a page's.
    pub(super) fn order(self, size: u32, order: u32, page_order: u32) -> u32 {
        if self == Choice::default() {
            return order.max(page_order);
        }
        let bytes = |order: u32| (crate::platform::GRANULE as u32) << order;
        let mut order = page_order;
        while bytes(order) < size
            || order <= page_order && bytes(order) % size * WASTE_PART > bytes(order)
        {
            order += 1;
        }
        order
    }
}

/// A slab may waste one part of this many.
const WASTE_PART: u32 = 8;

/// The choice of a cache, and what the clock asks of it.
pub(super) struct Chosen(AtomicU32);

/// Bits of [`Chosen`], above the policy's number.
const NO_ARRAYS: u32 = 1 << 8;
const NO_REAP: u32 = 1 << 9;

impl Chosen {
    pub(super) const fn new() -> Self {
        Chosen(AtomicU32::new(Reclaim::Today as u32))
    }

    pub(super) fn set(&self, choice: Choice) {
        let arrays = if choice.has_arrays { 0 } else { NO_ARRAYS };
        self.0.store(choice.reclaim as u32 | arrays, Ordering::Relaxed);
    }

    pub(super) fn get(&self) -> Choice {
        let bits = self.0.load(Ordering::Relaxed);
        let reclaim = Reclaim::ALL[(bits & 0xff) as usize];
        Choice { reclaim, has_arrays: bits & NO_ARRAYS == 0 }
    }

    #[inline]
    pub(super) fn policy(&self) -> &'static Policy {
        self.get().reclaim.policy()
    }

    pub(super) fn set_no_reap(&self, no_reap: bool) {
        if no_reap {
            self.0.fetch_or(NO_REAP, Ordering::Relaxed);
        } else {
            self.0.fetch_and(!NO_REAP, Ordering::Relaxed);
        }
    }

    pub(super) fn is_no_reap(&self) -> bool {
        self.0.load(Ordering::Relaxed) & NO_REAP != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_choice_is_kept_whole() {
        for choice in Choice::all() {
            let chosen = Chosen::new();
            assert_eq!(chosen.get(), Choice::default());
            chosen.set(choice);
            chosen.set_no_reap(true);
            assert!(chosen.is_no_reap() && chosen.get() == choice, "{choice:?}");
            assert_eq!(chosen.get().reclaim, choice.reclaim);
        }
    }

    #[test]
    fn slabs_are_as_small_as_a_kernels() {
        let choice = Choice { reclaim: Reclaim::V2_4, has_arrays: true };
        // 2048 bytes twice, 4096 once; 3072 would waste a quarter of a page.
        for (size, order) in [(64, 0), (2048, 0), (3072, 1), (4096, 0), (4097, 1), (16384, 2)] {
            assert_eq!(choice.order(size, 6, 0), order, "{size}");
        }
        assert_eq!(choice.order(4096, 6, 4), 4, "a page of 64 KiB");
        assert_eq!(Choice::default().order(64, 3, 0), 3, "a yard's own");
    }
}
