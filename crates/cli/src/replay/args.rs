//! The arguments of `slabyard replay`, and what is computed from them alone.

use super::events;
use super::help;
use super::oom::Pressure;
use super::trace_args::TraceArgs;
use crate::failure::Failure;
use crate::html::HtmlArgs;
use crate::machine::RulesArgs;
use crate::outputs;
use clap::ValueHint;
use slabyard_ask::Wanted;
use slabyard_ask::answer::MOST_SAMPLES;
use slabyard_ask::sizes::memory_size;
use slabyard_lab::accuracy::Change;
use slabyard_lab::case::Case;
use slabyard_lab::replay::events::Event;
use slabyard_lab::replay::{Limit, Start};
use slabyard_lab::rules::NodeSet;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Tasks for each of the trace.
const MOST_TASKS: u32 = 10_000;

/// `slabyard replay`.
#[derive(clap::Args)]
#[command(after_help = help::EXAMPLES, after_long_help = help::long())]
pub struct ReplayArgs {
    #[command(flatten)]
    pub(super) trace: TraceArgs,
    #[command(flatten)]
    pub(super) rules: RulesArgs,
    /// Memory nodes, among which the CPUs are shared out
    #[arg(long, value_name = "N")]
    pub(super) nodes: Option<u32>,
    /// Nodes that have CPUs but no memory, such as 1,3-7 [default: those of the snapshot]
    #[arg(long, value_name = "NODES", value_parser = nodes)]
    pub(super) memoryless: Option<NodeSet>,
    /// Copy each task of the trace, with objects of its own, so that there are N times as many
    #[arg(long, value_name = "N[x]", default_value = "1", value_parser = times, conflicts_with = "check")]
    pub(super) tasks: u32,
    /// Memory of the machine, out of which come all slabs and the other pages that the trace tells,
    /// those from before it first; a run that needs more ends with the report that a kernel prints
    /// then, and exit code 4
    #[arg(long, value_name = "SIZE", value_parser = memory_size, conflicts_with = "check")]
    pub(super) memory: Option<u64>,
    /// What is done before that
    #[arg(long, value_enum, default_value = "none", requires = "memory")]
    pub(super) pressure: Pressure,
    /// Unplug a CPU at a time, in seconds since the trace began; may be repeated
    #[arg(
        long,
        value_name = "CPU@SECONDS",
        value_parser = events::offline,
        conflicts_with_all = ["check", "contention", "no_look_ahead"]
    )]
    pub(super) offline: Vec<Event>,
    /// Plug a CPU in at a time; one that comes before it went is not there at the start
    #[arg(
        long,
        value_name = "CPU@SECONDS",
        value_parser = events::online,
        conflicts_with_all = ["check", "contention", "no_look_ahead"]
    )]
    pub(super) online: Vec<Event>,
    /// Shrink all caches at a time, as by `slabinfo -s`; what the kernel's shrinkers would free
    /// stays, as no trace tells it
    #[arg(
        long,
        value_name = "SECONDS",
        value_parser = events::shrink,
        conflicts_with_all = ["check", "contention"]
    )]
    pub(super) shrink: Vec<Event>,
    /// Hold the replay against what the traced kernel did; exit code 1 if a goal is missed
    #[arg(long, conflicts_with_all = ["samples", "every", "html"])]
    pub(super) check: bool,
    /// Let CPUs overlap in time: exchanges that fail and list locks that are waited for, on so many
    /// CPUs, each with as many tasks as a traced one [default: --cpus]
    #[arg(
        long,
        value_name = "CPUS",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "",
        value_parser = ContentionCpus::from_str,
        conflicts_with_all = ["check", "samples", "every", "memory", "save", "counters", "all", "html"]
    )]
    pub(super) contention: Option<ContentionCpus>,
    /// Change how long an operation takes for --contention, in nanoseconds; may be repeated
    #[arg(long = "cost", value_name = "NAME=NS", requires = "contention")]
    pub(super) costs: Vec<String>,
    /// Start from the snapshot alone, not from what the trace tells of its start as well
    #[arg(long)]
    pub(super) no_look_ahead: bool,
    /// Show the slabs over time, about N times
    #[arg(long, value_name = "N", conflicts_with = "every", value_parser = at_least_one)]
    pub(super) samples: Option<usize>,
    /// Show the slabs over time, every so many events
    #[arg(long, value_name = "EVENTS", value_parser = at_least_one)]
    pub(super) every: Option<usize>,
    /// Show all caches
    #[arg(long)]
    pub(super) all: bool,
    /// For programs
    #[arg(long)]
    pub(super) json: bool,
    /// Write the trace to a file of ours instead of replaying it; `-` is standard output
    #[arg(
        long,
        value_name = "OUT",
        value_hint = ValueHint::FilePath,
        conflicts_with_all = [
            "engine", "release", "page_size", "cpus", "possible_cpus", "nodes", "memoryless", "tasks", "set",
            "check", "contention",
            "no_look_ahead", "offline", "online", "shrink", "memory", "samples", "every", "all", "json", "counters", "save", "html",
        ]
    )]
    pub(super) convert: Option<PathBuf>,
    /// Write the model's caches to a file that `slabyard list`, `show`, `diff` and `export` take;
    /// packed if it ends in .zst
    #[arg(
        long,
        value_name = "FILE",
        value_hint = ValueHint::FilePath,
        conflicts_with = "check"
    )]
    pub(super) save: Option<PathBuf>,
    /// When they are saved
    #[arg(long, value_name = "WHEN", default_value = "end", requires = "save")]
    pub(super) save_at: SaveAt,
    /// Show all counters, with what each counts
    #[arg(long)]
    pub(super) counters: bool,
    #[command(flatten)]
    pub(super) html: HtmlArgs,
}

/// When `--save` saves the caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum SaveAt {
    /// When they first have the most slabs
    Peak,
    /// At the end of the trace
    End,
}

impl ReplayArgs {
    /// Refuses to write over what is read.
    pub(super) fn look_before<P: AsRef<Path>>(
        &self,
        inputs: impl IntoIterator<Item = P> + Clone,
    ) -> Result<(), Failure> {
        if let Some(to) = &self.save {
            outputs::look_before("--save", to, inputs.clone())?;
        }
        self.html.look_before(inputs)
    }

    /// The rules and the machine that are asked for.
    pub(super) fn wanted(&self) -> Wanted {
        Wanted { nodes: self.nodes, memoryless: self.memoryless, ..self.rules.wanted() }
    }

    /// In what the machine is not the traced one.
    pub(super) fn changes(&self, case: &Case) -> Vec<Change> {
        let mut changes = case.changes.clone();
        changes.extend((self.tasks > 1).then_some(Change::Tasks));
        changes.sort();
        changes
    }

    /// The memory of the machine, where it has a limit.
    pub(super) fn memory_limit(&self) -> Option<Limit> {
        let relief = self.pressure.relief();
        self.memory.map(|bytes| Limit { bytes, relief })
    }

    /// What the caches hold before the first event.
    pub(super) fn start_state(&self) -> Start {
        if self.no_look_ahead { Start::Snapshot } else { Start::LookAhead }
    }

    /// Every how many of so many steps a sample is taken; 0 is never.
    pub(super) fn sample_every(&self, steps: usize) -> Result<usize, Failure> {
        let every = match (self.samples, self.every) {
            (Some(samples), _) => steps.div_ceil(samples).max(1),
            (None, Some(every)) => every,
            (None, None) => return Ok(0),
        };
        let samples = steps.div_ceil(every);
        if samples > MOST_SAMPLES {
            let least = steps.div_ceil(MOST_SAMPLES);
            return Err(Failure::Usage(format!(
                "that would be {samples} samples; at most {MOST_SAMPLES} are kept: --every {least}"
            )));
        }
        Ok(every)
    }

    /// What is to happen to the machine.
    pub(super) fn machine_events(&self) -> impl Iterator<Item = Event> {
        [&self.offline, &self.online, &self.shrink].into_iter().flatten().copied()
    }
}

/// `--contention`'s numbers of CPUs: `2,4,8`; nothing is the machine's own.
#[derive(Clone, Debug)]
pub(super) struct ContentionCpus(pub(super) Vec<u32>);

impl FromStr for ContentionCpus {
    type Err = String;

    fn from_str(text: &str) -> Result<ContentionCpus, String> {
        if text.is_empty() {
            return Ok(ContentionCpus(Vec::new()));
        }
        let number = |text: &str| text.parse().ok().filter(|cpus| (1..=1024).contains(cpus));
        let all: Option<Vec<u32>> = text.split(',').map(number).collect();
        all.map(ContentionCpus)
            .ok_or_else(|| "give numbers of CPUs from 1 to 1024, such as 2,8,32,128".into())
    }
}

fn nodes(text: &str) -> Result<NodeSet, String> {
    NodeSet::parse(text).ok_or_else(|| "give numbers of nodes below 64, such as 1,3-7".into())
}

/// A factor: `8` or `8x`.
fn times(text: &str) -> Result<u32, String> {
    let number = text.strip_suffix('x').unwrap_or(text).parse().ok();
    let number = number.filter(|number| (1..=MOST_TASKS).contains(number));
    number.ok_or_else(|| format!("give a number from 1 to {MOST_TASKS}, such as 8x"))
}

fn at_least_one(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|n| *n > 0).ok_or_else(|| "expected a number from 1 on".into())
}
