//! Replays the points of a sweep, on all CPUs.
//!
//! Neighbours: [`crate::answers`] shares the CPUs out, [`super::kept`] keeps a trace from one point to the
//! next. Invariant: neither [`run`] nor [`run_point`] reads a trace again for the next of its points.

use super::kept;
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

/// Replays one point, on one CPU: for workers of other programs. The trace is kept for the next one.
///
/// # Errors
/// As [`run`].
pub fn run_point(plan: &Plan, nth: usize, listener: &dyn Listener) -> Result<Row, Error> {
    if let Some(row) = plan.impossible_row(nth) {
        return Ok(row);
    }
    let point = &plan.points[nth];
    let trace = kept::ready(plan, point.input, listener)?;
    let answer = trace.answerer().answer(&plan.base, &point.changes)?;
    Ok(plan.row(nth, &answer))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sweep::{self, SweepRequest};
    use std::fs;
    use std::path::Path;
    use std::sync::Mutex;

    const TRACES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../lab/traces");

    /// What is said to be read.
    #[derive(Default)]
    struct Read(Mutex<Vec<String>>);

    impl Listener for Read {
        fn stage(&self, what: &str) {
            if what.starts_with("reading ") && what.ends_with(".slabtrace") {
                self.0.lock().unwrap().push(what.to_owned());
            }
        }
        fn clear(&self) {}
        fn say(&self, _: &str) {}
    }

    fn plan(files: &[&Path]) -> Plan {
        let files = files.iter().map(|file| file.to_path_buf()).collect();
        let vary = vec!["max_order=0..3".into()];
        let asked = SweepRequest { files, vary, ..SweepRequest::default() };
        sweep::plan(&asked, &Silent).unwrap()
    }

    /// A trace is read for the first of its points alone, until another one is asked for or a file is
    /// another one; the rows are those of all points at once.
    #[test]
    fn single_points_read_a_trace_once() {
        let directory = tempfile::TempDir::new().unwrap();
        let copied = |name: &str| {
            let to = directory.path().join(name);
            fs::copy(Path::new(TRACES).join(name), &to).unwrap();
            to
        };
        let (one, other) = (copied("tr64k_hb_smp4.slabtrace"), copied("guest_4.slabtrace"));
        let start = copied("tr64k_hb_smp4.before.json.zst");
        let both = plan(&[&one, &other]);
        let mut rows = Vec::new();
        let mut take = |row| {
            rows.push(row);
            Ok(())
        };
        run(&both, &[0, 1, 2, 3, 4], &Silent, &mut take).unwrap();
        rows.sort_by_key(Row::point);
        let read = Read::default();
        let point = |plan: &Plan, nth| run_point(plan, nth, &read);
        for (nth, row) in rows.iter().enumerate().take(4) {
            assert_eq!(point(&both, nth).unwrap(), *row);
        }
        let nr_read = || read.0.lock().unwrap().len();
        assert_eq!(nr_read(), 1, "{:?}", read.0);
        // Another plan of the same trace, then the other trace, then the first again.
        point(&plan(&[&one]), 3).unwrap();
        assert_eq!(nr_read(), 1);
        assert_eq!(point(&both, 4).unwrap(), rows[4]);
        assert_eq!(point(&both, 0).unwrap(), rows[0]);
        assert_eq!(nr_read(), 3, "one is kept");
        // A snapshot that was written again is read again, and one that is another is refused.
        let bytes = fs::read(&start).unwrap();
        fs::remove_file(&start).unwrap();
        fs::write(&start, &bytes).unwrap();
        point(&both, 1).unwrap();
        assert_eq!(nr_read(), 4);
        fs::copy(Path::new(TRACES).join("forkexec.before.json.zst"), &start).unwrap();
        assert!(point(&both, 1).is_err());
        fs::write(&start, &bytes).unwrap();
        fs::copy(&other, &one).unwrap();
        assert!(point(&both, 1).is_err());
    }
}
