//! How fast a program goes, seen from its slow paths, and so how often it is to come by.
//!
//! The clock may be coarse: it is asked over gaps or windows of several of its slices.
//! The words are hints that threads overwrite: a lost count is a wrong guess.

use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// Frees until the next slow path, at most.
pub(in crate::yard) const LONGEST_INTERVAL: u32 = 256;
/// The shortest slice: allocations come by too.
pub(in crate::yard) const EVERY_CALL: u32 = 1;
/// A gap between two looks that tells the rate by itself. A coarse clock's slice is 4 ms,
/// or 10 ms.
const GAP_MS: u64 = 12;
/// Else a window tells, of so many milliseconds or looks.
const WINDOW_MS: u64 = 32;
const WINDOW_LOOKS: u32 = 512;
/// A program of fewer frees a second is slow: half a slice of them takes 32 ms.
const SLOW: u64 = 4000;
/// Slow paths are to come at least so often.
const SLOW_PATH_MS: u64 = 16;
/// What waits is to be done within this time.
const DONE_MS: u64 = 100;

/// The rate of a program.
pub(in crate::yard) struct Rate {
    last: AtomicU64,
    /// The window: when it began, looks since.
    begun: AtomicU64,
    looks: AtomicU32,
    /// Frees a second.
    rate: AtomicU64,
}

impl Rate {
    pub(in crate::yard) const fn new() -> Self {
        Rate {
            last: AtomicU64::new(0),
            begun: AtomicU64::new(0),
            looks: AtomicU32::new(0),
            rate: AtomicU64::new(u64::MAX),
        }
    }

    /// Nothing is known of the time before the next look.
    pub(in crate::yard) fn begin(&self) {
        self.last.store(0, Ordering::Relaxed);
        self.rate.store(u64::MAX, Ordering::Relaxed);
    }

    /// A look at the clock, about `frees` after the last. True if it told the rate.
    pub(in crate::yard) fn look(&self, now: u64, frees: u32) -> bool {
        let last = self.last.load(Ordering::Relaxed);
        self.last.store(now, Ordering::Relaxed);
        if last == 0 {
            self.begun.store(now, Ordering::Relaxed);
            self.looks.store(0, Ordering::Relaxed);
            return false;
        }
        let gap = now.saturating_sub(last);
        let looks = self.looks.load(Ordering::Relaxed) + 1;
        let elapsed = now.saturating_sub(self.begun.load(Ordering::Relaxed));
        let frees = u64::from(frees);
        let rate = if gap >= GAP_MS {
            frees * 1000 / gap
        } else if elapsed >= WINDOW_MS || looks >= WINDOW_LOOKS {
            u64::from(looks) * frees * 1000 / elapsed.max(1)
        } else {
            self.looks.store(looks, Ordering::Relaxed);
            return false;
        };
        self.rate.store(rate, Ordering::Relaxed);
        self.begun.store(now, Ordering::Relaxed);
        self.looks.store(0, Ordering::Relaxed);
        true
    }

    /// True if slow paths come rarely.
    pub(in crate::yard) fn is_slow(&self) -> bool {
        self.rate.load(Ordering::Relaxed) < SLOW
    }

    /// Frees until the next slow path, so that so many slices are made in time.
    pub(in crate::yard) fn slice(&self, slices: u64) -> u32 {
        let rate = self.rate.load(Ordering::Relaxed).min(1 << 32);
        let often = rate * SLOW_PATH_MS / 1000;
        let enough = rate * DONE_MS / 1000 / slices.max(1);
        often.min(enough).clamp(EVERY_CALL.into(), LONGEST_INTERVAL.into()) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The slice after looks every `gap` milliseconds of a clock of 4 ms slices.
    fn step_after(frees_a_second: u64, slices: u64) -> u32 {
        let rate = Rate::new();
        let (mut slice, mut frees) = (LONGEST_INTERVAL, 0);
        while frees < 20 * frees_a_second.max(100) {
            frees += u64::from(slice);
            let now = 1_000_000 + frees * 1000 / frees_a_second / 4 * 4;
            if rate.look(now, slice) {
                slice = rate.slice(slices);
            }
        }
        slice
    }

    #[test]
    fn a_program_comes_by_as_often_as_it_must() {
        for rate in [10, 100, 1000, 2000, 10_000, 100_000, 10_000_000] {
            for slices in [0, 1, 10, 1000] {
                let slice = step_after(rate, slices);
                let wanted = (rate * SLOW_PATH_MS / 1000)
                    .min(rate * DONE_MS / 1000 / slices.max(1))
                    .clamp(1, LONGEST_INTERVAL.into());
                let near = wanted / 2..=wanted + wanted / 2 + 1;
                assert!(
                    near.contains(&slice.into()),
                    "{rate} a second, {slices}: {slice} for {wanted}"
                );
            }
        }
    }

    #[test]
    fn one_long_gap_tells_a_slow_program() {
        let rate = Rate::new();
        for now in 0..100 {
            rate.look(1_000_000 + now / 10, LONGEST_INTERVAL);
        }
        assert!(!rate.is_slow());
        assert!(rate.look(1_000_074, LONGEST_INTERVAL));
        assert!(rate.is_slow());
    }
}
