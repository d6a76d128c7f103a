//! The survivors of a call site, and the verdicts by which sites are told apart.
//!
//! Neighbours: [`super`] counts survivors; [`super::caches`] judges whether their cache grew.

/// Parts of the recording in which births are counted.
pub const TENTHS: usize = 10;
/// Tenths, of the first nine, in which a leak's objects must have been born.
pub(super) const GROWING_TENTHS: usize = 6;
/// Overdue objects below which nothing is called a leak.
pub(super) const FEWEST: u64 = 10;

/// What the survivors of a site are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verdict {
    /// More than a tenth of them are overdue, at least ten objects, and objects were born in at least
    /// six of the first nine tenths.
    Leak,
    /// As a leak, and the kernel frees objects of this cache when memory is short.
    Reclaimable,
    /// More than a tenth are overdue, and they were born in few tenths: allocated once and kept.
    Kept,
    /// The cache grew by less than half of those that are overdue, which took the place of older
    /// objects.
    Replaced,
    /// As a leak, of a cache from which the kernel frees many objects by one call, which the trace
    /// lacks.
    Unseen,
    /// Nine of ten are no older than objects of this site become that are freed.
    Young,
}

impl Verdict {
    /// The word in tables and JSON.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Verdict::Leak => "leak",
            Verdict::Reclaimable => "reclaimable",
            Verdict::Kept => "kept",
            Verdict::Replaced => "replaced",
            Verdict::Unseen => "unseen",
            Verdict::Young => "young",
        }
    }
}

/// Objects that are alive at the end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Survivors {
    /// How many there are.
    pub objects: u64,
    /// Their bytes, as allocated.
    pub bytes: u64,
    /// Those older than freed objects of their site become, by the rule above.
    pub overdue: u64,
    /// Nanoseconds since the oldest was allocated.
    pub oldest_ns: u64,
    /// Nanoseconds since half of them were.
    pub median_ns: u64,
    /// How many were born in each tenth of the recording.
    pub born: [u64; TENTHS],
}
