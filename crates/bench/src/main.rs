//! `slabyard-bench`: compares preloaded mallocs.
//!
//! `speed` times loads, `memory` reads how much memory processes occupy, `instructions` counts the
//! instructions of one pair of calls under callgrind; the allocators are ours, mimalloc and the C
//! library's. `compare` runs many loads to completion, on ours and all `peers`; `programs` runs
//! real programs. `rest` measures how much memory is returned after a burst, `latency` how long
//! single calls take, `look` what a reader costs. `walks` counts page walks in a model of a TLB,
//! `handed` measures objects that change threads.
//! `load` runs one load on any allocators, `series` runs two loads on CPU slabs with eager and with
//! delayed freezing, `lists` compares the claims of CPU partial lists with their contents. `all`
//! runs the suites of the page, on all peers; it writes `raw`, from which `page` generates the
//! document. `caches` compares typed caches with object pools that are linked into this program.
//! The loads are C programs (`loads/`), linked to no allocator; `build/` builds them and the peers.
//! `allocators` preloads allocators into programs, `worker` keeps a load process ready, `find` finds
//! the allocators, `fronts` derives several from one library, and the measuring modules check
//! results against `goals`.
//!
//! The crate is on floor 6 of the workspace, whose crates depend only on lower floors; it is never
//! published, so that nobody gets the peers as dependencies.
#![deny(unsafe_code)]

mod all;
mod allocators;
mod args;
mod caches;
mod compare;
mod counts;
mod find;
mod fronts;
mod goals;
mod handed;
mod instructions;
mod interrupt;
mod latency;
mod lists;
mod load;
mod loads;
mod look;
mod machine;
mod measured;
mod memory;
mod page;
mod peers;
mod programs;
mod questions;
mod raw;
mod real;
mod rest;
mod screen;
mod series;
mod shapes;
mod share;
mod speed;
mod stats;
mod thp;
mod walks;
mod worker;

use std::process::ExitCode;

use anyhow::Result;
use args::{Args, Suite};
use clap::Parser;
use goals::Verdict;

/// A goal was missed, and `--check` was given.
const EXIT_MISSED: u8 = 1;
/// The measurement could not be done; clap's own 2 is a wrong command line.
const EXIT_CANNOT: u8 = 3;

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(Verdict::Met) => ExitCode::SUCCESS,
        Ok(Verdict::Missed) => ExitCode::from(EXIT_MISSED),
        Err(error) if screen::is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("slabyard-bench: {error:#}");
            ExitCode::from(EXIT_CANNOT)
        }
    }
}

fn run(args: &Args) -> Result<Verdict> {
    interrupt::watch()?;
    match &args.suite {
        Suite::Speed(options) => speed::run(options),
        Suite::Memory(options) => memory::run(options),
        Suite::Instructions(options) => instructions::run(options)?.publish(&options.common),
        Suite::Compare(options) => compare::run(options)?.publish(&options.common),
        Suite::Programs(options) if options.list => programs::tell(options),
        Suite::Programs(options) => programs::run(options)?.publish(&options.common),
        Suite::Rest(options) => rest::run(options)?.publish(&options.common),
        Suite::Latency(options) => latency::run(options)?.publish(&options.common),
        Suite::Walks(options) => walks::run(options)?.publish(&options.common),
        Suite::Handed(options) => handed::run(options)?.publish(&options.common),
        Suite::Load(options) => load::run(options),
        Suite::Series(options) => series::run(options),
        Suite::Lists(options) => lists::run(options),
        Suite::All(options) => all::run(options),
        Suite::Page(options) => page::run(options),
        Suite::Look(options) => look::run(options),
        Suite::Caches(options) => {
            caches::run(options)?.publish_to(options.json.as_deref(), options.check)
        }
    }
}
