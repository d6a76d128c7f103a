//! Counts of a yard's pages and objects: engines add them up for the [checker](crate::verify).

/// What a yard has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Pages that can be handed out.
    pub managed: u32,
    /// Free pages.
    pub free: u32,
    /// Pages of slabs, or of blocks.
    pub slab_pages: u32,
    /// Slabs, or pages of blocks.
    pub slabs: u32,
    /// Pages that were requested as such.
    pub run_pages: u32,
    /// Pages of the allocator's own tables.
    pub meta_pages: u32,
    /// Objects that are handed out (of SLOB 0: it does not count them).
    pub live: u64,
    /// Bytes of these (for SLOB those of blocks, with the headers in front).
    pub live_bytes: u64,
    /// Objects that are parked.
    pub parked: u64,
}

/// What a look adds up.
#[derive(Debug, Default)]
pub struct Tally {
    /// So far.
    pub counts: Counts,
}
