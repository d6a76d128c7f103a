//! Measures the kernel patch series "slub: Delay freezing of CPU partial slabs" (October 2023) on
//! real CPUs: loads like those of its table run before the series, after each of its patches, and
//! after the last one.
//!
//! Timed runs keep no counters; separate runs count slow paths. Neighbours: `cells` defines the
//! runs, `measure` makes them, `report` is the file format of all results, `text` prints them;
//! `fronts` defines the allocators, `counts` reads the counters.

mod cells;
mod measure;
mod report;
#[cfg(test)]
mod tests;
mod text;

use std::path::Path;

use anyhow::Result;

use crate::allocators::Bench;
use crate::goals::Verdict;
use crate::machine::Machine;
use crate::questions::SeriesOptions;
use crate::{fronts, screen};
use report::Report;

/// Runs the suite.
pub fn run(options: &SeriesOptions) -> Result<Verdict> {
    // The fronts are all that is measured.
    let bench = Bench::open(Some(Path::new("mimalloc")))?;
    let allocators = fronts::allocators(&bench, &options.engines, &options.fronts)?;
    let machine = Machine::read()?;
    let cells = cells::all(options, machine.cpus.len());
    let measured = measure::all(&bench, &allocators, cells, options)?;
    let report = Report::new(&machine, &allocators, options, &measured);
    let heading = screen::heading(&machine, &allocators);
    let text = format!("{heading}\n{}", text::body(&report));
    screen::publish(&text, &report, options.json.as_deref())?;
    Ok(Verdict::Met)
}
