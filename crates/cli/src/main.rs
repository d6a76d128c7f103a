//! The `slabyard` command.
//!
//! Floor 8 of the workspace: this crate depends on `slabyard-ask`, `slabyard-doctor`,
//! `slabyard-lab`, `slabyard-observe`, `slabyard-page` and `slabyard-abi`, but not on the engine, which programs
//! preload as a library. The modules are layered: each refers only to modules of its own or a lower
//! layer, and no references form a cycle. A subcommand's module defines its arguments; the module's
//! `run` does the work and prints.
//!
//! ```text
//! 4  main       parses and dispatches
//! 3  args       what may be typed, from the arguments of all subcommands       pages  made from it
//! 2  list  show  top  snapshot  watch  diff  doctor  export  validate   look at a source
//!    profile < run                                          who allocates in a process
//!    set  shrink                                            change a kernel or a process
//!    run < compare, record, reproduce  replay < compare     run programs and traces
//!    trace  geometry  boot  small  ask < replay  sweep      ask the lab
//!    tune  reproduce                                        explain < main: messages and numbers
//! 1  look       samples a source       asking     asks a process and waits
//!    machine    a modelled machine     settings   the libraries' options     trace_file  opens and writes
//!    html       writes pages           typed      commands as shells take them
//!    outputs    spares what is read      target    a process, told from a later one
//! 0  failure  stdout  stderr  terminal               how the command ends, reads and writes
//!    bars     progress
//! ```
#![deny(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

mod args;
mod ask;
mod asking;
mod bars;
mod boot;
mod compare;
mod diff;
mod doctor;
mod explain;
mod export;
mod failure;
mod geometry;
mod html;
mod kernel_lists;
mod list;
mod look;
mod machine;
mod outputs;
mod pages;
mod profile;
mod progress;
mod record;
mod replay;
mod reproduce;
mod run;
mod set;
mod settings;
mod show;
mod shrink;
mod small;
mod snapshot;
mod stderr;
mod stdout;
mod sweep;
mod target;
mod terminal;
mod top;
mod trace;
mod trace_file;
mod tune;
mod typed;
mod validate;
mod watch;

use args::{Args, Command};
use clap::Parser;
use failure::Failure;
use std::process::ExitCode;
use stderr::say;

fn main() -> ExitCode {
    let done = match Args::parse().command {
        Command::Run(args) => run::run(&args).map(run::Ending::leave),
        Command::List(args) => list::run(&args),
        Command::Show(args) => show::run(&args),
        Command::Top(args) => top::run(&args),
        Command::Snapshot(args) => snapshot::run(&args),
        Command::Watch(args) => watch::run(&args),
        Command::Diff(args) => diff::run(&args),
        Command::Doctor(args) => doctor::run(&args),
        Command::Export(args) => export::run(&args),
        Command::Shrink(args) => shrink::run(&args),
        Command::Set(args) => set::run(&args),
        Command::Validate(args) => validate::run(&args),
        Command::Profile(args) => profile::run(&args),
        Command::Geometry(args) => geometry::run(&args),
        Command::Boot(args) => boot::run(&args),
        Command::Record(args) => record::run(&args),
        Command::Replay(args) => replay::run(&args),
        Command::Ask(args) => ask::run(&args),
        Command::Sweep(args) => sweep::run(&args),
        Command::Tune(args) => tune::run(&args),
        Command::Small(args) => small::run(&args),
        Command::Reproduce(args) => reproduce::run(&args),
        Command::Trace(args) => trace::run(&args),
        Command::Compare(args) => compare::run(&args),
        Command::Explain(args) => explain::run(&args),
        Command::Completions(args) => pages::completions(&args),
        Command::Man(args) => pages::man(&args),
    };
    done.unwrap_or_else(|failure| leave(&failure))
}

fn leave(failure: &Failure) -> ExitCode {
    if !failure.is_broken_pipe() {
        let message = format!("{failure:#}");
        let hint = if failure.has_code() { explain::hint(&message) } else { String::new() };
        say(&format!("{message}{hint}"));
    }
    ExitCode::from(failure.code())
}
