//! Replays the points of a sweep, on all CPUs.
//!
//! Neighbour: [`crate::answers`] shares the CPUs out. Invariant: [`run`] reads a trace once for all its points.

use super::plan::{Plan, trace_file};
use super::row::Row;
use crate::answer::Answerer;
use crate::answers::{self, Task};
use crate::axis::Changes;
use crate::trust::Trust;
use crate::{Error, Listener, Silent};
use slabyard_lab::replay::contend::COSTS;

/// Replays points, and hands each row over as soon as it is there, one at a time but in any order; an
/// error of `take` ends it.
///
/// # Errors
/// Where a trace is no longer what it was, or a replay fails; as `take`.
pub fn run(
    plan: &Plan,
    points: &[usize],
    listener: &dyn Listener,
    take: &mut (dyn FnMut(Row) -> Result<(), Error> + Send),
) -> Result<(), Error> {
    for input in 0..plan.inputs.len() {
        let of_it = points.iter().copied().filter(|nth| plan.points[*nth].input == input);
        let (can, cannot): (Vec<usize>, Vec<usize>) =
            of_it.partition(|nth| plan.points[*nth].impossible.is_none());
        cannot.iter().filter_map(|nth| plan.impossible_row(*nth)).try_for_each(&mut *take)?;
        if can.is_empty() {
            continue;
        }
        let loaded = plan.load(input, listener)?;
        let changes: Vec<Changes> =
            can.iter().map(|nth| plan.points[*nth].changes.clone()).collect();
        let mut answerer = Answerer::new(&loaded, COSTS, listener)?;
        let task = Task { base: &plan.base, points: &changes, contention: None };
        let mut take = |nth: usize, answer| take(plan.row(can[nth], &answer));
        answers::each(&mut answerer, &task, listener, &mut take)?;
    }
    Ok(())
}

/// Checks the own run of a trace.
///
/// # Errors
/// Where it is no longer what it was; as [`Trust::of`].
pub fn trust(plan: &Plan, input: usize, listener: &dyn Listener) -> Result<Trust, Error> {
    let loaded = plan.load(input, &Silent)?;
    let case = Answerer::new(&loaded, COSTS, &Silent)?.case().clone();
    Trust::of(&trace_file(&plan.inputs[input].file), &loaded, case, listener)
}

/// Replays one point, on one CPU: for workers of other programs.
///
/// # Errors
/// As [`run`].
pub fn run_point(plan: &Plan, nth: usize, listener: &dyn Listener) -> Result<Row, Error> {
    if let Some(row) = plan.impossible_row(nth) {
        return Ok(row);
    }
    let point = &plan.points[nth];
    let loaded = plan.load(point.input, listener)?;
    let answer = Answerer::new(&loaded, COSTS, listener)?.answer(&plan.base, &point.changes)?;
    Ok(plan.row(nth, &answer))
}
