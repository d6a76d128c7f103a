//! Compares a replay with what the kernel really did, by two tests that find different errors.
//!
//! The curve test lets the model choose slabs freely, and compares its slab counts over time with
//! the kernel's ([`curves`]). The one-step test follows the kernel's placement and, whenever a CPU
//! switches to another slab, predicts which slab the rules would take ([`one_step`]): it finds a
//! wrong rule that the curve hides. Reports also show the results of a trivial predictor, which
//! knows only the live objects.

mod cpu_lists;
pub mod curves;
mod free_order;
pub mod goals;
mod next_use;
pub mod one_step;
mod pairs;
pub mod shown;

use crate::prepare::Prepared;
use crate::prepare::truth::{self, Change, Curve, Truth};
use crate::replay::{Plan, ReplayFailure, Replayed, replay};
use one_step::OneStep;

/// Samples of the curves.
pub const POINTS: usize = 2000;

/// One cache, or all together, real beside model. Numbers of slabs are changes
/// since the start of the trace.
#[derive(Clone, Debug)]
pub struct Line {
    /// The kernel's.
    pub real: Curve,
    /// From the replay of the same events.
    pub model: Curve,
    /// Mean of |model - real| over the samples, in slabs.
    pub error: f64,
    /// The trivial predictor's.
    pub trivial_error: f64,
}

impl Line {
    fn new(real: Curve, model: Curve, trivial: &Curve) -> Line {
        let error = curves::mean_error(&real, &model);
        let trivial_error = curves::mean_error(&real, trivial);
        Line { real, model, error, trivial_error }
    }

    /// The error as a share of the real curve's range; 0 if nothing moved.
    #[must_use]
    pub fn relative(&self) -> f64 {
        if self.real.range() == 0 { 0.0 } else { self.error / f64::from(self.real.range()) }
    }
}

/// All that the check found.
pub struct Report {
    /// Per cache of the trace, also those left out.
    pub caches: Vec<Line>,
    /// All together, but those left out.
    pub total: Line,
    /// Those of them of which the trace shows enough.
    pub known: Line,
    /// The one-step test.
    pub one_step: OneStep,
    /// The free run.
    pub replayed: Replayed,
}

/// Runs both tests.
///
/// # Errors
/// As [`replay`].
pub fn check(plan: &Plan<'_>) -> Result<Report, ReplayFailure> {
    let prepared = plan.prepared;
    let real = Truth::of(prepared, POINTS);
    let replayed = replay(plan)?;
    let model = Truth::count(&replayed.changes, prepared, POINTS);
    let trivial = curves::trivial(plan, POINTS);
    let mut one_step = one_step::run(plan);
    prepared.steps.sound()?;
    let enough = shown::enough(prepared, &one_step);
    one_step.keep_certain(prepared, &enough);
    let known = known(prepared, &enough, &replayed.changes, &trivial.caches);
    let lines = real.caches.into_iter().zip(model.caches).zip(&trivial.caches);
    Ok(Report {
        caches: lines.map(|((real, model), trivial)| Line::new(real, model, trivial)).collect(),
        total: Line::new(real.total, model.total, &trivial.total),
        known,
        one_step,
        replayed,
    })
}

/// All slabs of the caches of which the trace shows enough, but those left out.
fn known(prepared: &Prepared, shown: &[bool], model: &[Change], trivial: &[Curve]) -> Line {
    let total = |changes: &[Change]| {
        let changes = changes.iter().filter(|change| shown[usize::from(change.cache)]);
        Truth::count(&changes.copied().collect::<Vec<_>>(), prepared, POINTS).total
    };
    let judged = |nth: &usize| shown[*nth] && prepared.caches[*nth].left_out.is_none();
    let trivial = (0..trivial.len()).filter(judged).map(|nth| &trivial[nth]);
    Line::new(total(&truth::changes(&prepared.slabs)), total(model), &curves::sum(trivial))
}

/// Least and most of some figures over preparations of one trace that differ in the
/// order of events, which the trace does not tell.
#[derive(Clone, Copy, Debug)]
pub struct Spread {
    /// Slabs made.
    pub allocated: (u32, u32),
    /// Slabs whose pages were freed.
    pub freed: (u32, u32),
    /// Highest number of slabs.
    pub peak: (i32, i32),
    /// Mean error, as a share of the range.
    pub relative: (f64, f64),
}

impl Spread {
    /// The numbers of one run, as a range with equal ends.
    ///
    /// # Errors
    /// As [`replay`].
    pub fn of(plan: &Plan<'_>) -> Result<Spread, ReplayFailure> {
        let prepared = plan.prepared;
        let real = Truth::of(prepared, POINTS).total;
        let model = Truth::count(&replay(plan)?.changes, prepared, POINTS).total;
        let relative = curves::mean_error(&real, &model) / f64::from(real.range().max(1));
        Ok(Spread {
            allocated: (model.allocated, model.allocated),
            freed: (model.freed, model.freed),
            peak: (model.peak, model.peak),
            relative: (relative, relative),
        })
    }

    /// The least and most of both.
    #[must_use]
    pub fn with(self, other: Spread) -> Spread {
        Spread {
            allocated: widest(self.allocated, other.allocated),
            freed: widest(self.freed, other.freed),
            peak: widest(self.peak, other.peak),
            relative: widest(self.relative, other.relative),
        }
    }
}

fn widest<T: PartialOrd>(a: (T, T), b: (T, T)) -> (T, T) {
    (if b.0 < a.0 { b.0 } else { a.0 }, if b.1 > a.1 { b.1 } else { a.1 })
}
