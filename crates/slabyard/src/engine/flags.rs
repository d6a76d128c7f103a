//! Flags of a cache, named as in the kernel.
//!
//! Neighbours: [`super::Shape`] stores them; [`crate::cache::CacheSettings`] accepts them.

/// A set of flags.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheFlags(u32);

impl CacheFlags {
    /// What `kmem_cache_create` takes as 0.
    pub const NONE: Self = CacheFlags(0);
    /// Objects are aligned to cache lines; small ones to the largest part of a line, halved again
    /// and again, that still holds one.
    pub const HWCACHE_ALIGN: Self = CacheFlags(1);
    /// The cache has slabs of its own, although another one has equal objects.
    pub const NO_MERGE: Self = CacheFlags(1 << 1);
    /// The objects can be given back on request: they count as reclaimable.
    pub const RECLAIM_ACCOUNT: Self = CacheFlags(1 << 2);
    /// A freed object may be handed out again at once, but its memory stays an object of this cache
    /// until all readers have left that were there when it was freed.
    pub const TYPESAFE_BY_RCU: Self = CacheFlags(1 << 3);

    /// These and others.
    #[must_use]
    pub const fn with(self, others: Self) -> Self {
        CacheFlags(self.0 | others.0)
    }

    /// These but for others.
    #[must_use]
    pub const fn without(self, others: Self) -> Self {
        CacheFlags(self.0 & !others.0)
    }

    /// True if all of these are set.
    #[inline]
    #[must_use]
    pub const fn has(self, flags: Self) -> bool {
        self.0 & flags.0 == flags.0
    }

    /// The bits, by which other languages name them.
    #[must_use]
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// The flags of these bits; `None` if one of them has no meaning.
    #[must_use]
    pub const fn of(bits: u32) -> Option<Self> {
        let all = Self::HWCACHE_ALIGN
            .with(Self::NO_MERGE)
            .with(Self::RECLAIM_ACCOUNT)
            .with(Self::TYPESAFE_BY_RCU);
        if bits & !all.0 == 0 { Some(CacheFlags(bits)) } else { None }
    }
}
