//! `slabyard small`: computes how much of a small machine's memory each allocator leaves free,
//! after a boot-like load or a kernel's events.
//!
//! Neighbours: [`slabyard_lab::small`] serves the loads; [`table`] and [`report`] print the
//! outcomes. Invariants: only the tables go to standard output; the exit code is 0 even if requests
//! failed, because failed requests are part of the result.

mod events;
mod report;
mod served;
mod table;

use crate::failure::Failure;
use crate::machine::Engine;
use crate::stdout;
use anyhow::Context;
use clap::ValueHint;
use served::ServedLoads;
use slabyard_lab::small::state::KernelReport;
use slabyard_lab::small::{self, Contender, Load, Outcome, SmallMachine};
use std::path::PathBuf;
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  slabyard small                                every allocator on 8 MiB
  slabyard small --engine slob --engine tiny    some of them
  slabyard small --memory 16M --seeds 20
  slabyard small --memory 6M --report           what the kernel would say of a failure
  slabyard small --scattered 16                 16 pages are kept all over memory
  slabyard small --events boot.trace --memory 64M --reserved 9M
                                                a kernel's kmem events, as its `trace` file has them
  slabyard small --events boot.trace --log slab.log --contender 'slab max_order=1'
                                                beside what a kernel told at the same moments";

/// `slabyard small`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct SmallArgs {
    /// The machine's memory
    #[arg(long, value_name = "S", default_value = "8M", value_parser = slabyard_ask::sizes::size)]
    memory: u32,
    /// Of it, the kernel's own: text, tables, per-CPU data
    #[arg(long, value_name = "S", default_value = "1952K", value_parser = slabyard_ask::sizes::size)]
    reserved: u32,
    /// Single pages that are kept all over what is left, where the seed says
    #[arg(long, value_name = "N", default_value = "0", conflicts_with = "events")]
    scattered: u32,
    /// Allocators [default: all]; may be repeated
    #[arg(long = "engine", value_enum)]
    engines: Vec<Engine>,
    /// An allocator with its settings, as the table names it; may be repeated
    #[arg(long = "contender", value_name = "NAME", conflicts_with = "engines")]
    contenders: Vec<String>,
    /// Boots of so many seeds, each in another order
    #[arg(long, value_name = "N", default_value = "5", value_parser = clap::value_parser!(u64).range(1..=1000))]
    seeds: u64,
    /// A kernel's events in place of the boot-like load: a trace file, or the text of the kernel's
    /// `trace` (may be packed by zstd)
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    events: Option<PathBuf>,
    /// What is live of each cache when the events begin: lines `NAME OBJECT_SIZE COUNT`
    #[arg(long, value_name = "FILE", requires = "events", value_hint = ValueHint::FilePath)]
    before: Option<PathBuf>,
    /// What a kernel told at the same moments, to stand beside: the output of `ci/small-kernels`'
    /// first process
    #[arg(long, value_name = "FILE", requires = "events", value_hint = ValueHint::FilePath)]
    log: Option<PathBuf>,
    /// What the kernel told of its memory at the begin and at each moment: the text of
    /// `ci/small/probe.c`, if the events are not in the same file
    #[arg(long, value_name = "FILE", requires = "events", value_hint = ValueHint::FilePath)]
    state: Option<PathBuf>,
    /// The kernel's release, if it told its memory: 6.1 or 6.12
    #[arg(long, value_name = "VERSION", requires = "events", default_value = "6.1")]
    release: String,
    /// With what the kernel told: also the caches that differ, with their pages, theirs and ours
    #[arg(long, requires = "events")]
    caches: bool,
    /// Save the events as a trace file of ours, with their moments
    #[arg(long, value_name = "FILE", requires = "events", value_hint = ValueHint::FilePath)]
    save: Option<PathBuf>,
    /// Say what is live of each cache at the first moment of the events, and no more
    #[arg(long, requires = "events")]
    live: bool,
    /// Show the kernel's report of the first block of pages that was not there
    #[arg(long)]
    report: bool,
    /// For programs
    #[arg(long)]
    json: bool,
}

/// Serves each load by each allocator and prints what came of it.
pub fn run(args: &SmallArgs) -> Result<ExitCode, Failure> {
    let small = args.machine()?;
    let mut told = KernelReport::default();
    let loads = match &args.events {
        Some(file) => {
            let (before, state) = (args.before.as_deref(), args.state.as_deref());
            let source = events::load(file, before, state, args.save.as_deref())?;
            told = source.told;
            vec![source.load]
        }
        None => (1..=args.seeds).map(|seed| args.generated(small, seed)).collect(),
    };
    if let Some(load) = loads.first().filter(|_| args.live) {
        return stdout::print(events::live_text(load).as_bytes());
    }
    let mut all = Vec::new();
    for contender in args.contenders()? {
        let serve = |load| match told.states.first() {
            Some(begin) => small::run_from(begin, &args.release, contender, load),
            None => small::run(small, contender, load),
        };
        let outcomes: Result<Vec<Outcome>, _> = loads.iter().map(serve).collect();
        all.push(ServedLoads {
            contender,
            outcomes: outcomes.context("the load cannot be served")?,
        });
    }
    let mut text = if args.json { table::json(&all)? } else { table::table(small, &loads, &all) };
    if let Some(log) = &args.log {
        text.push_str(&events::beside(log, &all)?);
    }
    if !told.states.is_empty() && !args.json {
        text = events::beside_states(&told, &all, args.caches);
    }
    if args.report {
        text.push_str(&report::of_first(small, &all));
    }
    stdout::print(text.as_bytes())
}

impl SmallArgs {
    fn machine(&self) -> Result<SmallMachine, Failure> {
        let page_size = 4096;
        if self.reserved >= self.memory {
            let text = "nothing is left: --reserved must be below --memory";
            return Err(Failure::Usage(text.into()));
        }
        let pages = |bytes: u32| bytes / page_size;
        Ok(SmallMachine { page_size, pages: pages(self.memory), reserved: pages(self.reserved) })
    }

    fn generated(&self, small: SmallMachine, seed: u64) -> Load {
        let mut load = Load::generated(seed);
        if self.scattered > 0 {
            load.begin_scattered(small.pages - small.reserved, self.scattered, seed);
        }
        load
    }

    fn contenders(&self) -> Result<Vec<Contender>, Failure> {
        let mut all = Contender::all();
        let is_of = |contender: &Contender, engine: Engine| {
            matches!(
                (contender, engine),
                (Contender::Slob, Engine::Slob)
                    | (Contender::Slab { .. }, Engine::Slab)
                    | (Contender::Slub { .. }, Engine::Slub)
                    | (Contender::Tiny { .. }, Engine::Tiny)
            )
        };
        if !self.engines.is_empty() {
            all.retain(|contender| self.engines.iter().any(|engine| is_of(contender, *engine)));
        }
        if self.contenders.is_empty() {
            return Ok(all);
        }
        all.push(Contender::Slab { max_order: 1 });
        let find = |name: &String| {
            let found = all.iter().find(|contender| contender.name() == *name);
            found.copied().ok_or_else(|| {
                let names: Vec<String> = all.iter().map(Contender::name).collect();
                Failure::Usage(format!(
                    "unknown contender `{name}`; there are: {}",
                    names.join(", ")
                ))
            })
        };
        self.contenders.iter().map(find).collect()
    }
}
