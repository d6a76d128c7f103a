//! `slabyard trace`: shows a trace file, finds leaks in it, cuts a part out of it, merges several, makes a copy
//! without names, and converts traces of other recorders.
//!
//! Neighbours: `slabyard_lab::edit` transforms the events; [`snapshots`] changes the snapshots in a
//! trace with them; the subcommands that write a trace share [`output`]. Invariant: an output file
//! is complete or absent ([`crate::trace_file`]).

mod anonymise;
mod cut;
mod info;
mod leaks;
mod merge;
mod output;
mod renamer;
mod snapshots;

use crate::failure::Failure;
use clap::Subcommand;
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  slabyard trace info load.slabtrace
  slabyard trace leaks load.slabtrace
  slabyard trace cut load.slabtrace -o minute.slabtrace --from 60 --to 120
  slabyard trace cut load.slabtrace -o dentry.slabtrace --caches 'dentry,*inode_cache'
  slabyard trace merge web1.slabtrace web2.slabtrace -o both.slabtrace
  slabyard trace anonymise load.slabtrace -o public.slabtrace
  zcat load.csv.gz | slabyard trace info -

A trace is a file of ours or any that `slabyard replay` reads; `-` is standard input.
Exit code: 0 done; 1 it is damaged, and what is left of it was used, or has a leak; 2 usage; 3 it cannot be done.";

/// `slabyard trace`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct TraceCommandArgs {
    #[command(subcommand)]
    command: TraceCommand,
}

#[derive(Subcommand)]
enum TraceCommand {
    /// Say what is in a trace
    Info(info::InfoArgs),
    /// Say who allocated what was alive at the end, and which call sites leak
    Leaks(leaks::LeaksArgs),
    /// Write a part of a trace: of a time, of CPUs, of caches
    Cut(cut::CutArgs),
    /// Write traces of several machines as one of a machine that has all their CPUs and memory
    Merge(merge::MergeArgs),
    /// Write a copy without addresses, processes, call sites and names of caches, which replays alike
    Anonymise(anonymise::AnonymiseArgs),
}

/// Does what is asked for.
pub fn run(args: &TraceCommandArgs) -> Result<ExitCode, Failure> {
    match &args.command {
        TraceCommand::Info(args) => info::run(args),
        TraceCommand::Leaks(args) => leaks::run(args),
        TraceCommand::Cut(args) => cut::run(args),
        TraceCommand::Merge(args) => merge::run(args),
        TraceCommand::Anonymise(args) => anonymise::run(args),
    }
}
