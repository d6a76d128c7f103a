//! Makes timed runs in rounds, then runs with counters, then one that finds the allocator's share
//! of the time.
//!
//! Neighbours: `compare`'s runner starts each, `load::said` parses its output.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use fastrand::Rng;

use super::cells::Cell;
use crate::allocators::{Allocator, Bench, KERNEL_LOADS};
use crate::compare::runs::Runner;
use crate::counts::{self, CounterWords};
use crate::load::said::{Run, run_of};
use crate::questions::SeriesOptions;
use crate::share::{self, Share};
use crate::{interrupt, screen};

/// A cell, and what was measured of it.
pub struct Measured {
    pub cell: Cell,
    /// By front, then round.
    pub runs: Vec<Vec<Run>>,
    /// By front, the sums of all runs that count.
    pub counted: Vec<CounterWords>,
    /// Of the first front; or why it is not known.
    pub share: Result<Share, String>,
}

/// All cells on all fronts.
pub fn all(
    bench: &Bench,
    fronts: &[Allocator],
    cells: Vec<Cell>,
    options: &SeriesOptions,
) -> Result<Vec<Measured>> {
    let program = bench.program(KERNEL_LOADS);
    let runner = Runner::new(bench, Some(&program), 1.0, options.timeout_s);
    let mut all: Vec<Measured> = cells
        .into_iter()
        .map(|cell| Measured {
            cell,
            runs: vec![Vec::new(); fronts.len()],
            counted: vec![CounterWords::NONE; fronts.len()],
            share: Err("not looked at".to_owned()),
        })
        .collect();
    let a_round = all.len() * fronts.len();
    let bar = screen::progress((options.rounds + options.counted) as usize * a_round + all.len());
    let mut random = Rng::new();
    for _ in 0..options.rounds {
        for measured in &mut all {
            bar.set_message(format!("{}, {}", measured.cell.load, measured.cell.threads));
            let mut order: Vec<usize> = (0..fronts.len()).collect();
            random.shuffle(&mut order);
            for f in order {
                let run = one(&runner, &measured.cell, &fronts[f])?;
                let earlier = measured.runs.iter().flatten().next().map_or(run.ops, |run| run.ops);
                ensure!(run.ops == earlier, "{} operations; others did {earlier}", run.ops);
                measured.runs[f].push(run);
                bar.inc(1);
            }
        }
    }
    for measured in &mut all {
        bar.set_message(format!("counting, {}", measured.cell.load));
        for (front, words) in fronts.iter().zip(&mut measured.counted) {
            for _ in 0..options.counted {
                words.add(&counted(&runner, &measured.cell, front)?);
                bar.inc(1);
            }
        }
    }
    let perf = share::tool();
    for measured in &mut all {
        bar.set_message("perf");
        measured.share = perf.clone().and_then(|perf| {
            looked_at(&perf, &program, &measured.cell, &fronts[0])
                .map_err(|error| format!("{error:#}"))
        });
        interrupt::check()?;
        bar.inc(1);
    }
    bar.finish_and_clear();
    Ok(all)
}

fn one(runner: &Runner, cell: &Cell, front: &Allocator) -> Result<Run> {
    let name = || format!("{}, {} threads, on {}", cell.load, cell.threads, front.name);
    let (measures, text) = runner.run_with(cell.load, &cell.words(), front).with_context(name)?;
    run_of(&measures, &text).with_context(|| format!("{} said {text:?}", name()))
}

fn counted(runner: &Runner, cell: &Cell, front: &Allocator) -> Result<CounterWords> {
    let directory = tempfile::tempdir().context("directory for the report")?;
    let file = directory.path().join("report");
    one(runner, cell, &counts::counting(front, &file))?;
    Ok(counts::read(&file).with_context(|| front.name)?.all)
}

fn looked_at(perf: &Path, program: &Path, cell: &Cell, front: &Allocator) -> Result<Share> {
    let words: Vec<String> = [cell.load.to_owned()].into_iter().chain(cell.words()).collect();
    share::of(perf, program, &words, front)
}
