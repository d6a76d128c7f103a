//! What a watch found: the form of `watch` in the JSON of `slabyard doctor kernel --watch`; and the
//! [`Activity`] since the look before.
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
    /// By a sample of the events that tracefs prints.
    Tracefs,
    /// By the caches' sizes before and after: no owners.
    Sizes,
    /// By the totals of the machine and of each cgroup: no caches.
    Totals,
}

/// By how much slab memory grew in the watch: not by objects that fill what slabs had free.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SlabGrowth {
    /// Whose it is; none of the machine's.
    pub cgroup: Option<Cgroup>,
    /// Slab memory after the watch; of a cgroup without those below it.
    pub bytes: u64,
    /// Less what it was before.
    pub grew_bytes: i64,
    /// Of that, what the kernel does not take back by itself, where it is told.
    pub grew_unreclaimable: i64,
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

/// A function that calls the allocator, for one process: what it allocated in some time, whatever
/// became of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Site {
    /// The cache, which may be merged.
    pub cache: String,
    /// The function that called the allocator.
    pub site: String,
    /// Who allocated.
    pub process: Process,
    /// Whose memory it is.
    pub cgroup: Option<Cgroup>,
    /// Allocations in the time, estimated from the sample.
    pub allocations: u64,
    /// Frees in the time of objects that it allocated since the watch began, whoever frees them.
    pub frees: u64,
    /// Allocated bytes.
    pub bytes: u64,
}

/// What was allocated and freed since the look before.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Activity {
    /// The time since that look in which it was counted.
    pub took_ns: u64,
    /// Of the time since that look: less than 1 where the budget allows no more.
    pub counted: f64,
    /// Caches with most allocations first.
    pub caches: Vec<CacheRate>,
    /// Sites with most allocations first.
    pub sites: Vec<Site>,
    /// Since the start; none if the kernel does not measure it.
    pub cost: Option<Cost>,
    /// One object in so many is followed, and counts as many times.
    pub one_in: u64,
    /// What could not be counted since the start.
    pub lost: Losses,
}

impl Activity {
    /// So many in its time, for each second.
    #[must_use]
    pub fn a_second(&self, count: u64) -> f64 {
        count as f64 * 1e9 / self.took_ns.max(1) as f64
    }
}

/// Who allocated, and in which unit, pod or cgroup if it is not the root.
#[must_use]
pub fn who(process: &Process, cgroup: Option<&Cgroup>) -> String {
    match cgroup.filter(|cgroup| cgroup.path != "/") {
        Some(cgroup) => format!("{process} of {cgroup}"),
        None => process.to_string(),
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
    /// One object in so many was followed at the end; each counts as many times as one was at its
    /// allocation.
    pub one_in: u64,
    /// What could not be counted.
    pub lost: Losses,
    /// Caches with most allocations first.
    pub caches: Vec<CacheRate>,
    /// Those who hold most of what stays first.
    pub owners: Vec<Owner>,
    /// Those who allocate most first, whatever stays.
    pub sites: Vec<Site>,
    /// Those with most entries first.
    pub directories: Vec<Directory>,
    /// Those with most inodes first.
    pub file_systems: Vec<FileSystem>,
    /// The machine, then the cgroups whose slab memory grew most.
    pub growth: Vec<SlabGrowth>,
}
