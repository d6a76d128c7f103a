//! Draws the gaps between samples, in bytes, from the exponential distribution.
//!
//! By inversion: -ln(u) of a uniform u in (0, 1] (Devroye, "Non-Uniform Random Variate Generation",
//! II.2.1). The generator is splitmix64 (Steele, Lea, Flood 2014), whose state all threads advance
//! by one atomic addition. Invariant: a gap is at least 1, and all are independent of requests.

use slabyard::sync::{AtomicU64, Ordering};

static STATE: AtomicU64 = AtomicU64::new(0);

/// Begins other gaps than before.
pub(super) fn seed(with: u64) {
    STATE.fetch_xor(with.rotate_left(23), Ordering::Relaxed);
}

/// A gap with this mean.
pub(super) fn draw(mean: u64) -> i32 {
    let mut z = STATE.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    of_uniform(z ^ z >> 31, mean)
}

/// The gap of a uniform number of 64 bits: rounded up, so that a request of n bytes ends it with
/// probability 1 - exp(-n / mean) exactly.
fn of_uniform(number: u64, mean: u64) -> i32 {
    // 53 bits, and never 0.
    let u = ((number >> 11) + 1) as f64 / (1u64 << 53) as f64;
    let gap = -ln(u) * mean as f64;
    // A cast saturates, and truncates.
    (gap as i64 + 1).min(i32::MAX.into()) as i32
}

/// The natural logarithm of a number in (0, 1], which `core` has not.
fn ln(x: f64) -> f64 {
    const LN_2: f64 = core::f64::consts::LN_2;
    let bits = x.to_bits();
    let exponent = (bits >> 52) as i32 - 1023;
    let mantissa = f64::from_bits(bits & ((1 << 52) - 1) | 1023 << 52);
    // ln m = 2 artanh z with z = (m - 1) / (m + 1) of at most 1/3: the terms beyond are below 1e-11.
    let z = (mantissa - 1.0) / (mantissa + 1.0);
    let square = z * z;
    let (mut term, mut sum, mut n) = (z, 0.0, 1.0);
    while n < 22.0 {
        sum += term / n;
        term *= square;
        n += 2.0;
    }
    f64::from(exponent) * LN_2 + 2.0 * sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_exponential() {
        assert!((ln(0.5) + core::f64::consts::LN_2).abs() < 1e-10);
        assert!((ln(1.0 / 3.0) + 1.098_612_288_668).abs() < 1e-9);
        assert_eq!((of_uniform(u64::MAX, 1 << 20), of_uniform(0, 1 << 30)), (1, i32::MAX));
        const MEAN: u64 = 1 << 16;
        const DRAWS: u32 = 200_000;
        // Of n bytes, for which 1 - exp(-n / mean) are 1/2 and 1 - 1/e.
        let (mut sum, mut below_half, mut below_mean) = (0.0, 0, 0);
        for _ in 0..DRAWS {
            let gap = draw(MEAN);
            assert!(gap >= 1);
            sum += f64::from(gap);
            below_half += u32::from(gap <= 45_426);
            below_mean += u32::from(gap <= 65_536);
        }
        let near = |have: f64, want: f64| (have / want - 1.0).abs() < 0.02;
        assert!(near(sum / f64::from(DRAWS), MEAN as f64));
        assert!(near(f64::from(below_half), 0.5 * f64::from(DRAWS)));
        assert!(near(f64::from(below_mean), 0.632_12 * f64::from(DRAWS)));
    }
}
