//! A population is the set of objects in a kernel's caches, as counted by a snapshot. This module
//! turns it into a load that leads to the same counts and can run on a machine with other settings.
//!
//! The load predicts how much slab memory a boot would use if slabs had another order. A snapshot
//! says how many slabs of a cache are full, held by CPUs, and on lists; a snapshot of the same boot
//! after a shrink says how many objects are live. [`read`] turns these counts into one load of
//! allocations and frees on CPUs, without slabs; [`PopulationLoad::run`] replays it through the
//! engine's rules. [`crate::snapshot`] supplies the counts; [`crate::geometry`] and
//! [`crate::rules`] shape the slabs that the load fills; [`crate::replay`] makes such predictions
//! from traces. Invariants: a load depends only on its own snapshot and seed; the same load gives
//! the same outcome.

mod read;
mod run;

pub use run::{CacheOutcome, Outcome};

use thiserror::Error;

/// Why a snapshot is no population.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Error {
    /// Rules of orders and limits need their number.
    #[error("the snapshot does not tell the number of CPUs; take one with the cpus in it")]
    NoCpus,
    /// Such as from `/proc/slabinfo`.
    #[error(
        "cache {0}: the snapshot does not tell `slabs` and `cpu_slabs`; \
         take one from /sys/kernel/slab, as root"
    )]
    NoPlaces(String),
    /// No machine has them.
    #[error("cache {id}: {slabs} slabs of {objects} objects are more than can be replayed")]
    TooMany {
        /// The cache.
        id: String,
        /// So many as the snapshot has.
        slabs: u64,
        /// Objects in a slab.
        objects: u32,
    },
    /// Two dumps that do not belong together.
    #[error("cache {0} has other slabs in the dump after a shrink; give one of the same boot")]
    OtherBoot(String),
}

/// What brings a cache to the slabs that a snapshot has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheLoad {
    /// Its name in sysfs.
    pub id: String,
    /// What its geometry is computed from.
    pub request: crate::geometry::Request,
    /// CPUs that allocated from it: each has a CPU slab.
    pub cpus: u32,
    /// Objects that were allocated in one go, and stay.
    pub runs: Vec<u32>,
    /// The same, but some were freed later by any CPU.
    pub left_behind: Vec<LeftBehind>,
    /// Objects that stay, each allocated by any of the CPUs.
    pub singles: u64,
}

/// What a slab on a list is the rest of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeftBehind {
    /// Objects allocated in one go.
    pub allocated: u32,
    /// Those of them that stay.
    pub kept: u32,
}

/// A load that brings a kernel's population about.
#[derive(Clone, Debug, PartialEq)]
pub struct PopulationLoad {
    /// In the order of the snapshot.
    pub caches: Vec<CacheLoad>,
    /// Live share of the objects in CPU slabs: the mean over the CPU slabs for which the snapshots
    /// show it.
    pub fullness: f64,
    /// How many of the slabs that CPUs hold it is known for, and how many there are.
    pub known_cpu_slabs: (u64, u64),
    /// Of the choices that the snapshots leave open: who allocates, who frees, what
    /// is first.
    pub seed: u64,
}

impl CacheLoad {
    /// Objects that are live in the end.
    #[must_use]
    pub fn live(&self) -> u64 {
        let runs = self.runs.iter().map(|run| u64::from(*run)).sum::<u64>();
        runs + self.left_behind.iter().map(|left| u64::from(left.kept)).sum::<u64>() + self.singles
    }
}
