//! The `slabyard` command.
//!
//! Floor 5 of the house: it imports `slabyard-lab`, `slabyard-observe` and `slabyard-abi`;
//! the engine reaches a program as a preloaded library, never from here.
//! Neighbours: [`args`] is what may be typed, [`run`] starts programs, [`compare`] holds
//! engines and kernels against each other, [`list`],
//! [`show`], [`snapshot`], [`diff`] and [`export`] look, [`shrink`] and [`set`] change, [`validate`] has a process look at its objects,
//! [`geometry`] asks the lab for slabs, [`record`] makes traces and [`replay`] runs them
//! through it, [`small`] serves loads on small machines, [`pages`]
//! what an installation needs.
#![deny(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

mod args;
mod asking;
mod compare;
mod diff;
mod export;
mod failure;
mod geometry;
mod list;
mod look;
mod machine;
mod pages;
mod record;
mod replay;
mod run;
mod set;
mod settings;
mod show;
mod shrink;
mod small;
mod snapshot;
mod stdin;
mod stdout;
mod top;
mod trace;
mod validate;

use args::{Args, Command};
use clap::Parser;
use failure::Failure;
use std::io::Write;
use std::process::ExitCode;

fn main() -> ExitCode {
    let done = match Args::parse().command {
        Command::Run(args) => run::run(&args).map(run::Ending::leave),
        Command::List(args) => list::run(&args),
        Command::Show(args) => show::run(&args),
        Command::Top(args) => top::run(&args),
        Command::Snapshot(args) => snapshot::run(&args),
        Command::Diff(args) => diff::run(&args),
        Command::Export(args) => export::run(&args),
        Command::Shrink(args) => shrink::run(&args),
        Command::Set(args) => set::run(&args),
        Command::Validate(args) => validate::run(&args),
        Command::Geometry(args) => geometry::run(&args),
        Command::Record(args) => record::run(&args),
        Command::Replay(args) => replay::run(&args),
        Command::Small(args) => small::run(&args),
        Command::Trace(args) => trace::run(&args),
        Command::Compare(args) => compare::run(&args),
        Command::Completions(args) => pages::completions(&args),
        Command::Man(args) => pages::man(&args),
    };
    done.unwrap_or_else(|failure| leave(&failure))
}

fn leave(failure: &Failure) -> ExitCode {
    if !failure.is_broken_pipe() {
        say(&format!("{failure:#}"));
    }
    ExitCode::from(failure.code())
}

/// A message for people. A standard error that is gone is no reason to fail,
/// which is why this is not `eprintln`.
fn say(message: &str) {
    let _ = writeln!(std::io::stderr(), "slabyard: {message}");
}
