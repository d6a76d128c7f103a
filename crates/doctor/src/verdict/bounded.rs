//! Numbers of strangers: a damaged file or a hostile process says anything, and the verdicts add and
//! multiply what they say.
//!
//! Neighbours: the verdicts of a process and of a kernel read every number of a snapshot through this.
//! Invariant: what comes out is at most [`MOST`], so that the sum of 262,144 of them, and a hundred times
//! one, are numbers still.

use slabyard_observe::Value;

/// More bytes or objects than any machine has: 2^46, 64 TiB.
pub(crate) const MOST: u64 = 1 << 46;

/// The middle of what is known.
pub(crate) fn middle(value: Option<&Value>) -> u64 {
    value.and_then(Value::bounds).map_or(0, |(low, high)| (low + (high - low) / 2).min(MOST))
}

/// The product of numbers.
pub(crate) fn product<const N: usize>(numbers: [u64; N]) -> u64 {
    numbers.into_iter().fold(1, u64::saturating_mul).min(MOST)
}

/// How many of these at most, so that they have no more than [`MOST`] bytes.
pub(crate) fn of_bytes(count: u64, each: u64) -> u64 {
    count.min(MOST / each.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stay_as_they_are_up_to_the_bound() {
        assert_eq!((product([3, 5, 7]), of_bytes(1000, 192)), (105, 1000));
        assert_eq!((product([u64::MAX, 2]), product([u64::MAX, 0])), (MOST, 0));
        assert!(of_bytes(u64::MAX, 192) * 192 <= MOST);
        assert_eq!((of_bytes(5, 0), of_bytes(5, u64::MAX)), (5, 0));
    }
}
