//! The arguments of `slabyard tune`.

use crate::html::HtmlArgs;
use clap::ValueHint;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  slabyard tune load.slabtrace
  slabyard tune day.slabtrace night.slabtrace build.slabtrace --html front.html
  slabyard tune load.slabtrace --machine page=64k,cpus=16 --json

The kernel, its machine and what it was booted with are the traces', but for --machine.";

const LONG: &str = "\
Varied are max_order, min_partial, and cpu_partial or sheaf_capacity and max_full_sheaves, whichever
the kernel has, each for all caches. A coarse grid is replayed, then the neighbours of the points that
no other point beats. Memory is that of all slabs in the mean over time; work is what calls do beyond
their fast path (calls that leave their CPU, exchanges, list locks that another CPU held last, objects
that are moved, page calls) by the costs of `slabyard replay --contention`; all are shown relative to
the default.

What is recommended is the smallest point that takes at most 1 % more work than the default, if it takes
at least 1 % less memory. With several traces each judges what is best for the others; one trace is cut
into halves by time, and the second judges the first's. It holds where it is smaller, and takes at most
1 % more work, as recorded and in each of --seeds other orders that the trace's times allow.

Exit codes: 0 done; 1 nothing is better than the default, or it does not hold, and is not recommended;
2 usage or a setting that cannot be; 3 a file that cannot be read or is damaged.";

/// `slabyard tune`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES, after_long_help = format!("{EXAMPLES}\n\n{LONG}"))]
pub struct TuneArgs {
    /// Traces of the loads, each with its snapshot beside it or in it
    #[arg(required = true, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(super) files: Vec<PathBuf>,
    /// Another machine or other rules than the traces': page, cpus, possible, nodes, release, or a key
    /// of `slabyard replay --set`
    #[arg(long, value_name = "KEY=VALUE,...")]
    pub(super) machine: Vec<String>,
    /// Other orders of the judging load's events
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u64).range(..=100))]
    pub(super) seeds: u64,
    /// For programs
    #[arg(long)]
    pub(super) json: bool,
    #[command(flatten)]
    pub(super) html: HtmlArgs,
}
