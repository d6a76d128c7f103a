//! The command line's grammar: the subcommands, each with its own arguments. Help, completions and
//! manual pages are generated from this grammar and from `abi`'s tables.

use crate::ask::args::AskArgs;
use crate::boot::args::BootArgs;
use crate::compare::CompareArgs;
use crate::diff::DiffArgs;
use crate::doctor::DoctorArgs;
use crate::explain::ExplainArgs;
use crate::export::ExportArgs;
use crate::geometry::args::GeometryArgs;
use crate::list::ListArgs;
use crate::profile::ProfileArgs;
use crate::record::args::RecordArgs;
use crate::replay::args::ReplayArgs;
use crate::reproduce::ReproduceArgs;
use crate::run::args::RunArgs;
use crate::set::SetArgs;
use crate::show::ShowArgs;
use crate::shrink::ShrinkArgs;
use crate::small::SmallArgs;
use crate::snapshot::SnapshotArgs;
use crate::sweep::args::SweepArgs;
use crate::top::TopArgs;
use crate::trace::TraceCommandArgs;
use crate::tune::args::TuneArgs;
use crate::validate::ValidateArgs;
use crate::watch::WatchArgs;
use clap::{Parser, Subcommand, ValueHint};
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  slabyard run -- python3 script.py
  slabyard run --set decay_ms=100 -- redis-server --save ''
  slabyard list kernel --sort live
  slabyard show kernel dentry
  slabyard doctor kernel
  slabyard profile $(pgrep -n server) --seconds 30 -o heap.pb.gz
  slabyard geometry --page-size 64k --cpus 64 192 4k
  slabyard boot kernel --set max_order=0
  slabyard record -o load.slabtrace --kernel -- make -j8
  slabyard replay load.slabtrace --release 5.9
  slabyard ask load.slabtrace max_order=0..3 release=6.12,7.3
  slabyard sweep load.slabtrace --vary max_order=0..3 --vary cpus=16,64 -o out.parquet
  slabyard compare -- python3 script.py
  slabyard reproduce 64k.max_order
  slabyard explain E0101
  slabyard completions bash > slabyard.bash";

/// Run unmodified programs on the slab allocator.
#[derive(Parser)]
#[command(name = "slabyard", version, after_help = EXAMPLES)]
pub struct Args {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Subcommand)]
pub enum Command {
    /// Run a program on the allocator and report what it used
    Run(RunArgs),
    /// List the caches of a kernel, a process, a core, a saved snapshot or a pasted text
    List(ListArgs),
    /// Show one cache with everything that is known of it
    Show(ShowArgs),
    /// Show the caches of a kernel or a process live, on the full screen
    Top(TopArgs),
    /// Save a source as it is now
    Snapshot(SnapshotArgs),
    /// Save looks at a source for days, in one file of bounded size
    Watch(WatchArgs),
    /// Say what is different between two looks
    Diff(DiffArgs),
    /// Say what is wrong with the memory of a process or a kernel, and where it is
    Doctor(DoctorArgs),
    /// Print or serve a source as OpenMetrics, or as files of a kernel
    Export(ExportArgs),
    /// Flush what is parked, and say how much came back
    Shrink(ShrinkArgs),
    /// Change a cache's tunables while it is in use
    Set(SetArgs),
    /// Have a process look through its caches with debugging
    Validate(ValidateArgs),
    /// Sample who allocates in a running process, for pprof and flame graphs
    Profile(ProfileArgs),
    /// Say what slabs a kernel makes for objects of a size, or check that it does
    Geometry(GeometryArgs),
    /// Foretell from a snapshot what slab memory another machine or other rules would take
    Boot(Box<BootArgs>),
    /// Record what the kernel's slabs, or a program's malloc, are asked for
    Record(Box<RecordArgs>),
    /// Replay a trace of a kernel's allocations by any kernel's rules, on any machine
    Replay(Box<ReplayArgs>),
    /// Say what a load would take under other rules and on other machines, with what that is worth
    Ask(Box<AskArgs>),
    /// Replay traces at each combination of settings, as one table; resumable, and in shards
    Sweep(Box<SweepArgs>),
    /// Find settings that take less memory for some loads at no more slow-path work
    Tune(TuneArgs),
    /// Say what each allocator leaves of a small machine's memory
    Small(SmallArgs),
    /// Compute what threads of the kernel's mailing lists measured, and show both numbers
    Reproduce(ReproduceArgs),
    /// Say what is in a trace, or make another one of it
    Trace(TraceCommandArgs),
    /// Run a program on each engine, or a trace by each kernel's rules, in turns
    Compare(Box<CompareArgs>),
    /// Say what a message, a number, a setting or a finding means
    Explain(ExplainArgs),
    /// Print the completions for a shell
    Completions(CompletionsArgs),
    /// Write the manual pages
    #[command(hide = true)]
    Man(ManArgs),
}

/// `slabyard completions`.
#[derive(clap::Args)]
pub struct CompletionsArgs {
    /// The shell
    pub shell: clap_complete::Shell,
}

/// `slabyard man`.
#[derive(clap::Args)]
pub struct ManArgs {
    /// An existing directory; without it the first page goes to standard output
    #[arg(value_hint = ValueHint::DirPath)]
    pub directory: Option<PathBuf>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::args::ReportForm;
    use clap::CommandFactory;

    #[test]
    fn the_tree_of_arguments_is_consistent() {
        Args::command().debug_assert();
    }

    #[test]
    fn what_follows_the_program_is_the_programs() {
        for line in ["slabyard run -- ls --report json", "slabyard run ls --report json"] {
            let Command::Run(args) = Args::try_parse_from(line.split(' ')).unwrap().command else {
                panic!("{line}");
            };
            assert_eq!(args.report, ReportForm::Table);
            assert_eq!(args.program, ["ls", "--report", "json"]);
        }
    }

    #[test]
    fn only_what_exists_is_accepted() {
        for line in [
            "slabyard run --engine slop -- ls",
            "slabyard run --engine= -- ls",
            "slabyard run --bogus -- ls",
            "slabyard run --set colour=blue -- ls",
            "slabyard run",
        ] {
            let error = Args::try_parse_from(line.split(' ')).err();
            assert_eq!(error.map(|e| e.exit_code()), Some(2), "{line}");
        }
    }
}
