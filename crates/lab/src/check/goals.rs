//! One table of the goals that a check must meet, each measured on a [`Report`].
//!
//! A model whose rules differ from the kernel's misses at least one goal on some trace. The curve
//! of total slab counts hides many errors; the one-step test and the counts of discarded slabs hide
//! few. [`super::check`] produces the report; the `slabyard` command prints the table, and exits
//! with 1 if a goal is missed. Invariant: a goal that cannot be measured, or does not apply, is
//! neither met nor missed.

use super::{Line, Report};
use crate::prepare::Prepared;
use crate::replay::Start;

/// Below this range of the total, in slabs, one slab is more than a goal allows.
const SMALL_RANGE: u32 = 100;
/// Caches below this range, in slabs, are judged in the total alone.
const CACHE_RANGE: u32 = 20;

/// What the trace was taken on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceOrigin {
    /// Hardware: the order of events is known to a microsecond.
    Hardware,
    /// A guest whose CPUs run in turns: the order is not known.
    Guest,
}

/// What the goals depend on beside the report.
pub struct Context<'a> {
    /// The trace.
    pub prepared: &'a Prepared,
    /// How the replay began.
    pub start: Start,
    /// Decides how well the order of events is known, and so which goals count.
    pub traced: TraceOrigin,
}

/// What a share must be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Limit {
    /// This or less.
    AtMost(f64),
    /// This or more.
    AtLeast(f64),
}

impl Limit {
    /// Whether a share is within it.
    #[must_use]
    pub fn allows(self, share: f64) -> bool {
        match self {
            Limit::AtMost(most) => share <= most,
            Limit::AtLeast(least) => share >= least,
        }
    }
}

/// What a replay must reach, and what it reached.
#[derive(Clone, Debug, PartialEq)]
pub struct Goal {
    /// In words.
    pub name: &'static str,
    /// A share of 1; `None` if there was nothing to measure.
    pub measured: Option<f64>,
    /// What it must be.
    pub limit: Limit,
    /// `None`: it does not count here.
    pub met: Option<bool>,
}

/// What a goal counts for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Scope {
    /// Every check.
    Always,
    /// Not where the start is from the snapshot alone.
    LookAhead,
    /// Nor where the order of events is not known.
    Hardware,
}

/// The goals, in the order in which they are shown.
#[must_use]
pub fn goals(report: &Report, context: &Context<'_>) -> Vec<Goal> {
    use Limit::{AtLeast, AtMost};
    use Scope::{Always, Hardware, LookAhead};
    let total = &report.total;
    let small = total.real.range() < SMALL_RANGE;
    let curve = match context.start {
        _ if small => 0.05,
        Start::LookAhead => 0.01,
        Start::Snapshot | Start::Empty => 0.025,
    };
    let turnover = match context.traced {
        _ if small => 0.06,
        TraceOrigin::Hardware => 0.025,
        TraceOrigin::Guest => 0.04,
    };
    let peak = if small { 0.05 } else { 0.01 };
    let steps = &report.one_step.total;
    let rate = |whole: u64, rate: f64| (whole > 0).then_some(rate);
    let wrong = (steps.discards + steps.discards_wrong > 0)
        .then(|| steps.discards_wrong as f64 / steps.discards.max(1) as f64);
    let (real, model) = (&total.real, &total.model);
    let rows = [
        ("mean error of all slabs, of the range", Some(error(total)), AtMost(curve), Always),
        (
            "caches within 1 slab or 2 % of their range",
            within(report, context, 0.02),
            AtLeast(0.9),
            LookAhead,
        ),
        (
            "caches within 1 slab or 4 % of their range",
            within(report, context, 0.04),
            AtLeast(1.0),
            LookAhead,
        ),
        ("peak", Some(apart(real.peak, model.peak)), AtMost(peak), LookAhead),
        (
            "slabs allocated",
            Some(apart(real.allocated, model.allocated)),
            AtMost(turnover),
            LookAhead,
        ),
        ("slabs freed", Some(apart(real.freed, model.freed)), AtMost(turnover), LookAhead),
        (
            "one-step: next slab foretold",
            rate(steps.switches, steps.hit_rate()),
            AtLeast(0.95),
            Hardware,
        ),
        (
            "the kernel's discards made too",
            rate(steps.discards, steps.discard_rate()),
            AtLeast(0.99),
            Hardware,
        ),
        ("slabs discarded that the kernel kept", wrong, AtMost(0.01), Hardware),
    ];
    rows.map(|(name, measured, limit, scope)| {
        let counts = match scope {
            Always => true,
            LookAhead => context.start == Start::LookAhead,
            Hardware => {
                context.start == Start::LookAhead && context.traced == TraceOrigin::Hardware
            }
        };
        let met = measured.filter(|_| counts).map(|share| limit.allows(share));
        Goal { name, measured, limit, met }
    })
    .into()
}

/// The error as a share of the range. Where the kernel's slabs do not change, one
/// slab is the whole.
fn error(line: &Line) -> f64 {
    line.error / f64::from(line.real.range().max(1))
}

/// The share of the judged caches whose error is at most one slab, or at most a share of their
/// range.
fn within(report: &Report, context: &Context<'_>, share: f64) -> Option<f64> {
    let caches = report.caches.iter().zip(&context.prepared.caches);
    let judged =
        caches.filter(|(line, cache)| cache.left_out.is_none() && line.real.range() >= CACHE_RANGE);
    let (mut all, mut good) = (0u32, 0u32);
    for (line, _) in judged {
        all += 1;
        good += u32::from(line.error <= (f64::from(line.real.range()) * share).max(1.0));
    }
    (all > 0).then(|| f64::from(good) / f64::from(all))
}

/// How far two numbers are apart, as a share of the first.
fn apart(real: impl Into<i64>, model: impl Into<i64>) -> f64 {
    let (real, model) = (real.into(), model.into());
    real.abs_diff(model) as f64 / real.unsigned_abs().max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::{self, Case};
    use crate::check::check;
    use crate::snapshot::KernelSnapshot;
    use crate::trace;
    use std::path::Path;

    /// A real kernel's trace, ready to be run, and what it was taken on.
    fn case_of(name: &str) -> (Case, TraceOrigin) {
        let traces = Path::new(env!("CARGO_MANIFEST_DIR")).join("traces");
        let trace = trace::open(&traces.join(format!("{name}.slabtrace"))).unwrap();
        let start = traces.join(format!("{name}.before.json.zst"));
        let snapshot = KernelSnapshot::open(&start).unwrap().remove(0);
        let (settings, _) = snapshot.settings().unwrap();
        let order = case::order_of(&snapshot);
        let traced =
            if order.pause_ns.is_some() { TraceOrigin::Guest } else { TraceOrigin::Hardware };
        (Case::new(&trace, &snapshot, &settings, order).unwrap(), traced)
    }

    #[test]
    fn from_the_snapshot_alone_only_the_total_counts() {
        let (case, traced) = case_of("tr64k_hb_smp4");
        let start = Start::Snapshot;
        let context = Context { prepared: &case.prepared, start, traced };
        let goals = goals(&check(&case.plan(start)).unwrap(), &context);
        let counted: Vec<&Goal> = goals.iter().filter(|goal| goal.met.is_some()).collect();
        assert_eq!(counted.len(), 1, "{counted:?}");
        assert_eq!(counted[0].limit, Limit::AtMost(0.025));
    }

    #[test]
    fn a_share_is_never_divided_by_nothing() {
        assert_eq!((apart(0, 0), apart(0, 3), apart(-4, -3)), (0.0, 3.0, 0.25));
    }

    #[test]
    fn limits_hold_what_they_name() {
        assert!(Limit::AtMost(0.01).allows(0.01) && !Limit::AtMost(0.01).allows(0.011));
        assert!(Limit::AtLeast(0.95).allows(0.95) && !Limit::AtLeast(0.95).allows(0.949));
    }
}
