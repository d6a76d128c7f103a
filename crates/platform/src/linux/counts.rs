//! Counts of slow paths: the words of `abi::stats`, per row and per cache.
//!
//! They are in a separate mapping, not in the rows, because it is made only if counting is enabled.
//! Its pages are touched only when caches count: some 75 KiB per CPU.
//! Invariant: words only grow; threads on one row add to the same words, atomically.

use super::calls::{PROT_RW, mmap};
use crate::Event;
use crate::stack::Slot;
use crate::sync::{AtomicU64, AtomicUsize, Ordering};
use slabyard_abi::region::row;
use slabyard_abi::stats::{CACHE_WORDS, add_word, drain_of, drain_words};

pub(super) struct CountedWords {
    base: AtomicUsize,
    /// Pages that the kernel refused.
    refusals: AtomicU64,
    /// Bytes that drains of everything gave back.
    drained: AtomicU64,
}

const ROW_WORDS: usize = row::CACHES * CACHE_WORDS;

impl CountedWords {
    pub(super) const fn new() -> Self {
        CountedWords {
            base: AtomicUsize::new(0),
            refusals: AtomicU64::new(0),
            drained: AtomicU64::new(0),
        }
    }

    #[inline]
    pub(super) fn base(&self) -> usize {
        self.base.load(Ordering::Relaxed)
    }

    pub(super) fn refusals(&self) -> &AtomicU64 {
        &self.refusals
    }

    pub(super) fn drained(&self) -> &AtomicU64 {
        &self.drained
    }

    /// Maps the words; false if the kernel refuses.
    pub(super) fn begin(&self, page_bytes: usize, nr_rows: usize) -> bool {
        let bytes = ((nr_rows * ROW_WORDS + 1) * 8).next_multiple_of(page_bytes);
        let Some(base) = mmap(bytes, PROT_RW, 0) else {
            return false;
        };
        self.base.store(base, Ordering::Relaxed);
        true
    }

    fn word(&self, row: usize, cache: usize, nth: usize) -> &AtomicU64 {
        let address = self.base() + (row * ROW_WORDS + cache * CACHE_WORDS + nth) * 8;
        // SAFETY: within the mapping, which nothing ends; all access is atomic.
        unsafe { &*(address as *const AtomicU64) }
    }

    /// Fences of all CPUs: the word behind those of this many rows.
    pub(super) fn fences(&self, nr_rows: usize) -> Option<&AtomicU64> {
        (self.base() != 0).then(|| self.word(nr_rows, 0, 0))
    }

    /// Adds the words of a cache in a row to what others counted.
    pub(super) fn add_to(&self, all: &mut [u64; CACHE_WORDS], row: usize, cache: usize) {
        for (nth, all) in all.iter_mut().enumerate() {
            add_word(all, nth, self.word(row, cache, nth).load(Ordering::Relaxed));
        }
    }

    #[cold]
    pub(super) fn add(&self, row: usize, slot: Slot, event: Event) {
        let cache = (slot.0 as usize - row::FIRST_CACHE) / row::PAIR;
        let word = |nth| self.word(row, cache, nth);
        match event {
            Event::Counted(counter, n) => {
                word(counter).fetch_add(n.into(), Ordering::Relaxed);
            }
            Event::Drained { slabs, ns } => {
                let [frees, time, longest] = drain_words(drain_of(slabs));
                word(frees).fetch_add(1, Ordering::Relaxed);
                word(time).fetch_add(ns, Ordering::Relaxed);
                word(longest).fetch_max(ns, Ordering::Relaxed);
            }
        }
    }
}
