//! Memory of processes, in four parts: a small program, a program's peak, what remains after a
//! burst, and what is used over millions of cycles.
//!
//! Each part yields a table, its samples, and goals; all read the kernel's counts (`smaps_rollup`,
//! `VmHWM`), never an allocator's own.

mod burst;
mod flat;
mod found;
mod hello;
mod python;

use anyhow::Result;
use serde::Serialize;

use crate::allocators::{Allocator, Bench};
use crate::args::{MemoryOptions, MemoryTest};
use crate::goals::{Goal, Verdict, judge};
use crate::machine::Machine;
use crate::screen;
use found::PartResult;

#[derive(Serialize)]
struct Report<'a> {
    format: u32,
    suite: &'static str,
    machine: &'a Machine,
    allocators: &'a [Allocator],
    parts: &'a [PartResult],
}

type Measure = fn(&Bench, &Machine, &MemoryOptions) -> Result<PartResult>;

const PARTS: &[(MemoryTest, Measure)] = &[
    (MemoryTest::Hello, hello::measure),
    (MemoryTest::Python, python::measure),
    (MemoryTest::Burst, burst::measure),
    (MemoryTest::Flat, flat::measure),
];

/// Runs the suite.
pub fn run(options: &MemoryOptions) -> Result<Verdict> {
    let bench = Bench::open(options.common.ours.as_deref())?;
    let machine = Machine::read()?;
    let wanted = |part: &MemoryTest| options.only.is_empty() || options.only.contains(part);
    let parts = PARTS
        .iter()
        .filter(|(part, _)| wanted(part))
        .map(|(_, measure)| measure(&bench, &machine, options))
        .collect::<Result<Vec<PartResult>>>()?;

    let mut text = screen::heading(&machine, &bench.allocators);
    for part in &parts {
        let table = screen::table(&part.heading, part.rows.clone());
        text += &format!("\n{}\n\n{table}\n", part.title);
    }
    let report = Report {
        format: 1,
        suite: "memory",
        machine: &machine,
        allocators: &bench.allocators,
        parts: &parts,
    };
    let goals: Vec<Goal> = parts.iter().flat_map(|p| p.goals.iter().cloned()).collect();
    text += &format!("\n{}", screen::goals(&goals));
    screen::publish(&text, &report, options.common.json.as_deref())?;
    Ok(judge(&goals, options.common.check))
}
