//! The arguments of `slabyard ask`.

use crate::html::HtmlArgs;
use crate::replay::trace_args::TraceArgs;
use crate::{machine, settings};

const EXAMPLES: &str = "\
Examples:
  slabyard ask load.slabtrace max_order=0..3 cpu_partial=0,2,4 release=6.12,7.3
  slabyard ask load.slabtrace --machine page=64k,cpus=16,possible=512 max_order=1
  slabyard ask load.slabtrace max_order=0..1+min_partial=0,5    four combinations
  slabyard ask load.slabtrace freezing=eager --contention=64    what waits on 64 CPUs?
  slabyard ask load.slabtrace memory=16M,32M,64M                on which does it fit?
  slabyard ask load.slabtrace sheaf_capacity=8:36,page:4/32 --machine release=7.3
  slabyard ask load.slabtrace engine=slab,tiny --json

Each VARIANT is a key and its values: a list, ranges with both ends, or both. Each value is a row; a
plus combines keys. What is not given is the traced kernel's and machine's.";

/// `slabyard ask`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES, after_long_help = long_help())]
pub struct AskArgs {
    #[command(flatten)]
    pub(super) trace: TraceArgs,
    /// What is varied, such as max_order=0..3
    #[arg(value_name = "VARIANT")]
    pub(super) variants: Vec<String>,
    /// What holds in all rows, the base's too: KEY=VALUE,..., such as page=64k,cpus=16
    #[arg(long, value_name = "KEY=VALUE,...")]
    pub(super) machine: Vec<String>,
    /// Let so many CPUs overlap in time, each with as many tasks as a traced one, and say what waits
    #[arg(long, value_name = "CPUS", require_equals = true, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(super) contention: Option<u32>,
    /// Where the costs of a call's operations are from
    #[arg(long, value_name = "WHICH", default_value = "measured")]
    pub(super) costs: WhichCosts,
    /// Change how long an operation takes, in nanoseconds; may be repeated
    #[arg(long = "cost", value_name = "NAME=NS")]
    pub(super) typed_costs: Vec<String>,
    /// Leave out the check of the trace's own run
    #[arg(long)]
    pub(super) no_check: bool,
    /// For programs
    #[arg(long)]
    pub(super) json: bool,
    #[command(flatten)]
    pub(super) html: HtmlArgs,
}

/// Where costs are from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum WhichCosts {
    /// Measured on this machine, now
    Measured,
    /// Those of the lab's table, so that two machines say the same
    Table,
}

fn long_help() -> String {
    let mut text = format!("{EXAMPLES}\n\nKeys of the machine and of the run:\n");
    machine::add_machine_keys(&mut text);
    text.push_str("\nKeys of the rules, as `slabyard replay --set` takes them:\n");
    settings::add_replay_keys(&mut text);
    text.push_str(
        "\nKiB of slabs are those that events touch; `untouched` are the others, laid out by the same \
         rules. live, free (in slabs on nodes' lists) and parked (on CPUs: in CPU slabs, CPU partial \
         lists and sheaves; in barns) are means over the time of the trace. Work is for a million \
         calls: calls that leave their CPU, list locks, compare-exchanges of slabs, refills of a CPU, \
         slabs made and given back; ns is a call by the costs of its operations. error is how far off \
         slabs at the peak above those of the start were on measured pairs of machines that differ \
         so.\n\nExit codes: 0 done; 1 done, but the trace is doubtful; 2 usage, or a machine that \
         cannot be; 3 cannot read the trace.",
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use slabyard_ask::question::MACHINE_KEYS;

    #[test]
    fn help_names_every_key() {
        let help = long_help();
        for key in &MACHINE_KEYS {
            assert!(
                help.contains(&format!("\n  {} (or {}): ", key.name, key.alias)),
                "{}",
                key.name
            );
        }
    }
}
