//! Prints the runs of a load as tables.

use std::collections::BTreeSet;

use comfy_table::Table;

use super::report::{Report, in_words};
use super::said::{Frees, Run, SHARES};
use crate::screen;
use crate::shapes::Shape;
use crate::stats::median;

/// Everything below the heading.
pub fn body(report: &Report, shape: &Shape) -> String {
    let settings = shape.settings();
    let settings: Vec<String> =
        settings.iter().map(|(name, value)| format!("{name} {}", in_words(value))).collect();
    let first = report.allocators[0].name;
    let mut text = format!(
        "{}: {}, seed {}; medians of {} rounds.\n\
         time: from the moment when all are ready to the end of the last.\n\
         {first} to it: its time to the other's in the same round, the median over rounds, and \
         its 95 % interval.\n\
         peak RSS: of the largest process. The self-check found nothing.\n\n{}\n",
        report.load,
        settings.join(", "),
        report.seed,
        report.rounds,
        times(report, shape)
    );
    if let Some(frees) = report.runs[0][0].frees.as_ref() {
        text += &format!(
            "\nNanoseconds of single frees, by {}; two readings of it with nothing between take \
             {:.1} ns, which is taken off each.\n\
             max: the longest of all rounds; switches: how often another thread took the CPU, \
             whose turn is part of a free's time unless the clock is `thread`.\n\n\
             {}\n\nFrees of all rounds, by nanoseconds:\n\n{}\n",
            clock_in_words(&frees.clock),
            frees.cost_ns,
            percentiles(report),
            histogram(report)
        );
    }
    text
}

fn clock_in_words(clock: &str) -> &str {
    match clock {
        "tsc" => "the time stamp counter, fenced on both sides",
        "thread" => "CLOCK_THREAD_CPUTIME_ID",
        _ => "CLOCK_MONOTONIC",
    }
}

fn over(runs: &[Run], of: impl Fn(&Run) -> f64) -> f64 {
    median(&runs.iter().map(of).collect::<Vec<f64>>())
}

fn times(report: &Report, shape: &Shape) -> Table {
    let first = format!("{} to it", report.allocators[0].name);
    let rate = format!("{} a second", shape.unit());
    let heading = ["allocator", "time, ms", &rate, &first, "CPU, ms", "peak RSS, MiB", "faults"];
    let row = |(a, runs): (usize, &Vec<Run>)| {
        let ratio = a.checked_sub(1).map(|peer| report.ratios[peer]);
        vec![
            report.allocators[a].name.to_owned(),
            format!("{:.1}", over(runs, |run| run.ns as f64 / 1e6)),
            format!("{:.0}", over(runs, |run| run.ops as f64 * 1e9 / run.ns as f64)),
            ratio.map_or(String::new(), |e| {
                format!("{:.3} ({:.3} to {:.3})", e.value, e.low, e.high)
            }),
            format!("{:.1}", over(runs, |run| run.cpu_us as f64 / 1e3)),
            format!("{:.1}", over(runs, |run| run.peak_kib as f64 / 1024.0)),
            format!("{:.0}", over(runs, |run| run.faults as f64)),
        ]
    };
    screen::table(&heading, report.runs.iter().enumerate().map(row).collect())
}

/// The frees of an allocator, by round.
fn frees_of(runs: &[Run]) -> Vec<&Frees> {
    runs.iter().filter_map(|run| run.frees.as_ref()).collect()
}

fn percentiles(report: &Report) -> Table {
    let mut heading = vec!["allocator", "frees"];
    heading.extend(SHARES);
    heading.extend(["max", "switches"]);
    let row = |(a, runs): (usize, &Vec<Run>)| {
        let frees = frees_of(runs);
        let over = |of: &dyn Fn(&Frees) -> f64| {
            median(&frees.iter().map(|frees| of(frees)).collect::<Vec<f64>>())
        };
        let mut row = vec![report.allocators[a].name.to_owned()];
        row.push(frees.iter().map(|frees| frees.count).sum::<u64>().to_string());
        row.extend((0..SHARES.len()).map(|p| format!("{:.1}", over(&|f| f.percentiles[p]))));
        row.push(format!("{:.1}", frees.iter().map(|frees| frees.max).fold(0.0, f64::max)));
        row.push(format!("{:.0}", over(&|f| f.switches as f64)));
        row
    };
    screen::table(&heading, report.runs.iter().enumerate().map(row).collect())
}

/// A row for each power of two that some free took, a column an allocator.
fn histogram(report: &Report) -> Table {
    let mut heading = vec!["from"];
    heading.extend(report.allocators.iter().map(|allocator| allocator.name));
    let by_allocator: Vec<Vec<&Frees>> = report.runs.iter().map(|runs| frees_of(runs)).collect();
    let all = by_allocator.iter().flatten().flat_map(|frees| &frees.rows);
    let floors: BTreeSet<u64> = all.map(|&(from, _)| from).collect();
    let row = |&from: &u64| {
        let count = |frees: &Vec<&Frees>| {
            let rows = frees.iter().flat_map(|frees| &frees.rows);
            rows.filter(|row| row.0 == from).map(|row| row.1).sum::<u64>().to_string()
        };
        let mut row = vec![from.to_string()];
        row.extend(by_allocator.iter().map(count));
        row
    };
    screen::table(&heading, floors.iter().map(row).collect())
}
