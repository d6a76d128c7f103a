//! The types of a load, of a run's measurements, and of the message if a run fails.
//!
//! Neighbours: `runs` executes runs, `results` stores their results.

use serde::Serialize;

/// A measure of a run; less is better.
pub struct Measure {
    /// For people.
    pub name: &'static str,
    /// Of the samples, for the JSON.
    pub key: &'static str,
    /// Of the tables.
    pub unit: &'static str,
    /// Samples in one such unit.
    pub per_unit: f64,
}

/// How many there are.
pub const NR_MEASURES: usize = 6;
/// Places in [`MEASURES`].
pub const WALL: usize = 0;
pub const CPU: usize = 1;
pub const PEAK: usize = 2;
pub const FAULTS: usize = 3;
pub const AREA: usize = 4;
pub const MAPPINGS: usize = 5;

const fn measure(
    name: &'static str,
    key: &'static str,
    unit: &'static str,
    per_unit: f64,
) -> Measure {
    Measure { name, key, unit, per_unit }
}

/// In the order in which `loads/launch.c` prints them.
pub const MEASURES: [Measure; NR_MEASURES] = [
    measure("wall time", "wall_us", "ms", 1000.0),
    measure("CPU time", "cpu_us", "ms", 1000.0),
    measure("peak RSS", "peak_kib", "MiB", 1024.0),
    measure("page faults", "faults", "thousands", 1000.0),
    measure("RSS over time", "rss_kib_ms", "MiB s", 1024.0 * 1000.0),
    measure("mappings at most", "mappings", "number", 1.0),
];

#[derive(Clone, Debug, Serialize)]
pub struct Load {
    pub name: String,
    pub threads: u32,
    pub words: String,
}

/// A run that did not come to its end.
#[derive(Clone, Debug, Serialize)]
pub struct Failure {
    pub load: String,
    pub allocator: &'static str,
    /// In which round, from 1.
    pub round: u32,
    /// What it said.
    pub why: String,
}

impl Failure {
    /// True if this load failed on the allocator of this name.
    pub fn is_of(&self, load: &Load, allocator: &str) -> bool {
        self.load == load.name && self.allocator == allocator
    }
}

/// What one run gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run<M = [u64; NR_MEASURES]> {
    /// By measure, in the units of [`MEASURES`]; or what the load itself counted.
    pub measures: M,
    /// What it did, as a number: the same on all allocators.
    pub work: u64,
}

/// Runs of a load, by allocator, then round; none on an allocator where one failed.
pub type OfLoad<M = [u64; NR_MEASURES]> = Vec<Vec<Run<M>>>;

/// Runs by load; and what failed.
pub type All<M = [u64; NR_MEASURES]> = (Vec<OfLoad<M>>, Vec<Failure>);
