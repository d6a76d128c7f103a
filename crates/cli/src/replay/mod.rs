//! `slabyard replay`: a trace of a real kernel's allocations, run through the rules
//! of any kernel on any machine; held against what the kernel did; or turned into a
//! trace file of ours.
//!
//! Neighbours: the lab reads, prepares, replays and judges; here it is put together
//! ([`input`]), counted ([`figures`]), shown ([`table`], [`json`]) and saved ([`save`]).
//! [`check`], [`contention`] and [`convert`] are ways of their own.
//! Invariants: standard output holds the result alone, notes go to standard error;
//! exit code 1 is a check that missed a goal, or events that are missing or a snapshot
//! that does not fit, so that all figures are uncertain; 2 settings that cannot be, 3
//! files that cannot be read.

mod check;
mod contention;
mod convert;
mod events;
pub mod figures;
pub mod input;
mod json;
pub mod oom;
mod save;
pub mod screen;
mod slob;
mod table;

use crate::failure::Failure;
use crate::machine::{Engine, MachineArgs};
use crate::{say, stdout};
use anyhow::{Context, anyhow};
use clap::ValueHint;
use input::{Loaded, Wanted};
use save::Moment;
use screen::{Colour, Progress, seconds};
use slabyard_lab::accuracy::Change;
use slabyard_lab::case::{self, Case};
use slabyard_lab::counters::Counter;
use slabyard_lab::prepare::Order;
use slabyard_lab::prepare::doubts::{self, Doubt};
use slabyard_lab::replay::events::Event;
use slabyard_lab::replay::{Limit, Start, contend, replay};
use slabyard_lab::rules;
use slabyard_lab::slab;
use slabyard_lab::trace::LISTS;
use std::fmt::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::str::FromStr;
use table::Shown;

/// Samples that one replay may give: each holds a number for every cache.
const MOST_SAMPLES: usize = 100_000;
/// Tasks for each of the trace.
const MOST_TASKS: u32 = 10_000;

const EXAMPLES: &str = "\
Examples:
  slabyard replay load.slabtrace --start load.before.json
  slabyard replay load.slabtrace                        finds load.before.json beside it
  slabyard replay load.slabtrace --release 5.9 --set cpu_partial=10
  slabyard replay load.slabtrace --set max_order=1 --samples 100 --json > orders.json
  slabyard replay load.slabtrace --engine slab          by the rules of mm/slab.c
  slabyard replay load.slabtrace --engine slob          which pages would SLOB need?
  slabyard replay load.slabtrace --cpus 64 --tasks 8x   eight times the tasks, on 64 CPUs
  slabyard replay load.slabtrace --memory 8M          does it fit on a machine of 8 MiB?
  slabyard replay load.slabtrace --cpus 64 --memory 40M --pressure full
  slabyard replay load.slabtrace --offline 3@2 --online 3@4.5 --shrink 3
  slabyard replay load.slabtrace --contention=2,16,128  what waits, and what fails?
  slabyard replay load.slabtrace --check                are these rules the kernel's?
  slabyard replay load.slabtrace --save peak.json --save-at peak
  slabyard show peak.json filp                          each CPU's list, slab by slab
  slabyard replay load.csv.zst --start boot.json#hb --convert load.slabtrace
  zcat load.csv.gz | slabyard replay - --start load.before.json

What is not given of the machine is the traced one's.";

/// The trace, and what it begins with.
#[derive(clap::Args)]
pub struct TraceArgs {
    /// The trace: a file of ours, or a CSV, plain or .zst; `-` is standard input
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub file: PathBuf,
    /// The snapshot taken just before the trace; FILE#DUMP picks one of several, `-` is standard
    /// input
    /// [default: NAME.before.json or NAME.before.json.zst beside the trace]
    #[arg(long, value_name = "SNAPSHOT", value_hint = ValueHint::FilePath)]
    pub start: Option<PathBuf>,
    /// The dump in the snapshot's file
    #[arg(long, value_name = "NAME")]
    pub dump: Option<String>,
    /// Begin as if no lists had been read out of the kernel
    #[arg(long)]
    pub no_lists: bool,
    /// Take what is left of a trace that was cut off or damaged
    #[arg(long)]
    pub partial: bool,
}

/// `slabyard replay`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES, after_long_help = long_help())]
pub struct ReplayArgs {
    #[command(flatten)]
    trace: TraceArgs,
    /// The kernel's allocator whose rules hold
    #[arg(long, value_enum, default_value = "slub")]
    engine: Engine,
    /// The kernel whose rules hold: a version such as 6.12 [default: the traced one]
    #[arg(long, value_name = "R")]
    release: Option<String>,
    #[command(flatten)]
    machine: MachineArgs,
    /// Memory nodes, among which the CPUs are shared out
    #[arg(long, value_name = "N")]
    nodes: Option<u32>,
    /// Copy each task of the trace, with objects of its own, so that there are N times as many
    #[arg(long, value_name = "N[x]", default_value = "1", value_parser = times, conflicts_with = "check")]
    tasks: u32,
    /// Change a rule; may be repeated, the last one counts
    #[arg(long = "set", value_name = "KEY=VALUE")]
    settings: Vec<String>,
    /// Memory of the machine, out of which come all slabs and the other pages that the trace tells,
    /// those from before it first; a run that needs more ends with the report that a kernel prints
    /// then, and exit code 4
    #[arg(long, value_name = "SIZE", value_parser = oom::size, conflicts_with = "check")]
    memory: Option<u64>,
    /// What is done before that
    #[arg(long, value_enum, default_value = "none", requires = "memory")]
    pressure: oom::Pressure,
    /// Unplug a CPU at a time, in seconds since the trace began; may be repeated
    #[arg(
        long,
        value_name = "CPU@SECONDS",
        value_parser = events::offline,
        conflicts_with_all = ["check", "contention", "no_look_ahead"]
    )]
    offline: Vec<Event>,
    /// Plug a CPU in at a time; one that comes before it went is not there at the start
    #[arg(
        long,
        value_name = "CPU@SECONDS",
        value_parser = events::online,
        conflicts_with_all = ["check", "contention", "no_look_ahead"]
    )]
    online: Vec<Event>,
    /// Shrink all caches at a time, as by `slabinfo -s`; what the kernel's shrinkers would free
    /// stays, as no trace tells it
    #[arg(
        long,
        value_name = "SECONDS",
        value_parser = events::shrink,
        conflicts_with_all = ["check", "contention"]
    )]
    shrink: Vec<Event>,
    /// Hold the replay against what the traced kernel did; exit code 1 if a goal is missed
    #[arg(long, conflicts_with_all = ["samples", "every"])]
    check: bool,
    /// Let CPUs overlap in time: exchanges that fail and list locks that are waited for, on so many
    /// CPUs, each with as many tasks as a traced one [default: --cpus]
    #[arg(
        long,
        value_name = "CPUS",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "",
        value_parser = Cpus::from_str,
        conflicts_with_all = ["check", "samples", "every", "memory", "save", "counters", "all"]
    )]
    contention: Option<Cpus>,
    /// Change how long an operation takes for --contention, in nanoseconds; may be repeated
    #[arg(long = "cost", value_name = "NAME=NS", requires = "contention")]
    costs: Vec<String>,
    /// Start from the snapshot alone, not from what the trace tells of its start as well
    #[arg(long)]
    no_look_ahead: bool,
    /// Show the slabs over time, about N times
    #[arg(long, value_name = "N", conflicts_with = "every", value_parser = at_least_one)]
    samples: Option<usize>,
    /// Show the slabs over time, every so many events
    #[arg(long, value_name = "EVENTS", value_parser = at_least_one)]
    every: Option<usize>,
    /// Show all caches
    #[arg(long)]
    all: bool,
    /// For programs
    #[arg(long)]
    json: bool,
    /// Write the trace to a file of ours instead of replaying it; `-` is standard output
    #[arg(
        long,
        value_name = "OUT",
        value_hint = ValueHint::FilePath,
        conflicts_with_all = [
            "engine", "release", "page_size", "cpus", "possible_cpus", "nodes", "tasks", "settings",
            "check", "contention",
            "no_look_ahead", "offline", "online", "shrink", "memory", "samples", "every", "all", "json", "counters", "save",
        ]
    )]
    convert: Option<PathBuf>,
    /// Write the model's caches to a file that `slabyard list`, `show`, `diff` and `export` take;
    /// packed if it ends in .zst
    #[arg(
        long,
        value_name = "FILE",
        value_hint = ValueHint::FilePath,
        conflicts_with = "check"
    )]
    save: Option<PathBuf>,
    /// When they are saved
    #[arg(long, value_name = "WHEN", default_value = "end", requires = "save")]
    save_at: Moment,
    /// Show all counters, with what each counts
    #[arg(long)]
    counters: bool,
}

/// Replays, checks or converts.
pub fn run(args: &ReplayArgs) -> Result<ExitCode, Failure> {
    let progress = Progress::new();
    if let Some(to) = &args.convert {
        return convert::run(args, to, &progress);
    }
    if args.engine == Engine::Slob {
        return slob::run(args, &progress);
    }
    if let Some(to) = &args.save {
        save::look_before(args, to)?;
    }
    let loaded = input::load(&args.trace, &args.wanted(), &progress)?;
    if args.check && loaded.of_process {
        let text =
            "--check holds a replay against a kernel's slabs, and a process's trace has none";
        return Err(Failure::Usage(text.into()));
    }
    if args.check {
        return check::run(args, &loaded, &progress);
    }
    if let Some(Cpus(cpus)) = &args.contention {
        if args.engine == Engine::Slab {
            return Err(Failure::Usage("--contention is of SLUB: leave out --engine slab".into()));
        }
        return contention::run(args, cpus, &loaded, &progress);
    }
    plain(args, &loaded, &progress)
}

fn plain(args: &ReplayArgs, loaded: &Loaded, progress: &Progress) -> Result<ExitCode, Failure> {
    let start = args.start_state();
    let mut case = case(args.engine, loaded, case::order_of(&loaded.snapshot), progress)?;
    case.happens(events::of(args, loaded)?).map_err(|wrong| Failure::Usage(wrong.to_string()))?;
    let limit = args.memory();
    if let Some(limit) = limit {
        oom::fits(limit.bytes, case.page_size)?;
        case.tell_others(loaded.trace.events()).context("cannot read the trace")?;
    }
    let mut plan = case.plan(start);
    plan.sample_every = args.sample_every(case.prepared.steps.len())?;
    plan.memory = limit;
    plan.tasks = args.tasks;
    fits(&case, args.tasks)?;
    progress.stage("replaying");
    let replayed = replay(&plan).context("the replay failed")?;
    progress.clear();
    let doubtful = doubts(&args.trace, loaded, &case);
    if let Some(to) = &args.save {
        save::run(args, to, loaded, &plan, &case, &replayed, progress)?;
    }
    let figures = figures::of(&loaded.snapshot, &case, start, args.changes(&case), &replayed);
    let text = if args.json {
        let told = replayed.memory.as_ref();
        let memory = told.map(|told| oom::MemoryJson::of(told, &case));
        json::text(args, loaded, start, &figures, memory)?
    } else {
        let shown = if args.all { Shown::All } else { Shown::Some };
        let mut text = heading(args, loaded, start) + "\n";
        let counters = if args.counters { Shown::All } else { Shown::Some };
        table::write(&mut text, &figures, shown, counters, Colour::of_stdout());
        if let Some(told) = &replayed.memory {
            text.push_str(&oom::moments(told, &case));
        }
        text
    };
    stdout::print(text.as_bytes())?;
    if let Some(told) = &replayed.memory
        && let Some(report) = oom::report(told, &case, loaded, &replayed)
    {
        stdout::tell(&report.to_string());
        return Ok(ExitCode::from(oom::CODE));
    }
    Ok(ExitCode::from(u8::from(doubtful)))
}

/// Objects are numbers of 32 bits.
fn fits(case: &Case, tasks: u32) -> Result<(), Failure> {
    if u32::try_from(case.prepared.nr_objects() as u64 * u64::from(tasks)).is_err() {
        let text = format!("--tasks {tasks}: more objects than can be replayed; take fewer");
        return Err(Failure::Usage(text));
    }
    Ok(())
}

/// Says why the figures are uncertain. True if that is for the exit code: events that
/// are missing in what `--partial` asked for are not.
pub fn doubts(args: &TraceArgs, loaded: &Loaded, case: &Case) -> bool {
    let mut doubtful = input::are_missing(&loaded.trace) && !args.partial;
    for doubt in doubts::doubts(&case.prepared, &loaded.snapshot) {
        say(&doubt.to_string());
        doubtful |= !(args.partial && matches!(doubt, Doubt::RowsMissing(_)));
    }
    doubtful
}

/// Puts trace, snapshot and settings together.
pub fn case(
    engine: Engine,
    loaded: &Loaded,
    order: Order,
    progress: &Progress,
) -> Result<Case, Failure> {
    if order.jitter_ns == 0 {
        progress.stage("preparing");
    }
    let Loaded { trace, snapshot, settings, .. } = loaded;
    let wrong = |error| match error {
        case::Error::Geometry { .. } => Failure::Usage(error.to_string()),
        error => anyhow!(error).context("the trace cannot be replayed").into(),
    };
    let mut case = Case::of_source(trace, snapshot, settings, order).map_err(wrong)?;
    if engine == Engine::Slab {
        let rules =
            slab::Rules { choice: settings.slab.choice, ..slab::Rules::of(&settings.machine) };
        case.follow_slab(snapshot, &rules).map_err(wrong)?;
        case.slab = settings.slab;
    } else if let Some(key) = settings.typed_of_slab() {
        return Err(Failure::Usage(format!("{key} is SLAB's: add --engine slab")));
    }
    progress.clear();
    if case.guesses_frames && order.jitter_ns == 0 {
        say(
            "the machine made next to no slab while it was recorded, so that the trace does not tell surely \
             which pages its objects are in: pages given back may be missed",
        );
    }
    let unknown = case.prepared.oddities.unknown_cache;
    if unknown > 0 && order.jitter_ns == 0 {
        say(&format!(
            "{unknown} events are of caches that the snapshot does not have, and left out"
        ));
    }
    Ok(case)
}

/// Numbers of CPUs.
#[derive(Clone, Debug)]
struct Cpus(Vec<u32>);

impl FromStr for Cpus {
    type Err = String;

    fn from_str(text: &str) -> Result<Cpus, String> {
        contention::cpus(text).map(Cpus)
    }
}

/// How often: `8` or `8x`.
fn times(text: &str) -> Result<u32, String> {
    let number = text.strip_suffix('x').unwrap_or(text).parse().ok();
    let number = number.filter(|number| (1..=MOST_TASKS).contains(number));
    number.ok_or_else(|| format!("give a number from 1 to {MOST_TASKS}, such as 8x"))
}

/// What was replayed, on what.
fn heading(args: &ReplayArgs, loaded: &Loaded, start: Start) -> String {
    let (trace, settings) = (&loaded.trace, &loaded.settings);
    let machine = &settings.machine;
    let (first, last) = trace.span().into_inner();
    format!(
        "{} events, recorded over {} on kernel {}; rules of {}, {}{}, {}, pages of {} KiB, start {}\n",
        trace.nr_events(),
        seconds(last - first),
        loaded.snapshot.kernel.as_deref().unwrap_or("unknown"),
        match args.engine {
            Engine::Slub => settings.rules_name(),
            Engine::Tiny => format!("{}, SLUB_TINY", settings.rules_name()),
            Engine::Slab => "SLAB".into(),
            Engine::Slob => "SLOB".into(),
        },
        plural(machine.online_cpus, "CPU"),
        if args.tasks > 1 { format!(", each task {} times", args.tasks) } else { String::new() },
        plural(machine.nodes, "node"),
        machine.page_size >> 10,
        start_name(start, loaded),
    )
}

fn plural(number: u32, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

/// As JSON and headings name it.
fn start_name(start: Start, loaded: &Loaded) -> &'static str {
    match start {
        Start::LookAhead if loaded.trace.attachment(LISTS).is_some() => "lists",
        Start::LookAhead => "look-ahead",
        Start::Snapshot => "snapshot",
        Start::Empty => "empty",
    }
}

impl ReplayArgs {
    fn wanted(&self) -> Wanted<'_> {
        Wanted {
            engine: self.engine,
            release: self.release.as_deref(),
            machine: &self.machine,
            nodes: self.nodes,
            set: &self.settings,
        }
    }

    /// In what the machine is not the traced one.
    fn changes(&self, case: &Case) -> Vec<Change> {
        let mut changes = case.changes.clone();
        changes.extend((self.tasks > 1).then_some(Change::Tasks));
        changes.sort();
        changes
    }

    fn memory(&self) -> Option<Limit> {
        let relief = self.pressure.relief();
        self.memory.map(|bytes| Limit { bytes, relief })
    }

    fn start_state(&self) -> Start {
        if self.no_look_ahead { Start::Snapshot } else { Start::LookAhead }
    }

    fn sample_every(&self, steps: usize) -> Result<usize, Failure> {
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
}

fn at_least_one(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|n| *n > 0).ok_or_else(|| "expected a number from 1 on".into())
}

const SNAPSHOTS: &str = "\
A snapshot is a JSON file with what /sys/kernel/slab says, taken as root just before the
recording begins (a shrink of all caches before it makes it exact):

  slabyard shrink kernel; slabyard snapshot kernel -o load.before.json

or on a machine without slabyard:

  import glob, json, os
  def read(path):
      try: return open(path).read().strip()
      except OSError: return None
  slab, aliases = {}, {}
  for path in glob.glob('/sys/kernel/slab/*'):
      name = os.path.basename(path)
      if os.path.islink(path): aliases[name] = os.path.basename(os.readlink(path))
      else: slab[name] = {key: read(f'{path}/{key}') for key in os.listdir(path)}
  cpus = {f'{which}_cpus': read(f'/sys/devices/system/cpu/{which}')
          for which in ('possible', 'present', 'online')}
  print(json.dumps({'kernel': os.uname().release, 'page_size': os.sysconf('SC_PAGE_SIZE'),
      'nodes': read('/sys/devices/system/node/online'), 'cmdline': read('/proc/cmdline'),
      'slab': slab, 'aliases': aliases, **cpus}))

A CSV of events has the columns t_us,cpu,pid,ev,cache_or_site,ptr,req,alloc,gfp,node,acct, where
ev is A or F (kmem_cache_alloc, kmem_cache_free), M or K (kmalloc, kfree), P or Q (pages got,
given back).";

fn long_help() -> String {
    let mut text = format!("{EXAMPLES}\n\n{SNAPSHOTS}\n\n");
    text.push_str(
        "In the table, before, after, peak, allocated and freed are slabs; live and the columns \
         behind it are objects at the end, by where they are: live ones, and free ones in CPU \
         slabs, on CPU partial lists, in sheaves, in barns and on nodes' partial lists; waste is \
         what is behind the last objects of slabs. `-` is unknown.\n\n\
         With --json: {\"source\", \"settings\", \"before\", \"after\", \"caches\", \"totals\", \
         \"counters\", \"drains\", \"frees_left_out\", \"contradictions\", \"unlike\", \"accuracy\", \"memory\", \"series\"}; before and after hold \
         {\"caches\", \"totals\"}, in objects for a cache and in bytes for the totals, where bytes \
         are live, parked_cpu, parked_node, free_partial and padding together; null is unknown; \
         unlike says why the figures do not compare with those of another machine, accuracy how far \
         off peaks above the start were where such machines were measured: {\"change\", \"pairs\", \
         \"lowest\", \"highest\"}, of the kernel's peak; memory is null without --memory, else the \
         machine's: free pages and blocks by order at the start, when fewest and at the end, and what \
         failed. \
         With --check: {\"source\", \"settings\", \"caches\", \"totals\", \"spread\", \"goals\", \
         \"met\"}.\n\n\
         --check shows, for each cache and all together, the mean error of the number of slabs \
         over time in slabs and of its range, and that of a trivial predictor (live objects over \
         objects of a slab, and min_partial); peak, slabs allocated and freed, end, the kernel's \
         and the model's; how often the model, led along the kernel's choices, foretells the slab \
         that a CPU takes next (one-step), or any object's slab (same slab); how many of the slabs \
         that the kernel gave back the model gave back too (discards), and how many it gave back \
         that the kernel kept (wrong). Caches with sheaves show no one-step.\n\nKeys of --set:\n",
    );
    for key in rules::keys() {
        let _ = writeln!(text, "  {}: {}\n      {}", key.name, key.takes, key.help);
    }
    text.push_str(
        "\n--contention shows, for each number of CPUs and for eager and delayed freezing, or as \
         --set freezing says: compare-exchanges of slabs, those under a list lock, those that \
         failed; list locks, those waited for, and how long; the longest wait; how long locks were \
         held; the waiting's share of the time that all calls took. With --json: {\"source\", \
         \"settings\", \"costs\", \"rows\"}.\n\nNames of --cost:\n",
    );
    for cost in contend::costs() {
        let ns = *(cost.of)(&mut contend::COSTS.clone());
        let _ = writeln!(text, "  {}: {ns} ns\n      {} ({})", cost.name, cost.what, cost.source);
    }
    text.push_str("\nCounters:\n");
    for (_, name, help) in Counter::of_models() {
        let _ = writeln!(text, "  {name}: {help}");
    }
    text.push_str(
        "\nExit codes: 0 done; 1 a goal of the check is missed, or the figures are uncertain, \
         because events are missing or the snapshot does not fit the trace; 4 the load needs more than \
         --memory; 2 usage or a setting \
         that cannot be; 3 a file that cannot be read or is damaged. With --partial events may \
         be missing: that is told and is no 1.",
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_names_every_key_and_counter() {
        let help = long_help();
        let names = rules::keys().iter().map(|key| key.name);
        for name in names.chain(Counter::of_models().map(|(_, name, _)| *name)) {
            assert!(help.contains(&format!("\n  {name}: ")), "{name}");
        }
    }
}
