//! The rules: what is measured, from which threshold on it is a finding, why, and what to do. Help
//! and `docs/doctor.md` are made from this table, and a test holds the document against it.
//!
//! ```text
//! sites  growth  recorded  call sites, or looks over time  heap  told  slabs and pages of a process
//! kernel < reports  unused  slabs of a kernel, and its log  outside    mappings of a process
//! ```
//!
//! Neighbours: [`crate::rule`] says what a rule is, [`crate::verdict`] works out the numbers.
//! Invariants: a rule finds nothing below its threshold, which has a floor in bytes, so that small
//! programs raise no alarm, and a share; no two rules claim the same bytes, but those of growth,
//! which say that bytes come rather than are there.

mod growth;
mod heap;
mod kernel;
mod outside;
mod recorded;
mod reports;
mod sites;
mod told;
mod unused;

use crate::finding::Finding;
use crate::rule::{Case, Rule, RuleSource, Threshold};

const fn at_least(floor_mib: u64, percent: u64) -> Threshold {
    Threshold { floor: floor_mib << 20, percent }
}

/// In the order of the document.
pub static RULES: [Rule; 30] = [
    Rule {
        id: growth::LEAK_SITE,
        of: RuleSource::Process,
        measures: "live bytes of a call site whose objects' ages spread over a quarter of the oldest's or more",
        threshold: at_least(1, 5),
        why: "data that is loaded once has one age; what leaks has many",
        remedy: "free them, or bound what keeps them",
        find: |rule, case| [sites::leak(rule, case), recorded::leak(rule, case)].concat(),
    },
    Rule {
        id: "leak.growth",
        of: RuleSource::Process,
        measures: "growth of live bytes in both halves of the watch",
        threshold: at_least(1, 1),
        why: "it ends in an out-of-memory kill",
        remedy: "find the call site by a profile",
        find: growth::heap,
    },
    Rule {
        id: "growth.outside",
        of: RuleSource::Process,
        measures: "the same of mappings outside of the allocator",
        threshold: at_least(4, 2),
        why: "malloc is not what grows",
        remedy: "look for threads that are never joined, mmap, another allocator",
        find: growth::outside,
    },
    Rule {
        id: "burst.free",
        of: RuleSource::Process,
        measures: "free pages not given back, at two looks a decay apart",
        threshold: at_least(16, 25),
        why: "a peak is over, and a program at rest takes no slow path, on which pages go back",
        remedy: "shrink it, or start it with a helper thread",
        find: heap::burst,
    },
    Rule {
        id: "fragmented.one-object",
        of: RuleSource::Process,
        measures: "free bytes of caches of whose slabs three quarters or more have one object in use",
        threshold: at_least(8, 15),
        why: "each long-lived object keeps a whole slab",
        remedy: "allocate what lives long from a cache of its own, or before the burst",
        find: heap::one_object,
    },
    Rule {
        id: "calcified.classes",
        of: RuleSource::Process,
        measures: "free bytes of caches at most half in use, beside half as many live bytes in well-used ones",
        threshold: at_least(8, 15),
        why: "demand moved to other classes, which cannot use this memory",
        remedy: "free or move the objects that keep the slabs",
        find: heap::calcified,
    },
    Rule {
        id: "fragmented.cache",
        of: RuleSource::Process,
        measures: "free bytes of other caches, at most three quarters in use",
        threshold: at_least(8, 15),
        why: "a burst leaves slabs that few objects keep",
        remedy: "allocate what lives long apart from what lives briefly",
        find: heap::fragmented,
    },
    Rule {
        id: "fragmented.heap",
        of: RuleSource::Process,
        measures: "free memory in another allocator's heap, as it counts it",
        threshold: at_least(16, 25),
        why: "live blocks lie between",
        remedy: "trim it",
        find: told::free,
    },
    Rule {
        id: "hoard.threads",
        of: RuleSource::Process,
        measures: "free objects and pages that CPUs, threads and barns keep",
        threshold: at_least(8, 15),
        why: "others cannot use what each keeps for itself",
        remedy: "shrink it, or lower the sheaves' capacity",
        find: heap::hoard,
    },
    Rule {
        id: "hoard.arenas",
        of: RuleSource::Process,
        measures: "free memory of four or more arenas of the C library",
        threshold: at_least(8, 25),
        why: "a thread cannot use what is free in another's arena",
        remedy: "allow fewer arenas",
        find: told::arenas,
    },
    Rule {
        id: "hoard.abandoned",
        of: RuleSource::Process,
        measures: "free memory of mimalloc's segments whose threads ended",
        threshold: at_least(8, 25),
        why: "nobody uses them before another thread adopts them",
        remedy: "keep a pool of threads",
        find: told::abandoned,
    },
    Rule {
        id: "outside.mappings",
        of: RuleSource::Process,
        measures: "anonymous mappings that the program made itself",
        threshold: at_least(32, 50),
        why: "most of the memory was never asked of malloc",
        remedy: "look for mmap in the program and its libraries",
        find: outside::mappings,
    },
    Rule {
        id: "outside.static",
        of: RuleSource::Process,
        measures: "static variables, zero at the start, that were written",
        threshold: at_least(32, 50),
        why: "most of the memory is in declared arrays",
        remedy: "allocate them when they are needed",
        find: outside::statics,
    },
    Rule {
        id: "outside.stacks",
        of: RuleSource::Process,
        measures: "stacks of threads",
        threshold: at_least(16, 25),
        why: "stacks stay as deep as they ever were",
        remedy: "use fewer threads or smaller stacks",
        find: outside::stacks,
    },
    Rule {
        id: "outside.files",
        of: RuleSource::Process,
        measures: "files mapped as data, and shared memory",
        threshold: at_least(64, 50),
        why: "the kernel takes files back when memory is short; shared memory counts for each process",
        remedy: "unmap what is not used",
        find: outside::files,
    },
    Rule {
        id: "outside.heap",
        of: RuleSource::Process,
        measures: "the C library's own heap, in a process on Slabyard",
        threshold: at_least(16, 25),
        why: "something allocates past Slabyard",
        remedy: "look for a part that is linked statically",
        find: outside::heap,
    },
    Rule {
        id: "kernel.corruption",
        of: RuleSource::Kernel,
        measures: "reports of SLUB's checks",
        threshold: at_least(0, 0),
        why: "somebody writes to memory that is not his",
        remedy: "look at who allocated it",
        find: reports::corruption,
    },
    Rule {
        id: "kernel.out-of-memory",
        of: RuleSource::Kernel,
        measures: "unreclaimable slab memory in an OOM report",
        threshold: at_least(16, 30),
        why: "no process was too large: the kernel itself is",
        remedy: "find who allocates from the largest cache",
        find: reports::out_of_memory,
    },
    Rule {
        id: "kernel.no-block",
        of: RuleSource::Kernel,
        measures: "reports of blocks of pages that could not be had",
        threshold: at_least(0, 0),
        why: "free memory is in pieces that are too small",
        remedy: "keep more memory free (vm.min_free_kbytes), or ask for smaller pieces",
        find: reports::no_block,
    },
    Rule {
        id: "kernel.leak-site",
        of: RuleSource::Kernel,
        measures: "live bytes of a call site that leaks in a recording, by the rule of `slabyard trace leaks`",
        threshold: at_least(1, 5),
        why: "it allocates all the time, and what it allocated long ago is not freed",
        remedy: "free them, or bound what keeps them",
        find: recorded::leak,
    },
    Rule {
        id: "kernel.growth",
        of: RuleSource::Kernel,
        measures: "growth of a cache in both halves of the watch; of reclaimable ones eight times as much",
        threshold: at_least(4, 0),
        why: "it takes the machine's memory",
        remedy: "find who allocates from it",
        find: kernel::growth,
    },
    Rule {
        id: "kernel.unreclaimable",
        of: RuleSource::Kernel,
        measures: "active objects of one cache that the kernel cannot reclaim",
        threshold: at_least(64, 5),
        why: "only its owner frees it",
        remedy: "find who allocates from it",
        find: kernel::unreclaimable,
    },
    Rule {
        id: "kernel.merged",
        of: RuleSource::Kernel,
        measures: "as kernel.unreclaimable, of a cache that several share",
        threshold: at_least(64, 5),
        why: "the cache's name hides whose the objects are",
        remedy: "boot with slab_nomerge to tell them apart",
        find: kernel::merged_caches,
    },
    Rule {
        id: "kernel.tasks",
        of: RuleSource::Kernel,
        measures: "task_struct and what belongs to tasks",
        threshold: at_least(64, 3),
        why: "each process and thread costs some 16 KiB",
        remedy: "find who starts them",
        find: reports::tasks,
    },
    Rule {
        id: "kernel.packets",
        of: RuleSource::Kernel,
        measures: "heads of network packets",
        threshold: at_least(64, 3),
        why: "packets that nobody reads wait in memory",
        remedy: "find sockets with long queues",
        find: reports::packets,
    },
    Rule {
        id: "kernel.negative-dentries",
        of: RuleSource::Kernel,
        measures: "directory entries of files that do not exist, half of all or more",
        threshold: at_least(64, 5),
        why: "a program looks up names in vain",
        remedy: "drop them, and find the program",
        find: kernel::negative_dentries,
    },
    Rule {
        id: "kernel.cached-files",
        of: RuleSource::Kernel,
        measures: "directory entries and inodes",
        threshold: at_least(256, 20),
        why: "what was looked at stays until memory is short",
        remedy: "drop them, or find the program that walks files",
        find: kernel::cached_files,
    },
    Rule {
        id: "kernel.sparse",
        of: RuleSource::Kernel,
        measures: "free objects in slabs of nodes' partial lists",
        threshold: at_least(128, 5),
        why: "few objects keep these slabs",
        remedy: "free what keeps them: dropping caches helps if that is reclaimable",
        find: unused::sparse,
    },
    Rule {
        id: "kernel.parked",
        of: RuleSource::Kernel,
        measures: "objects that count as active and may be free for CPUs and nodes",
        threshold: at_least(128, 5),
        why: "then a shrink gives it back",
        remedy: "shrink the caches",
        find: unused::parked,
    },
    Rule {
        id: "kernel.dead-cgroups",
        of: RuleSource::Kernel,
        measures: "memory cgroups that were removed and still exist, each taken for 16 KiB and 2 KiB more for each CPU",
        threshold: at_least(64, 1),
        why: "objects and pages charged to them keep them",
        remedy: "reclaim what they hold",
        find: unused::dead_cgroups,
    },
];

/// What comes before what has more bytes: corrupt memory, then what a kernel could not do, then what
/// grows.
fn rank(id: &str) -> u32 {
    match id {
        "kernel.corruption" => 0,
        "kernel.out-of-memory" => 1,
        "kernel.no-block" => 2,
        _ if id.contains("leak") || id.contains("growth") => 3,
        _ => 4,
    }
}

/// What every rule finds, those of growth first, then the most bytes first, then the notes.
#[must_use]
pub fn judge(case: &Case<'_>) -> Vec<Finding> {
    let wanted = match case.kernel.is_empty() {
        true => RuleSource::Process,
        false => RuleSource::Kernel,
    };
    let rules = RULES.iter().filter(|rule| rule.of == wanted);
    let mut found: Vec<Finding> = rules.flat_map(|rule| (rule.find)(rule, case)).collect();
    found.extend(outside::notes(case));
    found.extend(told::notes(case));
    found.extend(heap::notes(case, &found));
    found.extend(reports::notes(case, &found));
    found.sort_by_key(|finding| {
        (finding.severity, rank(finding.id), std::cmp::Reverse(finding.bytes))
    });
    found
}
