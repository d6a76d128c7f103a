//! The measured errors of what [`super::Population`] foretells: one guest's slabs, foretold from the
//! snapshot of another one that was booted with other settings, at the same moment of the same load.
//!
//! `tests/populations.rs` computes them again from the guests' snapshots in `tests/data`, and
//! `ci/guests-by-hand` boots other guests. No number of the model was fitted to totals, but the
//! objects for each CPU come from the guests of 6.1 and 6.12.

use crate::accuracy::{Accuracy, Change};
use crate::rules::{Front, Machine, Settings};

const fn row(change: Change, pairs: usize, low: f64, high: f64) -> Accuracy {
    Accuracy { change, pairs, off: Some((low, high)) }
}

/// The errors of totals on pairs of guests, rounded outwards to a hundredth; a test computes each
/// again.
pub const MEASURED: &[Accuracy] = &[
    row(Change::Orders, 156, -0.08, 0.14),
    row(Change::CpuPartial, 8, -0.04, 0.17),
    row(Change::MinPartial, 6, -0.04, 0.00),
    row(Change::Cpus, 88, -0.19, 0.24),
    row(Change::PossibleCpus, 24, -0.02, 0.04),
    row(Change::Front, 28, -0.13, 0.25),
];

/// What is known of the error where settings differ like this.
#[must_use]
pub fn of(own: &Settings, new: &Settings) -> Vec<Accuracy> {
    let (a, b) = (&own.machine, &new.machine);
    let orders = |of: &Settings| (of.min_order, of.max_order(), of.min_objects, of.multiplier);
    let is_sheaves = |of: &Settings| of.front() == Front::Sheaves;
    let lists = |of: &Settings| (of.cpu_partial.clone(), of.cpu_partial_lists);
    let rules =
        |of: &Settings| (of.tiny, of.formula, of.counted, of.front, of.sheaf_capacity.clone());
    let changes = [
        (Change::Orders, orders(own) != orders(new)),
        (Change::CpuPartial, lists(own) != lists(new)),
        (Change::MinPartial, own.min_partial != new.min_partial),
        (Change::Cpus, a.present_cpus != b.present_cpus),
        (Change::PossibleCpus, {
            let more = |of: &Machine| of.possible_cpus - of.present_cpus;
            more(a) != more(b)
        }),
        (Change::Pages, a.page_size != b.page_size),
        (Change::Front, is_sheaves(own) != is_sheaves(new)),
        (Change::Other, rules(own) != rules(new)),
    ];
    let changed = changes.into_iter().filter(|(_, changed)| *changed);
    changed
        .map(|(change, _)| {
            let known = MEASURED.iter().find(|row| row.change == change).copied();
            known.unwrap_or(Accuracy { change, pairs: 0, off: None })
        })
        .collect()
}

/// A line for people on the error to expect; `None` if nothing was changed.
#[must_use]
pub fn line(errors: &[Accuracy]) -> Option<String> {
    let unknown =
        |error: &Accuracy| format!("with {} no guests were compared", error.change.words());
    let all: Vec<String> =
        errors.iter().map(|error| error.range().unwrap_or_else(|| unknown(error))).collect();
    (!all.is_empty()).then(|| format!("the KiB of all caches were off by: {}", all.join(", ")))
}
