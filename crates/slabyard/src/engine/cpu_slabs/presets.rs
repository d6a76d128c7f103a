//! Presets of CPU slabs: what kernel releases do.
//!
//! Neighbours: a cache's [`Rules`] follow from one of these and its geometry; the lab's table of
//! releases has them beside what orders need.
//!
//! Sources: the kernel's commit messages: 49e2258586b4 (CPU partial lists), 23e98ad1ce89 (four
//! times the objects) and b47291ef02b0 (slabs counted), both 5.16; the series "slub: Delay
//! freezing of CPU partial slabs" (6.8).

use super::{Accounting, Freezing, Rules};

/// A number for each band of sizes: below 256 bytes, below 1024, below a page, and a page or
/// more.
pub type Bands = [u32; 4];

/// CPU slabs as kernels of a release, and of those after it, have them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preset {
    /// The release: "6.1".
    pub name: &'static str,
    /// When slabs are frozen.
    pub freezing: Freezing,
    /// How CPU partial lists are counted.
    pub accounting: Accounting,
    /// Free objects wanted on a CPU partial list.
    pub cpu_partial: Bands,
}

impl Preset {
    /// Kernel 5.9.
    pub const V5_9: Preset = Preset {
        name: "5.9",
        freezing: Freezing::Eager,
        accounting: Accounting::Objects,
        cpu_partial: [30, 13, 6, 2],
    };
    /// Kernel 5.16: more objects, counted as slabs.
    pub const V5_16: Preset = Preset {
        name: "5.16",
        accounting: Accounting::Slabs,
        cpu_partial: [120, 52, 24, 6],
        ..Self::V5_9
    };
    /// Kernel 6.1.
    pub const V6_1: Preset = Preset { name: "6.1", ..Self::V5_16 };
    /// Kernel 6.8: slabs are frozen late.
    pub const V6_8: Preset = Preset { name: "6.8", freezing: Freezing::Delayed, ..Self::V6_1 };
    /// Kernel 6.18; the last of these is 6.19.
    pub const V6_18: Preset = Preset { name: "6.18", ..Self::V6_8 };

    /// All presets, oldest first.
    pub const ALL: [Preset; 5] = [Self::V5_9, Self::V5_16, Self::V6_1, Self::V6_8, Self::V6_18];

    /// The rules of caches by this preset, with CPU partial lists.
    #[must_use]
    pub const fn rules(&self) -> Rules {
        Rules::of_kind(self.freezing, self.accounting, true)
    }
}

/// The number of the band of a size.
pub(super) const fn of_band(bands: &Bands, size: usize, page_bytes: usize) -> u32 {
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
