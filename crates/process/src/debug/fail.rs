//! Injects allocation failures by rule (`SLABYARD_FAILSLAB`), in caches with the flag A.
//!
//! Neighbour: `abi::failslab` defines the rule.

use slabyard::sync::{AtomicU32, Ordering};
use slabyard_abi::failslab::Rule;

static PROBABILITY: AtomicU32 = AtomicU32::new(Rule::NONE.probability);
static INTERVAL: AtomicU32 = AtomicU32::new(Rule::NONE.interval);
static TIMES: AtomicU32 = AtomicU32::new(Rule::NONE.times);
static AFTER: AtomicU32 = AtomicU32::new(Rule::NONE.after);
static CALLS: AtomicU32 = AtomicU32::new(0);

/// Sets the rule.
pub fn set(rule: &Rule) {
    PROBABILITY.store(rule.probability, Ordering::Relaxed);
    INTERVAL.store(rule.interval, Ordering::Relaxed);
    TIMES.store(rule.times, Ordering::Relaxed);
    AFTER.store(rule.after, Ordering::Relaxed);
}

/// True if the next allocation is to fail.
pub fn fails() -> bool {
    let probability = PROBABILITY.load(Ordering::Relaxed);
    if probability == 0 {
        return false;
    }
    let calls = CALLS.fetch_add(1, Ordering::Relaxed);
    let Some(nth) = calls.checked_sub(AFTER.load(Ordering::Relaxed)) else { return false };
    if (nth + 1) % INTERVAL.load(Ordering::Relaxed) != 0 || chance(calls) >= probability {
        return false;
    }
    TIMES
        .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| match left {
            u32::MAX => Some(left),
            _ => left.checked_sub(1),
        })
        .is_ok()
}

/// A number below 100, the same in each run (SplitMix64: Steele, Lea and Flood, OOPSLA 2014).
fn chance(calls: u32) -> u32 {
    let mut x = u64::from(calls).wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    x = (x ^ x >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ x >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    ((x ^ x >> 31) % 100) as u32
}
