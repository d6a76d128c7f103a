//! The rules: what is measured, from which threshold on it is a finding, why, and what to do. Help
//! and `docs/doctor.md` are made from this table, and a test holds the document against it.
//!
//! ```text
//! sites  growth     more looks than one, or call sites     heap      slabs and pages of a process
//! kernel            slabs of a kernel                       outside   mappings of a process
//! ```
//!
//! Neighbours: [`crate::rule`] says what a rule is, [`crate::verdict`] works out the numbers. Invariants: a rule finds nothing below its
//! threshold, which has a floor in bytes, so that small programs raise no alarm, and a share; no two
//! rules claim the same bytes, but those of growth, which say that bytes come rather than are there.

mod growth;
mod heap;
mod kernel;
mod outside;
mod sites;

use crate::finding::Finding;
use crate::rule::{Case, Rule, RuleSource, Threshold};

const fn at_least(floor_mib: u64, percent: u64) -> Threshold {
    Threshold { floor: floor_mib << 20, percent }
}

/// In the order of the document.
pub static RULES: [Rule; 20] = [
    Rule {
        id: "leak.site",
        of: RuleSource::Process,
        measures: "live bytes of one call site whose objects' ages spread over at least a quarter of the oldest one's age",
        threshold: at_least(1, 5),
        why: "objects that one site allocates again and again and nobody frees are a leak; data that is loaded once has one age",
        remedy: "free them where the last user is, or bound what keeps them",
        find: sites::leak,
    },
    Rule {
        id: "leak.growth",
        of: RuleSource::Process,
        measures: "growth of live bytes between looks that goes on in both halves of the watch",
        threshold: at_least(1, 1),
        why: "live memory that grows without end ends in an out-of-memory kill",
        remedy: "find the call site: keep tracks of the class that grows",
        find: growth::heap,
    },
    Rule {
        id: "growth.outside",
        of: RuleSource::Process,
        measures: "growth of mappings outside of the allocator, in both halves of the watch",
        threshold: at_least(4, 2),
        why: "malloc is not what grows",
        remedy: "look for who maps it: threads that are never joined, mmap, another allocator",
        find: growth::outside,
    },
    Rule {
        id: "burst.free",
        of: RuleSource::Process,
        measures: "free pages that were not given back, at two looks a decay apart",
        threshold: at_least(16, 25),
        why: "a peak is over, and the pages wait for their decay; a program at rest takes no slow path, on which they would go back",
        remedy: "shrink it, or start it with a helper thread",
        find: heap::burst,
    },
    Rule {
        id: "fragmented.one-object",
        of: RuleSource::Process,
        measures: "free bytes of caches in which at least three quarters of the slabs have one object in use",
        threshold: at_least(8, 15),
        why: "each long-lived object keeps a whole slab",
        remedy: "allocate what lives long from a cache of its own, or before the burst",
        find: heap::one_object,
    },
    Rule {
        id: "calcified.classes",
        of: RuleSource::Process,
        measures: "free bytes of caches that are at most half in use, where well-used caches have at least half as many live bytes",
        threshold: at_least(8, 15),
        why: "memory is bound in size classes whose demand has moved to others, which cannot use it",
        remedy: "free or move the objects that keep the old classes' slabs",
        find: heap::calcified,
    },
    Rule {
        id: "fragmented.cache",
        of: RuleSource::Process,
        measures: "free bytes of other caches that are at most three quarters in use",
        threshold: at_least(8, 15),
        why: "a few live objects keep slabs whose other objects were freed, as a burst leaves them",
        remedy: "free what keeps the slabs, or allocate it apart from what lives briefly",
        find: heap::fragmented,
    },
    Rule {
        id: "hoard.threads",
        of: RuleSource::Process,
        measures: "free objects and pages that CPUs, threads and barns keep",
        threshold: at_least(8, 15),
        why: "each thread or CPU keeps free objects for itself, which others cannot use",
        remedy: "shrink it, or lower the sheaves' capacity",
        find: heap::hoard,
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
        measures: "static variables that were zero at the start and were written",
        threshold: at_least(32, 50),
        why: "most of the memory is in arrays that the program declares",
        remedy: "make them smaller, or allocate them when they are needed",
        find: outside::statics,
    },
    Rule {
        id: "outside.stacks",
        of: RuleSource::Process,
        measures: "stacks of threads",
        threshold: at_least(16, 25),
        why: "stacks stay as deep as they ever were",
        remedy: "use fewer threads or smaller stacks, and keep large buffers off them",
        find: outside::stacks,
    },
    Rule {
        id: "outside.files",
        of: RuleSource::Process,
        measures: "files that the program maps as data, and shared memory",
        threshold: at_least(64, 50),
        why: "most of the memory is of files, which the kernel takes back when it is short, or is shared",
        remedy: "unmap what is not used; count it once, not for each process",
        find: outside::files,
    },
    Rule {
        id: "outside.heap",
        of: RuleSource::Process,
        measures: "the C library's own heap, in a process on Slabyard",
        threshold: at_least(16, 25),
        why: "something in the process allocates past Slabyard",
        remedy: "look for a part that is linked statically, or uses brk",
        find: outside::heap,
    },
    Rule {
        id: "kernel.growth",
        of: RuleSource::Kernel,
        measures: "growth of a cache between looks, in both halves of the watch; eight times as much of reclaimable caches",
        threshold: Threshold { floor: 4 << 20, percent: 0 },
        why: "a cache that grows without end takes the machine's memory",
        remedy: "find who allocates from it",
        find: kernel::growth,
    },
    Rule {
        id: "kernel.unreclaimable",
        of: RuleSource::Kernel,
        measures: "active objects of one cache that the kernel cannot reclaim",
        threshold: at_least(64, 5),
        why: "this memory comes back only when its owner frees it",
        remedy: "find who allocates from it",
        find: kernel::unreclaimable,
    },
    Rule {
        id: "kernel.negative-dentries",
        of: RuleSource::Kernel,
        measures: "directory entries of files that do not exist, if they are half of all or more",
        threshold: at_least(64, 5),
        why: "some program looks up names that do not exist",
        remedy: "drop them, and find the program that looks up names in vain",
        find: kernel::negative_dentries,
    },
    Rule {
        id: "kernel.cached-files",
        of: RuleSource::Kernel,
        measures: "directory entries and inodes that the kernel keeps, by cache",
        threshold: at_least(256, 20),
        why: "files that were looked at once stay known until memory is short",
        remedy: "drop them, or find the program that walks through the files",
        find: kernel::cached_files,
    },
    Rule {
        id: "kernel.sparse",
        of: RuleSource::Kernel,
        measures: "free objects in slabs of nodes' partial lists",
        threshold: at_least(128, 5),
        why: "few objects keep slabs whose other objects were freed",
        remedy: "free the objects that keep them: dropping caches helps where they are reclaimable",
        find: kernel::sparse,
    },
    Rule {
        id: "kernel.parked",
        of: RuleSource::Kernel,
        measures: "objects that count as active and may be free for CPUs and nodes",
        threshold: at_least(128, 5),
        why: "what counts as active may be parked, and then a shrink gives it back",
        remedy: "shrink the caches",
        find: kernel::parked,
    },
    Rule {
        id: "kernel.dead-cgroups",
        of: RuleSource::Kernel,
        measures: "memory cgroups that were removed and still exist, each taken for 64 KiB",
        threshold: at_least(64, 1),
        why: "slab objects and cached pages that were charged to them keep them",
        remedy: "reclaim what they hold",
        find: kernel::dead_cgroups,
    },
];

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
    found.extend(heap::notes(case, &found));
    let grows =
        |finding: &Finding| finding.id.starts_with("leak.") || finding.id.contains("growth");
    found.sort_by_key(|finding| {
        (finding.severity, !grows(finding), std::cmp::Reverse(finding.bytes))
    });
    found
}
