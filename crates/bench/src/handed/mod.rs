//! Objects that one thread allocates and another frees, and cache lines that two threads write:
//! time and memory, memory at `rest`, and `lines` of two threads.
//!
//! `loads/handed` is the program. Rounds, failures and tables of time and memory are those of
//! `compare`.

mod lines;
mod rest;

use std::fmt::Write as _;

use anyhow::Result;
use serde::Serialize;

use crate::allocators::Bench;
use crate::args::HandedOptions;
use crate::compare::measures::{CPU, Load, PEAK, WALL};
use crate::compare::results::Results;
use crate::compare::runs::{Rounds, Runner};
use crate::compare::{self, chosen_loads, chosen_peers, judge, only_preloaded, runs, tables};
use crate::machine::Machine;
use crate::measured::{Head, Measured};
use crate::peers::{AllAllocators, everybody};
use lines::Lines;
use rest::Rested;

/// With this the names of loads begin that count lines; the others pass objects on.
const OF_LINES: &str = "lines_";

#[derive(Serialize)]
struct Report<'a> {
    #[serde(flatten)]
    head: Head<'a>,
    rounds: u32,
    scale: f64,
    rest_ms: u64,
    losses: &'a [judge::Loss],
    rested: &'a [Rested],
    lines: &'a [Lines],
    #[serde(flatten)]
    results: compare::Raw<'a>,
}

/// Runs the suite.
pub fn run(options: &HandedOptions) -> Result<Measured> {
    let bench = Bench::open(options.common.ours.as_deref())?;
    let machine = Machine::read()?;
    let runner = runner(&bench, options.scale, options.timeout_s);
    let everybody = everybody(&bench, options.gperftools.as_deref());
    let AllAllocators { allocators, absent } =
        only_preloaded(chosen_peers(everybody, &options.peers), &runner)?;
    let loads = chosen_loads(runner.loads()?, &options.only)?;
    let (of_lines, passed): (Vec<Load>, Vec<Load>) =
        loads.into_iter().partition(|load| load.name.starts_with(OF_LINES));

    let rounds = Rounds::just(options.rounds);
    let runs = runs::all(&runner, &passed, &allocators, rounds)?;
    let (rested, at_rest) = rest::all(&runner, &passed, &allocators, options.rest_ms)?;
    let (lines, writing) = lines::all(&runner, &of_lines, &allocators, options.rounds)?;
    let names = allocators.iter().map(|allocator| allocator.name).collect();
    let mut results = Results::new(names, passed, runs);
    results.failures.extend(at_rest);
    results.failures.extend(writing);
    let report = Report {
        head: Head::new(1, "handed", &machine, &allocators, &absent),
        rounds: options.rounds,
        scale: options.scale,
        rest_ms: options.rest_ms,
        losses: &judge::losses(&results),
        rested: &rested,
        lines: &lines,
        results: compare::Raw::new(&results),
    };
    Measured::new(&report.head, &text(&report, &results), &report, Vec::new())
}

fn runner(bench: &Bench, scale: f64, timeout_s: u32) -> Runner {
    Runner::new(bench, Some(&bench.program("handed")), scale, timeout_s)
}

fn text(report: &Report, results: &Results) -> String {
    let names = &results.allocators;
    let mut text = format!("{} rounds; less is better.\n", report.rounds);
    if !results.loads.is_empty() {
        for measure in [WALL, CPU, PEAK] {
            let (title, table) = tables::titled(results, measure);
            let _ = write!(text, "\n{title}:\n\n{table}\n");
        }
        let _ = write!(
            text,
            "\nOurs to each peer's, geometric mean:\n\n{}\n\nLosses:\n\n{}\n",
            tables::means(results),
            tables::losses(report.losses)
        );
    }
    if !report.rested.is_empty() {
        let _ = write!(
            text,
            "\nRSS in MiB after the last free / {} ms later without a call / after a trickle of \
             handed-over objects:\n\n{}\n",
            report.rest_ms,
            rest::table(report.rested, names)
        );
    }
    if !report.lines.is_empty() {
        let _ = write!(
            text,
            "\nCache lines with objects of two threads (of two on other CPUs), of those with \
             objects:\n\n{}\n\nTime of a write while the others write, to that of one thread alone:\
             \n\n{}\n",
            lines::counts(report.lines, names),
            lines::times(report.lines, names)
        );
    }
    if !results.failures.is_empty() {
        let _ = write!(text, "\n{}", tables::failed(&results.failures));
    }
    text
}

#[cfg(test)]
mod tests;
