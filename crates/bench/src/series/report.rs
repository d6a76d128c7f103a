//! The results of `series`, in the format in which they are written to a file.

use std::collections::BTreeMap;

use serde::Serialize;
use slabyard_abi::stats::Counter;

use super::cells::Cell;
use super::measure::Measured;
use crate::allocators::Allocator;
use crate::counts::CounterWords;
use crate::load::said::Run;
use crate::machine::Machine;
use crate::questions::SeriesOptions;
use crate::share::Share;
use crate::stats::{Estimate, PairedSamples, ratio};

#[derive(Serialize)]
pub struct Report<'a> {
    format: u32,
    suite: &'static str,
    machine: &'a Machine,
    fronts: &'a [Allocator],
    pub rounds: u32,
    /// Runs that counted; their counts are sums.
    pub counted_runs: u32,
    pub scale: f64,
    pub cells: Vec<OfCell<'a>>,
}

/// One load with a number of threads on a number of CPUs.
#[derive(Serialize)]
pub struct OfCell<'a> {
    #[serde(flatten)]
    pub cell: &'a Cell,
    /// Messages or packets of a run.
    pub ops: u64,
    /// Of the first front's time, or why it is not known.
    pub share: &'a Result<Share, String>,
    pub fronts: Vec<OfFront<'a>>,
}

#[derive(Serialize)]
pub struct OfFront<'a> {
    pub name: &'static str,
    /// By round.
    pub seconds: Vec<f64>,
    /// Its time to the first front's.
    pub to_first: Estimate,
    pub runs: &'a [Run],
    /// By name; nothing where no run counted.
    pub counts: BTreeMap<String, u64>,
    #[serde(skip)]
    pub words: &'a CounterWords,
}

impl OfFront<'_> {
    /// Slabs moved for each time that a list lock was held.
    pub fn slabs_per_hold(&self) -> Option<f64> {
        let holds = self.words.get(Counter::ListLock);
        (holds > 0).then(|| self.words.get(Counter::ListLockSlabs) as f64 / holds as f64)
    }
}

impl<'a> Report<'a> {
    /// Of all cells; the fronts are as many as each has runs.
    pub fn new(
        machine: &'a Machine,
        fronts: &'a [Allocator],
        options: &SeriesOptions,
        measured: &'a [Measured],
    ) -> Self {
        Self {
            format: 1,
            suite: "series",
            machine,
            fronts,
            rounds: options.rounds,
            counted_runs: options.counted,
            scale: options.scale,
            cells: measured.iter().map(|measured| of_cell(measured, fronts)).collect(),
        }
    }
}

fn of_cell<'a>(measured: &'a Measured, fronts: &'a [Allocator]) -> OfCell<'a> {
    let first = seconds(&measured.runs[0]);
    let of = |((runs, words), front): ((&'a Vec<Run>, &'a CounterWords), &Allocator)| {
        let seconds = seconds(runs);
        let to_first = ratio(&[PairedSamples { ours: &seconds, peer: &first }]);
        OfFront { name: front.name, seconds, to_first, runs, counts: words.named(), words }
    };
    OfCell {
        cell: &measured.cell,
        ops: measured.runs[0][0].ops,
        share: &measured.share,
        fronts: measured.runs.iter().zip(&measured.counted).zip(fronts).map(of).collect(),
    }
}

fn seconds(runs: &[Run]) -> Vec<f64> {
    runs.iter().map(|run| run.ns as f64 / 1e9).collect()
}
