//! Memory over millions of cycles: a load whose number of live objects stays the same must not use
//! more and more memory.

use anyhow::Result;

use super::found::{PartResult, Sampled};
use crate::allocators::{Bench, OURS};
use crate::args::MemoryOptions;
use crate::goals::Goal;
use crate::loads::LOADS;
use crate::machine::Machine;
use crate::screen;
use crate::worker::Worker;

const SAMPLES: usize = 10;

/// Measures each load on each allocator, in a process of its own.
pub fn measure(bench: &Bench, machine: &Machine, options: &MemoryOptions) -> Result<PartResult> {
    let mut found = PartResult {
        title: "flat: resident KiB after the second sample, and growth in the eight after it.",
        heading: vec!["load", "ours", "growth", "mimalloc", "growth", "glibc", "growth"],
        rows: Vec::new(),
        samples: Vec::new(),
        goals: Vec::new(),
    };
    let bar = screen::progress(LOADS.len() * bench.allocators.len() * SAMPLES);
    for load in LOADS {
        bar.set_message(format!("flat, {}", load.name));
        let mut kib = Vec::new();
        for allocator in &bench.allocators {
            let cpus = machine.cpus_for(load.threads);
            let mut worker = Worker::start(bench, allocator, load.name, cpus)?;
            let mut samples = Vec::new();
            for _ in 0..SAMPLES {
                samples.push(worker.cycles(options.cycles)?);
                bar.inc(1);
            }
            kib.push(samples);
        }
        add(&mut found, load.name, kib);
    }
    bar.finish_and_clear();
    Ok(found)
}

fn add(found: &mut PartResult, load: &str, kib: Vec<Vec<u64>>) {
    let mut row = vec![load.to_owned()];
    for samples in &kib {
        row.extend([samples[1].to_string(), growth_kib(samples).to_string()]);
    }
    found.rows.push(row);
    found.goals.push(Goal::at_most_kib(
        format!("flat, {load}: growth below 1 MiB + 2 %"),
        growth_kib(&kib[OURS]) as f64,
        1024.0 + 0.02 * kib[OURS][1] as f64,
    ));
    found.samples.push(Sampled { name: format!("flat, {load}"), kib });
}

/// From the second sample (the first may still fill caches) to the highest
/// after it.
fn growth_kib(samples: &[u64]) -> u64 {
    let highest = samples[2..].iter().max().copied().unwrap_or_default();
    highest.saturating_sub(samples[1])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_is_from_the_second_sample_to_the_highest_after_it() {
        assert_eq!(growth_kib(&[100, 500, 500, 480, 620, 510]), 120);
        assert_eq!(growth_kib(&[900, 500, 500, 480]), 0);
    }
}
