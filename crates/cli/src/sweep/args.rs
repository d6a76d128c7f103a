//! The arguments of `slabyard sweep`.

use crate::html::HtmlArgs;
use crate::{machine, settings};
use clap::{Subcommand, ValueHint};
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  slabyard sweep load.slabtrace --vary max_order=0..3 --vary release=6.1,6.18,7.3 -o out.parquet
  slabyard sweep *.slabtrace --vary cpus=16,64,256 --machine page=64k,possible=512 -o out.csv
  slabyard sweep load.slabtrace --vary release=6.12,7.3 --vary cpu_partial=0,4 --skip-impossible \\
    -o out.json
  slabyard sweep load.slabtrace --vary max_order=0..3 --list
  slabyard sweep load.slabtrace --vary cpus=1..96 --shard 2/3 -o part-2.parquet
  slabyard sweep join part-*.parquet -o out.parquet --html out.html
  duckdb -c \"SELECT max_order, min(peak_bytes) FROM 'out.parquet' GROUP BY max_order\"";

/// `slabyard sweep`.
#[derive(clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = EXAMPLES,
    after_long_help = long_help()
)]
pub struct SweepArgs {
    /// Instead of a sweep
    #[command(subcommand)]
    pub(super) command: Option<SweepCommand>,
    /// Traces, each of which is replayed at every point, as `slabyard replay` takes them
    #[arg(value_name = "FILE", required = true, value_hint = ValueHint::FilePath)]
    pub(super) files: Vec<PathBuf>,
    /// A key and its values: a list, a range FIRST..LAST, or both; may be repeated, and all
    /// combinations are replayed
    #[arg(long, value_name = "KEY=VALUES", required = true)]
    pub(super) vary: Vec<String>,
    /// The table: a new file whose name ends in .csv, .json (an array) or .parquet
    #[arg(short, long, value_name = "FILE", required_unless_present = "list", value_hint = ValueHint::FilePath)]
    pub(super) output: Option<PathBuf>,
    /// What holds at all points
    #[arg(long, value_name = "KEY=VALUE,...", default_value = "", hide_default_value = true)]
    pub(super) machine: String,
    /// Only the I-th of N parts of the points, from 1/N to N/N; `join` puts the parts together
    #[arg(long, value_name = "I/N")]
    pub(super) shard: Option<String>,
    /// Print the points and replay none
    #[arg(long, conflicts_with = "html")]
    pub(super) list: bool,
    /// Keep points that cannot be as rows that say why, instead of refusing the sweep
    #[arg(long)]
    pub(super) skip_impossible: bool,
    /// Begin anew: discard the table, and the rows of a sweep that was stopped
    #[arg(long)]
    pub(super) restart: bool,
    /// Leave out the check of each trace's own run
    #[arg(long)]
    pub(super) no_check: bool,
    /// Print what was done, or the points, for programs
    #[arg(long)]
    pub(super) json: bool,
    #[command(flatten)]
    pub(super) html: HtmlArgs,
}

#[derive(Subcommand)]
pub(super) enum SweepCommand {
    /// Put the shards of a sweep together, if all points are there once
    Join(JoinArgs),
}

/// `slabyard sweep join`.
#[derive(clap::Args)]
pub(super) struct JoinArgs {
    /// The shards' tables, in any order and format
    #[arg(value_name = "PART", required = true, value_hint = ValueHint::FilePath)]
    pub(super) parts: Vec<PathBuf>,
    /// The table: a file whose name ends in .csv, .json or .parquet
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(super) output: PathBuf,
    /// Print what was done for programs
    #[arg(long)]
    pub(super) json: bool,
    #[command(flatten)]
    pub(super) html: HtmlArgs,
}

fn long_help() -> String {
    let mut text = format!("{EXAMPLES}\n\nKeys of the machine:\n");
    machine::add_machine_keys(&mut text);
    text.push_str("\nKeys of the rules:\n");
    settings::add_replay_keys(&mut text);
    text.push_str(
        "\nA sweep that was stopped goes on by the same command: its rows are in FILE.part until \
         the table is written. Equal traces, values and versions give equal bytes, whatever the \
         number of CPUs and shards. docs/formats.md has the columns; docs/sweep/ a Slurm and a \
         Kubernetes job.\n\nExit codes: 0 done, 2 usage or a point that cannot be, 3 cannot read, \
         replay or write, 130 and 143 stopped by a signal.",
    );
    text
}
