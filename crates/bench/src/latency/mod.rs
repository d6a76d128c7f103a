//! Percentiles of the time of single malloc and free calls, by two clocks. The goals use thread CPU
//! time; the processor's time-stamp counter costs less and also counts interruptions. With it a
//! thread of `SCHED_FIFO` is timed, too, which preempts the others wherever they are.
//!
//! Neighbours: `loads/latency.c` makes and times the calls; `said` parses its output. Allocators
//! take turns, one process each.

mod said;

use anyhow::{Context, Result, ensure};
use comfy_table::Table;
use fastrand::Rng;
use serde::Serialize;

use crate::allocators::{Allocator, Bench, MIMALLOC_AT, OURS, without_settings};
use crate::args::LatencyOptions;
use crate::goals::Goal;
use crate::machine::{Cpu, Machine};
use crate::measured::{Head, Measured};
use crate::peers::{AllAllocators, everybody};
use crate::stats::{Estimate, PairedSamples, median, ratio};
use crate::{interrupt, screen};
use said::{CALLS, Call, P999, Run, SHARES, SLOW, run_of};

/// Ours to mimalloc's, of the calls' 99.9th percentile.
const LIMIT: f64 = 1.10;
/// Threads run on at most this many CPUs.
const CPUS: usize = 2;
/// The load's exit code where a thread may not have `SCHED_FIFO`.
const NOT_PERMITTED: i32 = 4;
/// Below this multiple of the clock's own median, a time is mostly the clock's.
const CLEAR_OF_CLOCK: f64 = 2.0;

/// What reads the time, and of which threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Clock {
    Thread,
    Tsc,
    /// As [`Clock::Tsc`], of one thread of `SCHED_FIFO` beside normal ones on its CPU.
    Fifo,
}

impl Clock {
    fn word(self) -> &'static str {
        match self {
            Self::Thread => "thread",
            Self::Tsc => "tsc",
            Self::Fifo => "fifo",
        }
    }

    fn title(self) -> &'static str {
        match self {
            Self::Thread => "thread CPU time",
            Self::Tsc => "time stamp counter: counts interrupts and other threads' turns too",
            Self::Fifo => {
                "one of them of SCHED_FIFO, which is timed, by the time stamp counter, and the \
                 others on its CPU"
            }
        }
    }
}

/// One clock and number of threads.
#[derive(Serialize)]
struct LatencyPart {
    clock: Clock,
    threads: u32,
    /// By allocator, then round.
    runs: Vec<Vec<Run>>,
}

impl LatencyPart {
    fn samples(&self, allocator: usize, of: impl Fn(&Run) -> f64) -> Vec<f64> {
        self.runs[allocator].iter().map(of).collect()
    }

    fn over(&self, allocator: usize, of: impl Fn(&Run) -> f64) -> f64 {
        median(&self.samples(allocator, of))
    }

    /// Ours to a peer's; none where a time is nothing but the clock's.
    fn to(&self, peer: usize, of: impl Fn(&Run) -> f64) -> Option<Estimate> {
        let (ours, peer) = (self.samples(OURS, &of), self.samples(peer, of));
        let some = |samples: &[f64]| samples.iter().all(|&sample| sample > 0.0);
        (some(&ours) && some(&peer)).then(|| ratio(&[PairedSamples { ours: &ours, peer: &peer }]))
    }

    fn table(&self, allocators: &[Allocator]) -> Table {
        let mut rows = Vec::new();
        for (a, allocator) in allocators.iter().enumerate() {
            for call in self.calls() {
                rows.push(self.row(a, allocator.name, call));
            }
        }
        let mut heading = vec!["allocator", "call"];
        heading.extend(SHARES);
        heading.extend(["max", "ours to it, p99.9", "without the clock", "faults", "switches"]);
        screen::table(&heading, rows)
    }

    /// One thread gets nothing from another.
    fn calls(&self) -> impl Iterator<Item = Call> {
        let several = self.threads > 1;
        CALLS.into_iter().filter(move |&call| several || call != Call::Handed)
    }

    /// How many of a million calls took so long that they did work for others.
    fn slow_table(&self, allocators: &[Allocator]) -> Table {
        let mut rows = Vec::new();
        for (a, allocator) in allocators.iter().enumerate() {
            for call in self.calls().filter(|&call| call != Call::Empty) {
                let share = |bin: usize| {
                    self.over(a, |run| {
                        let times = run.of(call);
                        times.slow[bin] as f64 * 1e6 / times.count.max(1) as f64
                    })
                };
                let mut row = vec![allocator.name.to_owned(), call.word().to_owned()];
                row.extend((0..SLOW.len()).map(|bin| format!("{:.0}", share(bin))));
                rows.push(row);
            }
        }
        let mut heading = vec!["allocator", "of a million, us:"];
        heading.extend(SLOW);
        screen::table(&heading, rows)
    }

    fn row(&self, a: usize, name: &str, call: Call) -> Vec<String> {
        let ns = |of: &dyn Fn(&Run) -> f64| format!("{:.0}", self.over(a, of));
        let mut row = vec![name.to_owned(), call.word().to_owned()];
        row.extend((0..SHARES.len()).map(|p| ns(&|run| run.of(call).percentiles[p])));
        row.push(ns(&|run| run.of(call).max));
        let judged = a != OURS && call != Call::Empty;
        let cell = |estimate: Option<Estimate>| match estimate {
            Some(Estimate { value, low, high }) => format!("{value:.3} ({low:.3} to {high:.3})"),
            None => String::new(),
        };
        row.push(cell(judged.then(|| self.to(a, |r| r.of(call).percentiles[P999])).flatten()));
        row.push(cell(judged.then(|| self.to(a, |r| r.net(call, P999))).flatten()));
        if call == Call::Malloc {
            row.extend([ns(&|run| run.faults as f64), ns(&|run| run.switches as f64)]);
        } else {
            row.extend([String::new(), String::new()]);
        }
        row
    }

    /// By thread CPU time alone, and without what the clock takes: else a slow clock would make all
    /// allocators look equal.
    fn goals(&self) -> Vec<Goal> {
        if self.clock != Clock::Thread {
            return Vec::new();
        }
        let goal = |call: Call| {
            let name = format!("p99.9 of {} to mimalloc's, threads: {}", call.word(), self.threads);
            let Some(e) = self.to(MIMALLOC_AT, |run| run.net(call, P999)) else {
                return Goal::skipped(name, "the clock takes all of it");
            };
            let Estimate { value, low, high } = e;
            Goal {
                name,
                measured: format!("{value:.3} ({low:.3} to {high:.3})"),
                limit: format!("<= {LIMIT:.2}"),
                met: Some(value <= LIMIT),
            }
        };
        [Call::Malloc, Call::Free].map(goal).to_vec()
    }

    /// What of the table is the clock's, in words.
    fn warning(&self) -> String {
        let nr = self.runs.len();
        let clock = self.over(OURS, |run| run.of(Call::Empty).percentiles[0]);
        let hidden = |p: usize| {
            let all = (0..nr).all(|a| {
                [Call::Malloc, Call::Free].iter().all(|&call| {
                    self.over(a, |run| run.of(call).percentiles[p]) < CLEAR_OF_CLOCK * clock
                })
            });
            all.then_some(SHARES[p])
        };
        let hidden: Vec<&str> = (0..SHARES.len()).filter_map(hidden).collect();
        let rest = if hidden.is_empty() {
            "each percentile is clear of that on some allocator".to_owned()
        } else {
            format!("which hides {} on all allocators", hidden.join(", "))
        };
        format!("Two readings of the clock with nothing between take {clock:.0} ns, {rest}.")
    }
}

#[derive(Serialize)]
struct Report<'a> {
    #[serde(flatten)]
    head: Head<'a>,
    rounds: u32,
    pairs: u64,
    parts: &'a [LatencyPart],
    goals: &'a [Goal],
}

/// Runs the suite.
pub fn run(options: &LatencyOptions) -> Result<Measured> {
    let bench = Bench::open(options.common.ours.as_deref())?;
    let machine = Machine::read()?;
    let AllAllocators { allocators, absent } = everybody(&bench, options.gperftools.as_deref());
    let parts = measure(&bench, &machine, &allocators, options)?;
    let goals: Vec<Goal> = parts.iter().flat_map(LatencyPart::goals).collect();
    let report = Report {
        head: Head::new(1, "latency", &machine, &allocators, &absent),
        rounds: options.rounds,
        pairs: options.pairs,
        parts: &parts,
        goals: &goals,
    };
    Measured::new(&report.head, &text(&report), &report, goals.clone())
}

fn measure(
    bench: &Bench,
    machine: &Machine,
    allocators: &[Allocator],
    options: &LatencyOptions,
) -> Result<Vec<LatencyPart>> {
    let mut clocks = vec![Clock::Thread];
    if cfg!(target_arch = "x86_64") {
        clocks.push(Clock::Tsc);
        if may_be_first(bench)? {
            clocks.push(Clock::Fifo);
        } else {
            eprintln!("slabyard-bench: SCHED_FIFO is not permitted, and not measured");
        }
    }
    let mut parts: Vec<LatencyPart> = Vec::new();
    for &threads in &options.threads {
        for &clock in clocks.iter().filter(|&&clock| clock != Clock::Fifo || threads > 1) {
            parts.push(LatencyPart { clock, threads, runs: vec![Vec::new(); allocators.len()] });
        }
    }
    let bar = screen::progress(options.rounds as usize * parts.len() * allocators.len());
    let mut random = Rng::new();
    for _ in 0..options.rounds {
        for part in &mut parts {
            let mut order: Vec<usize> = (0..allocators.len()).collect();
            random.shuffle(&mut order);
            for a in order {
                bar.set_message(format!("{}, {} threads", part.clock.word(), part.threads));
                let cpus = cpus_for(machine, part.clock, part.threads);
                let pairs = options.pairs.div_ceil(u64::from(part.threads));
                let run = one(bench, &allocators[a], part.clock, part.threads, pairs, cpus)?;
                part.runs[a].push(run);
                bar.inc(1);
                interrupt::check()?;
            }
        }
    }
    bar.finish_and_clear();
    Ok(parts)
}

/// The last CPU for one thread, and where one is to preempt the others; the first two for several,
/// however many.
fn cpus_for(machine: &Machine, clock: Clock, threads: u32) -> &[Cpu] {
    let most = if clock == Clock::Fifo { 1 } else { CPUS };
    machine.cpus_for(most.min(threads as usize).min(machine.cpus.len()))
}

/// False where a thread may not have `SCHED_FIFO`.
fn may_be_first(bench: &Bench) -> Result<bool> {
    let mut command = without_settings(&bench.program("latency"));
    let out = command.args([Clock::Fifo.word(), "2", "1"]).output().context("latency")?;
    let error = String::from_utf8_lossy(&out.stderr);
    match out.status.code() {
        Some(0) => Ok(true),
        Some(NOT_PERMITTED) => Ok(false),
        _ => anyhow::bail!("latency: {}: {error}", out.status),
    }
}

fn one(
    bench: &Bench,
    allocator: &Allocator,
    clock: Clock,
    threads: u32,
    pairs: u64,
    cpus: &[Cpu],
) -> Result<Run> {
    let mut command = allocator.command(&bench.program("latency"));
    command.arg(clock.word()).args([threads.to_string(), pairs.to_string()]);
    let out = command.args(cpus.iter().map(ToString::to_string)).output().context("latency")?;
    let error = String::from_utf8_lossy(&out.stderr);
    ensure!(out.status.success(), "latency on {}: {}: {error}", allocator.name, out.status);
    let text = String::from_utf8(out.stdout).context("latency")?;
    run_of(&text).with_context(|| format!("latency on {} said {text:?}", allocator.name))
}

fn text(report: &Report) -> String {
    let mut text = format!(
        "Nanoseconds of single calls, {} pairs of mixed sizes a process; medians of {} rounds.\n\
         empty: the clock read twice with nothing between. No sample is dropped.\n\
         Ratios are ours to the allocator's of the row in the same round, the median over rounds; \
         `without the clock` takes the median of `empty` in the same process off both. `handed` is \
         a free of what another thread allocated.\n",
        report.pairs, report.rounds
    );
    for part in report.parts {
        let threads = part.threads;
        text += &format!("\nthreads: {threads}; {}.\n{}\n", part.clock.title(), part.warning());
        text += &format!("\n{}\n", part.table(report.head.allocators));
        text += &format!(
            "\nCalls from so many microseconds to twice as many, without the clock, of a million:\n\n{}\n",
            part.slow_table(report.head.allocators)
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn made_up(p999: u32) -> Run {
        let text = format!(
            "empty 5 500.0 510.0 520.0 530.0 540.0 0 0 0 0 0 0 0 0 0 0 0\n\
             malloc 20 510.0 600.0 {p999}.0 9000.0 10000.0 0 0 0 2 0 0 0 0 0 0 0\n\
             free 20 510.0 600.0 1500.0 9000.0 10000.0 0 0 0 0 0 0 0 0 0 0 0\n\
             handed 0 0.0 0.0 0.0 0.0 0.0 0 0 0 0 0 0 0 0 0 0 0\nfaults 3 1\n"
        );
        run_of(&text).unwrap()
    }

    fn part(clock: Clock, ours: u32, mimalloc: u32) -> LatencyPart {
        let runs = [ours, mimalloc].map(|p999| vec![made_up(p999); 3]).to_vec();
        LatencyPart { clock, threads: 1, runs }
    }

    fn words(part: &LatencyPart) -> Vec<&'static str> {
        part.goals().iter().map(Goal::word).collect()
    }

    #[test]
    fn clock_does_not_make_a_slow_allocator_alike() {
        assert_eq!(words(&part(Clock::Thread, 1600, 1500)), ["met", "met"]);
        // 1.07 of it with the clock, 1.11 without.
        assert_eq!(words(&part(Clock::Thread, 1610, 1500)), ["MISSED", "met"]);
        assert!(part(Clock::Tsc, 9000, 1500).goals().is_empty(), "told, not judged");
    }

    #[test]
    fn time_that_is_the_clocks_alone_is_skipped() {
        assert_eq!(words(&part(Clock::Thread, 500, 1500)), ["skipped", "met"]);
    }

    #[test]
    fn what_the_clock_hides_is_said() {
        let warning = part(Clock::Thread, 1600, 1500).warning();
        assert!(warning.contains("500 ns") && warning.contains("hides p50, p99 on"), "{warning}");
    }

    #[test]
    fn table_has_each_call_of_each_allocator() {
        let allocator = |name| Allocator {
            name,
            preload: None,
            settings: Vec::new(),
            version: String::new(),
            flags: "",
        };
        let mut part = part(Clock::Thread, 1600, 1500);
        let slow = part.slow_table(&["ours", "mimalloc"].map(allocator)).to_string();
        assert_eq!((slow.lines().count(), slow.matches(" 100000 ").count()), (2 + 4, 2), "{slow}");
        let text = part.table(&["ours", "mimalloc"].map(allocator)).to_string();
        assert_eq!(text.lines().count(), 2 + 6, "{text}");
        let rows: Vec<&str> = text.lines().filter(|line| line.contains("malloc |")).collect();
        assert!(text.contains("1.067 (") && text.contains("1.100 ("), "{rows:?}");
        part.threads = 4;
        let text = part.table(&["ours", "mimalloc"].map(allocator)).to_string();
        assert_eq!(text.lines().count(), 2 + 8, "{text}");
    }

    #[test]
    fn calls_are_timed_on_every_allocator() {
        let bench = Bench::open(Some(Path::new("mimalloc"))).unwrap();
        let machine = Machine::read().unwrap();
        for allocator in &bench.allocators {
            for threads in [1, 4] {
                for clock in [Clock::Thread, Clock::Tsc, Clock::Fifo] {
                    let cpus = cpus_for(&machine, clock, threads);
                    if clock != Clock::Thread && !cfg!(target_arch = "x86_64") {
                        println!("skipped: no time stamp counter here");
                        continue;
                    }
                    if clock == Clock::Fifo && (threads == 1 || !may_be_first(&bench).unwrap()) {
                        continue;
                    }
                    let run = one(&bench, allocator, clock, threads, 30_000, cpus).unwrap();
                    let timed = if clock == Clock::Fifo { 1 } else { threads };
                    let pairs = 30_000 * u64::from(timed);
                    assert_eq!(run.of(Call::Malloc).count, pairs);
                    assert_eq!(run.of(Call::Empty).count, pairs / 4);
                    // What is still in the places of exchange is not timed.
                    let handed = run.of(Call::Handed).count;
                    let frees = run.of(Call::Free).count + handed;
                    assert!((pairs - 1024..=pairs).contains(&frees));
                    // The others may hand nothing over while one preempts them.
                    assert!(clock == Clock::Fifo || (handed > 0) == (threads > 1), "{run:?}");
                    for call in CALLS {
                        let times = run.of(call);
                        assert!(times.percentiles.is_sorted(), "{times:?}");
                        assert!(times.percentiles[3] <= times.max * 1.01, "{times:?}");
                        assert!(times.slow.iter().sum::<u64>() <= times.count, "{times:?}");
                    }
                    let p50 = run.of(Call::Malloc).percentiles[0];
                    assert!(p50 > 1.0 && p50 < 100_000.0, "{p50} ns");
                }
            }
        }
    }
}
