//! Private dirty memory of a program that prints one line, read before it exits: the cost of malloc
//! in every small process.

use anyhow::{Context, Result, ensure};
use fastrand::Rng;
use indicatif::ProgressBar;

use super::found::{PartResult, Sampled, median_kib};
use crate::allocators::{Allocator, Bench, GLIBC, OURS};
use crate::args::MemoryOptions;
use crate::goals::Goal;
use crate::machine::Machine;
use crate::thp::Setting;
use crate::{interrupt, screen};

const SETTINGS: [&str; 2] = ["madvise", "always"];
/// Above the C library's.
const ALLOWANCE_KIB: f64 = 512.0;

/// Measures it under both settings of THP.
pub fn measure(bench: &Bench, _: &Machine, options: &MemoryOptions) -> Result<PartResult> {
    let mut found = PartResult {
        title: "hello: private dirty KiB at the end of a small program, median.",
        heading: vec!["THP", "ours", "mimalloc", "glibc"],
        rows: Vec::new(),
        samples: Vec::new(),
        goals: Vec::new(),
    };
    let runs = options.runs as usize;
    let bar = screen::progress(SETTINGS.len() * runs * bench.allocators.len());
    for word in SETTINGS {
        bar.set_message(format!("hello, THP {word}"));
        match Setting::set(word) {
            Ok(_setting) => add(&mut found, word, sample(bench, runs, &bar)?),
            Err(error) => skip(&mut found, word, &format!("{error:#}")),
        }
    }
    bar.finish_and_clear();
    Ok(found)
}

/// KiB by allocator and run; the allocators take turns.
fn sample(bench: &Bench, runs: usize, bar: &ProgressBar) -> Result<Vec<Vec<u64>>> {
    let mut kib = vec![Vec::new(); bench.allocators.len()];
    let mut random = Rng::new();
    for _ in 0..runs {
        let mut order: Vec<usize> = (0..kib.len()).collect();
        random.shuffle(&mut order);
        for a in order {
            kib[a].push(hello(bench, &bench.allocators[a])?);
            bar.inc(1);
        }
        interrupt::check()?;
    }
    Ok(kib)
}

fn hello(bench: &Bench, allocator: &Allocator) -> Result<u64> {
    let out = allocator.command(&bench.program("hello")).output()?;
    ensure!(out.status.success(), "hello: {}", out.status);
    let text = String::from_utf8(out.stdout).context("hello")?;
    let last = text.lines().last().context("hello said nothing")?;
    last.parse().with_context(|| format!("hello said {last:?}"))
}

fn add(found: &mut PartResult, word: &str, kib: Vec<Vec<u64>>) {
    let medians: Vec<f64> = kib.iter().map(|runs| median_kib(runs)).collect();
    let mut row = vec![word.to_owned()];
    row.extend(medians.iter().map(|kib| format!("{kib:.0}")));
    found.rows.push(row);
    found.goals.push(Goal::at_most_kib(
        goal_name(word),
        medians[OURS],
        medians[GLIBC] + ALLOWANCE_KIB,
    ));
    found.samples.push(Sampled { name: format!("hello, THP {word}"), kib });
}

fn skip(found: &mut PartResult, word: &str, why: &str) {
    let mut row = vec![word.to_owned()];
    row.extend(vec!["skipped".to_owned(); 3]);
    found.rows.push(row);
    found.goals.push(Goal::skipped(goal_name(word), why));
}

fn goal_name(word: &str) -> String {
    format!("hello, THP {word}: glibc + 512 KiB")
}
