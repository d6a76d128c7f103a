//! `slabyard tune`: settings on the front of memory against slow-path work for some loads, and the one
//! to take, if it holds on a load that it was not found by.
//!
//! Neighbours: `slabyard_ask::tune` searches and judges; [`args`] has the arguments, [`report`] prints.
//! Invariant: a setting that did not hold is never printed as recommended, and the exit code is 1.

pub mod args;
mod report;

use crate::failure::Failure;
use crate::stdout;
use crate::terminal::Progress;
use args::TuneArgs;
use report::Report;
use slabyard_ask::question::{self, Question};
use slabyard_ask::tune::tuned;
use std::process::ExitCode;

/// Prints the front, what is recommended, and how it held.
pub fn run(args: &TuneArgs) -> Result<ExitCode, Failure> {
    args.html.look_before(&args.files)?;
    let base = Question::default().with(&question::machine(&args.machine.join(","))?)?;
    let tuned = tuned::tune(&args.files, &base, &Progress::new())?;
    let report = Report(&tuned);
    args.html.write(|| report.page())?;
    let text = if args.json { report.json()? } else { report.table() };
    let code = stdout::print(text.as_bytes())?;
    Ok(if tuned.is_recommended() { code } else { ExitCode::FAILURE })
}
