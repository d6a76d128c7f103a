//! Runs one load of `loads/kernel` on the named allocators, which take turns.
//!
//! `shapes` defines the loads and their settings, `said` parses the output of a run, `report` is
//! the file format of all results, `text` prints them; `compare`'s runner starts and measures a
//! run.

mod report;
pub mod said;
#[cfg(test)]
mod tests;
mod text;

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;
use fastrand::Rng;

use crate::allocators::{Allocator, Bench, KERNEL_LOADS};
use crate::compare::runs::Runner;
use crate::fronts::Engines;
use crate::goals::Verdict;
use crate::machine::Machine;
use crate::peers::everybody;
use crate::shapes::LoadOptions;
use crate::{fronts, interrupt, screen};
use report::{Report, in_words};
use said::{Run, run_of};

pub fn run(options: &LoadOptions) -> Result<Verdict> {
    let bench = Bench::open(ours_of(options))?;
    let machine = Machine::read()?;
    let allocators = chosen(&bench, &options.engines, &options.preload)?;
    let runs = measure(&bench, &allocators, options)?;
    let report = Report::new(&machine, &allocators, options, &runs);
    let heading = screen::heading(&machine, &allocators);
    let text = format!("{heading}\n{}", text::body(&report, &options.shape));
    screen::publish(&text, &report, options.json.as_deref())?;
    Ok(Verdict::Met)
}

/// Nobody has to build ours to run a load on other libraries.
fn ours_of(options: &LoadOptions) -> Option<&Path> {
    let wanted = options.preload.is_empty() || options.preload.iter().any(|word| word == "ours");
    if wanted { options.ours.as_deref() } else { Some(Path::new("mimalloc")) }
}

/// The allocators that were named, in the order of their names.
fn chosen(bench: &Bench, engines: &Engines, words: &[String]) -> Result<Vec<Allocator>> {
    if words.is_empty() {
        return Ok(bench.allocators.clone());
    }
    // The others take a moment to be looked at.
    let known = |name: &str| bench.allocators.iter().any(|allocator| allocator.name == name);
    let is_no_peer = |word: &str| known(word) || word.contains('/') || fronts::is_meant(word);
    let peers =
        if words.iter().all(|word| is_no_peer(word)) { None } else { Some(everybody(bench, None)) };
    let found = peers.as_ref().map_or(&bench.allocators, |peers| &peers.allocators);
    let absent = peers.as_ref().map_or(&[][..], |peers| &peers.absent);
    let one = |word: &String| {
        if let Some(allocator) = found.iter().find(|allocator| allocator.name == word) {
            return Ok(allocator.clone());
        }
        if let Some(absent) = absent.iter().find(|absent| absent.name == word) {
            anyhow::bail!("{word}: {}", absent.why);
        }
        if fronts::is_meant(word) {
            return fronts::allocator(bench, engines, word);
        }
        let library = fs::canonicalize(word)
            .with_context(|| format!("--preload {word}: no peer, no front, and no file"))?;
        // As long as the process: an allocator's name is mostly a constant.
        bench.checked(word.clone().leak(), Some(library))
    };
    words.iter().map(one).collect()
}

/// Every allocator in each round, in an order drawn anew.
fn measure(
    bench: &Bench,
    allocators: &[Allocator],
    options: &LoadOptions,
) -> Result<Vec<Vec<Run>>> {
    let program = bench.program(KERNEL_LOADS);
    let runner = Runner::new(bench, Some(&program), 1.0, options.timeout_s);
    let mut runs: Vec<Vec<Run>> = vec![Vec::new(); allocators.len()];
    let bar = screen::progress(options.rounds as usize * allocators.len());
    let mut random = Rng::new();
    for _ in 0..options.rounds {
        let mut order: Vec<usize> = (0..allocators.len()).collect();
        random.shuffle(&mut order);
        for a in order {
            bar.set_message(format!("{}, {}", options.shape.name(), allocators[a].name));
            let run = one(&runner, &allocators[a], options)?;
            let earlier = runs.iter().flatten().next().map_or(run.ops, |earlier| earlier.ops);
            ensure!(
                run.ops == earlier,
                "{} {}; others did {earlier}",
                run.ops,
                options.shape.unit()
            );
            runs[a].push(run);
            bar.inc(1);
            interrupt::check()?;
        }
    }
    bar.finish_and_clear();
    Ok(runs)
}

fn one(runner: &Runner, allocator: &Allocator, options: &LoadOptions) -> Result<Run> {
    let name = options.shape.name();
    let (measures, text) = runner
        .run_with(name, &words(options), allocator)
        .with_context(|| format!("{name} on {}", allocator.name))?;
    run_of(&measures, &text).with_context(|| format!("{name} on {} said {text:?}", allocator.name))
}

/// What the program is passed after the load's name.
fn words(options: &LoadOptions) -> Vec<String> {
    let settings = options.shape.settings();
    let mut words: Vec<String> =
        settings.iter().map(|(name, value)| format!("{name}={}", in_words(value))).collect();
    words.extend(["--seed".to_owned(), options.seed.to_string()]);
    words.extend(options.cpus.iter().flat_map(|cpus| ["--cpus".to_owned(), cpus.to_string()]));
    if let Some(value) = options.plant.and_then(|plant| plant.to_possible_value()) {
        words.extend(["--plant".to_owned(), value.get_name().to_owned()]);
    }
    words
}
