//! Instructions of one pair of malloc(64) and free, counted by valgrind's callgrind.
//!
//! The pair load runs N and 2N pairs. The difference divided by N is the count per pair, which
//! includes about seven instructions of the load's loop and the PLT. Valgrind does not support
//! restartable sequences (rseq), so our library runs in its private-slot mode, unlike in
//! production.

use std::io::Write;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde::Serialize;

use crate::allocators::{Allocator, Bench};
use crate::args::InstructionsOptions;
use crate::machine::Machine;
use crate::measured::{Head, Measured};
use crate::peers::{Absent, AllAllocators, everybody};
use crate::{interrupt, screen};

const SKIPPED: &str = "skipped: valgrind is not installed";

#[derive(Serialize)]
struct Report<'a> {
    #[serde(flatten)]
    head: Head<'a>,
    /// Version, or why nothing was counted.
    valgrind: String,
    pairs: u64,
    /// By allocator; empty if skipped.
    instructions_per_pair: Vec<f64>,
}

/// Runs the suite.
pub fn run(options: &InstructionsOptions) -> Result<Measured> {
    let bench = Bench::open(options.common.ours.as_deref())?;
    let machine = Machine::read()?;
    let mut everybody = everybody(&bench, options.gperftools.as_deref());
    let version = valgrind_version();
    let instructions_per_pair = match version {
        Some(_) => count_all(&bench, &mut everybody, options.pairs)?,
        None => Vec::new(),
    };
    let AllAllocators { allocators, absent } = everybody;
    let report = Report {
        head: Head::new(2, "instructions", &machine, &allocators, &absent),
        valgrind: version.unwrap_or_else(|| SKIPPED.to_owned()),
        pairs: options.pairs,
        instructions_per_pair,
    };
    Measured::new(&report.head, &text(&report), &report, Vec::new())
}

/// valgrind's version, if it is installed.
pub fn valgrind_version() -> Option<String> {
    let out = Command::new("valgrind").arg("--version").output().ok()?;
    out.status.success().then(|| {
        let text = String::from_utf8_lossy(&out.stdout);
        text.trim().to_owned()
    })
}

/// A peer that does not run under valgrind is left out.
fn count_all(bench: &Bench, everybody: &mut AllAllocators, pairs: u64) -> Result<Vec<f64>> {
    let bar = screen::progress(everybody.allocators.len());
    let (mut counts, mut counted) = (Vec::new(), Vec::new());
    for allocator in std::mem::take(&mut everybody.allocators) {
        bar.set_message(format!("callgrind, {}", allocator.name));
        let once = count(bench, &allocator, pairs, |_| ());
        let twice = once.and_then(|once| Ok((once, count(bench, &allocator, 2 * pairs, |_| ())?)));
        interrupt::check()?;
        match twice {
            Ok((once, twice)) => {
                counts.push((twice as f64 - once as f64) / pairs as f64);
                counted.push(allocator);
            }
            Err(error) if counted.is_empty() => return Err(error),
            Err(_) => {
                let why = "valgrind does not run it".to_owned();
                everybody.absent.push(Absent { name: allocator.name, why });
            }
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    everybody.allocators = counted;
    Ok(counts)
}

/// Instructions of a process that runs `pairs` pairs; `meanwhile` gets its process id.
pub fn count(
    bench: &Bench,
    allocator: &Allocator,
    pairs: u64,
    meanwhile: impl FnOnce(u32),
) -> Result<u64> {
    let mut child = allocator
        .command("valgrind".as_ref())
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(bench.program("load"))
        .arg("pair")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("start valgrind")?;
    let mut requests = child.stdin.take().context("no standard input")?;
    requests.write_all(format!("cycles {pairs}\n").as_bytes())?;
    drop(requests);
    meanwhile(child.id());
    let out = child.wait_with_output()?;
    interrupt::check()?;
    let said = String::from_utf8_lossy(&out.stdout);
    let told = String::from_utf8_lossy(&out.stderr);
    ensure!(out.status.success(), "valgrind: {}: {told}", out.status);
    ensure!(said.contains(&format!("cycles {pairs}\n")), "the load said {said:?}");
    collected(&told).with_context(|| format!("valgrind: no count in {told:?}"))
}

/// The count in `==1== Collected : 12345`.
fn collected(text: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.contains("Collected :"))?;
    line.split_whitespace().last()?.parse().ok()
}

fn text(report: &Report) -> String {
    if report.instructions_per_pair.is_empty() {
        return report.valgrind.clone();
    }
    let each = report.head.allocators.iter().zip(&report.instructions_per_pair);
    let row = |(a, n): (&Allocator, &f64)| vec![a.name.to_owned(), format!("{n:.2}")];
    let table = screen::table(&["allocator", "instructions"], each.map(row).collect());
    format!(
        "Instructions of one malloc(64) and free ({}), the load's loop included.\n\
         valgrind has no restartable sequences: ours counts here in its mode of private slots.\n\n{table}",
        report.valgrind
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn callgrind_count_is_found() {
        let text = "==7== \n==7== Events    : Ir\n==7== Collected : 1234567\n==7== \n";
        assert_eq!(collected(text), Some(1_234_567));
        assert_eq!(collected("==7== Events : Ir\n"), None);
    }
}
