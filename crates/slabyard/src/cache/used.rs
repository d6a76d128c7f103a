//! The slots in use: one bit per pair of entries. Code that walks over the entries of all rows
//! visits only pairs in use, so that its work is proportional to the caches that the program uses.
//!
//! ```text
//! pair   0                 1..4            5..8    9..70             71..4095
//!       | zeros, countdown | lists of runs | banks | malloc's classes | created caches
//! ```
//!
//! Neighbours: [`super::table`] holds the caches; a yard's drains, passes and checks visit these
//! slots. Invariants: the pairs of run lists, of run banks and of malloc's classes are always in
//! use; pair 0 never is. A created cache's pair is in use from the cache's first slow allocation
//! until the cache is destroyed; no other pair has stacks (`verify` checks it).

use super::classes::CLASSES;
use super::slots::slot_of;
use crate::platform::Slot;
use crate::platform::stack::SLOTS;
use crate::sync::{AtomicU64, Ordering};
use slabyard_abi::region::row;

/// Pairs of entries in a row.
const PAIRS: usize = SLOTS / row::PAIR;
const WORDS: usize = PAIRS / 64;

/// The pairs from the first list of runs on that are in use for ever.
const FIRST: usize = row::FIRST_RUNS / row::PAIR;
const FIXED_END: usize = row::FIRST_CACHE / row::PAIR + CLASSES;

// A class's two entries are one pair.
const _: () =
    assert!(row::FIRST_RUNS.is_multiple_of(row::PAIR) && row::FIRST_CACHE.is_multiple_of(2));

/// Pairs of entries, a bit each.
pub struct Used([AtomicU64; WORDS]);

impl Used {
    /// The lists and banks of runs and malloc's classes.
    #[allow(clippy::new_without_default, reason = "it is for a constant")]
    #[must_use]
    pub const fn new() -> Self {
        let mut used = Used([const { AtomicU64::new(0) }; WORDS]);
        let mut word = 0;
        while word * 64 < FIXED_END {
            used.0[word] = AtomicU64::new(fixed(word));
            word += 1;
        }
        used
    }

    /// From now on a cache's slots are in use.
    pub(super) fn insert(&self, number: usize) {
        let (word, bit) = at(number);
        self.0[word].fetch_or(bit, Ordering::Relaxed);
    }

    /// A cache's slots are in use no more.
    pub(super) fn remove(&self, number: usize) {
        let (word, bit) = at(number);
        self.0[word].fetch_and(!bit, Ordering::Relaxed);
    }

    /// True if a cache's slots are in use.
    #[inline]
    pub(super) fn contains(&self, number: usize) -> bool {
        let (word, bit) = at(number);
        self.0[word].load(Ordering::Relaxed) & bit != 0
    }

    /// The first cache whose slots are in use, from a number on.
    #[inline]
    #[must_use]
    pub fn next_cache(&self, number: usize) -> Option<usize> {
        let first = row::FIRST_CACHE / row::PAIR;
        Some(self.next(first + number)? - first)
    }

    /// The caches whose slots are in use.
    pub fn caches(&self) -> impl Iterator<Item = usize> + Clone {
        core::iter::successors(self.next_cache(0), |number| self.next_cache(number + 1))
    }

    /// The first pair in use from `pair` on.
    #[inline(never)]
    fn next(&self, pair: usize) -> Option<usize> {
        let mut from = u64::MAX << (pair % 64);
        (pair / 64..WORDS).find_map(|word| {
            let bits = self.0[word].load(Ordering::Relaxed) & from;
            from = u64::MAX;
            (bits != 0).then(|| word * 64 + bits.trailing_zeros() as usize)
        })
    }

    /// The first slot in use from a number on.
    #[inline]
    #[must_use]
    pub fn next_slot(&self, slot: u16) -> Option<Slot> {
        let pair = usize::from(slot) / row::PAIR;
        let found = self.next(pair)?;
        let first = (found * row::PAIR) as u16;
        Some(Slot(if found == pair { slot } else { first }))
    }

    /// The slots in use, from a number on.
    pub fn slots(&self, first: u16) -> impl Iterator<Item = Slot> + Clone {
        let next = |slot: u16| (usize::from(slot) < SLOTS).then(|| self.next_slot(slot)).flatten();
        core::iter::successors(next(first), move |slot| next(slot.0 + 1))
    }
}

/// Word and bit of a cache's pair.
#[inline]
fn at(number: usize) -> (usize, u64) {
    let pair = usize::from(slot_of(number).0) / row::PAIR;
    (pair / 64, 1 << (pair % 64))
}

/// The bits of a word whose pairs are in use for ever.
const fn fixed(word: usize) -> u64 {
    let (mut bits, mut pair) = (0, word * 64);
    while pair < (word + 1) * 64 {
        if pair >= FIRST && pair < FIXED_END {
            bits |= 1 << (pair % 64);
        }
        pair += 1;
    }
    bits
}

#[cfg(test)]
mod tests;
