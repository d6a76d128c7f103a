//! Memory at rest after objects were handed over: at once, idle, and after a trickle of frees.
//!
//! Processes of all allocators rest at the same time; the next begins when one rests.

use std::sync::Mutex;
use std::thread;

use anyhow::{Context, Result};
use serde::Serialize;

use crate::allocators::Allocator;
use crate::compare::measures::{Failure, Load};
use crate::compare::runs::{self, Runner};
use crate::{interrupt, screen};

/// What was resident.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Reading {
    pub at_once_kib: u64,
    pub idle_kib: u64,
    pub trickled_kib: u64,
}

/// A load; by allocator, none where it failed.
#[derive(Serialize)]
pub struct Rested {
    pub load: String,
    pub readings: Vec<Option<Reading>>,
}

/// One process of each load and allocator, and what failed; pinned ones keep what those that are
/// free keep.
pub fn all(
    runner: &Runner,
    loads: &[Load],
    allocators: &[Allocator],
    rest_ms: u64,
) -> Result<(Vec<Rested>, Vec<Failure>)> {
    let loads: Vec<&Load> = loads.iter().filter(|load| !load.name.ends_with("_pinned")).collect();
    let bar = screen::progress(loads.len());
    let (mut rested, mut failures) = (Vec::new(), Vec::new());
    let turn = Mutex::new(());
    for load in loads {
        bar.set_message(format!("{}, at rest", load.name));
        let one = |allocator: &Allocator| {
            let works = turn.lock();
            let more = ["--rest".to_owned(), rest_ms.to_string()];
            let (_, printed) = runner.run_beside(&load.name, &more, allocator, || drop(works))?;
            reading(&printed).with_context(|| format!("the load said no `rest N`: {printed:?}"))
        };
        let readings: Vec<Result<Reading>> = thread::scope(|scope| {
            let started: Vec<_> =
                allocators.iter().map(|allocator| scope.spawn(|| one(allocator))).collect();
            started.into_iter().map(|run| run.join().expect("no run panics")).collect()
        });
        interrupt::check()?;
        let kept = |(run, allocator): (Result<Reading>, &Allocator)| {
            run.map_err(|e| failures.push(runs::failure(&bar, load, allocator.name, 0, &e))).ok()
        };
        let readings = readings.into_iter().zip(allocators).map(kept).collect();
        rested.push(Rested { load: load.name.clone(), readings });
        bar.inc(1);
    }
    bar.finish_and_clear();
    Ok((rested, failures))
}

/// Reads the line `rest AT_ONCE IDLE TRICKLED`.
fn reading(text: &str) -> Option<Reading> {
    let line = text.lines().find_map(|line| line.strip_prefix("rest "))?;
    let numbers: Vec<u64> = line.split(' ').map(|n| n.parse().ok()).collect::<Option<_>>()?;
    let &[at_once_kib, idle_kib, trickled_kib] = numbers.as_slice() else { return None };
    Some(Reading { at_once_kib, idle_kib, trickled_kib })
}

/// MiB at rest: a load a row.
pub fn table(rested: &[Rested], names: &[&str]) -> comfy_table::Table {
    let heading: Vec<&str> = ["load"].iter().chain(names).copied().collect();
    let cell = |reading: &Option<Reading>| {
        let Some(Reading { at_once_kib, idle_kib, trickled_kib }) = reading else {
            return "failed".to_owned();
        };
        let mib = [at_once_kib, idle_kib, trickled_kib].map(|kib| *kib as f64 / 1024.0);
        format!("{:.1} / {:.1} / {:.1}", mib[0], mib[1], mib[2])
    };
    let row = |of: &Rested| {
        std::iter::once(of.load.clone()).chain(of.readings.iter().map(cell)).collect()
    };
    screen::table(&heading, rested.iter().map(row).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_is_read_and_shown() {
        let some = Reading { at_once_kib: 4096, idle_kib: 2048, trickled_kib: 1024 };
        assert_eq!(reading("ops 7\nrest 4096 2048 1024\n"), Some(some));
        for wrong in ["", "ops 7", "rest 1 2", "rest 1 2 3 4", "rest 1 2 x"] {
            assert_eq!(reading(wrong), None, "{wrong:?}");
        }
        let rested = [Rested { load: "one_2".to_owned(), readings: vec![Some(some), None] }];
        let text = table(&rested, &["ours", "glibc"]).to_string();
        assert!(text.contains("4.0 / 2.0 / 1.0") && text.contains("failed"), "{text}");
    }
}
