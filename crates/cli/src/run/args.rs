//! The arguments of `slabyard run`.

use crate::settings::{self, Setting};
use clap::builder::{PossibleValue, TypedValueParser};
use clap::error::ErrorKind;
use clap::{ValueEnum, ValueHint};
use slabyard_abi::counters::{CACHE_FIELDS, ReportField, YARD_FIELDS};
use slabyard_abi::engines::{ENGINES, EngineName, EngineRow};
use slabyard_kernels::settings::{Key, row};
use std::ffi::{OsStr, OsString};
use std::fmt::Write;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  slabyard run -- python3 script.py         the table goes to standard error
  slabyard run --report json --report-file r.json -- make
  slabyard run --set decay_ms=100 --set verify_at_exit=1 -- redis-server
  slabyard run --engine tiny -- make       on another engine, to compare
  slabyard run --slab-debug -- ./program   misuse of memory is found, and named with stacks
  slabyard run --slab-debug=FZ,malloc-64 -- ./program

The exit code is the program's own; a program that a signal ends ends this
command by the same signal. 127: not found, 126: cannot be executed, 2: usage,
3: the library or the report's file cannot be used.

The report is of the process that this command starts, as the last program that it was:
wrappers such as `sh`, `env` and `nice` become another one. What it starts as children is
not reported. A signal that is sent to this command (`kill`) is passed on; if it ends the
program, the report is of a last look before. In a terminal's foreground, where Ctrl-C reaches the
program past this command, it is looked at once a second, in a hundredth of the time at most: the
report of a program that a signal ends there is of the last look, and a line says how old that is.
Elsewhere such a program leaves no report, nor does one that is statically linked or set-user-id; a
line says so. Where no temporary file can be made the program runs without a report.";

/// `slabyard run`.
#[derive(clap::Args)]
#[command(
    override_usage = "slabyard run [OPTIONS] -- PROGRAM [ARG]...",
    after_help = EXAMPLES,
    after_long_help = long_help()
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
    /// Give free pages back and serve `shrink`, `set` and `validate` while the program makes no
    /// calls, by a thread more in it
    #[arg(long)]
    pub helper: bool,
    /// Drain when memory is short, by a thread more in it and the library that holds all engines:
    /// psi, psi:some 150000 1000000, cgroup, cgroup:70%, cgroup:64M, or two of them with a comma
    #[arg(long, value_name = "WATCH", value_parser = watch)]
    pub pressure: Option<String>,
    // Not a comment of documentation, which would take a bracket for a link.
    #[arg(
        long,
        help = "Debug caches, by the library that holds all engines, in the kernel's syntax of \
                slab_debug: FLAGS[,NAME...][;FLAGS...]; without a value FZPU, for all caches",
        value_name = "FLAGS[,NAME]...",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "FZPU",
        value_parser = debug_rules
    )]
    pub slab_debug: Option<String>,
    /// Sample its allocations from start to end, and write who allocates to this file, for pprof
    /// (see `slabyard profile`)
    #[arg(long, value_name = "F", value_hint = ValueHint::FilePath)]
    pub profile: Option<PathBuf>,
    /// The form of the report at the end
    #[arg(long, value_enum, default_value_t = ReportForm::Table)]
    pub report: ReportForm,
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

fn watch(text: &str) -> Result<String, &'static str> {
    match slabyard_abi::pressure::parse(text.as_bytes()) {
        Some(_) => Ok(text.to_owned()),
        None => Err("expected psi[:some STALL_US WINDOW_US], cgroup[:BYTES or PERCENT%], or both"),
    }
}

fn debug_rules(text: &str) -> Result<String, slabyard_abi::debug::RuleError> {
    slabyard_abi::debug::check(text.as_bytes()).map(|()| text.to_owned())
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
pub enum ReportForm {
    /// For people: one line a cache, and where the memory is
    Table,
    /// For programs
    Json,
    /// Nothing is reported
    None,
}

fn long_help() -> String {
    let mut text = format!("{EXAMPLES}\n\nKeys of --set:\n");
    for option in settings::options() {
        let takes = settings::takes(option.kind);
        let _ = writeln!(text, "  {}: {takes}\n      {}", option.name(), option.help());
    }
    let _ = writeln!(text, "\nFlags of --slab-debug:");
    for row in slabyard_abi::debug::FLAGS {
        let _ = writeln!(text, "  {}: {}", char::from(row.letter), row.help);
    }
    let _ = writeln!(
        text,
        "A name may end in *. The first block that names a cache counts; for the others the last \
         block without names does. - stands for no flags."
    );
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

fn fields<T>(text: &mut String, fields: &[ReportField<T>]) {
    for ReportField { field, .. } in fields {
        let _ = writeln!(text, "  {}: {}", field.name, field.help);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use slabyard_abi::counters::CacheCounters;
    use slabyard_kernels::settings::Opt;

    #[test]
    fn help_names_every_field_and_key() {
        let help = long_help();
        let keys = settings::options().map(Opt::name);
        for name in CacheCounters::NAMES.iter().copied().chain(keys) {
            assert!(help.contains(&format!("  {name}: ")), "{name}");
        }
    }
}
