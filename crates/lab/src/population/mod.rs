//! A population is the set of objects in a kernel's caches, as counted by a snapshot. This module
//! lays it out under other settings: it predicts how much slab memory the same boot would use.
//!
//! A snapshot says how many slabs of a cache are full, held by CPUs, and on lists; a snapshot of the
//! same boot after a shrink says how many objects are live as well. [`read`] turns these counts
//! into places; [`layout`] computes the places of the same objects where slabs have another size,
//! lists another length, or the machine other CPUs; [`cpus`] knows the objects that a kernel has
//! for each CPU; [`run`] does this for all caches. [`crate::snapshot`] supplies the counts,
//! [`crate::geometry`] and [`crate::rules`] the variant's slabs and limits. [`crate::replay`] lays
//! out what its trace does not touch in the same way, and [`measured`] has the errors on guests.
//! Invariants: settings that change nothing give the snapshot's slabs; live objects change only with
//! the number of CPUs, and with sheaves, which are objects themselves.

mod cpus;
pub mod layout;
pub mod measured;
mod read;
mod run;

pub use run::{CacheOutcome, Outcome};

use crate::geometry::Request;
use crate::rules::Settings;
use layout::Places;
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
    #[error("cache {id}: {slabs} slabs of {objects} objects are more than can be laid out")]
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

/// A cache of a snapshot.
#[derive(Clone, Debug, PartialEq)]
pub struct CachePopulation {
    /// Its name in sysfs.
    pub id: String,
    /// What its geometry is computed from.
    pub request: Request,
    /// The order of its slabs.
    pub order: u8,
    /// Its limits, where the snapshot tells them: they may have been set.
    pub cpu_partial: Option<u32>,
    /// Likewise.
    pub min_partial: Option<u32>,
    /// Where its slabs are, and the objects in them.
    pub places: Places,
    /// Objects that the kernel has for each present CPU.
    pub for_present: f64,
    /// Likewise, for each CPU that the kernel reserves memory for.
    pub for_possible: f64,
}

/// The objects of a kernel.
#[derive(Clone, Debug, PartialEq)]
pub struct Population {
    /// The rules and the machine that it was counted on.
    pub own: Settings,
    /// In the order of the snapshot.
    pub caches: Vec<CachePopulation>,
}
