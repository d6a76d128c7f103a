//! Medians and bootstrap intervals.
//!
//! Allocators are compared within a round, in which all of them run within about a second: a
//! disturbance of the machine affects them alike. So a ratio is taken within each round, and the
//! result is the median of these ratios. On a noisy machine this median is more repeatable than the
//! ratio of the two medians. Evidence: 1316 comparisons of two allocators, in eight versions of the
//! results that the repository once held. Results from the two halves of the rounds differ by 0.18
//! for the median of ratios and 0.22 for the ratio of medians (root mean square), or 0.073 and
//! 0.095 (median): `crates/bench/repeats.py 4aa01db`.
//!
//! The interval comes from resampling rounds (Efron, "Bootstrap methods: another look at the
//! jackknife", 1979; the percentile interval).

use fastrand::Rng;
use serde::Serialize;

const RESAMPLES: usize = 10_000;
/// Any number: the same samples always give the same interval.
const SEED: u64 = 20_220_817;

/// A number with the 95 % interval about it.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Estimate {
    /// From the samples themselves.
    pub value: f64,
    /// 2.5 % of the resamples are below.
    pub low: f64,
    /// 2.5 % of the resamples are above.
    pub high: f64,
}

/// The samples of an allocator pair in one load: round i of both belongs
/// together.
#[derive(Clone, Copy)]
pub struct PairedSamples<'a> {
    pub ours: &'a [f64],
    pub peer: &'a [f64],
}

impl PairedSamples<'_> {
    /// Logarithms of ours to the peer's, by round: a mean of them is a geometric one.
    fn logs(&self) -> Vec<f64> {
        self.ours.iter().zip(self.peer).map(|(ours, peer)| (ours / peer).ln()).collect()
    }
}

/// The median; of an even number, the mean of the middle two.
///
/// # Panics
/// If there is no value.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let (half, odd) = (sorted.len() / 2, sorted.len() % 2);
    if odd == 1 { sorted[half] } else { f64::midpoint(sorted[half - 1], sorted[half]) }
}

/// How far apart the middle half of the values is, as a part of their median.
///
/// # Panics
/// If there is no value.
pub fn spread(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let quarter = sorted.len() / 4;
    (sorted[sorted.len() - 1 - quarter] - sorted[quarter]) / median(values)
}

/// The median over rounds of ours to the peer's.
pub fn beside(load: &PairedSamples) -> f64 {
    median(&load.logs()).exp()
}

/// Geometric mean over loads of the median over rounds of ours to the peer's;
/// of one load, this median.
pub fn ratio(loads: &[PairedSamples]) -> Estimate {
    let logs: Vec<Vec<f64>> = loads.iter().map(PairedSamples::logs).collect();
    let rounds = logs[0].len();
    let all: Vec<usize> = (0..rounds).collect();
    let value = mean_ratio(&logs, &all);

    let mut random = Rng::with_seed(SEED);
    let mut drawn = vec![0; rounds];
    let mut means: Vec<f64> = (0..RESAMPLES)
        .map(|_| {
            drawn.fill_with(|| random.usize(..rounds));
            mean_ratio(&logs, &drawn)
        })
        .collect();
    means.sort_unstable_by(f64::total_cmp);
    Estimate { value, low: means[RESAMPLES * 25 / 1000], high: means[RESAMPLES * 975 / 1000] }
}

/// Of the logarithms of the ratios by load, then round.
fn mean_ratio(logs: &[Vec<f64>], rounds: &[usize]) -> f64 {
    let of = |logs: &Vec<f64>| median(&rounds.iter().map(|&i| logs[i]).collect::<Vec<_>>());
    (logs.iter().map(of).sum::<f64>() / logs.len() as f64).exp()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_of_odd_and_even() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 3.0, 2.0]), 2.5);
    }

    #[test]
    fn spread_is_of_the_middle_half() {
        assert_eq!(spread(&[7.0]), 0.0);
        assert_eq!(spread(&[90.0, 100.0, 110.0, 1000.0]), 10.0 / 105.0);
        assert_eq!(spread(&[1.0, 90.0, 100.0, 100.0, 100.0, 110.0, 120.0, 1000.0]), 0.1);
    }

    #[test]
    fn constant_ratio_has_an_interval_of_no_width() {
        let (ours, peer) = ([2.0, 4.0, 6.0], [4.0, 8.0, 12.0]);
        let e = ratio(&[PairedSamples { ours: &ours, peer: &peer }]);
        assert!((e.value - 0.5).abs() < 1e-12);
        assert!((e.high - e.low).abs() < 1e-12, "rounds are drawn in pairs: {e:?}");
    }

    #[test]
    fn interval_holds_the_value_and_has_width_with_noise() {
        let mut random = Rng::with_seed(7);
        let mut noisy = |level: f64| (0..30).map(|_| level + random.f64()).collect::<Vec<_>>();
        let (ours, peer) = (noisy(9.0), noisy(10.0));
        let e = ratio(&[PairedSamples { ours: &ours, peer: &peer }]);
        assert!(e.low < e.value && e.value < e.high, "{e:?}");
        assert!(e.low > 0.8 && e.high < 1.0, "{e:?}");
    }

    #[test]
    fn what_disturbs_a_round_leaves_no_mark() {
        // Rounds in which the machine is slower and slower, and one in which it was busy.
        let slower = [1.0, 1.1, 1.3, 2.0, 9.0];
        let ours = [112.0, 110.0, 108.0, 111.0, 109.0];
        let [ours, peer] = [ours, [100.0; 5]]
            .map(|of| std::array::from_fn::<_, 5, _>(|i| of[i] * slower[(i + 2) % 5]));
        let paired = ratio(&[PairedSamples { ours: &ours, peer: &peer }]);
        assert!((paired.value - 1.10).abs() < 1e-9, "{paired:?}");
        assert!(paired.low >= 1.08 - 1e-9 && paired.high <= 1.12 + 1e-9, "{paired:?}");
        let of_medians = median(&ours) / median(&peer);
        assert!((of_medians - 1.12).abs() < 1e-9, "a ratio of medians has it: {of_medians}");
    }

    #[test]
    fn geometric_mean_of_two_loads() {
        let (one, two, four) = ([1.0; 3], [2.0; 3], [4.0; 3]);
        let loads =
            [PairedSamples { ours: &one, peer: &two }, PairedSamples { ours: &four, peer: &two }];
        assert!((ratio(&loads).value - 1.0).abs() < 1e-12);
    }
}
