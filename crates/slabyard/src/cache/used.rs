//! The slots in use: a bit for each pair of entries. What walks over the entries of all rows
//! walks over these, so that its work is in proportion to the caches that a program uses.
//!
//! ```text
//! pair   0                 1..4            5..66             67..4095
//!       | zeros, countdown | lists of runs | malloc's classes | created caches
//! ```
//!
//! Neighbours: [`super::classes`] numbers the classes' slots; drains, passes and checks of
//! [`crate::yard`] walk.
//! Invariants: the pairs of the lists of runs and of malloc's classes are in use for ever; pair
//! 0 never is. A word of the summary may be set although no pair of its word is in use, and
//! never the other way round.

use super::classes::CLASSES;
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

// The summary has a bit for each word; a class's two entries are one pair.
const _: () = assert!(WORDS == 64 && row::FIRST_RUNS % row::PAIR == 0 && row::RUN_ORDERS % 2 == 0);

/// Pairs of entries, a bit each.
pub struct Used {
    /// A bit for each word that is not 0.
    summary: AtomicU64,
    words: [AtomicU64; WORDS],
}

impl Used {
    /// The lists of runs and malloc's classes.
    #[must_use]
    pub const fn new() -> Self {
        let mut used =
            Used { summary: AtomicU64::new(0), words: [const { AtomicU64::new(0) }; WORDS] };
        let mut word = 0;
        let mut summary = 0;
        while word * 64 < FIXED_END {
            used.words[word] = AtomicU64::new(fixed(word));
            summary |= 1 << word;
            word += 1;
        }
        used.summary = AtomicU64::new(summary);
        used
    }

    /// The first pair in use from `pair` on.
    #[inline]
    fn next(&self, pair: usize) -> Option<usize> {
        let word = pair / 64;
        let bits = self.words.get(word)?.load(Ordering::Relaxed) >> (pair % 64);
        if bits != 0 {
            return Some(pair + bits.trailing_zeros() as usize);
        }
        let mut words = self.summary.load(Ordering::Relaxed) & (u64::MAX - 1) << word;
        while words != 0 {
            let word = words.trailing_zeros() as usize;
            let bits = self.words[word].load(Ordering::Relaxed);
            if bits != 0 {
                return Some(word * 64 + bits.trailing_zeros() as usize);
            }
            words &= words - 1;
        }
        None
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

impl Default for Used {
    fn default() -> Self {
        Self::new()
    }
}
