//! Curves of slab counts over time, and the distance between two such curves.

use crate::prepare::StepKind;
use crate::prepare::truth::{Change, Curve, Truth};
use crate::replay::Plan;

/// Mean of |a - b| over the samples.
#[must_use]
pub fn mean_error(a: &Curve, b: &Curve) -> f64 {
    let sum: u64 = a.points.iter().zip(&b.points).map(|(a, b)| u64::from(a.abs_diff(*b))).sum();
    sum as f64 / a.points.len().max(1) as f64
}

/// The sum of some curves at their samples.
#[must_use]
pub fn sum<'a>(curves: impl Iterator<Item = &'a Curve>) -> Curve {
    let mut sum = Curve::default();
    for curve in curves {
        sum.points.resize(curve.points.len(), 0);
        sum.points.iter_mut().zip(&curve.points).for_each(|(sum, point)| *sum += point);
    }
    sum
}

/// Slabs by the trivial predictor: live objects over objects of a slab, rounded
/// up, plus `min_partial`. As changes since the start, like the others.
#[must_use]
pub fn trivial(plan: &Plan<'_>, points: usize) -> Truth {
    let prepared = plan.prepared;
    let mut live: Vec<u32> = vec![0; prepared.caches.len()];
    for slab in prepared.slabs.iter().take_while(|slab| slab.initial) {
        live[slab.cache as usize] += prepared.nr_live_at_start(slab);
    }
    let slabs = |cache: usize, live: u32| {
        let rules = &plan.rules[cache];
        live.div_ceil(rules.objects) + rules.min_partial
    };
    let mut now: Vec<u32> = live.iter().enumerate().map(|(c, live)| slabs(c, *live)).collect();
    let mut changes = Vec::new();
    for step in &prepared.steps {
        let cache = step.cache as usize;
        match step.op {
            StepKind::Alloc => live[cache] += 1,
            StepKind::Free => live[cache] = live[cache].saturating_sub(1),
        }
        let next = slabs(cache, live[cache]);
        let by = next as i64 - i64::from(now[cache]);
        if by != 0 {
            // One object more or less is one slab more or less.
            changes.push(Change {
                time_ns: step.time_ns,
                cache: step.cache,
                by: by.signum() as i8,
            });
            now[cache] = next;
        }
    }
    Truth::count(&changes, prepared, points)
}
