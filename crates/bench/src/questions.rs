//! The command lines of `series` and `lists`, which reproduce what two threads of the kernel's
//! mailing list discussed.
//!
//! Neighbours: `args` parses these command lines, the suites use the options. The command lines
//! have a module of their own because the suites use modules that depend on `args`.

use std::path::PathBuf;

use clap::ValueEnum;

use crate::fronts::{self, Engines};
use crate::shapes::positive;

/// What stands below the help of `series`.
pub const SERIES_EXAMPLES: &str = "\
Examples:
  cargo build --release -p slabyard-engines -p slabyard-bench
  target/release/slabyard-bench series                      # ten minutes
  target/release/slabyard-bench series --only packets --threads 2,64 --cpus 2 --rounds 21
  target/release/slabyard-bench series --fronts 6.1,6.8 --json series.json
  target/release/slabyard-bench series --scale 0.01 --rounds 1   # does it run here?

Exit codes: 0 done, 2 usage, 3 cannot, or a load's self-check found something (and what).";

/// A load of the series' table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SeriesLoad {
    /// As `perf bench sched messaging -t`
    Messaging,
    /// As `stress-ng --rawpkt`
    Packets,
}

/// Options of `series`.
#[derive(clap::Args)]
pub struct SeriesOptions {
    /// The fronts, of which the first is what the others are held against
    #[arg(long, value_name = "FRONT", value_delimiter = ',', value_parser = fronts::front,
          default_values_t = steps())]
    pub fronts: Vec<String>,
    #[command(flatten)]
    pub engines: Engines,
    /// Only these loads
    #[arg(long, value_enum, value_name = "LOAD", value_delimiter = ',')]
    pub only: Vec<SeriesLoad>,
    /// Threads of a load, in turn; even numbers
    /// [default: 2, 8 and 64, and as many as the table's load has here]
    #[arg(long, value_name = "NUMBER", value_delimiter = ',', value_parser = even)]
    pub threads: Vec<u64>,
    /// CPUs that a load may use, in turn [default: 1, and all]
    #[arg(long, value_name = "NUMBER", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..))]
    pub cpus: Vec<u32>,
    /// Runs of each load on each front
    #[arg(long, default_value_t = 11, value_parser = clap::value_parser!(u32).range(1..))]
    pub rounds: u32,
    /// Runs of each load on each front that count, and are not timed
    #[arg(long, value_name = "RUNS", default_value_t = 1)]
    pub counted: u32,
    /// Size of the loads, to their own
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, value_parser = positive)]
    pub scale: f64,
    /// Time after which a run has failed
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..))]
    pub timeout_s: u32,
    /// Write everything measured to FILE as JSON (`-`: standard output, instead of tables)
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// Of `series`: before it, after each patch, after it as merged; and what came after CPU slabs.
fn steps() -> Vec<String> {
    let steps = ["eager", "patch-1", "patch-2", "patch-3", "patch-4", "patch-5", "delayed"];
    let steps = steps.map(|step| format!("6.1+{step}"));
    steps.into_iter().chain([fronts::SHEAVES.to_owned()]).collect()
}

fn even(text: &str) -> Result<u64, String> {
    match text.parse() {
        Ok(number) if number > 0 && number % 2 == 0 && number <= 200 => Ok(number),
        _ => Err("not an even number from 2 to 200".to_owned()),
    }
}

/// What stands below the help of `lists`.
pub const LISTS_EXAMPLES: &str = "\
Examples:
  cargo build --release -p slabyard-engines -p slabyard-bench
  target/release/slabyard-bench lists                       # a minute
  target/release/slabyard-bench lists --fronts 5.9,5.9+exact --json lists.json
  target/release/slabyard-bench lists --scale 0.05 --rounds 1   # does it run here?

Exit codes: 0 done, 2 usage, 3 cannot, or a load's self-check found something (and what).";

/// Of `lists`: what lists count, by the releases and exactly; no lists; slabs frozen late; and what came
/// after CPU slabs.
const LISTED: [&str; 6] = ["5.9", "5.16", "5.9+exact", "5.9+no-lists", "6.8", fronts::SHEAVES];

/// Options of `lists`.
#[derive(clap::Args)]
pub struct ListsOptions {
    /// The fronts, of which the first is what the others' times are held against
    #[arg(long, value_name = "FRONT", value_delimiter = ',', value_parser = fronts::front,
          default_values_t = LISTED.map(str::to_owned))]
    pub fronts: Vec<String>,
    #[command(flatten)]
    pub engines: Engines,
    /// Timed runs of each load on each front
    #[arg(long, default_value_t = 11, value_parser = clap::value_parser!(u32).range(1..))]
    pub rounds: u32,
    /// Size of the loads, to their own
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, value_parser = positive)]
    pub scale: f64,
    /// Time after which a run has failed
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..))]
    pub timeout_s: u32,
    /// Write everything measured to FILE as JSON (`-`: standard output, instead of tables)
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}
