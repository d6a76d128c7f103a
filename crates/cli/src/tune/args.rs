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
the kernel has, each for all caches. A coarse grid is compared, then the neighbours of the points that
no other point beats; each cache is replayed once for each set of rules that these give it. Memory is
that of all slabs in the mean over time; work is what calls do beyond their fast path (calls that leave
their CPU, exchanges, list locks as if another CPU held them last, objects that are moved, page calls) by
the costs of `slabyard replay --contention`; all are shown relative to the default.

For the caches that hold most memory or take most work, min_partial and cpu_partial of each are varied
as well, beside what is recommended for all: once for less memory at no more work, once for less work at
half a hundredth more memory. They are printed as writes to sysfs if they save a hundredth of the memory
or a twentieth of the work more, and hold. Nothing else of a single cache can be written: its order has
been read-only since 5.9, its sheaf_capacity always, and from 7.0 on there are no CPU partial lists.

What is recommended is the smallest point that takes at most 1 % more work than the default, if it takes
at least 1 % less memory, and if it is smaller and takes at most 1 % more work where it was not found.
With several traces each judges what is best for the others (leave one out), and the lowest and the
highest of what they say are printed: record a load several times to see how far its gain varies. One
trace is cut into halves by time, and the second judges the first's, without an interval.

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
    /// For programs
    #[arg(long)]
    pub(super) json: bool,
    #[command(flatten)]
    pub(super) html: HtmlArgs,
}
