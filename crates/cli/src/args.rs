//! What may be typed. Help, completions and manual pages are made from this
//! and from `abi`'s tables.

use crate::diff::DiffArgs;
use crate::export::ExportArgs;
use crate::geometry::GeometryArgs;
use crate::list::ListArgs;
use crate::replay::ReplayArgs;
use crate::set::SetArgs;
use crate::settings::{self, Setting};
use crate::show::ShowArgs;
use crate::shrink::ShrinkArgs;
use crate::snapshot::SnapshotArgs;
use crate::top::TopArgs;
use clap::builder::{PossibleValue, TypedValueParser};
use clap::error::ErrorKind;
use clap::{Parser, Subcommand, ValueEnum, ValueHint};
use slabyard_abi::counters::{CACHE_FIELDS, Field, YARD_FIELDS};
use slabyard_abi::engines::{ENGINES, EngineName, EngineRow};
use slabyard_abi::options::{Key, row};
use std::ffi::{OsStr, OsString};
use std::fmt::Write;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  slabyard run -- python3 script.py
  slabyard run --set decay_ms=100 -- redis-server --save ''
  slabyard list kernel --sort live
  slabyard show kernel dentry
  slabyard geometry --page-size 64k --cpus 64 192 4k
  slabyard replay load.slabtrace --start load.before.json --release 5.9
  slabyard completions bash > slabyard.bash";

const RUN_EXAMPLES: &str = "\
Examples:
  slabyard run -- python3 script.py         the table goes to standard error
  slabyard run --report json --report-file r.json -- make
  slabyard run --set decay_ms=100 --set verify_at_exit=1 -- redis-server
  slabyard run --engine plain -- make       on another engine, to compare

The exit code is the program's own; a program that a signal ends ends this
command by the same signal. 127: not found, 126: cannot be executed, 2: usage,
3: the library or the report's file cannot be used.

The report is of the process that this command starts, as the last program that it was:
wrappers such as `sh`, `env` and `nice` become another one. What it starts as children is
not reported. A program that a signal ends leaves no report, nor does one that is
statically linked or set-user-id; a line says so.";

/// Run unmodified programs on the slab allocator.
#[derive(Parser)]
#[command(name = "slabyard", version, after_help = EXAMPLES)]
pub struct Args {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The subcommands.
#[derive(Subcommand)]
pub enum Command {
    /// Run a program on the allocator and report what it used
    Run(RunArgs),
    /// List the caches of a kernel, a process, a core or a saved snapshot
    List(ListArgs),
    /// Show one cache with everything that is known of it
    Show(ShowArgs),
    /// Show the caches of a kernel or a process live, on the full screen
    Top(TopArgs),
    /// Save a source as it is now
    Snapshot(SnapshotArgs),
    /// Say what is different between two looks
    Diff(DiffArgs),
    /// Print or serve the largest caches and the totals as OpenMetrics
    Export(ExportArgs),
    /// Send what is parked home, and say how much came back
    Shrink(ShrinkArgs),
    /// Change a cache's tunables while it is in use
    Set(SetArgs),
    /// Say what slabs a kernel makes for objects of a size, or check that it does
    Geometry(GeometryArgs),
    /// Replay a trace of a kernel's allocations by any kernel's rules, on any machine
    Replay(Box<ReplayArgs>),
    /// Print the completions for a shell
    Completions(CompletionsArgs),
    /// Write the manual pages
    #[command(hide = true)]
    Man(ManArgs),
}

/// `slabyard run`.
#[derive(clap::Args)]
#[command(
    override_usage = "slabyard run [OPTIONS] -- PROGRAM [ARG]...",
    after_help = RUN_EXAMPLES,
    after_long_help = run_long_help()
)]
pub struct RunArgs {
    /// The engine that serves the program, by the library that holds all of them; without it
    /// the library that holds `slub` alone, which is smaller
    #[arg(long, value_name = "NAME", env = row(Key::Engine).env, value_parser = Engines)]
    pub engine: Option<EngineName>,
    /// Change an option of the allocator; may be repeated, the last one counts
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = settings::parse)]
    pub settings: Vec<Setting>,
    /// Let any process of the same user look at it, where the system else lets none
    #[arg(long)]
    pub observable: bool,
    /// Give free pages back while the program makes no calls, by a thread more in it
    #[arg(long)]
    pub helper: bool,
    /// The form of the report at the end
    #[arg(long, value_enum, default_value_t = Form::Table)]
    pub report: Form,
    /// Write the report to this file instead of standard error
    #[arg(long, value_name = "F", value_hint = ValueHint::FilePath)]
    pub report_file: Option<PathBuf>,
    /// The program and its arguments
    #[arg(
        value_name = "PROGRAM [ARG]",
        required = true,
        trailing_var_arg = true,
        value_hint = ValueHint::CommandWithArguments
    )]
    pub program: Vec<OsString>,
}

/// The engines' names, for help, completions and errors. Clap's own list of values would take
/// a name that is none for one with a wrong letter: who types `slab` does not mean `slub`.
#[derive(Clone)]
struct Engines;

impl TypedValueParser for Engines {
    type Value = EngineName;

    fn parse_ref(
        &self,
        command: &clap::Command,
        _: Option<&clap::Arg>,
        name: &OsStr,
    ) -> Result<EngineName, clap::Error> {
        let found = EngineName::ALL.iter().copied().find(|engine| name == engine.row().name);
        found.ok_or_else(|| {
            let known: Vec<_> = ENGINES.iter().map(|row| row.name).collect();
            let text = format!("there is no engine `{}`: {}\n", name.display(), known.join(", "));
            clap::Error::raw(ErrorKind::InvalidValue, text).with_cmd(command)
        })
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let value = |row: &'static EngineRow| PossibleValue::new(row.name).help(row.help);
        Some(Box::new(ENGINES.iter().map(value)))
    }
}

/// The forms of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Form {
    /// For people: one line a cache, and where the memory is
    Table,
    /// For programs
    Json,
    /// Nothing is reported
    None,
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

fn run_long_help() -> String {
    let mut text = format!("{RUN_EXAMPLES}\n\nKeys of --set:\n");
    for (key, option) in settings::keys() {
        let takes = settings::takes(option.kind);
        let _ = writeln!(text, "  {key}: {takes}\n      {}", option.help);
    }
    let _ = writeln!(text, "\nNumbers of a cache in the report:");
    fields(&mut text, CACHE_FIELDS);
    let _ = writeln!(text, "\nNumbers of the process in the report:");
    fields(&mut text, YARD_FIELDS);
    let _ = write!(
        text,
        "\nIn the table, parked is parked_cpu and parked_node together, used is the \
         share of the bytes that live objects take, and `-` is unknown.\n\
         SLABYARD_LIB names the library where it is not found by itself, whatever --engine says."
    );
    text
}

fn fields<T>(text: &mut String, fields: &[Field<T>]) {
    for field in fields {
        let _ = writeln!(text, "  {}: {}", field.name, field.help);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
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
            assert_eq!(args.report, Form::Table);
            assert_eq!(args.program, ["ls", "--report", "json"]);
        }
    }

    #[test]
    fn only_what_exists_is_accepted() {
        for line in [
            "slabyard run --engine slob -- ls",
            "slabyard run --engine= -- ls",
            "slabyard run --bogus -- ls",
            "slabyard run --set colour=blue -- ls",
            "slabyard run",
        ] {
            let error = Args::try_parse_from(line.split(' ')).err();
            assert_eq!(error.map(|e| e.exit_code()), Some(2), "{line}");
        }
    }

    #[test]
    fn help_names_every_field_and_key() {
        let help = run_long_help();
        for name in CACHE_FIELDS.iter().map(|f| f.name).chain(settings::keys().map(|k| {
            // Leaked for the length of a test, to chain with static names.
            &*k.0.leak()
        })) {
            assert!(help.contains(&format!("  {name}: ")), "{name}");
        }
    }
}
