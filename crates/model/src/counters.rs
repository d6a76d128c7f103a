//! The counters of one cache of a model. Their names are those of `abi::stats`.

pub use slabyard_abi::stats::Counter;
use std::cell::Cell;

/// Buckets of [`Counters::drains`]: slabs drained by one free, 1, 2, 3 to 4, 5 to 8 ...
pub const DRAIN_BUCKETS: usize = 12;

/// All counters of a cache.
#[derive(Clone, Debug)]
pub struct Counters {
    values: [Cell<u64>; Counter::ALL.len()],
    drains: [Cell<u64>; DRAIN_BUCKETS],
}

impl Default for Counters {
    fn default() -> Self {
        Counters {
            values: [const { Cell::new(0) }; Counter::ALL.len()],
            drains: [const { Cell::new(0) }; DRAIN_BUCKETS],
        }
    }
}

impl Counters {
    /// Value of one.
    #[must_use]
    pub fn get(&self, counter: Counter) -> u64 {
        self.values[counter as usize].get()
    }

    /// Counts `n` events at once.
    #[inline]
    pub fn add(&self, counter: Counter, n: u32) {
        let value = &self.values[counter as usize];
        value.set(value.get() + u64::from(n));
    }

    /// Counts a free that drained this many slabs.
    pub fn drained(&self, slabs: u32) {
        let bucket = slabs.max(1).next_power_of_two().ilog2() as usize;
        let drains = &self.drains[bucket.min(DRAIN_BUCKETS - 1)];
        drains.set(drains.get() + 1);
    }

    /// Frees by the number of slabs that they drained: bucket `n` counts those of
    /// more than 2^(n-1) and at most 2^n. The unlucky free's cost.
    #[must_use]
    pub fn drains(&self) -> [u64; DRAIN_BUCKETS] {
        self.drains.each_ref().map(Cell::get)
    }

    /// Adds another cache's.
    pub fn merge(&self, other: &Counters) {
        for (to, from) in self.values.iter().zip(&other.values) {
            to.set(to.get() + from.get());
        }
        for (to, from) in self.drains.iter().zip(&other.drains) {
            to.set(to.get() + from.get());
        }
    }
}
