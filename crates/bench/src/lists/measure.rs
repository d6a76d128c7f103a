//! Makes timed runs, in rounds. Then, for each front, runs each load once with counters, and stops
//! fork bombs, reads their memory from outside and shrinks their caches.
//!
//! Neighbours: `look` reads a stopped process; `compare`'s runner starts the other runs, and
//! `load::said` parses their output.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use fastrand::Rng;
use serde::Serialize;

use super::look::{self, ListsSample};
use crate::allocators::{Allocator, Bench, KERNEL_LOADS};
use crate::compare::runs::Runner;
use crate::counts::{self, CounterWords};
use crate::load::said::{Run, run_of};
use crate::questions::ListsOptions;
use crate::{interrupt, screen};

/// The loads, by place in [`Measured`].
pub const LOADS: [&str; 2] = ["fork-bomb", "drain"];
pub const BOMB: usize = 0;
pub const DRAIN: usize = 1;

/// When a fork bomb is held: while its last tasks live, and when all have ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum HoldPoint {
    Live,
    Ended,
}

impl HoldPoint {
    pub const ALL: [HoldPoint; 2] = [Self::Live, Self::Ended];

    /// The load's word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Live => "live",
            Self::Ended => "ended",
        }
    }
}

/// A held process, before and after it was shrunk.
#[derive(Clone, Debug, Serialize)]
pub struct HeldProcess {
    pub moment: HoldPoint,
    pub before: ListsSample,
    pub after: ListsSample,
}

/// What was measured of a front.
pub struct Measured {
    /// By load, then round.
    pub runs: [Vec<Run>; LOADS.len()],
    pub counted: [CounterWords; LOADS.len()],
    pub held: Vec<HeldProcess>,
}

/// All fronts.
pub fn all(bench: &Bench, fronts: &[Allocator], options: &ListsOptions) -> Result<Vec<Measured>> {
    let program = bench.program(KERNEL_LOADS);
    let runner = Runner::new(bench, Some(&program), options.scale, options.timeout_s);
    let mut all: Vec<Measured> = fronts
        .iter()
        .map(|_| Measured {
            runs: [const { Vec::new() }; LOADS.len()],
            counted: [CounterWords::NONE; LOADS.len()],
            held: Vec::new(),
        })
        .collect();
    let each = options.rounds as usize * LOADS.len() + LOADS.len() + HoldPoint::ALL.len();
    let bar = screen::progress(each * fronts.len());
    let mut random = Rng::new();
    for _ in 0..options.rounds {
        for (nth, load) in LOADS.iter().enumerate() {
            let mut order: Vec<usize> = (0..fronts.len()).collect();
            random.shuffle(&mut order);
            for f in order {
                bar.set_message(format!("{load}, {}", fronts[f].name));
                let run = one(&runner, load, &fronts[f])?;
                all[f].runs[nth].push(run);
                bar.inc(1);
            }
        }
    }
    for (measured, front) in all.iter_mut().zip(fronts) {
        bar.set_message(front.name);
        for (words, load) in measured.counted.iter_mut().zip(LOADS) {
            *words = counted(&runner, load, front)?;
            bar.inc(1);
        }
        for moment in HoldPoint::ALL {
            let mut command = front.command(&program);
            command.args([LOADS[BOMB], "--scale"]).arg(options.scale.to_string());
            command.args(["--hold", moment.word()]);
            let held = held(command, moment);
            measured.held.push(held.with_context(|| format!("a fork bomb on {}", front.name))?);
            interrupt::check()?;
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    Ok(all)
}

fn one(runner: &Runner, load: &str, front: &Allocator) -> Result<Run> {
    let name = || format!("{load} on {}", front.name);
    let (measures, text) = runner.run_with(load, &[], front).with_context(name)?;
    run_of(&measures, &text).with_context(|| format!("{} said {text:?}", name()))
}

fn counted(runner: &Runner, load: &str, front: &Allocator) -> Result<CounterWords> {
    let directory = tempfile::tempdir().context("directory for the report")?;
    let file = directory.path().join("report");
    one(runner, load, &counts::counting(front, &file))?;
    Ok(counts::read(&file).with_context(|| front.name)?.all)
}

/// A process that ends with this.
struct Guard(Child);

impl Drop for Guard {
    fn drop(&mut self) {
        // It has ended, unless something failed.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts the load, reads its memory when it says that it holds, shrinks it, and lets it continue.
fn held(mut command: Command, moment: HoldPoint) -> Result<HeldProcess> {
    let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let mut child = Guard(child.context("start the load")?);
    let pid = child.0.id();
    let go_on = child.0.stdin.take();
    let mut said = BufReader::new(child.0.stdout.take().context("no standard output")?);
    let mut line = String::new();
    while line != "held\n" {
        line.clear();
        let n = said.read_line(&mut line).context("read the load")?;
        ensure!(n > 0, "the load ended before it held");
    }
    let before = look::at(pid)?;
    look::shrink(pid)?;
    let after = look::at(pid)?;
    drop(go_on);
    said.read_to_string(&mut line).context("read the load")?;
    let status = child.0.wait().context("wait for the load")?;
    if !status.success() {
        bail!("the load failed after it was looked at: {status}");
    }
    Ok(HeldProcess { moment, before, after })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn a_load_that_ends_or_is_no_yard_is_an_error() {
        let error = |script| format!("{:#}", held(shell(script), HoldPoint::Live).unwrap_err());
        assert!(error("echo ops 1").contains("ended before it held"));
        let no_yard = error("echo ops 1; echo held; read line");
        assert!(no_yard.contains("a look at the load"), "{no_yard}");
    }
}
