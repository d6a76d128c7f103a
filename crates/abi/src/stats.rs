//! Slow-path counters of a cache: the kernel's counters (`SLUB_STATS`) under the kernel's names,
//! and others that the kernel lacks.
//!
//! A process that counts keeps [`CACHE_WORDS`] 64-bit words for each row of stacks and each cache:
//! one for each [`Counter`], in order, then three for each of the [`DRAINS`].

pub use crate::counters::Counter;
use core::fmt;

impl Counter {
    /// Those that a model of a kernel reports: in a model one call is under way at a time, so that
    /// no exchange fails and nobody waits.
    pub fn of_models() -> impl Iterator<Item = &'static (Counter, &'static str, &'static str)> {
        use Counter::{CmpxchgFail, ListLockWaitNs, ListLockWaited};
        let real = [CmpxchgFail, ListLockWaited, ListLockWaitNs];
        Self::ALL.iter().filter(move |(counter, ..)| !real.contains(counter))
    }
}

/// Sizes of drains that are distinguished: frees that drained no slab, 1, 2, 3 to 4, 5 to 8 ...
pub const DRAINS: usize = 13;

/// Words that a process keeps of one cache in one row.
pub const CACHE_WORDS: usize = 128;

/// From the words of one cache to those of the next: 1 KiB.
pub const CACHE_BYTES: usize = CACHE_WORDS * 8;

const _: () = assert!(Counter::ALL.len() + 3 * DRAINS <= CACHE_WORDS);

/// Which of the [`DRAINS`] counts a slow free that drained this many slabs.
#[must_use]
pub const fn drain_of(slabs: u32) -> usize {
    if slabs == 0 {
        return 0;
    }
    // The power of two that is at least as many.
    let nth = 1 + (u32::BITS - (slabs - 1).leading_zeros()) as usize;
    if nth < DRAINS { nth } else { DRAINS - 1 }
}

/// The least and the most slabs that one of the [`DRAINS`] counts; `u32::MAX` for the last one's
/// most.
#[must_use]
pub const fn slabs_of(drain: usize) -> (u32, u32) {
    match drain {
        0 => (0, 0),
        1 => (1, 1),
        _ if drain == DRAINS - 1 => ((1 << (drain - 2)) + 1, u32::MAX),
        _ => ((1 << (drain - 2)) + 1, 1 << (drain - 1)),
    }
}

/// The words of one of the [`DRAINS`]: slow frees, their nanoseconds together, the longest's.
#[must_use]
pub const fn drain_words(drain: usize) -> [usize; 3] {
    let first = Counter::ALL.len() + 3 * drain;
    [first, first + 1, first + 2]
}

/// The name of one of a cache's words: a counter's own, or `drain_N`, `drain_N_ns` and
/// `drain_N_longest_ns` of the `N`th of the [`DRAINS`]. It shows nothing for words beyond these.
#[derive(Clone, Copy, Debug)]
pub struct WordName(pub usize);

impl fmt::Display for WordName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(nth) = self.0.checked_sub(Counter::ALL.len()) else {
            return f.write_str(Counter::NAMES[self.0]);
        };
        match (nth / 3, nth % 3) {
            (drain, _) if drain >= DRAINS => Ok(()),
            (drain, 0) => write!(f, "drain_{drain}"),
            (drain, 1) => write!(f, "drain_{drain}_ns"),
            (drain, _) => write!(f, "drain_{drain}_longest_ns"),
        }
    }
}

/// Adds what one row counted of a cache to what others did.
pub fn add_row(all: &mut [u64; CACHE_WORDS], row: &[u64; CACHE_WORDS]) {
    for (nth, (all, row)) in all.iter_mut().zip(row).enumerate() {
        add_word(all, nth, *row);
    }
}

/// Adds a word of a row to the same word of all.
pub fn add_word(all: &mut u64, nth: usize, row: u64) {
    let is_longest = (0..DRAINS).any(|drain| drain_words(drain)[2] == nth);
    *all = if is_longest { row.max(*all) } else { all.wrapping_add(row) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_of_slabs_is_within_the_bounds_of_its_drain() {
        for slabs in (0..5000).chain([u32::MAX]) {
            let (least, most) = slabs_of(drain_of(slabs));
            assert!((least..=most).contains(&slabs), "{slabs}");
        }
        assert_eq!(drain_words(DRAINS - 1)[2], Counter::ALL.len() + 3 * DRAINS - 1);
    }

    #[test]
    fn rows_add_up_but_for_the_longest() {
        let [frees, _, longest] = drain_words(3);
        let mut all = [0; CACHE_WORDS];
        for ns in [700, 300] {
            let mut row = [0; CACHE_WORDS];
            (row[frees], row[longest]) = (1, ns);
            add_row(&mut all, &row);
        }
        assert_eq!((all[frees], all[longest]), (2, 700));
    }
}
