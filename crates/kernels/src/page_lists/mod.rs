//! The kinds of per-CPU lists of free pages in front of the buddy allocator.
//!
//! Neighbour: [`rules`] computes the limits of each kind for a zone of memory.

mod rules;
#[cfg(test)]
mod tests;

pub use rules::{Cold, LIST_BYTES, LISTED_ORDERS, List, Rules, Tuning, Warmth, Zone};

/// Which lists a CPU has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PageLists {
    /// A stack for each of eight orders, 128 KiB each; the buddy gives and takes single runs.
    #[default]
    Slabyard,
    /// Two lists of pages, one of those used lately and one of others (2.5.45).
    HotCold,
    /// One list of pages, whose tail takes the cold ones (2.6.25).
    Merged,
    /// A list for each order to 3, whose length follows use (6.18).
    Today,
    /// None: each call takes the buddy's lock.
    None,
}

impl PageLists {
    /// Each kind: the lists of a yard, then those of kernels by age.
    pub const ALL: [PageLists; 5] = [
        PageLists::Slabyard,
        PageLists::HotCold,
        PageLists::Merged,
        PageLists::Today,
        PageLists::None,
    ];

    /// Its word.
    #[must_use]
    pub fn name(self) -> &'static str {
        crate::words::name(Self::WORDS, &self)
    }
}

words! { PageLists:
    "slabyard" => Slabyard,
    "hot-cold" => HotCold,
    "merged" => Merged,
    "today" => Today,
    "none" => None,
}
