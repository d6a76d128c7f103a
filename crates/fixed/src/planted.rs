//! Parts of the repair that tests omit or reorder, to check that this fault is detected.

/// What is left out, or done too early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Planted {
    /// The whole repair.
    Repair = 1,
    /// Pages: the buddy's lists.
    Pages = 2,
    /// Places of tables.
    Tables = 3,
    /// Caches as they were created: what CPUs and barns held of them is not removed.
    Caches = 4,
    /// Slabs by what is live.
    Slabs = 5,
    /// The table names a cache before it is written.
    CacheNamedFirst = 6,
    /// The lists of SLOB.
    Lists = 7,
    /// A smaller table is freed before the larger one is published.
    TableGivenFirst = 8,
}

#[cfg(feature = "planted")]
static PLANTED: slabyard_platform::sync::AtomicU32 = slabyard_platform::sync::AtomicU32::new(0);

/// Plants it, in all yards of this process.
#[cfg(feature = "planted")]
pub fn plant(what: Planted) {
    PLANTED.store(what as u32, slabyard_platform::sync::Ordering::Relaxed);
}

/// True if it is planted.
#[cfg(feature = "planted")]
pub fn is(what: Planted) -> bool {
    PLANTED.load(slabyard_platform::sync::Ordering::Relaxed) == what as u32
}

/// Nothing is.
#[cfg(not(feature = "planted"))]
#[inline(always)]
pub const fn is(_: Planted) -> bool {
    false
}
