//! How much memory is returned after a burst of which one object in a hundred stays live, while the
//! program makes pairs of malloc and free, or no calls.
//!
//! Neighbours: `loads/rest.c` knows which pages hold none of its live objects, and asks the kernel
//! how many of them are still resident; the allocator is neither queried nor told to trim.

use anyhow::{Context, Result, ensure};
use fastrand::Rng;
use serde::Serialize;

use crate::allocators::{Allocator, Bench, OURS};
use crate::args::RestOptions;
use crate::goals::Goal;
use crate::machine::Machine;
use crate::measured::{Head, Measured};
use crate::peers::{AllAllocators, everybody};
use crate::stats::median;
use crate::{interrupt, screen};

/// Small objects for each large one.
const SMALL_A_LARGE: u64 = 7500;
/// Of the pages that hold no live object, this share is back in time.
const LIMIT: f64 = 0.90;
/// In time: milliseconds after the last free.
const IN_TIME_MS: u64 = 1000;
/// When an allocator with a thread of its own is looked at, if nothing is called.
const HELPED_MS: u64 = 5000;
/// Ours with such a thread: the last of all, and measured while nothing is called.
const HELPED: &str = "ours+helper";

/// What the program does after the last free.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum AfterFrees {
    Pairs,
    Idle,
}

impl AfterFrees {
    fn word(self) -> &'static str {
        match self {
            Self::Pairs => "pairs",
            Self::Idle => "idle",
        }
    }

    fn title(self) -> &'static str {
        match self {
            Self::Pairs => "1000 small pairs a second",
            Self::Idle => "no call at all; then one of 64 bytes, then one of 1 MiB",
        }
    }
}

/// What the load said at one moment.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct RestReading {
    /// Milliseconds after the last free, or `call` or `slow`.
    at: String,
    rss_kib: u64,
    /// Of that, given up by `MADV_FREE` and not yet taken.
    lazy_kib: u64,
    /// Pages that hold no live object.
    empty: u64,
    /// Those of them that are in memory.
    resident: u64,
}

impl RestReading {
    /// The share of the empty pages that was returned to the kernel.
    fn back(&self) -> f64 {
        if self.empty == 0 { 1.0 } else { 1.0 - self.resident as f64 / self.empty as f64 }
    }

    fn label(&self) -> String {
        match self.at.parse::<u64>() {
            Ok(ms) if ms % 1000 == 0 => format!("{} s", ms / 1000),
            Ok(ms) => format!("{ms} ms"),
            Err(_) => self.at.clone(),
        }
    }
}

/// One process.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct Run {
    peak_kib: u64,
    page_kib: u64,
    moments: Vec<RestReading>,
}

/// One number of objects, and what is done after.
#[derive(Serialize)]
struct RestPart {
    objects: u64,
    large: u64,
    after: AfterFrees,
    /// By allocator, then round; without the helped one where it is not measured.
    runs: Vec<Vec<Run>>,
}

impl RestPart {
    /// Median over rounds.
    fn over(&self, allocator: usize, of: impl Fn(&Run) -> f64) -> f64 {
        median(&self.runs[allocator].iter().map(of).collect::<Vec<_>>())
    }

    fn name(&self) -> String {
        format!("{} objects, {}", self.objects + self.large, self.after.word())
    }

    fn table(&self, allocators: &[Allocator]) -> comfy_table::Table {
        let moments = &self.runs[OURS][0].moments;
        let mut heading = vec!["allocator".to_owned(), "peak".to_owned(), "empty".to_owned()];
        for moment in moments {
            let label = moment.label();
            heading.extend([format!("back, {label}"), format!("RSS, {label}")]);
        }
        heading.push("lazy".to_owned());
        let row = |(a, allocator): (usize, &Allocator)| {
            let mib = |of: &dyn Fn(&Run) -> f64| format!("{:.1}", self.over(a, of) / 1024.0);
            let mut row = vec![allocator.name.to_owned()];
            row.push(mib(&|run| run.peak_kib as f64));
            row.push(mib(&|run| (run.moments[0].empty * run.page_kib) as f64));
            for m in 0..moments.len() {
                row.push(percent(self.over(a, |run| run.moments[m].back())));
                row.push(mib(&|run| run.moments[m].rss_kib as f64));
            }
            row.push(mib(&|run| run.moments[moments.len() - 1].lazy_kib as f64));
            row
        };
        let heading: Vec<&str> = heading.iter().map(String::as_str).collect();
        let measured = &allocators[..self.runs.len()];
        screen::table(&heading, measured.iter().enumerate().map(row).collect())
    }

    /// A goal while pairs are made, and idle with a helper; idle without one is only reported.
    fn goal(&self) -> Option<Goal> {
        let (allocator, ms, with) = match self.after {
            AfterFrees::Pairs => (OURS, IN_TIME_MS, ""),
            AfterFrees::Idle => (self.runs.len() - 1, HELPED_MS, ", with the helper"),
        };
        let in_time = ms.to_string();
        let moments = &self.runs[allocator].first()?.moments;
        let at = moments.iter().position(|moment| moment.at == in_time)?;
        let back = self.over(allocator, |run| run.moments[at].back());
        Some(Goal {
            name: format!("empty pages back within {} s, {}{with}", ms / 1000, self.name()),
            measured: percent(back),
            limit: format!(">= {}", percent(LIMIT)),
            met: Some(back >= LIMIT),
        })
    }
}

#[derive(Serialize)]
struct Report<'a> {
    #[serde(flatten)]
    head: Head<'a>,
    rounds: u32,
    parts: &'a [RestPart],
    goals: &'a [Goal],
}

/// Runs the suite.
pub fn run(options: &RestOptions) -> Result<Measured> {
    let bench = Bench::open(options.common.ours.as_deref())?;
    let machine = Machine::read()?;
    let AllAllocators { mut allocators, absent } = everybody(&bench, options.gperftools.as_deref());
    allocators.push(helped(&allocators[OURS]));
    let parts = measure(&bench, &allocators, options)?;
    let goals: Vec<Goal> = parts.iter().filter_map(RestPart::goal).collect();
    let report = Report {
        head: Head::new(1, "rest", &machine, &allocators, &absent),
        rounds: options.rounds,
        parts: &parts,
        goals: &goals,
    };
    Measured::new(&report.head, &text(&report), &report, goals.clone())
}

fn helped(ours: &Allocator) -> Allocator {
    Allocator { name: HELPED, settings: vec![("SLABYARD_HELPER", "1".to_owned())], ..ours.clone() }
}

fn measure(
    bench: &Bench,
    allocators: &[Allocator],
    options: &RestOptions,
) -> Result<Vec<RestPart>> {
    let afters = [
        (AfterFrees::Pairs, vec![0, IN_TIME_MS, options.seconds * 1000]),
        (AfterFrees::Idle, idle_moments(options.seconds)),
    ];
    let mut random = Rng::new();
    // One of them is not measured while pairs are made.
    let steps = options.times.len() * options.rounds as usize * (2 * allocators.len() - 1);
    let bar = screen::progress(steps);
    let mut parts = Vec::new();
    for times in &options.times {
        for (after, moments) in &afters {
            let objects = options.objects * times;
            let large = objects / SMALL_A_LARGE;
            let measured = match after {
                AfterFrees::Pairs => allocators.len() - 1,
                AfterFrees::Idle => allocators.len(),
            };
            let runs = vec![Vec::new(); measured];
            let mut part = RestPart { objects, large, after: *after, runs };
            for _ in 0..options.rounds {
                let mut order: Vec<usize> = (0..measured).collect();
                random.shuffle(&mut order);
                for a in order {
                    bar.set_message(format!("{}, {}", after.word(), allocators[a].name));
                    let run = one(bench, &allocators[a], &part, moments)?;
                    part.runs[a].push(run);
                    bar.inc(1);
                    interrupt::check()?;
                }
            }
            parts.push(part);
        }
    }
    bar.finish_and_clear();
    Ok(parts)
}

/// One more than while pairs are made: a thread that helps has its own pace.
fn idle_moments(seconds: u64) -> Vec<u64> {
    let mut moments = vec![0, IN_TIME_MS, HELPED_MS, seconds * 1000];
    moments.retain(|&moment| moment <= seconds * 1000);
    moments.dedup();
    moments
}

fn one(bench: &Bench, allocator: &Allocator, part: &RestPart, moments: &[u64]) -> Result<Run> {
    let mut command = allocator.command(&bench.program("rest"));
    command.args([part.objects.to_string(), part.large.to_string()]);
    command.arg(part.after.word()).args(moments.iter().map(u64::to_string));
    let out = command.output().context("rest")?;
    let error = String::from_utf8_lossy(&out.stderr);
    ensure!(out.status.success(), "rest on {}: {}: {error}", allocator.name, out.status);
    let text = String::from_utf8(out.stdout).context("rest")?;
    said(&text).with_context(|| format!("rest on {} said {text:?}", allocator.name))
}

/// The load's lines.
fn said(text: &str) -> Option<Run> {
    let mut lines = text.lines();
    let (peak, page) = lines.next()?.strip_prefix("peak ")?.split_once(' ')?;
    let (peak_kib, page_kib) = (peak.parse().ok()?, page.parse().ok()?);
    let moments = lines.map(moment).collect::<Option<Vec<RestReading>>>()?;
    (!moments.is_empty()).then_some(Run { peak_kib, page_kib, moments })
}

fn moment(line: &str) -> Option<RestReading> {
    let line = line.strip_prefix("at ").unwrap_or(line);
    let fields: Vec<&str> = line.split(' ').collect();
    let [at, numbers @ ..] = fields.as_slice() else { return None };
    let numbers: Vec<u64> = numbers.iter().map(|n| n.parse().ok()).collect::<Option<_>>()?;
    let &[rss_kib, lazy_kib, empty, resident] = numbers.as_slice() else { return None };
    Some(RestReading { at: (*at).to_owned(), rss_kib, lazy_kib, empty, resident })
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

fn text(report: &Report) -> String {
    let mut text = format!(
        "Objects of 16 to 4096 bytes and some of 256 KiB to 8 MiB; 99 % freed at random.\n\
         empty: pages that were written to and hold no byte of an object that stays.\n\
         back: the share of them that is not in memory, some time after the last free.\n\
         lazy: what MADV_FREE gave up and the system has not taken at the last moment; it is resident.\n\
         MiB and shares, median of {} rounds.\n",
        report.rounds
    );
    for part in report.parts {
        let (name, title) = (part.name(), part.after.title());
        text += &format!("\n{name} ({title}):\n\n{}\n", part.table(report.head.allocators));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    const SAID: &str = "peak 2000 4\nat 0 1900 0 400 400\nat 1000 600 8 400 40\nslow 500 0 400 0\n";

    fn part(after: AfterFrees, resident: u64) -> RestPart {
        let text = format!("peak 9 4\nat 0 9 0 100 100\nat 1000 9 0 100 {resident}\n");
        let runs = vec![vec![said(&text).unwrap(); 3]];
        RestPart { objects: 300, large: 1, after, runs }
    }

    #[test]
    fn lines_of_the_load_are_read() {
        let run = said(SAID).unwrap();
        assert_eq!((run.peak_kib, run.page_kib, run.moments.len()), (2000, 4, 3));
        let second = &run.moments[1];
        assert_eq!((second.rss_kib, second.lazy_kib), (600, 8));
        assert_eq!((second.label(), second.back()), ("1 s".to_owned(), 0.9));
        assert_eq!((run.moments[2].label(), run.moments[2].back()), ("slow".to_owned(), 1.0));
        for wrong in
            ["", "peak 1 4\n", "peak 1 4\nat 0 1 2 3\n", "at 0 1 2 3 4\n", "peak 1\nat 0 1 2 3 4\n"]
        {
            assert!(said(wrong).is_none(), "{wrong:?}");
        }
    }

    #[test]
    fn nine_of_ten_pages_meet_the_goal_and_fewer_miss_it() {
        assert_eq!(part(AfterFrees::Pairs, 10).goal().unwrap().met, Some(true));
        assert_eq!(part(AfterFrees::Pairs, 11).goal().unwrap().met, Some(false));
        assert!(part(AfterFrees::Idle, 100).goal().is_none(), "idle is told, not judged");
    }

    #[test]
    fn load_counts_what_is_back() {
        let bench = Bench::open(Some(Path::new("mimalloc"))).unwrap();
        for allocator in &bench.allocators {
            for (after, nr_moments) in [(AfterFrees::Pairs, 2), (AfterFrees::Idle, 4)] {
                let part = RestPart { objects: 20_000, large: 2, after, runs: Vec::new() };
                let run = one(&bench, allocator, &part, &[0, 50]).unwrap();
                assert_eq!(run.moments.len(), nr_moments);
                // 20 000 objects of about 760 bytes are about 15 MB.
                assert!(run.peak_kib > 14_000, "{run:?}");
                for moment in &run.moments {
                    assert!((2000..9000).contains(&moment.empty), "{moment:?}");
                    assert!(moment.resident <= moment.empty, "{moment:?}");
                    let gone = (moment.empty - moment.resident) * run.page_kib;
                    assert!(gone <= run.peak_kib, "{run:?}");
                    // What is back is not resident, and the rest is.
                    assert!(moment.rss_kib + gone <= run.peak_kib + 2000, "{run:?}");
                    assert!(moment.rss_kib > moment.resident * run.page_kib, "{run:?}");
                }
            }
        }
    }

    #[test]
    fn load_refuses_what_it_does_not_know() {
        let bench = Bench::open(Some(Path::new("mimalloc"))).unwrap();
        let part = RestPart { objects: 5, large: 0, after: AfterFrees::Pairs, runs: Vec::new() };
        let error = one(&bench, &bench.allocators[OURS], &part, &[0]).unwrap_err().to_string();
        assert!(error.contains("at least 100 objects"), "{error}");
    }
}
