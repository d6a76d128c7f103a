//! The counters of one cache of a model. Their names are those of `abi::stats`; [`SheafCounter`]
//! lists the counters that no yard has.

pub use slabyard_abi::stats::Counter;
use std::cell::Cell;

/// Buckets of [`Counters::drains`]: slabs drained by one free, 1, 2, 3 to 4, 5 to 8 ...
pub const DRAIN_BUCKETS: usize = 12;

/// What a model counts of sheaves, and no yard does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SheafCounter {
    /// Allocations that found their CPU's main sheaf empty.
    Empty,
    /// Frees that found it full.
    Full,
    /// Sheaves allocated, those that CPUs begin with apart.
    Alloc,
    /// Sheaves freed.
    Free,
    /// Frees to sheaves that wait for readers.
    FreeRcu,
}

impl SheafCounter {
    /// All of them, with name and meaning; the names are the kernel's where it has one.
    pub const ALL: [(SheafCounter, &str, &str); 5] = [
        (SheafCounter::Empty, "sheaf_empty", "allocations that found their CPU's main sheaf empty"),
        (SheafCounter::Full, "sheaf_full", "frees that found it full"),
        (SheafCounter::Alloc, "sheaf_alloc", "sheaves made"),
        (SheafCounter::Free, "sheaf_free", "sheaves ended"),
        (SheafCounter::FreeRcu, "free_rcu_sheaf", "frees to sheaves that wait for readers"),
    ];
}

/// All counters of a cache.
#[derive(Clone, Debug)]
pub struct Counters {
    values: [Cell<u64>; Counter::ALL.len()],
    sheaves: [Cell<u64>; SheafCounter::ALL.len()],
    drains: [Cell<u64>; DRAIN_BUCKETS],
}

impl Default for Counters {
    fn default() -> Self {
        Counters {
            values: [const { Cell::new(0) }; Counter::ALL.len()],
            sheaves: [const { Cell::new(0) }; SheafCounter::ALL.len()],
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

    /// Value of one of sheaves.
    #[must_use]
    pub fn of_sheaves(&self, counter: SheafCounter) -> u64 {
        self.sheaves[counter as usize].get()
    }

    /// Counts one event of sheaves.
    pub fn add_of_sheaves(&self, counter: SheafCounter) {
        let value = &self.sheaves[counter as usize];
        value.set(value.get() + 1);
    }

    /// The value of every counter that a model has, with its name and meaning.
    pub fn each(&self) -> impl Iterator<Item = (&'static str, &'static str, u64)> + '_ {
        let shared = Counter::of_models().map(|(of, name, help)| (*name, *help, self.get(*of)));
        let of_sheaves = SheafCounter::ALL.into_iter();
        shared.chain(of_sheaves.map(|(of, name, help)| (name, help, self.of_sheaves(of))))
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
        let of_sheaves = self.sheaves.iter().zip(&other.sheaves);
        for (to, from) in self.values.iter().zip(&other.values).chain(of_sheaves) {
            to.set(to.get() + from.get());
        }
        for (to, from) in self.drains.iter().zip(&other.drains) {
            to.set(to.get() + from.get());
        }
    }
}
