//! Reproduces Horn's report of January 2021: compares, list by list after a fork bomb, the free
//! objects that CPU partial lists claim with those they hold. Also measures how much memory a
//! shrink returns, and how long a free takes that drains a list.
//!
//! Timed runs keep no counters and are not read from outside. `look` reads a stopped process,
//! `measure` runs and stops loads, `report` is the file format of all results, `text` prints them;
//! `fronts` defines the allocators, `counts` reads the counters.

mod look;
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
use crate::questions::ListsOptions;
use crate::{fronts, screen};
use report::Report;

/// Runs the suite.
pub fn run(options: &ListsOptions) -> Result<Verdict> {
    // The fronts are all that is measured.
    let bench = Bench::open(Some(Path::new("mimalloc")))?;
    let allocators = fronts::allocators(&bench, &options.engines, &options.fronts)?;
    let machine = Machine::read()?;
    let measured = measure::all(&bench, &allocators, options)?;
    let report = Report::new(&machine, &allocators, options, &measured);
    let heading = screen::heading(&machine, &allocators);
    let text = format!("{heading}\n{}", text::body(&report));
    screen::publish(&text, &report, options.json.as_deref())?;
    Ok(Verdict::Met)
}
