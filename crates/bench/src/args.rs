//! The command line.

use std::path::PathBuf;

use clap::builder::PossibleValuesParser;
use clap::{Parser, Subcommand, ValueEnum};

use crate::allocators::OURS_NAME;
use crate::fronts::{self, Engines};
use crate::loads::LOADS;
use crate::questions::{self, ListsOptions, SeriesOptions};
use crate::real::PROGRAMS;
use crate::shapes::{self, LoadOptions, positive};

const EXAMPLES: &str = "\
Examples:
  cargo build --release -p slabyard-malloc -p slabyard-bench
  target/release/slabyard-bench speed --json speed.json
  target/release/slabyard-bench speed --ours mimalloc   # the noise: a peer beside itself
  target/release/slabyard-bench memory --check
  target/release/slabyard-bench memory --only burst --objects 1000000
  target/release/slabyard-bench instructions
  target/release/slabyard-bench look --rounds 5

  cargo build --release -p slabyard-bench --features peers   # all peers
  target/release/slabyard-bench all --thp madvise,always --json all.json --write-docs
  target/release/slabyard-bench page all.json
  target/release/slabyard-bench compare --rounds 3 --only larson,web
  target/release/slabyard-bench compare --earlier old/libslabyard_malloc.so --scale 0.5
  target/release/slabyard-bench rest --times 1 --check
  target/release/slabyard-bench latency --threads 1
  target/release/slabyard-bench handed --rounds 5 --only ring_8,lines_passive
  target/release/slabyard-bench handed --peers mimalloc,glibc --scale 0.2 --rest-ms 1000
  target/release/slabyard-bench walks --only tree,web --thp always
  target/release/slabyard-bench compare --program kernel --rounds 3
  target/release/slabyard-bench compare --fronts sheaves,6.1,6.8 --peers ours,glibc --rounds 5
  target/release/slabyard-bench programs --list
  target/release/slabyard-bench load messaging -g 5 -l 1000
  target/release/slabyard-bench series --only packets --rounds 21
  target/release/slabyard-bench lists --fronts 5.9,5.9+exact

Exit codes: 0 done, 1 a goal was missed (with --check), 2 usage, 3 cannot (and why).";

/// Measures Slabyard's malloc beside mimalloc and the C library's, in one run.
#[derive(Parser)]
#[command(name = "slabyard-bench", version, after_help = EXAMPLES)]
pub struct Args {
    /// What to measure.
    #[command(subcommand)]
    pub suite: Suite,
}

/// The suites.
#[derive(Subcommand)]
pub enum Suite {
    /// Time of a malloc and free, in seven loads
    #[command(after_help = EXAMPLES)]
    Speed(SpeedOptions),
    /// Memory of processes: small, at its peak, after a burst, over time
    #[command(after_help = EXAMPLES)]
    Memory(MemoryOptions),
    /// Instructions of a malloc and free, counted by callgrind
    #[command(after_help = EXAMPLES)]
    Instructions(InstructionsOptions),
    /// Time and memory of many loads, beside all peers
    #[command(after_help = EXAMPLES)]
    Compare(CompareOptions),
    /// Everything beside all peers, in one document
    #[command(after_help = EXAMPLES)]
    All(AllOptions),
    /// The document of what `all --json` measured, without measuring
    #[command(after_help = EXAMPLES)]
    Page(PageOptions),
    /// Memory that comes back after a burst, beside all peers
    #[command(after_help = EXAMPLES)]
    Rest(RestOptions),
    /// Time and memory of real programs, beside all peers
    #[command(after_help = EXAMPLES)]
    Programs(ProgramsOptions),
    /// Time of single calls: percentiles of malloc and of free, beside all peers
    #[command(after_help = EXAMPLES)]
    Latency(LatencyOptions),
    /// Objects that one thread allocates and another frees, and cache lines of two threads, beside
    /// all peers
    #[command(after_help = EXAMPLES)]
    Handed(HandedOptions),
    /// Page walks of the loads of `compare`, in a model of a TLB, beside all peers
    #[command(after_help = EXAMPLES)]
    Walks(WalksOptions),
    /// One load in the shape of those that kernel developers use, on any allocators
    #[command(after_help = shapes::EXAMPLES)]
    Load(LoadOptions),
    /// Delayed freezing of CPU slabs: before, after each patch of the series of 2023, and after
    #[command(after_help = questions::SERIES_EXAMPLES)]
    Series(SeriesOptions),
    /// CPU partial lists: what they claim and hold after a fork bomb, and what drains cost
    #[command(after_help = questions::LISTS_EXAMPLES)]
    Lists(ListsOptions),
    /// What being looked at once a second costs a program
    #[command(after_help = EXAMPLES)]
    Look(LookOptions),
    /// Typed caches beside pools of objects and allocators, in one process
    Caches(CachesOptions),
}

/// Defaults, which `all` takes as they are.
pub const LOAD_TIMEOUT_S: u32 = 60;
pub const PROGRAM_TIMEOUT_S: u32 = 120;
pub const REST_OBJECTS: u64 = 300_000;
pub const REST_SECONDS: u64 = 10;
pub const LATENCY_PAIRS: u64 = 800_000;
pub const LATENCY_THREADS: [u32; 2] = [1, 4];
pub const HANDED_ROUNDS: u32 = 3;
pub const HANDED_REST_MS: u64 = 3000;
pub const WALKED_SCALE: f64 = 0.3;
pub const CACHED_OBJECTS: u64 = 1_000_000;
pub const CACHED_BURST: usize = 10_000_000;
pub const COUNTED_PAIRS: u64 = 100_000;

/// A load that is not told yet runs so many times as often as the others, at most.
pub const MOST_TIMES: u32 = 3;

/// What every suite takes.
#[derive(Clone, clap::Args)]
pub struct Common {
    /// Our library, or `mimalloc` to measure the peer against itself
    /// [default: libslabyard_malloc.so beside this program]
    #[arg(long, value_name = "PATH", env = "SLABYARD_BENCH_OURS")]
    pub ours: Option<PathBuf>,
    /// Write everything measured to FILE as JSON (`-`: standard output, instead of tables)
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Exit with 1 when a goal is missed
    #[arg(long)]
    pub check: bool,
}

/// Options of `speed`.
#[derive(clap::Args)]
pub struct SpeedOptions {
    #[command(flatten)]
    pub common: Common,
    /// Windows of each load and allocator
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..))]
    pub rounds: u32,
    /// Length of a window
    #[arg(long, value_name = "MS", default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..))]
    pub window_ms: u32,
    /// Rounds after which the processes are started anew, as the place where
    /// a library lands in memory is part of the luck
    #[arg(long, value_name = "ROUNDS", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    pub respawn: u32,
    /// Only these loads
    #[arg(long, value_name = "LOAD", value_delimiter = ',', value_parser = load_names())]
    pub only: Vec<String>,
}

fn load_names() -> PossibleValuesParser {
    PossibleValuesParser::new(LOADS.iter().map(|load| load.name))
}

/// The parts of `memory`.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum MemoryTest {
    /// Private dirty memory of a program that says hello
    Hello,
    /// Peak memory of a Python program that writes and reads JSON
    Python,
    /// Memory that comes back after a burst of small objects
    Burst,
    /// Memory over millions of cycles of each load
    Flat,
}

/// Options of `memory`.
#[derive(clap::Args)]
pub struct MemoryOptions {
    #[command(flatten)]
    pub common: Common,
    /// Only these parts
    #[arg(long, value_enum, value_name = "PART", value_delimiter = ',')]
    pub only: Vec<MemoryTest>,
    /// Runs of hello; Python runs a quarter as often, at least once
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    pub runs: u32,
    /// Objects of the burst
    #[arg(long, default_value_t = 10_000_000, value_parser = clap::value_parser!(u64).range(2..))]
    pub objects: u64,
    /// Cycles between two of the ten samples of `flat`
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub cycles: u64,
}

/// Options of `instructions`.
#[derive(clap::Args)]
pub struct InstructionsOptions {
    #[command(flatten)]
    pub common: Common,
    /// Pairs of the shorter of the two runs
    #[arg(long, default_value_t = COUNTED_PAIRS, value_parser = clap::value_parser!(u64).range(1..))]
    pub pairs: u64,
    /// gperftools' libtcmalloc_minimal.so.4 [default: where the system has it]
    #[arg(long, value_name = "PATH")]
    pub gperftools: Option<PathBuf>,
}

/// A setting of transparent huge pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Thp {
    /// For memory that asks for them
    Madvise,
    /// For all memory
    Always,
}

impl Thp {
    /// The system's word for it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Madvise => "madvise",
            Self::Always => "always",
        }
    }
}

/// Options of `compare`.
#[derive(clap::Args)]
pub struct CompareOptions {
    #[command(flatten)]
    pub common: Common,
    /// Runs of each load on each allocator
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    pub rounds: u32,
    /// Runs of a load whose time beside the best peer's is not told from the limit
    /// until then [default: three times `--rounds`]
    #[arg(long, value_name = "ROUNDS")]
    pub most_rounds: Option<u32>,
    /// Only these loads
    #[arg(long, value_name = "LOAD", value_delimiter = ',')]
    pub only: Vec<String>,
    /// Only these peers
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = PEERS)]
    pub peers: Vec<String>,
    /// Measure these fronts of the library of all engines, the first in the place of ours:
    /// `sheaves`, `6.1`, `6.1+eager`, `5.9+exact`, `6.1+no-lists`
    #[arg(long, value_name = "FRONT", value_delimiter = ',', value_parser = fronts::front)]
    pub fronts: Vec<String>,
    #[command(flatten)]
    pub engines: Engines,
    /// An earlier build of ours, beside this one; and of the peers only those of `--peers`
    #[arg(long, value_name = "PATH")]
    pub earlier: Option<PathBuf>,
    /// Set the system's THP to each of these in turn [default: leave it]
    #[arg(long, value_enum, value_name = "SETTING", value_delimiter = ',')]
    pub thp: Vec<Thp>,
    /// Size of the loads, to their own
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, value_parser = positive)]
    pub scale: f64,
    /// Time after which a run has failed
    #[arg(long, value_name = "SECONDS", default_value_t = LOAD_TIMEOUT_S, value_parser = clap::value_parser!(u32).range(1..))]
    pub timeout_s: u32,
    /// Another program of loads, that answers `--list`, `NAME` and
    /// `NAME --scale FACTOR` as the embedded one does; `kernel` names those of `load`
    #[arg(long, value_name = "PATH")]
    pub program: Option<PathBuf>,
    /// gperftools' libtcmalloc_minimal.so.4 [default: where the system has it]
    #[arg(long, value_name = "PATH")]
    pub gperftools: Option<PathBuf>,
}

impl CompareOptions {
    /// Runs of a load at most.
    pub fn most_rounds(&self) -> u32 {
        self.most_rounds.unwrap_or(MOST_TIMES * self.rounds).max(self.rounds)
    }
}

/// Ours is one where fronts have its place.
const PEERS: [&str; 8] =
    ["mimalloc", "snmalloc", "jemalloc", "rpmalloc", "tcmalloc", "gperftools", "glibc", OURS_NAME];

/// A suite that measures beside all peers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PeerSuite {
    /// Many loads (`compare`)
    Loads,
    /// Real programs (`programs`)
    Programs,
    /// Memory that comes back (`rest`)
    Rest,
    /// Single calls (`latency`)
    Latency,
    /// Objects that change threads (`handed`)
    Handed,
    /// Page walks of the loads (`walks`)
    Walks,
    /// Object caches (`caches`)
    Caches,
    /// Instructions of a malloc and free (`instructions`)
    Instructions,
}

impl PeerSuite {
    /// The word that chooses it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Loads => "loads",
            Self::Programs => "programs",
            Self::Rest => "rest",
            Self::Latency => "latency",
            Self::Handed => "handed",
            Self::Walks => "walks",
            Self::Caches => "caches",
            Self::Instructions => "instructions",
        }
    }
}

/// Options of `all`.
#[derive(clap::Args)]
pub struct AllOptions {
    #[command(flatten)]
    pub common: Common,
    /// Rounds of each suite
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    pub rounds: u32,
    /// Only these suites
    #[arg(long, value_enum, value_name = "SUITE", value_delimiter = ',')]
    pub only: Vec<PeerSuite>,
    /// For the loads, set the system's THP to each of these in turn [default: leave it]
    #[arg(long, value_enum, value_name = "SETTING", value_delimiter = ',')]
    pub thp: Vec<Thp>,
    /// gperftools' libtcmalloc_minimal.so.4 [default: where the system has it]
    #[arg(long, value_name = "PATH")]
    pub gperftools: Option<PathBuf>,
    /// Write benchmarks.md into a directory; with `--only`, the other suites' parts are those of
    /// the file that `--json` names
    #[arg(long, value_name = "DIR", num_args = 0..=1, require_equals = true, default_missing_value = "docs")]
    pub write_docs: Option<PathBuf>,
}

/// Options of `page`.
#[derive(clap::Args)]
pub struct PageOptions {
    /// The file that `all --json` wrote
    pub raw: PathBuf,
    /// Write benchmarks.md into a directory, in place of standard output
    #[arg(long, value_name = "DIR", num_args = 0..=1, require_equals = true, default_missing_value = "docs")]
    pub write_docs: Option<PathBuf>,
}

/// Options of `programs`.
#[derive(clap::Args)]
pub struct ProgramsOptions {
    #[command(flatten)]
    pub common: Common,
    /// Tell which programs are here, and which package has the others
    #[arg(long)]
    pub list: bool,
    /// Runs of each program on each allocator
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    pub rounds: u32,
    /// Only these programs
    #[arg(long, value_name = "PROGRAM", value_delimiter = ',', value_parser = program_names())]
    pub only: Vec<String>,
    /// Only these peers
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = PEERS)]
    pub peers: Vec<String>,
    /// Measure these fronts of the library of all engines, the first in the place of ours:
    /// `sheaves`, `6.1`, `6.1+eager`, `5.9+exact`, `6.1+no-lists`
    #[arg(long, value_name = "FRONT", value_delimiter = ',', value_parser = fronts::front)]
    pub fronts: Vec<String>,
    #[command(flatten)]
    pub engines: Engines,
    /// Time after which a run has failed
    #[arg(long, value_name = "SECONDS", default_value_t = PROGRAM_TIMEOUT_S, value_parser = clap::value_parser!(u32).range(1..))]
    pub timeout_s: u32,
    /// gperftools' libtcmalloc_minimal.so.4 [default: where the system has it]
    #[arg(long, value_name = "PATH")]
    pub gperftools: Option<PathBuf>,
}

fn program_names() -> PossibleValuesParser {
    PossibleValuesParser::new(PROGRAMS.iter().map(|program| program.name))
}

/// Options of `rest`.
#[derive(clap::Args)]
pub struct RestOptions {
    #[command(flatten)]
    pub common: Common,
    /// Processes of each kind on each allocator
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub rounds: u32,
    /// Small objects of the burst; there is a large one for each 7500
    #[arg(long, default_value_t = REST_OBJECTS, value_parser = clap::value_parser!(u64).range(100..))]
    pub objects: u64,
    /// Measure with so many times the objects, in turn
    #[arg(long, value_name = "FACTOR", value_delimiter = ',', default_values_t = [1, 8], value_parser = clap::value_parser!(u64).range(1..))]
    pub times: Vec<u64>,
    /// The last look, so long after the last free
    #[arg(long, default_value_t = REST_SECONDS, value_parser = clap::value_parser!(u64).range(2..))]
    pub seconds: u64,
    /// gperftools' libtcmalloc_minimal.so.4 [default: where the system has it]
    #[arg(long, value_name = "PATH")]
    pub gperftools: Option<PathBuf>,
}

/// Options of `latency`.
#[derive(clap::Args)]
pub struct LatencyOptions {
    #[command(flatten)]
    pub common: Common,
    /// Processes of each kind on each allocator
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    pub rounds: u32,
    /// Pairs of a process, all its threads together
    #[arg(long, default_value_t = LATENCY_PAIRS, value_parser = clap::value_parser!(u64).range(1..))]
    pub pairs: u64,
    /// Measure with so many threads, in turn; several share two CPUs
    #[arg(long, value_name = "NUMBER", value_delimiter = ',', default_values_t = LATENCY_THREADS, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub threads: Vec<u32>,
    /// gperftools' libtcmalloc_minimal.so.4 [default: where the system has it]
    #[arg(long, value_name = "PATH")]
    pub gperftools: Option<PathBuf>,
}

/// Options of `handed`.
#[derive(clap::Args)]
pub struct HandedOptions {
    #[command(flatten)]
    pub common: Common,
    /// Runs of each load on each allocator
    #[arg(long, default_value_t = HANDED_ROUNDS, value_parser = clap::value_parser!(u32).range(1..))]
    pub rounds: u32,
    /// Only these loads
    #[arg(long, value_name = "LOAD", value_delimiter = ',')]
    pub only: Vec<String>,
    /// Only these peers
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = PEERS)]
    pub peers: Vec<String>,
    /// Size of the loads, to their own
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, value_parser = positive)]
    pub scale: f64,
    /// Time without a call before memory at rest is read; a trickle of half as long follows
    #[arg(long, value_name = "MS", default_value_t = HANDED_REST_MS, value_parser = clap::value_parser!(u64).range(1..=20_000))]
    pub rest_ms: u64,
    /// Time after which a run has failed
    #[arg(long, value_name = "SECONDS", default_value_t = LOAD_TIMEOUT_S, value_parser = clap::value_parser!(u32).range(1..))]
    pub timeout_s: u32,
    /// gperftools' libtcmalloc_minimal.so.4 [default: where the system has it]
    #[arg(long, value_name = "PATH")]
    pub gperftools: Option<PathBuf>,
}

/// Options of `walks`.
#[derive(clap::Args)]
pub struct WalksOptions {
    #[command(flatten)]
    pub common: Common,
    /// Only these loads
    #[arg(long, value_name = "LOAD", value_delimiter = ',')]
    pub only: Vec<String>,
    /// Only these peers
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = PEERS)]
    pub peers: Vec<String>,
    /// Set the system's THP to each of these in turn [default: leave it]
    #[arg(long, value_enum, value_name = "SETTING", value_delimiter = ',')]
    pub thp: Vec<Thp>,
    /// Size of the loads, to their own
    #[arg(long, value_name = "FACTOR", default_value_t = WALKED_SCALE, value_parser = positive)]
    pub scale: f64,
    /// Time after which a run has failed
    #[arg(long, value_name = "SECONDS", default_value_t = PROGRAM_TIMEOUT_S, value_parser = clap::value_parser!(u32).range(1..))]
    pub timeout_s: u32,
    /// gperftools' libtcmalloc_minimal.so.4 [default: where the system has it]
    #[arg(long, value_name = "PATH")]
    pub gperftools: Option<PathBuf>,
}

/// Options of `caches`.
#[derive(clap::Args)]
pub struct CachesOptions {
    /// Windows of each load and contender
    #[arg(long, default_value_t = 21, value_parser = clap::value_parser!(u32).range(1..))]
    pub rounds: u32,
    /// Objects of a window
    #[arg(long, default_value_t = CACHED_OBJECTS, value_parser = clap::value_parser!(u64).range(65_536..))]
    pub objects: u64,
    /// Objects of the burst; 0: none
    #[arg(long, default_value_t = CACHED_BURST)]
    pub burst: usize,
    /// Write everything measured to FILE as JSON (`-`: standard output, instead of tables)
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Exit with 1 when a goal is missed
    #[arg(long)]
    pub check: bool,
}

/// Options of `look`.
#[derive(clap::Args)]
pub struct LookOptions {
    #[command(flatten)]
    pub common: Common,
    /// The command that looks [default: slabyard beside this program]
    #[arg(long, value_name = "PATH")]
    pub command: Option<PathBuf>,
    /// The load that is looked at
    #[arg(long, default_value = "mixed", value_parser = load_names())]
    pub load: String,
    /// Windows looked at, and as many alone
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..))]
    pub rounds: u32,
    /// Length of a window
    #[arg(long, value_name = "MS", default_value_t = 3000, value_parser = clap::value_parser!(u32).range(1..))]
    pub window_ms: u32,
    /// Time between two looks
    #[arg(long, value_name = "MS", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..))]
    pub every_ms: u32,
    /// Pairs whose instructions are counted
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub pairs: u64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn unknown_load_is_refused() {
        let only = |load| Args::try_parse_from(["slabyard-bench", "speed", "--only", load]);
        assert!(only("pair,larson").is_ok());
        assert!(only("piar").is_err());
    }

    #[test]
    fn documents_go_to_docs_unless_told_otherwise() {
        let parse = |more: &[&str]| {
            let line = ["slabyard-bench", "all"].iter().chain(more);
            match Args::try_parse_from(line).map(|args| args.suite) {
                Ok(Suite::All(options)) => Some(options),
                _ => None,
            }
        };
        assert_eq!(parse(&[]).unwrap().write_docs, None);
        assert_eq!(parse(&["--write-docs"]).unwrap().write_docs, Some("docs".into()));
        assert_eq!(parse(&["--write-docs=a"]).unwrap().write_docs, Some("a".into()));
        let both = parse(&["--thp", "madvise,always"]).unwrap().thp;
        assert_eq!(both, [Thp::Madvise, Thp::Always]);
        for wrong in [["--scale", "0"], ["--thp", "never"], ["--peers", "hoard"]] {
            assert!(parse(&wrong).is_none(), "{wrong:?}");
        }
    }

    #[test]
    fn command_line_is_sound() {
        Args::command().debug_assert();
    }
}
