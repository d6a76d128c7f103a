//! Peak resident memory of a Python program that builds, writes and reads
//! about 20 MB of JSON.
//!
//! The program reads its own `VmHWM`, which starts afresh at exec; `ru_maxrss` would start at its
//! parent's value. Python takes objects up to 512 bytes from its own pools, so a second row
//! measures Python with all objects from malloc.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::found::{PartResult, Sampled, median_kib};
use crate::allocators::{Allocator, Bench, GLIBC, OURS};
use crate::args::MemoryOptions;
use crate::goals::Goal;
use crate::machine::Machine;
use crate::{interrupt, screen};

/// Name, and the value of `PYTHONMALLOC`.
const VARIANTS: [(&str, Option<&str>); 2] = [("as it is", None), ("all by malloc", Some("malloc"))];
/// Runs of hello for one of Python.
const RARER: u32 = 4;

/// Measures both variants.
pub fn measure(bench: &Bench, _: &Machine, options: &MemoryOptions) -> Result<PartResult> {
    let mut found = PartResult {
        title: "python: peak resident KiB of a program that writes and reads JSON, median.",
        heading: vec!["Python's objects", "ours", "mimalloc", "glibc"],
        rows: Vec::new(),
        samples: Vec::new(),
        goals: Vec::new(),
    };
    let Some(python) = interpreter() else {
        let why = "python3 is not installed";
        found.goals.push(Goal::skipped("python".to_owned(), why));
        return Ok(found);
    };
    let runs = (options.runs / RARER).max(1);
    let steps = VARIANTS.len() * runs as usize * bench.allocators.len();
    let bar = screen::progress(steps);
    for (name, pools) in VARIANTS {
        bar.set_message(format!("python, {name}"));
        let mut kib = vec![Vec::new(); bench.allocators.len()];
        for _ in 0..runs {
            for (a, allocator) in bench.allocators.iter().enumerate() {
                kib[a].push(peak_kib(bench, allocator, &python, pools)?);
                bar.inc(1);
                interrupt::check()?;
            }
        }
        add(&mut found, name, kib);
    }
    bar.finish_and_clear();
    Ok(found)
}

/// The interpreter itself: `python3` may be a script that finds it, and that
/// script's shell is not what is to be measured.
fn interpreter() -> Option<PathBuf> {
    let out =
        Command::new("python3").args(["-c", "import sys; print(sys.executable)"]).output().ok()?;
    let text = String::from_utf8(out.stdout).ok()?;
    let path = text.trim();
    (!path.is_empty()).then(|| path.into())
}

fn peak_kib(
    bench: &Bench,
    allocator: &Allocator,
    python: &Path,
    pools: Option<&str>,
) -> Result<u64> {
    let mut command = allocator.command(python);
    // A fixed seed of hashes: each run builds the same tables.
    command.env("PYTHONHASHSEED", "0");
    if let Some(value) = pools {
        command.env("PYTHONMALLOC", value);
    }
    let out = command.arg(bench.program("json_rounds.py")).output()?;
    let error = String::from_utf8_lossy(&out.stderr);
    ensure!(out.status.success(), "python: {}: {error}", out.status);
    let text = String::from_utf8(out.stdout).context("python")?;
    let first = text.split_whitespace().next().unwrap_or_default();
    first.parse().with_context(|| format!("python said {text:?}"))
}

fn add(found: &mut PartResult, name: &str, kib: Vec<Vec<u64>>) {
    let medians: Vec<f64> = kib.iter().map(|runs| median_kib(runs)).collect();
    let mut row = vec![name.to_owned()];
    row.extend(medians.iter().map(|kib| format!("{kib:.0}")));
    found.rows.push(row);
    let goal = format!("python, {name}: glibc");
    found.goals.push(Goal::at_most_kib(goal, medians[OURS], medians[GLIBC]));
    found.samples.push(Sampled { name: format!("python, {name}"), kib });
}
