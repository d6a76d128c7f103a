//! Memory that is returned without a request: a burst of small objects is freed, and the program is
//! then nearly idle for a second.
//!
//! `loads/burst.c` says when to read its memory; the process is neither stopped nor asked to trim.

use anyhow::{Result, ensure};

use super::found::{PartResult, Sampled};
use crate::allocators::{Allocator, Bench, OURS};
use crate::args::MemoryOptions;
use crate::goals::Goal;
use crate::machine::{Cpu, Machine};
use crate::worker::RequestProgram;
use crate::{interrupt, screen};

/// Name, the program's word for it, and its threads.
const VARIANTS: [(&str, &str, usize); 3] = [
    ("one thread", "one", 1),
    ("two threads, which end", "exit", 2),
    ("two threads, which sleep", "idle", 2),
];
const MOMENTS: [&str; 3] = ["start", "peak", "rest"];

/// Measures each variant once on each allocator: its numbers are those of
/// millions of objects, and hardly vary.
pub fn measure(bench: &Bench, machine: &Machine, options: &MemoryOptions) -> Result<PartResult> {
    let mut found = PartResult {
        title: "burst: resident KiB before a burst of small objects, at its peak, and 1 s after.",
        heading: vec!["burst", "allocator", "start", "peak", "rest"],
        rows: Vec::new(),
        samples: Vec::new(),
        goals: Vec::new(),
    };
    let bar = screen::progress(VARIANTS.len() * bench.allocators.len());
    for (name, word, threads) in VARIANTS {
        bar.set_message(format!("burst, {name}"));
        let cpus = if threads == 1 { &[] } else { machine.cpus_for(threads) };
        let mut kib = Vec::new();
        for allocator in &bench.allocators {
            kib.push(burst(bench, allocator, options.objects, word, cpus)?);
            bar.inc(1);
            interrupt::check()?;
        }
        add(&mut found, bench, name, kib);
    }
    bar.finish_and_clear();
    Ok(found)
}

/// Resident KiB at each of [`MOMENTS`].
fn burst(
    bench: &Bench,
    allocator: &Allocator,
    objects: u64,
    word: &str,
    cpus: &[Cpu],
) -> Result<Vec<u64>> {
    let mut args = vec![objects.to_string(), word.to_owned()];
    args.extend(cpus.iter().map(ToString::to_string));
    let mut program = RequestProgram::start(allocator, &bench.program("burst"), &args)?;
    let mut kib = Vec::new();
    for moment in MOMENTS {
        let said = program.receive()?;
        ensure!(said == moment, "expected {moment}, got {said:?}");
        kib.push(program.resident_kib()?);
        program.send("\n")?;
    }
    Ok(kib)
}

fn add(found: &mut PartResult, bench: &Bench, name: &str, kib: Vec<Vec<u64>>) {
    for (allocator, moments) in bench.allocators.iter().zip(&kib) {
        let mut row = vec![name.to_owned(), allocator.name.to_owned()];
        row.extend(moments.iter().map(ToString::to_string));
        found.rows.push(row);
    }
    let (start, rest) = (kib[OURS][0], kib[OURS][2]);
    found.goals.push(Goal::at_most_kib(
        format!("burst, {name}: start + 10 % + 1 MiB"),
        rest as f64,
        limit_kib(start),
    ));
    found.samples.push(Sampled { name: format!("burst, {name}: start, peak, rest"), kib });
}

fn limit_kib(start: u64) -> f64 {
    start as f64 * 1.10 + 1024.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn burst_grows_in_every_variant() {
        let bench = Bench::open(Some(Path::new("mimalloc"))).unwrap();
        for (_, word, _) in VARIANTS {
            let kib = burst(&bench, &bench.allocators[OURS], 100_000, word, &[]).unwrap();
            // 100 000 objects of 136 bytes on average are 13 281 KiB.
            assert!(kib[1] > kib[0] + 13_000, "{word}: {kib:?}");
        }
    }
}
