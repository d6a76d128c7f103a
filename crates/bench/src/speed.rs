//! Time of one malloc and free: seven loads on three allocators, in turns.
//!
//! In each round, each load runs one window on each allocator, in a new random order, so slow
//! moments of the machine affect all alike. After some rounds, all processes are restarted
//! together.

use anyhow::Result;
use fastrand::Rng;
use indicatif::ProgressBar;
use serde::Serialize;

use crate::allocators::{Allocator, Bench, GLIBC, MIMALLOC_AT, OURS};
use crate::args::SpeedOptions;
use crate::goals::{Goal, Verdict, judge};
use crate::loads::{LOADS, Load};
use crate::machine::Machine;
use crate::screen;
use crate::stats::{Estimate, PairedSamples, median, ratio};
use crate::worker::{Window, Worker};

/// Goals, as ratios of ours to mimalloc's.
const MEAN_LIMIT: f64 = 0.97;
const SINGLE_LIMIT: f64 = 1.03;
const THREADS_LIMIT: f64 = 1.00;

#[derive(Serialize)]
struct Report<'a> {
    format: u32,
    suite: &'static str,
    machine: &'a Machine,
    allocators: &'a [Allocator],
    rounds: u32,
    window_ms: u32,
    respawn: u32,
    loads: Vec<LoadReport>,
    /// Of the single-thread loads, if all were run.
    geometric_mean: Option<Estimate>,
    geometric_mean_glibc: Option<Estimate>,
    goals: Vec<Goal>,
}

#[derive(Serialize)]
struct LoadReport {
    name: &'static str,
    threads: usize,
    /// By allocator, then round.
    ns_per_op: Vec<Vec<f64>>,
    /// Windows in which another process took a CPU from the load, by allocator.
    disturbed: Vec<usize>,
    median_ns: Vec<f64>,
    ours_to_mimalloc: Estimate,
    ours_to_glibc: Estimate,
}

impl LoadReport {
    fn new(load: &Load, windows: &[Vec<Window>]) -> Self {
        let ns = |of: &Vec<Window>| of.iter().map(|w| w.ns_per_op).collect();
        let disturbed = |of: &Vec<Window>| of.iter().filter(|w| w.switches > 0).count();
        let ns_per_op: Vec<Vec<f64>> = windows.iter().map(ns).collect();
        Self {
            disturbed: windows.iter().map(disturbed).collect(),
            name: load.name,
            threads: load.threads,
            median_ns: ns_per_op.iter().map(|ns| median(ns)).collect(),
            ours_to_mimalloc: ratio(&[beside(&ns_per_op, MIMALLOC_AT)]),
            ours_to_glibc: ratio(&[beside(&ns_per_op, GLIBC)]),
            ns_per_op,
        }
    }
}

fn beside(ns_per_op: &[Vec<f64>], peer: usize) -> PairedSamples<'_> {
    PairedSamples { ours: &ns_per_op[OURS], peer: &ns_per_op[peer] }
}

/// Runs the suite.
pub fn run(options: &SpeedOptions) -> Result<Verdict> {
    let loads = chosen(&options.only);
    let bench = Bench::open(options.common.ours.as_deref())?;
    let machine = Machine::read()?;
    let samples = measure(&bench, &machine, &loads, options)?;

    let loads: Vec<LoadReport> =
        loads.iter().zip(samples).map(|(load, windows)| LoadReport::new(load, &windows)).collect();
    let geometric_mean = mean_of_singles(&loads, MIMALLOC_AT);
    let report = Report {
        format: 1,
        suite: "speed",
        machine: &machine,
        allocators: &bench.allocators,
        rounds: options.rounds,
        window_ms: options.window_ms,
        respawn: options.respawn,
        geometric_mean,
        geometric_mean_glibc: mean_of_singles(&loads, GLIBC),
        goals: goals(&loads, geometric_mean),
        loads,
    };
    screen::publish(&text(&report), &report, options.common.json.as_deref())?;
    Ok(judge(&report.goals, options.common.check))
}

fn chosen(only: &[String]) -> Vec<&'static Load> {
    let wanted = |load: &&Load| only.is_empty() || only.iter().any(|name| name == load.name);
    LOADS.iter().filter(wanted).collect()
}

/// Windows by load, allocator, round.
fn measure(
    bench: &Bench,
    machine: &Machine,
    loads: &[&Load],
    options: &SpeedOptions,
) -> Result<Vec<Vec<Vec<Window>>>> {
    let nr = bench.allocators.len();
    let bar = screen::progress(options.rounds as usize * loads.len() * nr);
    let mut samples = vec![vec![Vec::new(); nr]; loads.len()];
    let mut workers = Vec::new();
    let mut random = Rng::new();
    for round in 0..options.rounds {
        if round % options.respawn == 0 {
            workers.clear();
            workers = start_all(bench, machine, loads)?;
        }
        for (l, load) in loads.iter().enumerate() {
            bar.set_message(load.name);
            let mut order: Vec<usize> = (0..nr).collect();
            random.shuffle(&mut order);
            for a in order {
                samples[l][a].push(one_window(&mut workers[l][a], options, &bar)?);
            }
        }
    }
    bar.finish_and_clear();
    Ok(samples)
}

fn one_window(worker: &mut Worker, options: &SpeedOptions, bar: &ProgressBar) -> Result<Window> {
    let window = worker.window(options.window_ms)?;
    bar.inc(1);
    Ok(window)
}

/// A process for each load and allocator; each sleeps but in its window.
fn start_all(bench: &Bench, machine: &Machine, loads: &[&Load]) -> Result<Vec<Vec<Worker>>> {
    let start = |load: &Load| {
        let cpus = machine.cpus_for(load.threads);
        let on = |allocator| Worker::start(bench, allocator, load.name, cpus);
        bench.allocators.iter().map(on).collect()
    };
    loads.iter().map(|load| start(load)).collect()
}

fn mean_of_singles(loads: &[LoadReport], peer: usize) -> Option<Estimate> {
    let singles = loads.iter().filter(|load| load.threads == 1);
    let pairs: Vec<PairedSamples> = singles.map(|l| beside(&l.ns_per_op, peer)).collect();
    let all = LOADS.iter().filter(|load| load.threads == 1).count();
    (pairs.len() == all).then(|| ratio(&pairs))
}

fn goals(loads: &[LoadReport], mean: Option<Estimate>) -> Vec<Goal> {
    let mean = mean.map(|mean| Goal::at_most_ratio("geometric mean", mean.value, MEAN_LIMIT));
    let each = loads.iter().map(|load| {
        let limit = match load.threads {
            1 => SINGLE_LIMIT,
            _ => THREADS_LIMIT,
        };
        Goal::at_most_ratio(load.name, load.ours_to_mimalloc.value, limit)
    });
    mean.into_iter().chain(each).collect()
}

fn text(report: &Report) -> String {
    let interval = |e: &Estimate| format!("{:.3} to {:.3}", e.low, e.high);
    let mut rows: Vec<Vec<String>> = report
        .loads
        .iter()
        .map(|load| {
            let mut row = vec![load.name.to_owned()];
            row.extend(load.median_ns.iter().map(|ns| format!("{ns:.2}")));
            row.push(format!("{:.3}", load.ours_to_mimalloc.value));
            row.push(interval(&load.ours_to_mimalloc));
            row.push(format!("{:.3}", load.ours_to_glibc.value));
            row
        })
        .collect();
    if let (Some(mean), Some(glibc)) = (report.geometric_mean, report.geometric_mean_glibc) {
        let mut row = vec!["geometric mean, 1 thread".to_owned()];
        row.extend(vec![String::new(); report.allocators.len()]);
        row.extend([format!("{:.3}", mean.value), interval(&mean)]);
        row.push(format!("{:.3}", glibc.value));
        rows.push(row);
    }
    let heading = ["load", "ours", "mimalloc", "glibc", "ours/mimalloc", "95 %", "ours/glibc"];
    let disturbed: usize = report.loads.iter().flat_map(|l| &l.disturbed).sum();
    let windows = report.rounds as usize * report.loads.len() * report.allocators.len();
    format!(
        "{}\nMedian nanoseconds of one malloc and free, {} rounds of {} ms.\n\
         Other processes disturbed {disturbed} of {windows} windows.\n\n{}\n\n{}",
        screen::heading(report.machine, report.allocators),
        report.rounds,
        report.window_ms,
        screen::table(&heading, rows),
        screen::goals(&report.goals),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(load: &'static str, threads: usize, ours: f64, mimalloc: f64) -> LoadReport {
        let window = |ns_per_op| Window { ns_per_op, switches: 0 };
        let samples = [ours, mimalloc, 9.0].map(|ns| vec![window(ns); 3]);
        LoadReport::new(&Load { name: load, threads }, &samples)
    }

    fn all(single: f64, threads: f64) -> Vec<LoadReport> {
        let ours = |l: &Load| if l.threads == 1 { single } else { threads };
        let make = |l: &Load| report(l.name, l.threads, ours(l), 10.0);
        LOADS.iter().map(make).collect()
    }

    fn verdict(loads: &[LoadReport]) -> Verdict {
        judge(&goals(loads, mean_of_singles(loads, MIMALLOC_AT)), true)
    }

    #[test]
    fn goals_are_met_by_a_faster_allocator_only() {
        assert_eq!(verdict(&all(9.0, 10.0)), Verdict::Met);
        assert_eq!(verdict(&all(9.9, 10.0)), Verdict::Missed, "mean");
        assert_eq!(verdict(&all(9.0, 10.1)), Verdict::Missed, "threads");
    }

    #[test]
    fn one_slow_load_misses_though_the_mean_is_good() {
        let mut loads = all(8.0, 9.0);
        loads[4] = report("mixed", 1, 10.4, 10.0);
        assert!(mean_of_singles(&loads, MIMALLOC_AT).unwrap().value < MEAN_LIMIT);
        assert_eq!(verdict(&loads), Verdict::Missed);
    }

    #[test]
    fn no_mean_of_some_loads() {
        assert!(mean_of_singles(&all(9.0, 9.0)[1..], MIMALLOC_AT).is_none());
    }
}
