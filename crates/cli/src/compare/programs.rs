//! Runs a program on each contender in turn.
//!
//! ```text
//! untimed rounds   warm caches up; in the last one slow paths are counted, which costs time
//! timed rounds     each contender once; each round begins with the next contender
//! ```
//!
//! Contenders take turns so that a temporary disturbance of the machine affects all of them.

use super::child::Stop;
use super::contender::{Contender, Counts, ServedBy};
use super::figures::{Figures, LoadComparison, MeasureKey};
use super::one::{Load, Output, Run, RunFiles};
use crate::progress::Progress;

use crate::failure::Failure;
use anyhow::Context;
use slabyard_abi::stats::Counter;
use slabyard_observe::Snapshot;
use slabyard_observe::value::Value;
use std::collections::BTreeMap;

/// How often each contender runs.
#[derive(Clone, Copy, Debug)]
pub struct Rounds {
    /// Rounds whose figures count.
    pub timed: u32,
    /// Those before, whose time nobody looks at.
    pub warmup: u32,
    /// Whether one of these counts.
    pub counts: Counts,
}

impl Rounds {
    /// Those before the timed ones.
    pub fn untimed(&self) -> u32 {
        self.warmup.max(u32::from(self.counts == Counts::Kept))
    }
}

/// Runs the whole comparison.
pub fn compare(
    load: &Load,
    contenders: &[Contender],
    rounds: Rounds,
) -> Result<LoadComparison, Failure> {
    // Before the first has run for long.
    for contender in contenders {
        contender.library()?;
    }
    let directory = tempfile::Builder::new().prefix("slabyard-").tempdir();
    let directory = directory.context("cannot make a directory; set TMPDIR to a writable one")?;
    let mut stop = Stop::new().context("cannot take signals")?;
    let untimed = rounds.untimed();
    let runs = (untimed + rounds.timed) as usize * contenders.len();
    let progress = Progress::new(runs, matches!(load.output, Output::Shown));
    let mut figures: Vec<Figures> = contenders.iter().map(|c| Figures::new(&c.name)).collect();
    let mut findings = Vec::new();
    for round in 0..untimed + rounds.timed {
        let (name, counts) = if round + 1 == untimed {
            (format!("untimed round {}", round + 1), rounds.counts)
        } else if round < untimed {
            (format!("untimed round {}", round + 1), Counts::Off)
        } else {
            (format!("round {}", round + 1 - untimed), Counts::Off)
        };
        let stage = RunFiles { load, directory: &directory, round: name };
        for nth in 0..contenders.len() {
            let at = (nth + round as usize) % contenders.len();
            stop.check()?;
            progress.begin(&stage.round, &contenders[at].name);
            let run = stage.run(&contenders[at], counts, &mut stop)?;
            progress.end();
            let told = run.told.iter().map(|words| format!("{}: {words}", contenders[at].name));
            findings.extend(told);
            if round >= untimed {
                timed(&mut figures[at], &run);
            } else if counts == Counts::Kept {
                counted(&mut figures[at], &contenders[at], &run, &mut findings);
            }
        }
    }
    findings.sort();
    findings.dedup();
    Ok(LoadComparison { figures, findings, notes: Vec::new() })
}

fn timed(figures: &mut Figures, run: &Run) {
    figures.add(MeasureKey::Time, Some(run.took.as_secs_f64()));
    figures.add(MeasureKey::Cpu, Some(run.ended.cpu.as_secs_f64()));
    figures.count(MeasureKey::Peak, Some(run.ended.peak.max(run.most)));
    figures.add(MeasureKey::Mean, run.mean);
}

fn counted(figures: &mut Figures, on: &Contender, run: &Run, findings: &mut Vec<String>) {
    let report = run.report.as_ref();
    figures.count(MeasureKey::Waste, run.waste);
    figures.counted(report.and_then(counters));
    if let (ServedBy::Engine(wanted), Some(report)) = (&on.who, report)
        && let Some(Value::Text(served)) = report.total("engine")
        && served != wanted.row().name
    {
        findings.push(format!("{}: the engine that served was `{served}`", on.name));
    }
}

/// The sums over all caches; `None` if nothing was counted.
fn counters(report: &Snapshot) -> Option<BTreeMap<String, u64>> {
    let mut sums: BTreeMap<String, u64> = BTreeMap::new();
    for (_, name, _) in Counter::ALL {
        let of_caches = report.caches.iter().filter_map(|cache| cache.exact(name));
        sums.insert((*name).to_owned(), of_caches.sum());
    }
    // A process that does not count leaves the same lines as one that has nothing to count.
    sums.values().any(|n| *n > 0).then_some(sums)
}
