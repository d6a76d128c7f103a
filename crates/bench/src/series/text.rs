//! Prints the runs of `series` as tables.

use std::fmt::Write as _;

use comfy_table::Table;
use slabyard_abi::stats::Counter;

use super::report::{OfCell, OfFront, Report};
use crate::screen;
use crate::stats::{Estimate, median};

/// As many runs as the series' author reported.
const TOLD: usize = 3;

/// Everything below the heading.
pub fn body(report: &Report) -> String {
    let first = report.cells.first().map_or("", |cell| cell.fronts[0].name);
    let mut text = format!(
        "{} rounds; in each, every load runs once on every front, in an order drawn anew.\n\
         time: from the moment when all threads are ready to the end of the last.\n\
         A ratio is the median over rounds of a front's time to {first}'s in the same round, with \
         its 95 % bootstrap interval.\n\
         allocator, kernel: percent of {first}'s CPU time, by perf.\n\n",
        report.rounds
    );
    if report.scale != 1.0 {
        let _ = writeln!(text, "The loads ran at {} of their size.\n", report.scale);
    }
    if let Some(table) = as_published(report) {
        let _ = write!(
            text,
            "#### Beside the series' table\n\nSeconds of the first {TOLD} rounds; theirs are of \
             128 CPUs in 2 nodes, and of a kernel's own objects.\n\n{table}\n\n"
        );
    }
    let _ = write!(text, "#### Times\n\n{}\n\n", times(report));
    if report.counted_runs > 0 {
        let _ = write!(
            text,
            "#### Counts\n\nOf {} runs that are not timed, for each thousand messages or packets; \
             failed, waited and the time waited are of all.\nexchanges: of a slab's word that the \
             kernel would make; in vain: by a free that then had nothing to do under the lock.\n\n\
             {}\n",
            report.counted_runs,
            counts(report)
        );
    }
    text
}

/// A front's seconds beside those that were published, if such a load was run.
fn as_published(report: &Report) -> Option<Table> {
    let mut rows = Vec::new();
    for of in report.cells.iter().filter(|of| of.cell.published.is_some()) {
        let theirs = of.cell.published?;
        let line = |seconds: &[f64]| {
            let told = seconds.iter().take(TOLD).map(|seconds| format!("{seconds:.3}"));
            told.collect::<Vec<_>>().join(" ")
        };
        for (front, theirs_s) in [(of.fronts.first(), theirs.before), (after(of), theirs.after)] {
            let Some(front) = front else { continue };
            rows.push(vec![
                place(of),
                front.name.to_owned(),
                line(&front.seconds),
                line(&theirs_s),
                theirs.command.to_owned(),
            ]);
        }
    }
    let heading = ["load", "front", "seconds", "theirs", "their command"];
    (!rows.is_empty()).then(|| screen::words(&heading, rows))
}

/// The front that has the whole series.
fn after<'r, 'a>(of: &'r OfCell<'a>) -> Option<&'r OfFront<'a>> {
    of.fronts[1..].iter().find(|front| front.name.ends_with("+delayed") || front.name == "6.8")
}

fn place(of: &OfCell) -> String {
    format!("{}, {} threads, {} CPUs", of.cell.load, of.cell.threads, of.cell.cpus)
}

fn times(report: &Report) -> Table {
    let Some(cell) = report.cells.first() else { return Table::new() };
    let first = format!("{}, s", cell.fronts[0].name);
    let mut heading = vec!["load", &first, "allocator", "kernel"];
    heading.extend(cell.fronts[1..].iter().map(|front| front.name));
    let row = |of: &OfCell| {
        let share = |value: fn(&crate::share::Share) -> f64| {
            of.share.as_ref().map_or("-".to_owned(), |share| format!("{:.1} %", value(share)))
        };
        let mut row = vec![place(of), format!("{:.3}", median(&of.fronts[0].seconds))];
        row.extend([share(|share| share.allocator), share(|share| share.kernel)]);
        row.extend(of.fronts[1..].iter().map(|front| with_interval(&front.to_first)));
        row
    };
    screen::table(&heading, report.cells.iter().map(row).collect())
}

fn with_interval(e: &Estimate) -> String {
    format!("{:.3} ({:.3} to {:.3})", e.value, e.low, e.high)
}

/// Those of the most CPUs: on one no two threads are in the allocator at a time.
fn counts(report: &Report) -> Table {
    let heading = [
        "load",
        "front",
        "exchanges",
        "failed",
        "under lock",
        "list locks",
        "in vain",
        "waited",
        "waited, us",
        "slabs a hold",
    ];
    let most = report.cells.iter().map(|of| of.cell.cpus).max().unwrap_or(0);
    let shown = report.cells.iter().filter(|of| of.cell.cpus == most);
    let rows = shown.flat_map(|of| of.fronts.iter().map(|front| row(report, of, front)));
    screen::table(&heading, rows.collect())
}

fn row(report: &Report, of: &OfCell, front: &OfFront) -> Vec<String> {
    let all = |counter| front.words.get(counter);
    let thousands = of.ops as f64 * f64::from(report.counted_runs) / 1000.0;
    let each = |counter| format!("{:.2}", all(counter) as f64 / thousands);
    vec![
        place(of),
        front.name.to_owned(),
        each(Counter::CmpxchgSlab),
        all(Counter::CmpxchgFail).to_string(),
        each(Counter::CmpxchgUnderLock),
        each(Counter::ListLock),
        each(Counter::ListLockVain),
        all(Counter::ListLockWaited).to_string(),
        format!("{:.0}", all(Counter::ListLockWaitNs) as f64 / 1000.0),
        front.slabs_per_hold().map_or("-".to_owned(), |slabs| format!("{slabs:.2}")),
    ]
}
