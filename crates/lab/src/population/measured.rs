//! The measured errors of what [`super::Population`] foretells: one guest's slabs, foretold from the
//! snapshot of another one that was booted with other settings, at the same moment of the same load.
//!
//! `tests/populations.rs` computes them again from the guests' snapshots in `tests/data`, and
//! `ci/guests-by-hand` boots other guests. No number of the model was fitted to totals, but objects
//! for each CPU come from guests of 6.1 and 6.12, and one share from guests of 7.1 and 7.3.

use crate::accuracy::Change;
use crate::rules::{Front, Machine, Settings};

/// How far off totals were where this was changed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    /// In what the two guests of a pair differ.
    pub change: Change,
    /// Bytes of these guests' pages.
    pub page_size: u32,
    /// Pairs of guests.
    pub pairs: usize,
    /// What is known of them; `None` if no guests were compared.
    pub errors: Option<Errors>,
}

/// Shares of the real total, by which foretold totals of guests were off.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Errors {
    /// The lowest and the highest of (foretold - real) / real, rounded outwards to a hundredth.
    pub range: (f64, f64),
    /// An error to either side that nine of ten pairs do not exceed: see [`Errors::of`].
    pub expected: f64,
}

impl Errors {
    /// The errors of pairs of guests. Of the errors' sizes, those of 19 pairs of 20 are expected: on
    /// a kernel that is not among them, errors may be larger, and with this margin nine of ten were
    /// not.
    #[must_use]
    pub fn of(off: &[f64]) -> Option<Errors> {
        let mut sizes: Vec<f64> = off.iter().map(|off| off.abs()).collect();
        sizes.sort_by(f64::total_cmp);
        let last = (sizes.len() * 19).div_ceil(20).checked_sub(1)?;
        let low = off.iter().copied().fold(0.0, f64::min);
        let high = off.iter().copied().fold(0.0, f64::max);
        let range = ((low * 100.0).floor() / 100.0, (high * 100.0).ceil() / 100.0);
        Some(Errors { range, expected: (sizes[last] * 100.0).ceil() / 100.0 })
    }
}

const fn row(
    change: Change,
    page_size: u32,
    pairs: usize,
    expected: f64,
    range: (f64, f64),
) -> Measured {
    Measured { change, page_size, pairs, errors: Some(Errors { range, expected }) }
}

/// Pages of most guests.
const SMALL: u32 = 4 << 10;
/// Those of others. One slab is a larger share of a boot's memory there.
const LARGE: u32 = 64 << 10;

/// The errors on pairs of guests; a test computes each again.
pub const MEASURED: &[Measured] = &[
    row(Change::Nothing, SMALL, 32, 0.06, (-0.06, 0.06)),
    row(Change::Orders, SMALL, 300, 0.05, (-0.10, 0.05)),
    row(Change::Orders, LARGE, 48, 0.09, (-0.10, 0.10)),
    row(Change::CpuPartial, SMALL, 44, 0.12, (-0.07, 0.17)),
    row(Change::MinPartial, SMALL, 46, 0.05, (-0.05, 0.07)),
    row(Change::Cpus, SMALL, 240, 0.10, (-0.15, 0.14)),
    row(Change::Cpus, LARGE, 4, 0.22, (-0.19, 0.22)),
    row(Change::PossibleCpus, SMALL, 60, 0.03, (-0.03, 0.05)),
    row(Change::Front, SMALL, 104, 0.24, (-0.16, 0.26)),
];

/// What is known of the error where settings differ like this.
#[must_use]
pub fn of(own: &Settings, new: &Settings) -> Vec<Measured> {
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
    changed.map(|(change, _)| known(change, b.page_size)).collect()
}

/// Of pages larger than 4 KiB, those of 64 KiB are the nearest.
fn known(change: Change, page_size: u32) -> Measured {
    let nearest = if page_size > SMALL { LARGE } else { SMALL };
    let rows = || MEASURED.iter().filter(|row| row.change == change);
    let known = rows().find(|row| row.page_size == nearest).or_else(|| rows().next());
    known.copied().unwrap_or(Measured { change, page_size, pairs: 0, errors: None })
}

/// The error to expect where all of this was changed, as a share of the real total: errors of
/// changes that do not depend on each other add up as their squares do. `None` if something was
/// changed that no guests were compared in.
#[must_use]
pub fn expected(errors: &[Measured]) -> Option<f64> {
    let squares = errors.iter().map(|one| one.errors.map(|errors| errors.expected.powi(2)));
    squares.sum::<Option<f64>>().map(f64::sqrt)
}

/// In words, the error to expect in nine of ten guests; `None` if nothing was changed.
#[must_use]
pub fn line(errors: &[Measured]) -> Option<String> {
    let percent = |share: f64| share * 100.0;
    let one = |error: &Measured| match error.errors {
        None => format!("unknown with {} (no guests were compared)", error.change.words()),
        Some(Errors { range: (low, high), expected }) => format!(
            "{:.0} % with {} ({:+.0} to {:+.0} % on {} pairs of guests, pages of {} KiB)",
            percent(expected),
            error.change.words(),
            percent(low),
            percent(high),
            error.pairs,
            error.page_size >> 10,
        ),
    };
    let all: Vec<String> = errors.iter().map(one).collect();
    (!all.is_empty()).then(|| all.join(", "))
}
