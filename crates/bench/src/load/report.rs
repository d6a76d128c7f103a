//! The results of `load`, in the format in which they are written to a file.

use serde::Serialize;
use serde_json::{Map, Value};

use super::said::Run;
use crate::allocators::Allocator;
use crate::machine::Machine;
use crate::shapes::LoadOptions;
use crate::stats::{Estimate, PairedSamples, ratio};

/// All of it, as it is written down.
#[derive(Serialize)]
pub struct Report<'a> {
    pub format: u32,
    pub suite: &'static str,
    pub machine: &'a Machine,
    pub allocators: &'a [Allocator],
    pub load: &'static str,
    pub settings: Map<String, Value>,
    pub seed: u64,
    pub rounds: u32,
    /// The first allocator's time to each other's.
    pub ratios: Vec<Estimate>,
    /// By allocator, then round.
    pub runs: &'a [Vec<Run>],
}

impl<'a> Report<'a> {
    /// Of all runs; the allocators are as many as `runs`.
    pub fn new(
        machine: &'a Machine,
        allocators: &'a [Allocator],
        options: &LoadOptions,
        runs: &'a [Vec<Run>],
    ) -> Self {
        Self {
            format: 1,
            suite: "load",
            machine,
            allocators,
            load: options.shape.name(),
            settings: options
                .shape
                .settings()
                .into_iter()
                .map(|(name, value)| (name.to_owned(), value))
                .collect(),
            seed: options.seed,
            rounds: options.rounds,
            ratios: runs[1..].iter().map(|peer| beside(&runs[0], peer)).collect(),
            runs,
        }
    }
}

/// As the program and the reader have it: a word without quotes.
pub fn in_words(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// The first's time to a peer's, with its interval.
fn beside(first: &[Run], peer: &[Run]) -> Estimate {
    let times = |runs: &[Run]| runs.iter().map(|run| run.ns as f64).collect::<Vec<f64>>();
    let (ours, peer) = (times(first), times(peer));
    ratio(&[PairedSamples { ours: &ours, peer: &peer }])
}
