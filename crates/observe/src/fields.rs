//! The table of all numbers of a cache, and of all totals: from it every view is
//! made. A name is a name of the kernel's sysfs where the kernel has one.
//!
//! Neighbours: [`crate::snapshot`] holds what was sampled, [`crate::derive`] what is
//! worked out from it; a row here gives either, by one getter.

use crate::derive;
use crate::snapshot::{Cache, Snapshot};
use crate::value::Value;

/// What a number counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Memory: `1.5 MiB` for people.
    Bytes,
    /// Objects of the cache.
    Objects,
    /// Slabs of the cache.
    Slabs,
    /// A power of two of pages.
    Order,
    /// Arrays of objects, full or empty.
    Sheaves,
    /// Hundredths of a percent: 10000 is all.
    Share,
    /// A ratio: 100 is one.
    Hundredths,
    /// 0 or 1.
    Flag,
    /// A time.
    Milliseconds,
    /// Pure count.
    Count,
    /// Text, such as the name of an engine.
    Text,
}

/// How a number behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldKind {
    /// Fixed as long as the cache lives.
    Attribute,
    /// May be set while the cache is in use.
    Tunable,
    /// Goes up and down.
    Gauge,
    /// Only grows: a rate makes sense.
    Counter,
}

/// One number of a cache.
pub struct Field {
    /// Name: of the column, the JSON key, the attribute in sysfs.
    pub name: &'static str,
    /// What the number counts.
    pub unit: Unit,
    /// How the number behaves.
    pub kind: FieldKind,
    /// True for a column of the plain `list`.
    pub column: bool,
    /// One line of help.
    pub help: &'static str,
    /// Reads it, or derives it from other numbers.
    pub get: fn(&Snapshot, &Cache) -> Option<Value>,
}

macro_rules! fields {
    ($($name:ident: $unit:ident $kind:ident $column:ident, $help:expr $(, by $get:expr)?;)*) => {
        /// Every number of a cache, in the order of display.
        pub static FIELDS: &[Field] = &[$(Field {
            name: stringify!($name),
            unit: Unit::$unit,
            kind: FieldKind::$kind,
            column: fields!(@column $column),
            help: $help,
            get: fields!(@get $name $(, $get)?),
        },)*];
    };
    (@column shown) => { true };
    (@column more) => { false };
    (@get $name:ident) => { |_, cache| cache.value(stringify!($name)).cloned() };
    (@get $name:ident, $get:expr) => { $get };
}

fields! {
    live: Objects Gauge shown, "objects handed out and not freed", by derive::live;
    parked: Objects Gauge shown, "free objects held for CPUs and in barns: parked_cpu and parked_node", by derive::parked;
    objects: Objects Gauge more, "all objects but those free on node partial lists: what slabinfo calls active";
    objects_counted: Objects Gauge more, "the same as sysfs counts it, of caches with so many partial slabs that slabinfo estimates";
    total_objects: Objects Gauge shown, "slabs times objs_per_slab";
    slabs: Slabs Gauge shown, "slabs of the cache";
    partial: Slabs Gauge shown, "slabs on the node's partial lists, empty ones included";
    empty: Slabs Gauge more, "slabs on the partial lists without a used object";
    full: Slabs Gauge more, "slabs without a free object", by derive::full;
    order: Order Attribute shown, "a slab is 2^order pages";
    objs_per_slab: Objects Attribute shown, "objects in one slab";
    object_size: Bytes Attribute shown, "bytes of an object that its users see";
    slab_size: Bytes Attribute more, "bytes from one object to the next (stride)";
    bytes: Bytes Gauge shown, "bytes of the cache's slabs", by derive::bytes;
    used: Share Gauge shown, "share of the bytes that live objects take", by derive::used;
    live_bytes: Bytes Gauge more, "live objects times their stride", by derive::live_bytes;
    parked_cpu: Objects Gauge more, "free objects held for CPUs: sheaves, CPU slabs, CPU partial lists", by derive::parked_cpu;
    parked_node: Objects Gauge more, "free objects in full sheaves of barns", by derive::parked_node;
    in_transit: Objects Gauge more, "objects on their way between places: 0 unless a slow path is under way";
    free_partial: Objects Gauge more, "free objects in slabs of the node's partial lists", by derive::free_partial;
    objects_partial: Objects Gauge more, "objects in use on the node's partial lists";
    cpu_slabs: Slabs Gauge more, "slabs that CPUs hold: CPU slabs and CPU partial lists";
    slabs_cpu_partial: Slabs Gauge more, "slabs on the partial lists of CPUs";
    objects_cpu_partial: Objects Gauge more, "free objects on the partial lists of CPUs, as the lists count them";
    empties_parked: Slabs Gauge more, "slabs without a used object on the partial lists of CPUs";
    empties_bytes: Bytes Gauge more, "bytes of the slabs without a used object on the partial lists of CPUs";
    front: Text Attribute more, "what CPUs allocate from, where that is no sheaf";
    freezing: Text Attribute more, "when slabs are frozen that CPUs hold";
    accounting: Text Attribute more, "what CPU partial lists count against their limit";
    sheaf_capacity: Objects Tunable more, "objects in a full sheaf";
    barn_full: Sheaves Gauge more, "full sheaves in the barns";
    barn_empty: Sheaves Gauge more, "empty sheaves in the barns";
    barn_full_limit: Sheaves Tunable more, "most full sheaves in a barn";
    barn_empty_limit: Sheaves Tunable more, "most empty sheaves in a barn";
    limit: Objects Tunable more, "objects that a CPU's array may hold";
    batchcount: Objects Tunable more, "objects moved into a CPU's array, or out of it, at once";
    sharedfactor: Count Tunable more, "batches that the node's shared array may hold";
    min_partial: Slabs Tunable more, "slabs on a node's partial list from which on an empty slab ends";
    cpu_partial: Objects Tunable more, "free objects wanted on a CPU's partial list";
    cpu_partial_slabs: Slabs Attribute more, "slabs that a CPU's partial list may hold: cpu_partial objects, of slabs half full";
    remote_node_defrag_ratio: Count Tunable more, "how willingly objects are taken from other nodes, in percent";
    align: Bytes Attribute more, "objects begin at multiples of it";
    aliases: Count Attribute more, "other caches that share these slabs";
    ctor: Text Attribute more, "constructor";
    hwcache_align: Flag Attribute more, "objects begin at cache lines";
    reclaim_account: Flag Attribute more, "counted as reclaimable";
    destroy_by_rcu: Flag Attribute more, "its slabs end after a grace period";
    cache_dma: Flag Attribute more, "in memory for DMA";
    usersize: Bytes Attribute more, "bytes of an object that may be copied to and from user space";
    sanity_checks: Flag Attribute more, "objects are checked";
    red_zone: Flag Attribute more, "objects lie between red zones";
    poison: Flag Attribute more, "free objects are poisoned";
    store_user: Flag Attribute more, "who allocated and freed is kept";
    trace: Flag Attribute more, "calls are traced";
    failslab: Flag Tunable more, "failures are injected";
    skip_kfence: Flag Tunable more, "never checked by KFENCE";
    slow_paths: Count Counter more, "slow paths taken";
    alloc_fastpath: Count Counter more, "allocations by the fast path";
    alloc_slowpath: Count Counter more, "allocations by the slow path";
    free_fastpath: Count Counter more, "frees by the fast path";
    free_slowpath: Count Counter more, "frees by the slow path";
    alloc_slab: Count Counter more, "slabs made";
    free_slab: Count Counter more, "slabs ended";
    alloc_from_partial: Count Counter more, "CPU slabs taken from node partial lists";
    alloc_refill: Count Counter more, "CPU slabs refilled from their own free objects";
    alloc_node_mismatch: Count Counter more, "CPU slabs of another node than wanted";
    free_frozen: Count Counter more, "frees to slabs that a CPU holds";
    free_add_partial: Count Counter more, "slabs that a free put on a partial list";
    free_remove_partial: Count Counter more, "slabs that a free took off a partial list";
    cpuslab_flush: Count Counter more, "CPU slabs flushed";
    deactivate_full: Count Counter more, "CPU slabs given up full";
    deactivate_empty: Count Counter more, "CPU slabs given up empty";
    deactivate_to_head: Count Counter more, "CPU slabs put at the head of a partial list";
    deactivate_to_tail: Count Counter more, "CPU slabs put at the tail of a partial list";
    deactivate_remote_frees: Count Counter more, "CPU slabs given up with remote frees";
    deactivate_bypass: Count Counter more, "CPU slabs given up at once";
    order_fallback: Count Counter more, "slabs of a lower order than wanted";
    cmpxchg_double_cpu_fail: Count Counter more, "failed exchanges on CPU slabs";
    cmpxchg_double_fail: Count Counter more, "failed exchanges on slabs";
    cpu_partial_alloc: Count Counter more, "slabs used from CPU partial lists";
    cpu_partial_free: Count Counter more, "slabs put on CPU partial lists by frees";
    cpu_partial_node: Count Counter more, "slabs put on CPU partial lists from nodes";
    cpu_partial_drain: Count Counter more, "CPU partial lists drained";
    cmpxchg_slab: Count Counter more, "exchanges of slabs' words that a kernel would make";
    cmpxchg_under_list_lock: Count Counter more, "of these, those under a list lock";
    list_lock: Count Counter more, "acquisitions of list locks";
    list_lock_waited: Count Counter more, "of these, those that found it taken";
    list_lock_wait_ns: Count Counter more, "nanoseconds that they waited";
    list_lock_slabs: Count Counter more, "slabs linked or unlinked under list locks";
    list_lock_vain: Count Counter more, "acquisitions by frees that then had nothing to do";
    slabs_per_list_lock: Hundredths Gauge more, "slabs linked or unlinked at one acquisition", by derive::slabs_per_list_lock;
    cmpxchg_failed: Share Gauge more, "share of the exchanges of slabs' words that failed", by derive::cmpxchg_failed;
    list_lock_mean_wait_ns: Count Gauge more, "nanoseconds of a wait for a list lock", by derive::list_lock_mean_wait_ns;
    empty_kept: Count Counter more, "empty slabs kept because a node's list was short";
    empty_parked: Count Counter more, "frees that made a slab on a CPU partial list empty";
    page_hit: Count Counter more, "slabs whose pages came from a CPU's page list without a refill";
    page_refill: Count Counter more, "refills of CPUs' page lists by new slabs";
    page_refilled: Count Counter more, "pages of them";
    page_give_back: Count Counter more, "times that freed slabs made a CPU's page list give pages back";
    page_given_back: Count Counter more, "pages of them";
    page_cold_hit: Count Counter more, "as page_hit, of lists of cold pages";
    page_cold_refill: Count Counter more, "as page_refill, of lists of cold pages";
    page_cold_refilled: Count Counter more, "pages of them";
    page_cold_give_back: Count Counter more, "as page_give_back, of lists of cold pages";
    page_cold_given_back: Count Counter more, "pages of them";
    page_lock: Count Counter more, "times that page lists, or slabs without one, took the buddy's lock";
    node_allocs: Count Counter more, "allocations from other nodes than the CPU's";
    node_frees: Count Counter more, "frees of objects of other nodes";
    node_overflow: Count Counter more, "full alien arrays handed over";
    alloc_cpu_sheaf: Count Counter more, "allocations from sheaves";
    free_cpu_sheaf: Count Counter more, "frees to sheaves";
    free_rcu_sheaf: Count Counter more, "frees to sheaves that wait for readers";
    free_rcu_sheaf_fail: Count Counter more, "such frees that found no sheaf";
    sheaf_flush: Count Counter more, "objects flushed from sheaves";
    sheaf_refill: Count Counter more, "objects refilled to sheaves";
    sheaf_alloc: Count Counter more, "sheaves made";
    sheaf_free: Count Counter more, "sheaves ended";
    barn_get: Count Counter more, "full sheaves taken from barns";
    barn_get_fail: Count Counter more, "barns found without a full sheaf";
    barn_put: Count Counter more, "full sheaves put into barns";
    barn_put_fail: Count Counter more, "barns found full";
    sheaf_prefill_fast: Count Counter more, "prefilled sheaves from a CPU";
    sheaf_prefill_slow: Count Counter more, "prefilled sheaves from a barn or slabs";
    sheaf_prefill_oversize: Count Counter more, "prefilled sheaves of unusual size";
    sheaf_return_fast: Count Counter more, "prefilled sheaves returned to a CPU";
    sheaf_return_slow: Count Counter more, "prefilled sheaves returned to a barn or slabs";
}

/// Fields that are ratios of counters: those of several caches do not add up.
pub(crate) const COUNTER_RATIOS: [&str; 3] =
    ["slabs_per_list_lock", "cmpxchg_failed", "list_lock_mean_wait_ns"];

/// One total: of a yard, or of a kernel's memory.
pub struct Total {
    /// Name of the total, as JSON has it.
    pub name: &'static str,
    /// Unit of the number.
    pub unit: Unit,
    /// True if it is one of the parts of `committed`.
    pub part: bool,
    /// One line of help.
    pub help: &'static str,
}

macro_rules! totals {
    ($($name:ident: $unit:ident $part:ident, $help:expr;)*) => {
        /// Every total, in the order of display.
        pub static TOTALS: &[Total] = &[$(Total {
            name: stringify!($name),
            unit: Unit::$unit,
            part: totals!(@part $part),
            help: $help,
        },)*];
    };
    (@part part) => { true };
    (@part beside) => { false };
}

totals! {
    live: Bytes part, "live objects times their stride";
    parked_cpu: Bytes part, "free objects held for CPUs";
    parked_node: Bytes part, "free objects in barns";
    in_transit: Bytes part, "objects and pages on their way between places";
    free_partial: Bytes part, "free objects in slabs";
    padding: Bytes part, "tails of slabs, behind the last object";
    runs: Bytes part, "live page runs";
    mapped: Bytes part, "live mappings of their own";
    parked_pages: Bytes part, "free page runs in the lists of CPUs";
    free_runs: Bytes part, "free page runs, without what was given back";
    metadata: Bytes part, "the allocator's own memory";
    committed: Bytes beside, "memory that the system lent and has not got back: the sum of the parts";
    returned: Bytes beside, "free page runs that were given back to the system: address space without memory";
    empties_parked: Bytes beside, "slabs without a used object on CPU partial lists: parts of parked_cpu and padding";
    resident: Bytes beside, "resident bytes of the whole process, as the system tells";
    resident_allocator: Bytes beside, "of resident, mappings of the allocator, without those of single blocks (mapped)";
    resident_files: Bytes beside, "of resident, files: the program, libraries, what it maps";
    resident_stack: Bytes beside, "of resident, the main thread's stack";
    resident_brk: Bytes beside, "of resident, what is behind the program's data: the heap of the C library";
    resident_other: Bytes beside, "of resident, other mappings: threads' stacks, the program's own, blocks of the allocator (mapped), other heaps";
    nr_runs: Count beside, "live page runs";
    nr_mapped: Count beside, "live mappings of their own";
    set_aside: Objects beside, "objects that were found corrupt and set aside";
    mode: Count beside, "how CPUs are told apart: 1 the C library's rseq, 2 own rseq, 3 private slots";
    nr_cpus: Count beside, "rows of sheaves in use";
    engine: Text beside, "the engine that serves, by its name";
    decay_ms: Milliseconds beside, "time after which free pages go back";
    node_limit: Bytes beside, "most bytes that all barns hold together";
    pressure_events: Count beside, "times that a watch of memory pressure said that memory is short";
    pressure_drains: Count beside, "drains that followed";
    pressure_drained: Bytes beside, "bytes that the drains under memory pressure gave back to the system";
    pressure_ns: Count beside, "nanoseconds from the events to the end of their drains, together";
    pressure_longest_ns: Count beside, "nanoseconds of the longest of them";
    pressure_last_ns: Count beside, "nanoseconds of the last of them";
    pressure_refused: Count beside, "pages that the system refused, each of which caused a drain";
    pressure_watches: Count beside, "threads that watch for memory pressure";
    pressure_stalls: Count beside, "of the events, those in which tasks stalled for memory";
    pressure_cgroup: Count beside, "of the events, those in which the cgroup used too much";
    pressure_trims: Count beside, "times that the program gave back all that is free: malloc_trim";
    pressure_returned: Bytes beside, "bytes that drains for refused pages and by malloc_trim gave back";
    slab: Bytes beside, "the kernel's slab memory, as meminfo tells";
    slab_reclaimable: Bytes beside, "of this, what may be reclaimed";
    slab_unreclaimable: Bytes beside, "of this, what may not";
    maybe_parked: Bytes beside, "most bytes of active objects that may be parked, as a kernel hides it";
    maybe_parked_caches: Count beside, "caches of which some active objects may be parked";
    mem_total: Bytes beside, "the machine's memory";
    mem_free: Bytes beside, "of this, free pages";
    mem_available: Bytes beside, "of this, what programs could get without swapping";
}

/// The field of a name.
#[must_use]
pub fn field(name: &str) -> Option<&'static Field> {
    FIELDS.iter().find(|f| f.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_are_different_and_helps_are_one_line() {
        let names: BTreeSet<_> = FIELDS.iter().map(|f| f.name).collect();
        assert_eq!(names.len(), FIELDS.len());
        let totals: BTreeSet<_> = TOTALS.iter().map(|t| t.name).collect();
        assert_eq!(totals.len(), TOTALS.len());
        let helps = FIELDS.iter().map(|f| f.help).chain(TOTALS.iter().map(|t| t.help));
        assert!(helps.into_iter().all(|h| !h.is_empty() && !h.contains('\n')));
    }

    #[test]
    fn the_plain_list_fits_a_terminal() {
        assert!(FIELDS.iter().filter(|f| f.column).count() <= 11);
    }
}
