//! What a watch found: the form of `watch` in the JSON of `slabyard doctor kernel --watch`.
//!
//! Neighbours: [`crate::naming`] makes it of what the programs counted, [`crate::sizes`] without
//! them. Invariant: what no source told is `None` or missing in a list, and [`Watch::missing`] says
//! why.

use crate::cgroups::Cgroup;
use crate::processes::Process;
use serde::Serialize;

/// How the kernel was watched: the best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Means {
    /// By programs in the kernel, which follow objects from allocation to free.
    Bpf,
    /// By the caches' sizes before and after: no owners.
    Sizes,
}

/// What could not be used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Lacking {
    /// The source of numbers, in words.
    pub what: String,
    /// Why it could not.
    pub why: String,
    /// What it would add.
    pub adds: String,
}

/// What the watch cost.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Cost {
    /// Events that the programs saw.
    pub events: u64,
    /// Nanoseconds of an event in the programs, by the kernel's clock.
    pub ns_per_event: f64,
    /// Of one CPU: the programs and the reader.
    pub cpu_share: f64,
    /// The most that it should have cost.
    pub budget: f64,
}

/// What could not be counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Losses {
    /// Events that happened while a program ran on the CPU already.
    pub missed: u64,
    /// Objects for which there was no room, and which are in no owner's numbers.
    pub objects: u64,
    /// Allocations of owners for which there was no room.
    pub owners: u64,
    /// Stacks that were not kept.
    pub stacks: u64,
}

/// A cache in the watch.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CacheRate {
    /// Its own name, or that of the kmalloc cache of the size.
    pub cache: String,
    /// Estimated from the sample.
    pub allocations: Option<u64>,
    /// Frees, those of objects from before the watch too where the event tells the cache.
    pub frees: Option<u64>,
    /// Allocated bytes.
    pub bytes: Option<u64>,
    /// Objects of its slabs in use after the watch less before, those parked for CPUs included.
    pub grew_objects: Option<i64>,
    /// The same in bytes.
    pub grew_bytes: Option<i64>,
}

/// A function call in the kernel that allocates, for one process.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Owner {
    /// Where its objects are, which may be a merged cache.
    pub cache: String,
    /// The function that called the allocator.
    pub site: String,
    /// Its callers, the innermost first; of the stack by which most stays.
    pub stack: Vec<String>,
    /// Who allocated.
    pub process: Process,
    /// Whose memory it is.
    pub cgroup: Option<Cgroup>,
    /// Objects that it allocated in the watch.
    pub allocations: u64,
    /// Of these, freed in the watch.
    pub frees: u64,
    /// Objects that were allocated in the watch and live, without those of its last tenth.
    pub objects: u64,
    /// As allocated, times the scale of the sample.
    pub bytes: u64,
    /// Nanoseconds since the oldest of them was allocated.
    pub oldest_ns: u64,
    /// The share of the bytes that the cache's growth confirms: less than 1 where others' objects
    /// were freed meanwhile, or frees were not seen.
    pub confirmed: f64,
}

impl Owner {
    /// The bytes by which it is ranked.
    #[must_use]
    pub fn confirmed_bytes(&self) -> f64 {
        self.bytes as f64 * self.confirmed
    }
}

/// Directory entries that were made in the watch and live, by the directory that they are in.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Directory {
    /// Its path, from a mount point that we see.
    pub path: String,
    /// The type of its file system.
    pub file_system: String,
    /// How many stay, estimated.
    pub entries: u64,
    /// Those whose names do not exist.
    pub negative: u64,
    /// Of the entries, without names that are too long to fit in them.
    pub bytes: u64,
    /// Who made most of them.
    pub process: Process,
}

/// Inodes that were made in the watch and live, by file system.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FileSystem {
    /// Its type.
    pub file_system: String,
    /// Its device, or what it calls itself.
    pub id: String,
    /// None if no mount point that we see has it.
    pub mount: Option<String>,
    /// The cache of its inodes.
    pub cache: String,
    /// How many stay, estimated.
    pub inodes: u64,
    /// As allocated, times the scale of the sample.
    pub bytes: u64,
    /// Who made most of them.
    pub process: Process,
}

/// What a watch found.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Watch {
    /// How long it was.
    pub took_ns: u64,
    /// How it was done.
    pub means: Means,
    /// What could not be used.
    pub missing: Vec<Lacking>,
    /// None if there was none to speak of, or the kernel does not measure it.
    pub cost: Option<Cost>,
    /// One object in so many was followed; counts are multiplied by it.
    pub one_in: u64,
    /// What could not be counted.
    pub lost: Losses,
    /// Caches with most allocations first.
    pub caches: Vec<CacheRate>,
    /// Those who hold most of what stays first.
    pub owners: Vec<Owner>,
    /// Those with most entries first.
    pub directories: Vec<Directory>,
    /// Those with most inodes first.
    pub file_systems: Vec<FileSystem>,
}
