//! The measured samples, and ratios of them.
//!
//! Invariant: a load on an allocator has samples from every round or from none, so sample i of two
//! allocators comes from the same round. Where loads have different numbers of rounds, a mean gives
//! each load the same weight.

use serde::Serialize;

use super::measures::{All, Failure, Load, NR_MEASURES, Run, WALL};
use crate::stats::{Estimate, PairedSamples, beside, median, ratio, spread};

/// Samples by measure, then round.
pub type Samples = [Vec<f64>; NR_MEASURES];

/// All results under one setting of the kernel.
pub struct Results {
    /// Names, ours first.
    pub allocators: Vec<&'static str>,
    pub loads: Vec<Load>,
    /// What was done, by load; none if it never ended.
    pub work: Vec<Option<u64>>,
    /// By load, then allocator; none if a run failed.
    pub samples: Vec<Vec<Option<Samples>>>,
    /// What failed.
    pub failures: Vec<Failure>,
}

/// A geometric mean, and over how many loads.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Mean {
    /// Ours to the peer's.
    #[serde(flatten)]
    pub ratio: Estimate,
    /// Loads on which both came to an end.
    pub loads: usize,
}

impl Results {
    /// By measure; what failed has no runs.
    pub fn new(allocators: Vec<&'static str>, loads: Vec<Load>, (runs, failures): All) -> Self {
        let of = |runs: &Vec<Run>| (!runs.is_empty()).then(|| samples(runs));
        let work = runs.iter().map(|of| of.iter().flatten().next().map(|run| run.work)).collect();
        let samples =
            runs.iter().map(|by_allocator| by_allocator.iter().map(of).collect()).collect();
        Self { work, samples, allocators, loads, failures }
    }

    /// The peers' places.
    pub fn peers(&self) -> std::ops::Range<usize> {
        1..self.allocators.len()
    }

    /// The place of an allocator that was measured.
    pub fn place(&self, name: &str) -> Option<usize> {
        self.allocators.iter().position(|found| *found == name)
    }

    /// Median in the measure's samples; none if a run failed.
    pub fn median(&self, measure: usize, load: usize, allocator: usize) -> Option<f64> {
        self.samples[load][allocator].as_ref().map(|samples| median(&samples[measure]))
    }

    /// Ours to a peer's on one load.
    pub fn ratio(&self, measure: usize, load: usize, peer: usize) -> Option<Estimate> {
        self.pair(measure, load, peer).map(|pair| ratio(&[pair]))
    }

    /// Geometric mean of ours to a peer's over the loads that both ended.
    pub fn mean(&self, measure: usize, peer: usize) -> Option<Mean> {
        let loads = 0..self.loads.len();
        let mut pairs: Vec<PairedSamples> =
            loads.filter_map(|load| self.pair(measure, load, peer)).collect();
        let rounds = pairs.iter().map(|pair| pair.ours.len()).min()?;
        for pair in &mut pairs {
            *pair = PairedSamples { ours: &pair.ours[..rounds], peer: &pair.peer[..rounds] };
        }
        Some(Mean { ratio: ratio(&pairs), loads: pairs.len() })
    }

    /// Rounds of a load, on who ended it.
    pub fn rounds(&self, load: usize) -> usize {
        self.samples[load].iter().flatten().map(|of| of[WALL].len()).max().unwrap_or(0)
    }

    /// The peers that ended a load as ours did, and ours to theirs: the one first that ours
    /// is farthest behind.
    pub fn ranked(&self, measure: usize, load: usize) -> Vec<(usize, f64)> {
        let to = |peer| Some((peer, beside(&self.pair(measure, load, peer)?)));
        let mut ranked: Vec<(usize, f64)> = self.peers().filter_map(to).collect();
        ranked.sort_by(|a, b| b.1.total_cmp(&a.1));
        ranked
    }

    /// How far apart the runs of an allocator are ([`spread`]), for each load that it ended: what
    /// the machine adds is in all allocators' runs alike.
    pub fn spreads(&self, measure: usize, allocator: usize) -> Vec<f64> {
        let of = |load: &Vec<Option<Samples>>| Some(spread(&load[allocator].as_ref()?[measure]));
        self.samples.iter().filter_map(of).collect()
    }

    /// None without samples, or where one is nothing: no ratio to that.
    fn pair(&self, measure: usize, load: usize, peer: usize) -> Option<PairedSamples<'_>> {
        let of = |allocator: usize| {
            let samples = &self.samples[load][allocator].as_ref()?[measure];
            samples.iter().all(|&sample| sample > 0.0).then_some(samples.as_slice())
        };
        Some(PairedSamples { ours: of(0)?, peer: of(peer)? })
    }
}

fn samples(runs: &[Run]) -> Samples {
    std::array::from_fn(|m| runs.iter().map(|run| run.measures[m] as f64).collect())
}

#[cfg(test)]
pub mod tests {
    use super::super::measures::PEAK;
    use super::*;

    /// A load's name, and its wall time and peak RSS by allocator.
    pub type Row<'a> = (&'a str, &'a [Option<(u64, u64)>]);

    /// Results with made-up medians: by load, what each allocator has in wall time and in peak RSS;
    /// three equal rounds, and nothing where it failed.
    pub fn made_up(allocators: &[&'static str], loads: &[Row]) -> Results {
        let mut failures = Vec::new();
        let mut runs = Vec::new();
        for (name, row) in loads {
            let of =
                |&(wall, peak): &(u64, u64)| Run { measures: [wall, wall, peak, 5, 5, 5], work: 9 };
            runs.push(row.iter().map(|r| r.iter().map(of).cycle().take(3).collect()).collect());
            for (allocator, cell) in allocators.iter().zip(*row) {
                if cell.is_none() {
                    let why = "signal 11".to_owned();
                    failures.push(Failure { load: (*name).to_owned(), allocator, round: 1, why });
                }
            }
        }
        let load = |(name, _): &Row| Load {
            name: (*name).to_owned(),
            threads: 1,
            words: "made up".to_owned(),
        };
        Results::new(allocators.to_vec(), loads.iter().map(load).collect(), (runs, failures))
    }

    #[test]
    fn means_are_over_the_loads_that_both_ended() {
        let results = made_up(
            &["ours", "peer", "glibc"],
            &[
                ("a", &[Some((10, 1)), Some((20, 1)), Some((10, 1))]),
                ("b", &[Some((10, 1)), None, Some((40, 1))]),
            ],
        );
        let mean = results.mean(WALL, 1).unwrap();
        assert_eq!((mean.loads, mean.ratio.value), (1, 0.5));
        let mean = results.mean(WALL, 2).unwrap();
        assert_eq!(mean.loads, 2);
        assert!((mean.ratio.value - 0.5).abs() < 1e-12, "{mean:?}");
        assert!(results.ratio(WALL, 1, 1).is_none());
        assert_eq!(results.ranked(WALL, 1), [(2, 0.25)]);
    }

    #[test]
    fn a_mean_takes_as_many_rounds_of_each_load() {
        let mut results = made_up(
            &["ours", "glibc"],
            &[("a", &[Some((10, 1)), Some((20, 1))]), ("b", &[Some((10, 1)), Some((20, 1))])],
        );
        for of in results.samples[1].iter_mut().flatten() {
            of[WALL].extend([90.0; 8]);
        }
        assert_eq!((results.rounds(0), results.rounds(1)), (3, 11));
        assert_eq!(results.mean(WALL, 1).unwrap().ratio.value, 0.5);
        assert_eq!(results.ratio(WALL, 1, 1).unwrap().value, 1.0);
    }

    #[test]
    fn no_ratio_to_nothing() {
        let results = made_up(&["ours", "glibc"], &[("a", &[Some((10, 1)), Some((0, 1))])]);
        assert!(results.mean(WALL, 1).is_none());
        assert!(results.mean(PEAK, 1).is_some());
    }
}
