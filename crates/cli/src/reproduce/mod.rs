//! `slabyard reproduce`: each table and argument of five mail threads, and of those of 2026, with
//! ours beside theirs.
//!
//! Neighbours: [`slabyard_ask::threads`] has the rows as data, finds tables by their names, and computes;
//! [`real`] runs a loop on this machine's CPUs for rows that need one; [`table`] prints, [`page`] draws.
//! Invariants: all recordings are part of this program; exit code 1 means that a row is not as near as it
//! should be, or has lost its basis; a row that cannot be had here says so and is no failure.

mod page;
mod real;
mod table;

use crate::failure::Failure;
use crate::html::HtmlArgs;
use crate::stdout;
use crate::terminal::{Colour, Progress};
use anyhow::Context;
use real::PreloadedLoop;
use slabyard_ask::Listener as _;
use slabyard_ask::threads::runs::Runs;
use slabyard_ask::threads::{self, Answer, json, wanted};
use std::path::Path;
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  slabyard reproduce                     every row, in some seconds
  slabyard reproduce --list              the names of threads and tables
  slabyard reproduce 64k                 one thread: slab memory on 64 KiB pages (2020)
  slabyard reproduce 64k.max_order lists.dump
  slabyard reproduce freezing --json
  slabyard reproduce --html threads.html

A row has the thread's number and ours, the difference, whether it is as near as it should be, and
what ours is computed from: a kernel's formula, what a guest reported, its objects laid out anew,
a replay, a replay whose calls overlap (contention), a path of the model, a small machine, what CI
measured, or a real run on this machine's CPUs. The lines below a table say what of theirs cannot be
had, and what the nearest is.

Exit codes: 0 done; 1 a row is not as near as it should be, or lost its basis; 2 no such name.";

/// `slabyard reproduce`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct ReproduceArgs {
    /// A thread, or one of its tables: THREAD.TABLE [default: all]
    #[arg(value_name = "TABLE")]
    names: Vec<String>,
    /// Say which there are, and compute nothing
    #[arg(long, conflicts_with_all = ["json", "html"])]
    list: bool,
    /// For programs
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    html: HtmlArgs,
    /// Allocate and free so many slabs' worth of objects in turns, and say how many nanoseconds a
    /// turn takes
    #[arg(long, hide = true, value_name = "SLABS")]
    turns: Option<u32>,
    /// Write to the objects
    #[arg(long, hide = true, requires = "turns")]
    touched: bool,
}

/// Prints what was asked for.
pub fn run(args: &ReproduceArgs) -> Result<ExitCode, Failure> {
    if let Some(slabs) = args.turns {
        let ns = real::turn_ns(slabs, args.touched);
        return stdout::print(format!("{ns}\n").as_bytes());
    }
    let wanted = wanted::of(&args.names)?;
    if args.list {
        return stdout::print(table::list(&wanted).as_bytes());
    }
    args.html.look_before([] as [&Path; 0])?;
    let progress = Progress::new();
    let preloaded = PreloadedLoop;
    let runs = Runs::new(Some(&preloaded));
    let mut answers: Vec<Answer> = Vec::new();
    for (thread, table) in &wanted {
        progress.stage(&format!("{}.{}", thread.name, table.name));
        let rows = table.rows.iter();
        answers.extend(rows.map(|row| threads::answer(&runs, thread, table, row)));
    }
    progress.clear();
    let json = serde_json::to_string_pretty(&json::of(&wanted, &answers)).context("JSON")? + "\n";
    args.html.write(|| Ok(page::of(&wanted, &answers, &json)))?;
    let text = match args.json {
        true => json,
        false => table::text(&wanted, &answers, Colour::of_stdout()),
    };
    stdout::print(text.as_bytes())?;
    Ok(ExitCode::from(u8::from(answers.iter().any(Answer::fails))))
}
