//! The loads of `loads/kernel`, and the command line of `load`, which runs one.
//!
//! `args` parses that command line, `load` runs the load; `compare --program kernel` runs all, with
//! the program's default settings. A test compares this table and the limits with those of
//! `loads/kernel`.

use std::path::PathBuf;

use clap::{Subcommand, ValueEnum};
use serde_json::Value;

use crate::fronts::Engines;

/// What stands below the help.
pub const EXAMPLES: &str = "\
Examples:
  slabyard-bench load messaging -g 5 -l 1000                 # ours, mimalloc and glibc in turns
  slabyard-bench load messaging --processes --pipes
  slabyard-bench load packets --pairs 2 --preload ours --preload old/libslabyard_malloc.so
  slabyard-bench load fork-bomb --tasks 100000 --rounds 3
  slabyard-bench load packets --preload sheaves --preload 6.1+eager --preload 6.1+delayed
  slabyard-bench load messaging -g 1 -f 4 --cpus 1 --preload 5.9 --preload 5.9+exact
  slabyard-bench load drain --remote --json drain.json
  slabyard-bench load drain --plant spoil                     # what a failure looks like

Exit codes: 0 done, 2 usage, 3 cannot, or the self-check found something (and what).";

/// Seconds that a run may take.
const TIMEOUT_S: u32 = 60;

/// A fault that a load makes itself, to show that its self-check finds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Plant {
    /// Something sent does not arrive
    Lose,
    /// A byte of an object changes
    Spoil,
    /// An object is not freed
    Keep,
}

/// Options of `load`, before the load's name or after it.
#[derive(clap::Args)]
pub struct LoadOptions {
    #[command(subcommand)]
    pub shape: Shape,
    /// Run on this library, on `ours`, `mimalloc`, `glibc` or another peer, or on a front of
    /// the library of all engines (`sheaves`, `6.1`, `6.1+eager`, `5.9+exact`, `6.1+no-lists`);
    /// several take turns, and the first is set beside the others [default: ours, mimalloc,
    /// glibc]
    #[arg(long, global = true, value_name = "LIB")]
    pub preload: Vec<String>,
    #[command(flatten)]
    pub engines: Engines,
    /// Use only the first so many of the CPUs that may be used [default: all]
    #[arg(long, global = true, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..))]
    pub cpus: Option<u32>,
    /// Our library [default: libslabyard_malloc.so beside this program]
    #[arg(long, global = true, value_name = "PATH", env = "SLABYARD_BENCH_OURS")]
    pub ours: Option<PathBuf>,
    /// Runs on each allocator
    #[arg(long, global = true, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    pub rounds: u32,
    /// Time after which a run has failed
    #[arg(long, global = true, value_name = "SECONDS", default_value_t = TIMEOUT_S, value_parser = clap::value_parser!(u32).range(1..))]
    pub timeout_s: u32,
    /// Of sizes and orders that are drawn
    #[arg(long, global = true, value_name = "NUMBER", default_value_t = 1)]
    pub seed: u64,
    /// Make this fault; the run must fail
    #[arg(long, global = true, value_enum, value_name = "FAULT")]
    pub plant: Option<Plant>,
    /// Write everything measured to FILE as JSON (`-`: standard output, instead of tables)
    #[arg(long, global = true, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// One load, and what it is told.
#[derive(Clone, Debug, Subcommand)]
pub enum Shape {
    /// Groups of senders and receivers, as in `perf bench sched messaging` (hackbench)
    ///
    /// The sender allocates each message. A receiver that is a thread gets its address and
    /// frees it; one that is a process allocates, copies, and both free their own.
    #[command(after_help = EXAMPLES)]
    Messaging(Messaging),
    /// CPUs that allocate packets for others which free them, as in `stress-ng --rawpkt`
    ///
    /// A packet is a head of 256 bytes and data of 128 bytes and more.
    #[command(after_help = EXAMPLES)]
    Packets(Packets),
    /// Many short tasks that allocate what a kernel allocates for one, and leave it to others
    ///
    /// After it, a kernel's CPU partial lists are full of slabs in which nothing is in use.
    #[command(after_help = EXAMPLES)]
    ForkBomb(ForkBomb),
    /// The time of single frees, of which one in many pays for what others left
    ///
    /// Two readings of the clock with nothing between are timed first, told, and taken off.
    #[command(after_help = EXAMPLES)]
    Drain(Drain),
}

/// Settings of `messaging`.
#[derive(Clone, Debug, clap::Args)]
pub struct Messaging {
    /// Groups
    #[arg(short, long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=100))]
    groups: u64,
    /// Senders of a group, and receivers of it
    #[arg(short, long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=100))]
    fan: u64,
    /// Messages of each sender to each receiver of its group
    #[arg(short, long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    loops: u64,
    /// Bytes of a message
    #[arg(short = 's', long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(8..=4096))]
    bytes: u64,
    /// Pipes in place of sockets
    #[arg(short, long)]
    pipes: bool,
    /// Processes in place of threads
    #[arg(long)]
    processes: bool,
}

/// Settings of `packets`.
#[derive(Clone, Debug, clap::Args)]
pub struct Packets {
    /// Pairs of threads
    #[arg(short, long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=128))]
    pairs: u64,
    /// Packets of all pairs together
    #[arg(short = 'n', long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000_000_000))]
    packets: u64,
    /// Packets that are handed over at a time
    #[arg(short, long, default_value_t = 64, value_parser = clap::value_parser!(u64).range(1..=4096))]
    burst: u64,
    /// Most bytes of a packet's data; the fewest are 128
    #[arg(short = 's', long, default_value_t = 2048, value_parser = clap::value_parser!(u64).range(128..=65536))]
    bytes: u64,
    /// Let threads move between CPUs [default: the two of a pair are on two CPUs]
    #[arg(long)]
    unpinned: bool,
}

/// Settings of `fork-bomb`.
#[derive(Clone, Debug, clap::Args)]
pub struct ForkBomb {
    /// Tasks that run at the same time
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u64).range(1..=100))]
    lines: u64,
    /// Tasks of all lines together
    #[arg(short = 'n', long, default_value_t = 20_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    tasks: u64,
    /// Places in which ended tasks leave what they allocated
    #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    places: u64,
    /// Fork a process for each task in place of a thread
    #[arg(long)]
    processes: bool,
}

/// The order of frees.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Order {
    /// One object of each page, then the second of each, and so on
    Pages,
    /// At random
    Random,
    /// As they were allocated
    Made,
}

/// What reads the time.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Clock {
    /// The processor's time stamp counter (x86-64)
    Tsc,
    /// `CLOCK_MONOTONIC`
    Monotonic,
    /// `CLOCK_THREAD_CPUTIME_ID`: stops while another thread has the CPU, and costs most
    Thread,
}

const CLOCK: Clock = if cfg!(target_arch = "x86_64") { Clock::Tsc } else { Clock::Monotonic };

/// Settings of `drain`.
#[derive(Clone, Debug, clap::Args)]
pub struct Drain {
    /// Objects of a cycle
    #[arg(short = 'n', long, default_value_t = 20_000, value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    objects: u64,
    /// Bytes of an object
    #[arg(short = 's', long, default_value_t = 256, value_parser = clap::value_parser!(u64).range(8..=32768))]
    bytes: u64,
    /// How often all are allocated and freed
    #[arg(short, long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    cycles: u64,
    /// In which order they are freed
    #[arg(long, value_enum, default_value_t = Order::Pages)]
    order: Order,
    /// A thread on another CPU allocates what is freed
    #[arg(short, long)]
    remote: bool,
    /// What reads the time
    #[arg(long, value_enum, default_value_t = CLOCK)]
    clock: Clock,
}

/// A factor of the command line.
pub fn positive(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if number > 0.0 && number.is_finite() => Ok(number),
        _ => Err("not a number above 0".to_owned()),
    }
}

/// A setting of the program: its name, and a number or a word.
pub type Setting = (&'static str, Value);

fn number(value: impl Into<u64>) -> Value {
    value.into().into()
}

/// The word that the command line has for it, and the program too.
fn word(value: impl ValueEnum) -> Value {
    value.to_possible_value().map_or(Value::Null, |word| word.get_name().into())
}

impl Shape {
    /// The program's name of it.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Messaging(_) => "messaging",
            Self::Packets(_) => "packets",
            Self::ForkBomb(_) => "fork-bomb",
            Self::Drain(_) => "drain",
        }
    }

    /// What it does many of.
    pub fn unit(&self) -> &'static str {
        match self {
            Self::Messaging(_) => "messages",
            Self::Packets(_) => "packets",
            Self::ForkBomb(_) => "tasks",
            Self::Drain(_) => "frees",
        }
    }

    /// All settings, in the program's order.
    pub fn settings(&self) -> Vec<Setting> {
        match self {
            Self::Messaging(m) => vec![
                ("groups", number(m.groups)),
                ("fan", number(m.fan)),
                ("loops", number(m.loops)),
                ("bytes", number(m.bytes)),
                ("pipes", number(m.pipes)),
                ("processes", number(m.processes)),
            ],
            Self::Packets(p) => vec![
                ("pairs", number(p.pairs)),
                ("packets", number(p.packets)),
                ("burst", number(p.burst)),
                ("bytes", number(p.bytes)),
                ("pinned", number(!p.unpinned)),
            ],
            Self::ForkBomb(f) => vec![
                ("lines", number(f.lines)),
                ("tasks", number(f.tasks)),
                ("places", number(f.places)),
                ("processes", number(f.processes)),
            ],
            Self::Drain(d) => vec![
                ("objects", number(d.objects)),
                ("bytes", number(d.bytes)),
                ("cycles", number(d.cycles)),
                ("order", word(d.order)),
                ("remote", number(d.remote)),
                ("clock", word(d.clock)),
            ],
        }
    }
}
