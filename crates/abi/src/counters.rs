//! The table of all numbers about a cache, a yard, and a kernel's caches. Each number has a row:
//! name (the same in counter, file and screen), unit, kind, and help text. Each row generates the
//! field of the struct that the engine fills in ([`CacheCounters`], [`YardCounters`]), the name in
//! the report, the word in which it is counted ([`Counter`], [`PressureCounter`]), the column, the
//! JSON key, the OpenMetrics series, and the row of `docs/counters.md`.
//!
//! ```text
//! name: (Unit flags) "help", report N "help in the report", word N Counter "its help";
//! ```
//! `report N`: the number is the Nth of its line in the report, counted from 0. `word N`: a process
//! or a model keeps its count in word N. If the report or the counter has no help of its own, the
//! row's help applies to it.
//!
//! Neighbours: [`crate::report`] writes the numbers; [`crate::stats`] and [`crate::pressure`]
//! define where the words are; the crate `observe` reads and shows them. Invariants: words are
//! never renumbered, because readers in other processes identify them by number; the totals with
//! the flag `part` add up to `committed` (asserted by the reader's tests).

/// What a number counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Of memory: tables print them in KiB, MiB or GiB.
    Bytes,
    /// Objects of the cache.
    Objects,
    /// Slabs of the cache.
    Slabs,
    /// A power of two of pages.
    Order,
    /// Page runs or mappings.
    Runs,
    /// Arrays of objects, full or empty.
    Sheaves,
    /// Hundredths of a percent: 10000 is all.
    Share,
    /// A ratio: 100 is one.
    Hundredths,
    /// 0 or 1.
    Flag,
    /// Of time that passes, by `CLOCK_MONOTONIC`.
    Milliseconds,
    /// Pure count.
    Count,
    /// Text, such as the name of an engine, which a report has by its number.
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

/// One number, as views show it.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// Name: of the column, the JSON key, the attribute in sysfs where the kernel has one.
    pub name: &'static str,
    /// What the number counts: views format it accordingly.
    pub unit: Unit,
    /// How the number behaves.
    pub kind: FieldKind,
    /// True for a column of the plain `list`.
    pub column: bool,
    /// True if the number is one of the parts of a sum.
    pub part: bool,
    /// One line of help.
    pub help: &'static str,
}

/// A gauge without flags; the flags of a row are functions.
const fn field(name: &'static str, unit: Unit, help: &'static str) -> Field {
    Field { name, unit, kind: FieldKind::Gauge, column: false, part: false, help }
}

impl Field {
    const fn attribute(self) -> Field {
        Field { kind: FieldKind::Attribute, ..self }
    }

    const fn tunable(self) -> Field {
        Field { kind: FieldKind::Tunable, ..self }
    }

    const fn counter(self) -> Field {
        Field { kind: FieldKind::Counter, ..self }
    }

    const fn column(self) -> Field {
        Field { column: true, ..self }
    }

    const fn part(self) -> Field {
        Field { part: true, ..self }
    }
}

/// One number of a line in the report.
#[derive(Clone, Copy)]
pub struct ReportField<T: 'static> {
    /// The row, with the report's help.
    pub field: Field,
    /// Reads it.
    pub get: fn(&T) -> u64,
    /// Writes it (the reader of a report uses this).
    pub set: fn(&mut T, u64),
}

/// The rows in the order of their numbers, each of which must be there once.
const fn by_number<T: Copy, const N: usize>(rows: [(usize, T); N]) -> [T; N] {
    let mut ordered = [rows[0].1; N];
    let mut is_there = [false; N];
    let mut nth = 0;
    while nth < N {
        let (number, row) = rows[nth];
        assert!(!is_there[number], "two rows of the table have one number");
        is_there[number] = true;
        ordered[number] = row;
        nth += 1;
    }
    ordered
}

/// The help of a report or a counter: its own, or the row's.
macro_rules! help {
    ($help:literal) => {
        $help
    };
    ($help:literal $own:literal) => {
        $own
    };
}

/// A row without what is counted and reported.
macro_rules! field {
    ($name:ident ($unit:ident $($flag:ident)*) $help:expr) => {
        field(stringify!($name), Unit::$unit, $help)$(.$flag())*
    };
}

macro_rules! numbers {
    (
        $(#[$of_all:meta])* $all:ident;
        $(#[$of_reported:meta])* $reported:ident, $report:ident;
        $(#[$of_counter:meta])* $counter:ident;
        $($name:ident: $kind:tt $help:literal
            $(, report $place:literal $($told:literal)?)?
            $(, word $word:literal $variant:ident $($counted:literal)?)?;)*
    ) => {
        $(#[$of_all])*
        pub static $all: &[Field] =
            &[$(field!($name $kind $help),)*];

        $(#[$of_reported])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $reported {
            $($(#[doc = help!($help $($told)?)] pub $name: u64,)?)*
        }

        #[doc = concat!("Every number of [`", stringify!($reported), "`], in the report's order.")]
        pub static $report: &[ReportField<$reported>] = &by_number([$($(($place, ReportField {
            field: field!($name $kind help!($help $($told)?)),
            get: |t: &$reported| t.$name,
            set: |t: &mut $reported, v| t.$name = v,
        }),)?)*]);

        impl $reported {
            /// The names of all numbers, in the report's order. Apart from the table, whose units
            /// and help a library that only writes them need not carry.
            pub const NAMES: &[&str] = &by_number([$($(($place, stringify!($name)),)?)*]);

            /// All numbers, in the same order.
            #[must_use]
            pub fn values(&self) -> [u64; Self::NAMES.len()] {
                by_number([$($(($place, self.$name),)?)*])
            }
        }

        $(#[$of_counter])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(usize)]
        pub enum $counter {
            $($(#[doc = help!($help $($counted)?)] $variant = $word,)?)*
        }

        impl $counter {
            /// All of them, with name and meaning, in the order of their words.
            pub const ALL: &[($counter, &str, &str)] = &by_number([$($((
                $word,
                ($counter::$variant, stringify!($name), help!($help $($counted)?)),
            ),)?)*]);

            /// Their names, in the same order.
            pub const NAMES: &[&str] = &by_number([$($(($word, stringify!($name)),)?)*]);
        }
    };
}

numbers! {
    /// Every number of a cache, in the order of display.
    FIELDS;
    /// One cache, at one moment.
    CacheCounters, CACHE_FIELDS;
    /// What a cache counts of its slow paths, as a process that counts or a model of a kernel
    /// keeps it: the kernel's counters (`SLUB_STATS`), and what the kernel does not count.
    Counter;

    live: (Objects column part) "objects handed out and not freed", report 9;
    parked: (Objects column) "free objects held for CPUs and in barns: parked_cpu and parked_node";
    objects: (Objects) "all objects but those free on node partial lists: what slabinfo calls active";
    objects_counted: (Objects) "the same as sysfs counts it, of caches with so many partial slabs that slabinfo estimates";
    total_objects: (Objects column) "slabs times objs_per_slab", report 8;
    slabs: (Slabs column) "slabs of the cache", report 5;
    partial: (Slabs column) "slabs on the node's partial lists, empty ones included", report 6 "slabs on the node's partial list, empty ones included";
    empty: (Slabs) "slabs on the partial lists without a used object", report 7 "slabs on the node's partial list without a used object";
    full: (Slabs) "slabs without a free object";
    order: (Order attribute column) "a slab is 2^order pages", report 2;
    objs_per_slab: (Objects attribute column) "objects in one slab", report 3;
    object_size: (Bytes attribute column) "bytes of an object that its users see", report 0 "largest request that the cache serves";
    slab_size: (Bytes attribute) "bytes from one object to the next (stride)", report 1;
    bytes: (Bytes column) "bytes of the cache's slabs", report 13;
    used: (Share column) "share of the bytes that live objects take";
    live_bytes: (Bytes) "live objects times their stride";
    parked_cpu: (Objects part) "free objects held for CPUs: sheaves, CPU slabs, CPU partial lists", report 10 "free objects held in the sheaves of CPUs";
    parked_node: (Objects part) "free objects in full sheaves of barns", report 11 "free objects held in full sheaves of the barn";
    in_transit: (Objects) "objects on their way between places: 0 unless a slow path is under way";
    free_partial: (Objects part) "free objects in slabs of the node's partial lists", report 12 "free objects in slabs";
    objects_partial: (Objects) "objects in use on the node's partial lists";
    cpu_slabs: (Slabs) "slabs that CPUs hold: CPU slabs and CPU partial lists";
    slabs_cpu_partial: (Slabs) "slabs on the partial lists of CPUs";
    objects_cpu_partial: (Objects) "free objects on the partial lists of CPUs, as the lists count them";
    empties_parked: (Slabs) "slabs without a used object on the partial lists of CPUs";
    empties_bytes: (Bytes) "bytes of the slabs without a used object on the partial lists of CPUs";
    front: (Text attribute) "what CPUs allocate from, where that is no sheaf";
    freezing: (Text attribute) "when slabs are frozen that CPUs hold";
    accounting: (Text attribute) "what CPU partial lists count against their limit";
    sheaf_capacity: (Objects tunable) "objects in a full sheaf", report 4;
    barn_full: (Sheaves) "full sheaves in the barns";
    barn_empty: (Sheaves) "empty sheaves in the barns";
    barn_full_limit: (Sheaves tunable) "most full sheaves in a barn";
    barn_empty_limit: (Sheaves tunable) "most empty sheaves in a barn";
    limit: (Objects tunable) "objects that a CPU's array may hold";
    batchcount: (Objects tunable) "objects moved into a CPU's array, or out of it, at once";
    sharedfactor: (Count tunable) "batches that the node's shared array may hold";
    min_partial: (Slabs tunable) "slabs on a node's partial list from which on an empty slab ends", report 14 "empty slabs kept on the partial list";
    cpu_partial: (Objects tunable) "free objects wanted on a CPU's partial list";
    cpu_partial_slabs: (Slabs attribute) "slabs that a CPU's partial list may hold: cpu_partial objects, of slabs half full";
    remote_node_defrag_ratio: (Count tunable) "how willingly objects are taken from other nodes, in percent";
    align: (Bytes attribute) "objects begin at multiples of it";
    aliases: (Count attribute) "other caches that share these slabs";
    ctor: (Text attribute) "constructor";
    hwcache_align: (Flag attribute) "objects begin at cache lines";
    reclaim_account: (Flag attribute) "counted as reclaimable";
    destroy_by_rcu: (Flag attribute) "its slabs end after a grace period";
    cache_dma: (Flag attribute) "in memory for DMA";
    usersize: (Bytes attribute) "bytes of an object that may be copied to and from user space";
    sanity_checks: (Flag attribute) "objects are checked";
    red_zone: (Flag attribute) "objects lie between red zones";
    poison: (Flag attribute) "free objects are poisoned";
    store_user: (Flag attribute) "who allocated and freed is kept";
    trace: (Flag attribute) "calls are traced";
    failslab: (Flag tunable) "failures are injected";
    skip_kfence: (Flag tunable) "never checked by KFENCE";
    slow_paths: (Count counter) "slow paths taken";
    alloc_fastpath: (Count counter) "allocations by the fast path", word 0 AllocFastpath "allocations from the CPU slab's own list";
    alloc_slowpath: (Count counter) "allocations by the slow path", word 1 AllocSlowpath "allocations that found it empty";
    free_fastpath: (Count counter) "frees by the fast path", word 2 FreeFastpath "frees to this CPU's slab";
    free_slowpath: (Count counter) "frees by the slow path", word 3 FreeSlowpath "frees to another slab";
    alloc_slab: (Count counter) "slabs made", word 8 AllocSlab;
    free_slab: (Count counter) "slabs ended", word 11 FreeSlab "slabs given back";
    alloc_from_partial: (Count counter) "CPU slabs taken from node partial lists", word 7 AllocFromPartial "slabs taken from a node's list to be used";
    alloc_refill: (Count counter) "CPU slabs refilled from their own free objects", word 9 AllocRefill "CPU slabs whose remotely freed objects were taken over";
    alloc_node_mismatch: (Count counter) "CPU slabs of another node than wanted", word 10 AllocNodeMismatch "CPU slabs of another node than the wanted one";
    free_frozen: (Count counter) "frees to slabs that a CPU holds", word 4 FreeFrozen "frees to a slab that some CPU has frozen";
    free_add_partial: (Count counter) "slabs that a free put on a partial list", word 5 FreeAddPartial "slabs that joined a node's list by a free or a drain";
    free_remove_partial: (Count counter) "slabs that a free took off a partial list", word 6 FreeRemovePartial "slabs that left a node's list empty";
    cpuslab_flush: (Count counter) "CPU slabs flushed", word 12 CpuslabFlush "CPU slabs put back by a flush";
    deactivate_full: (Count counter) "CPU slabs given up full", word 13 DeactivateFull "CPU slabs put back without a free object";
    deactivate_empty: (Count counter) "CPU slabs given up empty", word 14 DeactivateEmpty "slabs put back or drained that were empty and ended";
    deactivate_to_head: (Count counter) "CPU slabs put at the head of a partial list", word 15 DeactivateToHead "CPU slabs put to the head of a node's list";
    deactivate_to_tail: (Count counter) "CPU slabs put at the tail of a partial list", word 16 DeactivateToTail "CPU slabs put to its tail";
    deactivate_remote_frees: (Count counter) "CPU slabs given up with remote frees", word 17 DeactivateRemoteFrees "CPU slabs put back with objects that others freed";
    deactivate_bypass: (Count counter) "CPU slabs given up at once", word 18 DeactivateBypass "CPU slabs left behind full";
    order_fallback: (Count counter) "slabs of a lower order than wanted", word 19 OrderFallback "slabs of a lower order, for want of a block of their cache's";
    cmpxchg_double_cpu_fail: (Count counter) "failed exchanges on CPU slabs";
    cmpxchg_double_fail: (Count counter) "failed exchanges on slabs", word 33 CmpxchgFail "those of them that failed, because another CPU changed the word";
    cpu_partial_alloc: (Count counter) "slabs used from CPU partial lists", word 20 CpuPartialAlloc "slabs taken from a CPU partial list to be used";
    cpu_partial_free: (Count counter) "slabs put on CPU partial lists by frees", word 21 CpuPartialFree "slabs put on a CPU partial list by a free";
    cpu_partial_node: (Count counter) "slabs put on CPU partial lists from nodes", word 22 CpuPartialNode "slabs put there from a node's list";
    cpu_partial_drain: (Count counter) "CPU partial lists drained", word 23 CpuPartialDrain;
    cmpxchg_slab: (Count counter) "exchanges of slabs' words that a kernel would make", word 32 CmpxchgSlab "compare-exchanges of a slab's word that a kernel would make";
    cmpxchg_under_list_lock: (Count counter) "of these, those under a list lock", word 34 CmpxchgUnderLock "those of them made under a list lock";
    list_lock: (Count counter) "acquisitions of list locks", word 35 ListLock "acquisitions of a list lock";
    list_lock_waited: (Count counter) "of these, those that found it taken", word 36 ListLockWaited "those of them that found it taken";
    list_lock_wait_ns: (Count counter) "nanoseconds that they waited", word 37 ListLockWaitNs;
    list_lock_slabs: (Count counter) "slabs linked or unlinked under list locks", word 38 ListLockSlabs "slabs linked or unlinked under it";
    list_lock_vain: (Count counter) "acquisitions by frees that then had nothing to do", word 39 ListLockVain "acquisitions by a free that then had nothing to do";
    slabs_per_list_lock: (Hundredths) "slabs linked or unlinked at one acquisition";
    cmpxchg_failed: (Share) "share of the exchanges of slabs' words that failed";
    list_lock_mean_wait_ns: (Count) "nanoseconds of a wait for a list lock";
    empty_kept: (Count counter) "empty slabs kept because a node's list was short", word 40 EmptyKept "empty slabs kept because a node's list was short (min_partial)";
    empty_parked: (Count counter) "frees that made a slab on a CPU partial list empty", word 41 EmptyParked;
    page_hit: (Count counter) "slabs whose pages came from a CPU's page list without a refill", word 42 PageHit;
    page_refill: (Count counter) "refills of CPUs' page lists by new slabs", word 43 PageRefill;
    page_refilled: (Count counter) "pages of them", word 44 PageRefilled;
    page_give_back: (Count counter) "times that a freed slab made a CPU's page list return pages", word 45 PageGiveBack;
    page_given_back: (Count counter) "pages of them", word 46 PageGivenBack;
    page_cold_hit: (Count counter) "as page_hit, of lists of cold pages", word 47 PageColdHit;
    page_cold_refill: (Count counter) "as page_refill, of lists of cold pages", word 48 PageColdRefill;
    page_cold_refilled: (Count counter) "pages of them", word 49 PageColdRefilled;
    page_cold_give_back: (Count counter) "as page_give_back, of lists of cold pages", word 50 PageColdGiveBack;
    page_cold_given_back: (Count counter) "pages of them", word 51 PageColdGivenBack;
    page_lock: (Count counter) "times that page lists, or slabs without one, took the buddy's lock", word 52 PageLock;
    node_allocs: (Count counter) "allocations from other nodes than the CPU's", word 53 NodeAllocs "allocations from another node than the CPU's, by an engine of several nodes";
    node_frees: (Count counter) "frees of objects of other nodes", word 54 NodeFrees "frees of objects of another node, by an engine of several nodes";
    node_overflow: (Count counter) "full alien arrays handed over", word 55 NodeOverflow "alien arrays that were full and handed over";
    alloc_cpu_sheaf: (Count counter) "allocations from sheaves", word 24 AllocCpuSheaf "allocations from a sheaf";
    free_cpu_sheaf: (Count counter) "frees to sheaves", word 25 FreeCpuSheaf "frees to a sheaf";
    free_rcu_sheaf: (Count counter) "frees to sheaves that wait for readers";
    free_rcu_sheaf_fail: (Count counter) "such frees that found no sheaf";
    sheaf_flush: (Count counter) "objects flushed from sheaves", word 26 SheafFlush "objects that went from sheaves to slabs";
    sheaf_refill: (Count counter) "objects refilled to sheaves", word 27 SheafRefill "objects that went from slabs to sheaves";
    sheaf_alloc: (Count counter) "sheaves made";
    sheaf_free: (Count counter) "sheaves ended";
    barn_get: (Count counter) "full sheaves taken from barns", word 28 BarnGet "full sheaves from the barn";
    barn_get_fail: (Count counter) "barns found without a full sheaf", word 29 BarnGetFail "asks for one that the barn had not";
    barn_put: (Count counter) "full sheaves put into barns", word 30 BarnPut "full sheaves to the barn";
    barn_put_fail: (Count counter) "barns found full", word 31 BarnPutFail "full sheaves that it did not take";
    sheaf_prefill_fast: (Count counter) "prefilled sheaves from a CPU";
    sheaf_prefill_slow: (Count counter) "prefilled sheaves from a barn or slabs";
    sheaf_prefill_oversize: (Count counter) "prefilled sheaves of unusual size";
    sheaf_return_fast: (Count counter) "prefilled sheaves returned to a CPU";
    sheaf_return_slow: (Count counter) "prefilled sheaves returned to a barn or slabs";
}

numbers! {
    /// Every total of a yard, or of a kernel's memory, in the order of display.
    TOTALS;
    /// One yard, at one moment.
    YardCounters, YARD_FIELDS;
    /// What a process counts of its watch of memory pressure.
    PressureCounter;

    live: (Bytes part) "live objects times their stride", report 0;
    parked_cpu: (Bytes part) "free objects held for CPUs", report 1 "free objects in sheaves of CPUs";
    parked_node: (Bytes part) "free objects in barns", report 2;
    in_transit: (Bytes part) "objects and pages on their way between places", report 3 "objects being moved between a sheaf and a slab";
    free_partial: (Bytes part) "free objects in slabs", report 4;
    padding: (Bytes part) "tails of slabs, behind the last object", report 5;
    runs: (Bytes part) "live page runs", report 6;
    mapped: (Bytes part) "live mappings of their own", report 7;
    parked_pages: (Bytes part) "free page runs in the lists of CPUs", report 8;
    free_runs: (Bytes part) "free page runs, without what was given back", report 9;
    metadata: (Bytes part) "the allocator's own memory", report 10;
    committed: (Bytes) "memory that the system lent and has not got back: the sum of the parts", report 11;
    returned: (Bytes) "free page runs that were given back to the system: address space without memory", report 12;
    empties_parked: (Bytes) "slabs without a used object on CPU partial lists: parts of parked_cpu and padding";
    resident: (Bytes) "resident bytes of the whole process, as the system tells", report 13;
    resident_allocator: (Bytes) "of resident, mappings of the allocator, without those of single blocks (mapped)";
    resident_files: (Bytes) "of resident, files: the program, libraries, what it maps";
    resident_stack: (Bytes) "of resident, the main thread's stack";
    resident_brk: (Bytes) "of resident, what is behind the program's data: the heap of the C library";
    resident_other: (Bytes) "of resident, other mappings: threads' stacks, the program's own, blocks of the allocator (mapped), other heaps";
    nr_runs: (Runs) "live page runs", report 14;
    nr_mapped: (Runs) "live mappings of their own", report 15;
    set_aside: (Objects) "objects that were found corrupt and set aside";
    mode: (Count) "how CPUs are told apart: 1 the C library's rseq, 2 own rseq, 3 private slots", report 16;
    nr_cpus: (Count) "rows of sheaves in use", report 17;
    engine: (Text) "the engine that serves, by its name", report 18 "the engine that serves, by its number";
    decay_ms: (Milliseconds) "time after which free pages go back";
    node_limit: (Bytes) "most bytes that all barns hold together";
    pressure_events: (Count) "reports by a watch of memory pressure that memory is short", word 0 Events;
    pressure_drains: (Count) "drains that these events caused", word 1 Drains;
    pressure_drained: (Bytes) "bytes that these drains returned to the OS", word 2 Drained;
    pressure_ns: (Count) "total nanoseconds from the events to the end of their drains", word 3 Ns;
    pressure_longest_ns: (Count) "longest such time, in nanoseconds", word 4 LongestNs;
    pressure_last_ns: (Count) "last such time, in nanoseconds", word 5 LastNs;
    pressure_refused: (Count) "pages that the OS refused, each of which caused a drain", word 6 Refused;
    pressure_watches: (Count) "threads that watch for memory pressure", word 7 Watches;
    pressure_stalls: (Count) "of the events, those in which tasks stalled for memory", word 8 Stalls;
    pressure_cgroup: (Count) "of the events, those in which the cgroup used too much", word 9 Cgroup;
    pressure_trims: (Count) "calls of malloc_trim, which returns all free pages", word 10 Trims;
    pressure_returned: (Bytes) "bytes returned by drains for refused pages and by malloc_trim", word 11 Returned;
    slab: (Bytes) "the kernel's slab memory, as meminfo tells";
    slab_reclaimable: (Bytes) "of this, what may be reclaimed";
    slab_unreclaimable: (Bytes) "of this, what may not";
    maybe_parked: (Bytes) "most bytes of active objects that may be parked, as a kernel hides it";
    maybe_parked_caches: (Count) "caches of which some active objects may be parked";
    mem_total: (Bytes) "the machine's memory";
    mem_free: (Bytes) "of this, free pages";
    mem_available: (Bytes) "of this, what programs could get without swapping";
    page_cache: (Bytes) "of it, pages of files";
    dentries: (Count) "dentries, as the kernel counts them";
    dentries_unused: (Count) "of these, dentries that nothing refers to";
    dentries_negative: (Count) "of the unused, names of which no file exists";
    open_files: (Count) "open files";
    memory_cgroups: (Count) "memory cgroups, also those that were removed and still hold memory";
    sockets: (Count) "sockets in use";
    tcp_queues: (Bytes) "memory in queues of TCP sockets";
    reserved: (Bytes) "address space that another allocator holds, with memory or without";
    segments: (Count) "segments of another allocator, which mimalloc 3 calls pages";
    segments_abandoned: (Count) "of these, segments whose thread ended";
    swapped: (Bytes) "of a process, pages in swap";
}
