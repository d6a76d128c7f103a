//! Which objects are followed: those whose address has a hash with so many low bits of zero, so that
//! the cost stays within the budget.
//!
//! Invariant: an object is followed by more bits only if it is by fewer, so what passes the most bits
//! that were ever in use was followed all the time.

use std::time::Duration;

/// Bits at the start: one object in 32, until the rate is known.
pub(super) const FIRST: u32 = 5;
/// One object in 256: what those cost is little beside the cost of looking at each event, which is
/// left.
const MOST: u32 = 8;
/// In this time fewer bits may be taken; later only more.
pub(super) const SETTLES: Duration = Duration::from_secs(1);

/// The same hash as in `bpf/owners.bpf.c`: 2^64 divided by the golden ratio is the factor, and the
/// high half is taken (Knuth, The Art of Computer Programming, volume 3, 6.4).
pub(super) fn is_followed(address: u64, bits: u32) -> bool {
    let hash = (address >> 3).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    hash & ((1 << bits) - 1) == 0
}

/// The bits for the next interval, by the share of one CPU that the last one cost; what is not
/// measured follows as few objects as there may be.
pub(super) fn next(bits: u32, share: Option<f64>, budget: f64, since_start: Duration) -> u32 {
    let Some(share) = share else { return bits.max(MOST) };
    if share > budget {
        let more = (share / budget).log2().ceil().clamp(1.0, 4.0) as u32;
        (bits + more).min(MOST)
    } else if since_start < SETTLES && share * 4.0 < budget {
        let less = (budget / (share.max(1e-9) * 2.0)).log2().floor().clamp(1.0, 5.0) as u32;
        bits.saturating_sub(less)
    } else {
        bits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_bits_follow_a_part_of_the_same_objects() {
        let addresses = (0..100_000u64).map(|nth| 0xffff_8880_0000_0000 + nth * 192);
        let followed = |bits| addresses.clone().filter(move |it| is_followed(*it, bits));
        assert_eq!(followed(0).count(), 100_000);
        assert!(followed(5).all(|address| is_followed(address, 4)));
        let part = followed(5).count();
        assert!((2500..3800).contains(&part), "{part}");
    }

    #[test]
    fn the_sample_shrinks_over_budget_and_grows_at_the_start_only() {
        assert_eq!(next(5, Some(0.03), 0.01, Duration::ZERO), 7);
        assert_eq!(next(6, Some(1.0), 0.01, Duration::ZERO), MOST);
        assert_eq!(next(5, Some(0.001), 0.01, Duration::ZERO), 3);
        assert_eq!(next(5, Some(0.001), 0.01, SETTLES), 5);
        assert_eq!(next(5, Some(0.008), 0.01, Duration::ZERO), 5);
        assert_eq!(next(5, Some(0.0), 0.01, Duration::ZERO), 0);
        assert_eq!(next(5, None, 0.01, Duration::ZERO), MOST);
    }
}
