//! How SLAB reclaims a node's free slabs: one row per kernel that changed this.
//!
//! Sources: kmem_cache_reap of 2.4; the patch "slab reclaim balancing" (b65bbded39, September 2002,
//! in 2.5.39) and the thread about it; M. Spraul's series of October 2002 (in 2.5.45); `mm/slab.c`
//! of 5.9. Neighbour: `slabyard::engine::array_cache` implements each [`Policy`].

/// What happens to a slab when the last of its objects is freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Emptied {
    /// It stays until a reap.
    Stays,
    /// It ends, unless no other slab is listed.
    EndsBesideOthers,
    /// It stays, as long as the node's free objects are within its limit.
    StaysWithinLimit,
}

/// Where a slab that was full is listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placed {
    /// First; later frees do not move it.
    First,
    /// As the last partial slab, after each free.
    Last,
}

/// What takes memory back that nobody uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// The clock over all caches, when memory is wanted.
    ByClock,
    /// Nothing: slabs ended before.
    ByNothing,
    /// Every CPU's timer, each few seconds.
    ByTimers,
}

/// The sizes of arrays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrays {
    /// Large, and none of objects above a page.
    Of2_4,
    /// As since 2003, without a shared one.
    Alone,
    /// With one that the CPUs of a node share.
    Shared,
}

/// What a kernel does with free slabs.
#[derive(Debug)]
pub struct Policy {
    /// When a slab becomes empty.
    pub emptied: Emptied,
    /// Where slabs are listed.
    pub placed: Placed,
    /// What takes memory back.
    pub taken: Taken,
    /// How large arrays are.
    pub arrays: Arrays,
    /// True: an array that was not touched since the last reap is refilled by a few objects.
    pub refills_few: bool,
}

/// The policies, by [`Reclaim`].
static POLICIES: [Policy; 4] = [
    Policy {
        emptied: Emptied::Stays,
        placed: Placed::First,
        taken: Taken::ByClock,
        arrays: Arrays::Of2_4,
        refills_few: false,
    },
    Policy {
        emptied: Emptied::EndsBesideOthers,
        placed: Placed::First,
        taken: Taken::ByNothing,
        arrays: Arrays::Of2_4,
        refills_few: false,
    },
    Policy {
        emptied: Emptied::StaysWithinLimit,
        placed: Placed::Last,
        taken: Taken::ByTimers,
        arrays: Arrays::Alone,
        refills_few: true,
    },
    Policy {
        emptied: Emptied::StaysWithinLimit,
        placed: Placed::Last,
        taken: Taken::ByTimers,
        arrays: Arrays::Shared,
        refills_few: true,
    },
];

/// A policy's number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u32)]
pub enum Reclaim {
    /// kmem_cache_reap.
    V2_4,
    /// At most one empty slab a cache.
    V2_5_39,
    /// `free_limit` and timers.
    V2_5_45,
    /// The same with shared arrays, to 6.7.
    #[default]
    Today,
}

impl Reclaim {
    /// Each policy, by age.
    pub const ALL: [Reclaim; 4] =
        [Reclaim::V2_4, Reclaim::V2_5_39, Reclaim::V2_5_45, Reclaim::Today];

    /// Its word.
    #[must_use]
    pub fn name(self) -> &'static str {
        crate::words::name(Self::WORDS, &self)
    }

    /// Its row.
    #[inline]
    #[must_use]
    pub fn policy(self) -> &'static Policy {
        &POLICIES[self as usize]
    }
}

words! { Reclaim:
    "2.4" => V2_4,
    "2.5.39" => V2_5_39,
    "2.5.45" => V2_5_45,
    "today" => Today,
}
