//! The counters of one cache and of one yard, each a row of one table.
//!
//! Invariant (asserted by the reader's tests): the rows of [`YARD_FIELDS`]
//! whose `part` is true add up to `committed`.

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
    /// Of time that passes, by `CLOCK_MONOTONIC`.
    Milliseconds,
    /// Pure count.
    Count,
}

/// One displayed number: its name from counter to file to screen.
pub struct Field<T: 'static> {
    /// Name, as in sysfs where the kernel has one.
    pub name: &'static str,
    /// What the number counts: views format it accordingly.
    pub unit: Unit,
    /// One line of help.
    pub help: &'static str,
    /// True if the number is one of the parts of a total.
    pub part: bool,
    /// Reads it.
    pub get: fn(&T) -> u64,
    /// Writes it (the reader of a report uses this).
    pub set: fn(&mut T, u64),
}

macro_rules! fields {
    ($(#[$meta:meta])* $table:ident for $ty:ident { $($name:ident: $unit:ident, $part:expr, $help:expr;)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $ty { $(#[doc = $help] pub $name: u64,)* }
        #[doc = concat!("Every number of [`", stringify!($ty), "`], in the order of display.")]
        pub static $table: &[Field<$ty>] = &[$(Field {
            name: stringify!($name), unit: Unit::$unit, help: $help, part: $part,
            get: |t| t.$name, set: |t, v| t.$name = v,
        },)*];
        impl $ty {
            /// The names of all numbers, in the order of display. Apart from the table, whose
            /// units and help a library that only writes them need not carry.
            pub const NAMES: &[&str] = &[$(stringify!($name),)*];

            /// All numbers, in the same order.
            #[must_use]
            pub fn values(&self) -> [u64; Self::NAMES.len()] {
                [$(self.$name,)*]
            }
        }
    };
}

fields! {
    /// One cache, at one moment.
    CACHE_FIELDS for CacheCounters {
        object_size: Bytes, false, "largest request that the cache serves";
        slab_size: Bytes, false, "bytes from one object to the next (stride)";
        order: Order, false, "a slab is 2^order pages";
        objs_per_slab: Objects, false, "objects in one slab";
        sheaf_capacity: Objects, false, "objects in a full sheaf";
        slabs: Slabs, false, "slabs of the cache";
        partial: Slabs, false, "slabs on the node's partial list, empty ones included";
        empty: Slabs, false, "slabs on the node's partial list without a used object";
        total_objects: Objects, false, "slabs times objs_per_slab";
        live: Objects, true, "objects handed out and not freed";
        parked_cpu: Objects, true, "free objects held in the sheaves of CPUs";
        parked_node: Objects, true, "free objects held in full sheaves of the barn";
        free_partial: Objects, true, "free objects in slabs";
        bytes: Bytes, false, "bytes of the cache's slabs";
        min_partial: Slabs, false, "empty slabs kept on the partial list";
    }
}

fields! {
    /// One yard, at one moment.
    YARD_FIELDS for YardCounters {
        live: Bytes, true, "live objects times their stride";
        parked_cpu: Bytes, true, "free objects in sheaves of CPUs";
        parked_node: Bytes, true, "free objects in barns";
        in_transit: Bytes, true, "objects on their way between a sheaf and a slab";
        free_partial: Bytes, true, "free objects in slabs";
        padding: Bytes, true, "tails of slabs, behind the last object";
        runs: Bytes, true, "live page runs";
        mapped: Bytes, true, "live mappings of their own";
        parked_pages: Bytes, true, "free page runs in the lists of CPUs";
        free_runs: Bytes, true, "free page runs, without what was given back";
        metadata: Bytes, true, "the allocator's own memory";
        committed: Bytes, false, "memory that the system lent and has not got back: the sum of the parts";
        returned: Bytes, false, "free page runs that were given back to the system: address space without memory";
        resident: Bytes, false, "resident bytes of the whole process, as the system tells";
        nr_runs: Runs, false, "live page runs";
        nr_mapped: Runs, false, "live mappings of their own";
        mode: Count, false, "how CPUs are told apart: 1 the C library's rseq, 2 own rseq, 3 private slots";
        nr_cpus: Count, false, "rows of sheaves in use";
        engine: Count, false, "the engine that serves, by its number";
    }
}
