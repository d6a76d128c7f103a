//! Bounds how many samples there are in a second: where a program allocates gigabytes in a second,
//! the mean distance of samples doubles until there are [`MOST`] in [`WINDOW_NS`], and halves again
//! when there are few.
//!
//! The distance depends on what was sampled before, and each gap is drawn and weighted with that of
//! its own draw, so estimates stay without bias. Invariant: the words are hints that several threads
//! write; a lost write leaves another distance for a while, and nothing else.

use slabyard::sync::{AtomicU32, AtomicU64, Ordering};

/// Samples of a window.
const MOST: u32 = 100;
const WINDOW_NS: u64 = 100_000_000;
/// After so long without [`MOST`], the distance halves.
const CALM_NS: u64 = 1_000_000_000;

/// How often the distance has doubled.
static DOUBLED: AtomicU32 = AtomicU32::new(0);
/// Samples since [`SINCE`].
static SAMPLES: AtomicU32 = AtomicU32::new(0);
static SINCE: AtomicU64 = AtomicU64::new(0);

/// A profile begins.
pub(super) fn begin(now_ns: u64) {
    DOUBLED.store(0, Ordering::Relaxed);
    SAMPLES.store(0, Ordering::Relaxed);
    SINCE.store(now_ns, Ordering::Relaxed);
}

/// The distance to draw with, where this one is asked for.
pub(super) fn distance(asked: u64, most: u64) -> u64 {
    asked.checked_shl(DOUBLED.load(Ordering::Relaxed)).unwrap_or(most).min(most)
}

/// Counts a sample.
pub(super) fn count(now_ns: u64) {
    let samples = SAMPLES.fetch_add(1, Ordering::Relaxed) + 1;
    let took = now_ns.saturating_sub(SINCE.load(Ordering::Relaxed));
    let doubled = DOUBLED.load(Ordering::Relaxed);
    let Some(doubled) = after(doubled, samples, took) else { return };
    DOUBLED.store(doubled, Ordering::Relaxed);
    SAMPLES.store(0, Ordering::Relaxed);
    SINCE.store(now_ns, Ordering::Relaxed);
}

/// How often it is to have doubled; `None` while the window goes on.
fn after(doubled: u32, samples: u32, took_ns: u64) -> Option<u32> {
    if samples >= MOST {
        let times = WINDOW_NS / took_ns.max(1);
        let more = if times == 0 { 0 } else { (times + 1).next_power_of_two().ilog2() };
        return Some((doubled + more).min(20));
    }
    (took_ns > CALM_NS).then(|| doubled.saturating_sub(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_samples_double_the_distance_and_few_halve_it() {
        assert_eq!(after(0, 1, 1000), None);
        // Ten times as many as may be: 16 times the distance.
        assert_eq!(after(0, MOST, WINDOW_NS / 10), Some(4));
        assert_eq!(after(3, MOST, WINDOW_NS + 1), Some(3));
        assert_eq!(after(3, 5, CALM_NS + 1), Some(2));
        assert_eq!(after(0, 5, CALM_NS + 1), Some(0));
        assert_eq!(after(19, MOST, 0), Some(20));
    }
}
