//! The rules of CPU slabs: how kernels up to 6.19 differ from each other, and variants that no
//! kernel has.
//!
//! Sources: commit messages of the kernel: 49e2258586b4 (CPU partial lists); 23e98ad1ce89 (four
//! times as many objects) and b47291ef02b0 (slabs are counted), both 5.16; the series "slub: Delay
//! freezing of CPU partial slabs" (6.8).

/// A number for each band of sizes: below 256 bytes, below 1024, below a page, and a page or
/// more.
pub type Bands = [u32; 4];

/// The number of the band of a size.
#[must_use]
pub const fn of_band(bands: &Bands, size: usize, page_bytes: usize) -> u32 {
    let band = if size >= page_bytes {
        3
    } else if size >= 1024 {
        2
    } else if size >= 256 {
        1
    } else {
        0
    };
    bands[band]
}

/// When a slab that is taken off the node's list is frozen, and when it thaws.
///
/// The steps between the two that were released are those of the series "slub: Delay freezing of
/// CPU partial slabs" as it was first sent (October 2023). Its patches 1 and 2 prepare, and change
/// no exchange; patch 5 moves one, of a slab that is picked from a CPU partial list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Freezing {
    /// As it leaves the node's list, under the list lock; it thaws under that lock, too (to 6.7).
    Eager,
    /// As [`Freezing::Eager`], but a CPU slab thaws before the list lock is taken (patch 3).
    ThawedEarly,
    /// Slabs on CPU partial lists are not frozen; the slab to use still is under the list lock
    /// (patches 4 and 5).
    UsedUnderLock,
    /// When it is picked for use (as merged, from 6.8).
    Delayed,
}

impl Freezing {
    /// All of them, in the order in which they came.
    pub const ALL: [Freezing; 4] =
        [Freezing::Eager, Freezing::ThawedEarly, Freezing::UsedUnderLock, Freezing::Delayed];

    /// Its word.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Freezing::Eager => "eager",
            Freezing::ThawedEarly => "patch-3",
            Freezing::UsedUnderLock => "patch-5",
            Freezing::Delayed => "delayed",
        }
    }

    /// True if slabs on CPU partial lists are frozen.
    #[must_use]
    pub const fn freezes_parked(self) -> bool {
        matches!(self, Freezing::Eager | Freezing::ThawedEarly)
    }

    /// True if a slab of the node's list that is to be used is frozen under the list lock.
    #[must_use]
    pub const fn freezes_used_under_lock(self) -> bool {
        !matches!(self, Freezing::Delayed)
    }

    /// True if a CPU slab thaws under the list lock.
    #[must_use]
    pub const fn thaws_under_lock(self) -> bool {
        matches!(self, Freezing::Eager)
    }
}

/// How much a CPU partial list may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accounting {
    /// Free objects, counted as a slab joins the list (to 5.15).
    Objects,
    /// Slabs (from 5.16).
    Slabs,
    /// Free objects, counted at every free; a slab that becomes empty leaves the
    /// list at once. No kernel does it.
    Exact,
}

impl Accounting {
    /// Each way to count, older ones first.
    pub const ALL: [Accounting; 3] = [Accounting::Objects, Accounting::Slabs, Accounting::Exact];

    /// Its word.
    #[must_use]
    pub fn name(self) -> &'static str {
        crate::words::name(Self::WORDS, &self)
    }
}

// Those of the series are the patches up to which it was applied.
words_of_releases! { Freezing:
    "eager" => Eager,
    "patch-1" => Eager,
    "patch-2" => Eager,
    "patch-3" => ThawedEarly,
    "patch-4" => UsedUnderLock,
    "patch-5" => UsedUnderLock,
    "delayed" => Delayed,
}

words_of_releases! { Accounting:
    "objects" => Objects,
    "slabs" => Slabs,
    "exact" => Exact,
}
