//! Page types by mobility (whether the kernel can move or reclaim a page), and how kernel releases
//! differ in treating pages.
//!
//! Source: `mm/page_alloc.c` of the releases, as confirmed by booting them (`tests/small_told.rs`).
//! [`super::zone`] follows a row of [`Rules`]; [`super::kept`] follows the row's fields about
//! per-CPU lists.

/// How many types have lists.
pub(super) const TYPES: usize = 3;

/// What a page may be moved or reclaimed by; numbers are the kernel's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Type {
    /// The kernel's own.
    #[default]
    Unmovable = 0,
    /// Of processes and files.
    Movable = 1,
    /// Of shrinkers.
    Reclaimable = 2,
}

impl Type {
    pub(super) const ALL: [Type; TYPES] = [Type::Unmovable, Type::Movable, Type::Reclaimable];

    /// By the kernel's number; types that are set aside count as unmovable.
    #[must_use]
    pub fn of(number: u8) -> Type {
        Type::ALL.get(usize::from(number)).copied().unwrap_or_default()
    }

    /// Whose blocks are taken over, in this order.
    pub(super) fn others(self) -> [Type; 2] {
        match self {
            Type::Unmovable => [Type::Reclaimable, Type::Movable],
            Type::Movable => [Type::Reclaimable, Type::Unmovable],
            Type::Reclaimable => [Type::Unmovable, Type::Movable],
        }
    }
}

/// Whether a request's type counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mobility {
    /// Pages are grouped by it.
    Grouped,
    /// The machine is too small for that.
    Off,
}

/// Whether limits of the CPU's lists adapt to the requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AdaptiveLimits {
    /// To 6.6.
    Never,
    /// From 6.7 on.
    Always,
}

/// How a block of another type is taken over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TakesOver {
    /// Its pageblock's free blocks move to the tails, and the request is served from these.
    Moved,
    /// The same, if the zone has the whole pageblock; a block as large as a pageblock is split at
    /// once. Without such a block, the smallest one of another type is split, and stays of its type.
    Claimed,
}

/// What a release does otherwise than another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// The first release that was seen to do so.
    pub release: &'static str,
    /// Limits of the CPU's lists.
    pub adapts: AdaptiveLimits,
    /// Blocks of other types.
    pub takes_over: TakesOver,
}

/// By release.
pub(super) const RULES: [Rules; 2] = [
    Rules { release: "6.1", adapts: AdaptiveLimits::Never, takes_over: TakesOver::Moved },
    Rules { release: "6.12", adapts: AdaptiveLimits::Always, takes_over: TakesOver::Claimed },
];

impl Rules {
    /// Those of a release; of one that is not in the table, the oldest.
    #[must_use]
    pub fn of(release: &str) -> Rules {
        *RULES.iter().find(|rules| rules.release == release).unwrap_or(&RULES[0])
    }
}
