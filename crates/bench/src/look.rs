//! Measures what it costs a program that `slabyard list` reads its memory once per second.
//!
//! Time: one load on our library, alternately with and without a reader. The reader reads the
//! process's memory from outside and stops nothing, so the only cost is the reader's own processor
//! time, where reader and load share CPUs. Instructions: the same load under callgrind, with and
//! without a reader; both counts must be equal.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use fastrand::Rng;
use serde::Serialize;

use crate::allocators::{Allocator, Bench, OURS};
use crate::args::LookOptions;
use crate::goals::{Goal, Verdict, judge};
use crate::machine::Machine;
use crate::stats::{Estimate, PairedSamples, median, ratio};
use crate::worker::Worker;
use crate::{instructions, screen};

/// A look costs at most this share of the time, or the noise hides that it does.
const LIMIT: f64 = 1.01;
const COMMAND: &str = "slabyard";
/// Runs under callgrind of each kind.
const COUNTS: usize = 3;

#[derive(Serialize)]
struct Report<'a> {
    format: u32,
    suite: &'static str,
    machine: &'a Machine,
    allocators: &'a [Allocator],
    load: &'a str,
    rounds: u32,
    window_ms: u32,
    /// Looks that were made.
    looks: usize,
    /// By round.
    ns_looked_at: Vec<f64>,
    ns_alone: Vec<f64>,
    looked_at_to_alone: Estimate,
    /// Instructions of the whole program; empty without valgrind.
    instructions_looked_at: Vec<u64>,
    instructions_alone: Vec<u64>,
    goals: Vec<Goal>,
}

/// Runs the suite.
pub fn run(options: &LookOptions) -> Result<Verdict> {
    let bench = Bench::open(options.common.ours.as_deref())?;
    let machine = Machine::read()?;
    let command = command(options.command.as_deref())?;
    let (ns_looked_at, ns_alone, looks) = time(&bench, &machine, &command, options)?;
    let looked_at_to_alone = ratio(&[PairedSamples { ours: &ns_looked_at, peer: &ns_alone }]);
    let (instructions_looked_at, instructions_alone) = counts(&bench, &command, options.pairs)?;
    let goals = vec![
        time_goal(looked_at_to_alone),
        instructions_goal(&instructions_looked_at, &instructions_alone),
    ];
    let report = Report {
        format: 1,
        suite: "look",
        machine: &machine,
        allocators: &bench.allocators[..=OURS],
        load: &options.load,
        rounds: options.rounds,
        window_ms: options.window_ms,
        looks,
        ns_looked_at,
        ns_alone,
        looked_at_to_alone,
        instructions_looked_at,
        instructions_alone,
        goals,
    };
    screen::publish(&text(&report), &report, options.common.json.as_deref())?;
    Ok(judge(&report.goals, options.common.check))
}

/// The command that looks: the named one, or the one beside this program.
fn command(named: Option<&Path>) -> Result<PathBuf> {
    let beside = || std::env::current_exe().map(|program| program.with_file_name(COMMAND));
    let path = named.map_or_else(beside, |path| Ok(path.to_owned())).context("this program")?;
    ensure!(
        path.is_file(),
        "{}: not there; build it with `cargo build --release`, or name it with --command",
        path.display()
    );
    Ok(path)
}

/// Nanoseconds by round, looked at and alone, and how many looks there were.
fn time(
    bench: &Bench,
    machine: &Machine,
    command: &Path,
    options: &LookOptions,
) -> Result<(Vec<f64>, Vec<f64>, usize)> {
    let bar = screen::progress(options.rounds as usize * 2);
    bar.set_message(options.load.clone());
    let allocator = &bench.allocators[OURS];
    let mut worker = Worker::start(bench, allocator, &options.load, machine.cpus_for(1))?;
    let (mut looked_at, mut alone, mut looks) = (Vec::new(), Vec::new(), 0);
    let mut random = Rng::new();
    for _ in 0..options.rounds {
        let first = random.bool();
        for look in [first, !first] {
            let ns = if look {
                let pid = worker.pid();
                let (window, n) = looking(command, pid, options.every_ms, || {
                    worker.any_window(options.window_ms)
                })?;
                looks += n;
                window?.ns_per_op
            } else {
                worker.any_window(options.window_ms)?.ns_per_op
            };
            if look {
                looked_at.push(ns)
            } else {
                alone.push(ns)
            }
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    Ok((looked_at, alone, looks))
}

/// Runs `f` while the process is read from outside; returns how many reads there were, each of
/// which must succeed.
fn looking<T>(
    command: &Path,
    pid: u32,
    every_ms: u32,
    f: impl FnOnce() -> T,
) -> Result<(T, usize)> {
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let looker = scope.spawn(|| {
            let every = Duration::from_millis(every_ms.into());
            let (mut looks, mut next) = (0, Instant::now());
            while !done.load(Ordering::Relaxed) {
                if Instant::now() < next {
                    thread::sleep(Duration::from_millis(1));
                    continue;
                }
                look(command, pid)?;
                looks += 1;
                next += every;
            }
            anyhow::Ok(looks)
        });
        let result = f();
        done.store(true, Ordering::Relaxed);
        let looks = looker.join().expect("the looker does not panic")?;
        Ok((result, looks))
    })
}

fn look(command: &Path, pid: u32) -> Result<()> {
    let out = Command::new(command)
        .args(["list", &pid.to_string(), "--json"])
        .stdin(Stdio::null())
        .output()
        .with_context(|| command.display().to_string())?;
    let told = String::from_utf8_lossy(&out.stderr);
    ensure!(out.status.success(), "{} list {pid}: {told}", command.display());
    Ok(())
}

/// Instructions of the pair load, looked at ten times a second and alone.
fn counts(bench: &Bench, command: &Path, pairs: u64) -> Result<(Vec<u64>, Vec<u64>)> {
    if instructions::valgrind_version().is_none() {
        return Ok((Vec::new(), Vec::new()));
    }
    let bar = screen::progress(2 * COUNTS);
    bar.set_message("callgrind");
    let allocator = &bench.allocators[OURS];
    let (mut looked_at, mut alone) = (Vec::new(), Vec::new());
    for _ in 0..COUNTS {
        alone.push(instructions::count(bench, allocator, pairs, |_| ())?);
        looked_at.push(looked_at_count(bench, command, pairs)?);
        bar.inc(2);
    }
    bar.finish_and_clear();
    Ok((looked_at, alone))
}

fn looked_at_count(bench: &Bench, command: &Path, pairs: u64) -> Result<u64> {
    let (done, seen) = (&AtomicBool::new(false), &AtomicBool::new(false));
    thread::scope(|scope| {
        let count = instructions::count(bench, &bench.allocators[OURS], pairs, |pid| {
            scope.spawn(move || {
                while !done.load(Ordering::Relaxed) {
                    // It does not run on the library yet, or not any more.
                    if look(command, pid).is_ok() {
                        seen.store(true, Ordering::Relaxed);
                    }
                    thread::sleep(Duration::from_millis(100));
                }
            });
        });
        done.store(true, Ordering::Relaxed);
        ensure!(seen.load(Ordering::Relaxed), "no look succeeded; more --pairs give more time");
        count
    })
}

fn time_goal(estimate: Estimate) -> Goal {
    let measured = format!("{:.4} to {:.4}", estimate.low, estimate.high);
    let met = Some(estimate.low <= LIMIT);
    Goal {
        name: "time, looked at to alone".to_owned(),
        measured,
        limit: format!("an interval from <= {LIMIT:.2}"),
        met,
    }
}

fn instructions_goal(looked_at: &[u64], alone: &[u64]) -> Goal {
    let name = "instructions".to_owned();
    let Some(first) = alone.first() else {
        return Goal::skipped(name, "valgrind is not installed");
    };
    let same = looked_at.iter().chain(alone).all(|n| n == first);
    let measured = format!("{looked_at:?} and {alone:?}");
    Goal { name, measured, limit: "equal".to_owned(), met: Some(same) }
}

fn text(report: &Report) -> String {
    let e = &report.looked_at_to_alone;
    let rows = vec![vec![
        report.load.to_owned(),
        format!("{:.3}", median(&report.ns_looked_at)),
        format!("{:.3}", median(&report.ns_alone)),
        format!("{:.4}", e.value),
        format!("{:.4} to {:.4}", e.low, e.high),
    ]];
    format!(
        "{}\nMedian nanoseconds of one malloc and free, {} rounds of {} ms, {} looks.\n\n{}\n\n{}",
        screen::heading(report.machine, report.allocators),
        report.rounds,
        report.window_ms,
        report.looks,
        screen::table(&["load", "looked at", "alone", "ratio", "95 %"], rows),
        screen::goals(&report.goals),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slowdown_beyond_the_noise_is_missed() {
        let estimate = |low| Estimate { value: 1.05, low, high: 1.1 };
        assert_eq!(time_goal(estimate(1.004)).met, Some(true));
        assert_eq!(time_goal(estimate(1.02)).met, Some(false));
    }

    #[test]
    fn one_instruction_more_is_missed() {
        assert_eq!(instructions_goal(&[7, 7], &[7, 7]).met, Some(true));
        assert_eq!(instructions_goal(&[7, 8], &[7, 7]).met, Some(false));
        assert_eq!(instructions_goal(&[], &[]).met, None);
    }
}
