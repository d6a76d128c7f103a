//! How many allocations are followed: one in a power of two, so that the cost stays within the budget.
//!
//! Each followed object counts as many times as one was followed at its allocation, so the power may
//! change at any time.

/// Bits at the start: one object in 32, until the rate is known.
pub(super) const FIRST: u32 = 5;
/// One object in 256: what those cost is little beside the cost of looking at each event, which is
/// left.
const MOST: u32 = 8;
/// The most where there is no room for more objects.
pub(super) const MOST_BY_ROOM: u32 = 16;

/// The bits for the next interval, by the share of one CPU that the last one cost; what is not
/// measured follows as few objects as there may be.
pub(super) fn next(bits: u32, share: Option<f64>, budget: f64) -> u32 {
    let Some(share) = share else { return bits.max(MOST) };
    if share > budget {
        let more = (share / budget).log2().ceil().clamp(1.0, 4.0) as u32;
        (bits + more).min(MOST.max(bits))
    } else if share * 4.0 < budget && bits <= MOST {
        // Twice as many cost twice as much at most, which is half of the budget.
        bits.saturating_sub(1)
    } else {
        bits
    }
}

/// True if cost asks for no smaller sample.
pub(super) fn is_smallest(bits: u32) -> bool {
    bits >= MOST
}

/// The most that an event takes at these bits, when it took so long at those at which it was measured:
/// what follows more objects takes so many times more, if the look at an event is nothing beside it.
pub(super) fn ns_per_event(measured: f64, measured_bits: u32, bits: u32) -> f64 {
    measured * f64::from(1u32 << measured_bits.saturating_sub(bits).min(31))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_measured_of_a_small_sample_is_no_excuse_for_a_large_one() {
        assert_eq!(ns_per_event(30.0, 5, 5), 30.0);
        assert_eq!(ns_per_event(30.0, 5, 3), 120.0);
        assert_eq!(ns_per_event(30.0, 5, 8), 30.0);
    }

    #[test]
    fn the_sample_shrinks_over_budget_and_grows_far_below_it() {
        assert_eq!(next(5, Some(0.03), 0.01), 7);
        assert_eq!(next(6, Some(1.0), 0.01), MOST);
        assert_eq!(next(5, Some(0.002), 0.01), 4);
        assert_eq!(next(5, Some(0.008), 0.01), 5);
        assert_eq!(next(0, Some(0.0), 0.01), 0);
        assert_eq!(next(5, None, 0.01), MOST);
    }

    #[test]
    fn what_has_no_room_stays_a_smaller_sample() {
        assert_eq!(next(MOST + 2, Some(0.0), 0.01), MOST + 2);
        assert_eq!(next(MOST + 2, Some(1.0), 0.01), MOST + 2);
    }
}
