//! The table of kernel releases.
//!
//! Neighbours: [`super::cpu_slabs`] and [`super::sheaves`] define the rules that rows name; the lab
//! computes a cache's geometry and limits from a row and a machine. Invariant: rows are in order of
//! their versions, and those with CPU slabs come first.

use crate::cpu_slabs::{Accounting, Bands, Freezing};
use crate::sheaves::KernelSheaves;

/// How a cache's order is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OrderFormula {
    /// To 6.6: with fewer and fewer objects until an order wastes little enough.
    FewerObjects,
    /// From 6.7: one number of objects, and up to half a slab may be wasted.
    HalfWasted,
}

/// Which CPUs count for the objects that a slab should hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CountedCpus {
    /// To 5.10: all that could ever be plugged in.
    Possible,
    /// From 5.11: those present, or the possible ones where only one is present.
    Present,
}

/// What a CPU allocates from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Front {
    /// A CPU slab and a list of partial slabs.
    CpuSlabs,
    /// 6.18 and 6.19: the same, behind sheaves in caches that request them.
    SheavesOnRequest,
    /// From 7.0: sheaves in every cache, no CPU slabs.
    Sheaves,
}

/// What a kernel release decides.
#[derive(Debug, PartialEq, Eq)]
pub struct Release {
    /// As typed: "6.18".
    pub name: &'static str,
    /// Major and minor number.
    pub version: (u32, u32),
    /// How the order is chosen.
    pub formula: OrderFormula,
    /// Which of a machine's CPUs the order depends on.
    pub counted: CountedCpus,
    /// The highest order that is tried first.
    pub max_order: u8,
    /// The highest order that the page allocator has.
    pub order_limit: u8,
    /// Free objects wanted on a CPU's partial list; `None`: no such list.
    pub cpu_partial: Option<Bands>,
    /// How that list is counted.
    pub accounting: Accounting,
    /// When its slabs are frozen.
    pub freezing: Freezing,
    /// What a CPU allocates from.
    pub front: Front,
    /// Lowest and highest number of slabs that a node keeps though one is empty.
    pub min_partial: (u32, u32),
    /// Objects in a sheaf before its memory is rounded up to a size class; `None`: what the cache
    /// requests.
    pub sheaf_objects: Option<Bands>,
    /// Caches of older kernels that it does not have.
    pub gone: &'static [&'static str],
    /// Caches that request sheaves if a kernel gives them on request alone, and the objects in one.
    pub on_request: &'static [(&'static str, u32)],
    /// Barns and refills, where there are sheaves.
    pub sheaves: KernelSheaves,
    /// True: where a slab has room behind its last object, the vector of what its objects are
    /// charged to lies there, and not in memory of its own.
    pub obj_ext_in_slab: bool,
}

/// The table: a constant for each row, and all of them. A row says what it changes of an older one.
macro_rules! releases {
    ($($(#[$doc:meta])* $row:ident $name:literal ($major:literal, $minor:literal) {$($rule:tt)*})*) => {
        impl Release {$(
            $(#[$doc])*
            pub const $row: Release =
                Release { name: $name, version: ($major, $minor), $($rule)* };
        )*}

        const ROWS: &[Release] = &[$(Release::$row),*];
    };
}

releases! {
    /// `mm/slub.c` at 5.9.
    V5_9 "5.9" (5, 9) {
        formula: OrderFormula::FewerObjects,
        counted: CountedCpus::Possible,
        max_order: 3,
        order_limit: 10,
        cpu_partial: Some([30, 13, 6, 2]),
        accounting: Accounting::Objects,
        freezing: Freezing::Eager,
        front: Front::CpuSlabs,
        min_partial: (5, 10),
        sheaf_objects: None,
        gone: &[],
        on_request: &[("maple_node", 32), ("vm_area_struct", 32)],
        sheaves: KernelSheaves::FIRST,
        obj_ext_in_slab: false,
    }
    /// Present CPUs (3286222fc609, 5.11), larger targets (23e98ad1ce89), slabs counted (b47291ef02b0).
    V5_16 "5.16" (5, 16) {
        counted: CountedCpus::Present,
        cpu_partial: Some([120, 52, 24, 6]),
        accounting: Accounting::Slabs,
        ..Self::V5_9
    }
    /// Nothing that is computed here; debug caches take one object at a time.
    V6_1 "6.1" (6, 1) { ..Self::V5_16 }
    /// The order is chosen anew (6.7), slabs are frozen late (6.8).
    V6_8 "6.8" (6, 8) {
        formula: OrderFormula::HalfWasted,
        freezing: Freezing::Delayed,
        ..Self::V6_1
    }
    /// Sheaves in caches that ask. The lock of each VMA lies in the VMA (6.15).
    V6_18 "6.18" (6, 18) {
        front: Front::SheavesOnRequest,
        gone: &["vma_lock"],
        ..Self::V6_8
    }
    /// Sheaves in all caches.
    V7_0 "7.0" (7, 0) {
        front: Front::Sheaves,
        cpu_partial: None,
        sheaf_objects: Some([60, 26, 12, 4]),
        obj_ext_in_slab: true,
        ..Self::V6_18
    }
    /// Barns on all nodes online.
    V7_1 "7.1" (7, 1) {
        sheaves: KernelSheaves { memoryless_barns: true, ..Self::V7_0.sheaves },
        ..Self::V7_0
    }
    /// What a refill does not need of a slab returns to the slab at once (ba7425312607).
    V7_2 "7.2" (7, 2) {
        sheaves: KernelSheaves { surplus_is_freed: false, ..Self::V7_1.sheaves },
        ..Self::V7_1
    }
    /// Nothing that is computed here: sheaves are allocated without waking reclaim.
    V7_3 "7.3" (7, 3) { ..Self::V7_2 }
}

/// The releases, oldest first.
pub static RELEASES: &[Release] = ROWS;

/// How many of them have CPU slabs: they are the first.
const NR_WITH_CPU_SLABS: usize = {
    let mut nr = 0;
    while nr < ROWS.len() && ROWS[nr].cpu_partial.is_some() {
        nr += 1;
    }
    nr
};

/// The names of [`Release::with_cpu_slabs`].
pub const CPU_SLAB_RELEASES: [&str; NR_WITH_CPU_SLABS] = {
    let mut names = [""; NR_WITH_CPU_SLABS];
    let mut nth = 0;
    while nth < NR_WITH_CPU_SLABS {
        names[nth] = ROWS[nth].name;
        nth += 1;
    }
    names
};

/// What a version between two rows has of the younger one already.
pub struct Early {
    from: (u32, u32),
    to: (u32, u32),
    /// As a setting of a replay.
    pub setting: &'static str,
    /// In words.
    pub why: &'static str,
}

static EARLY: [Early; 2] = [
    Early {
        from: (5, 11),
        to: (5, 15),
        setting: "counted_cpus=present",
        why: "present CPUs count from 5.11 on",
    },
    Early {
        from: (6, 7),
        to: (6, 7),
        setting: "order_formula=half_wasted",
        why: "the order is chosen as in 6.8 from 6.7 on",
    },
];

impl Release {
    /// The newest row that is not above a version; `None` if all are.
    #[must_use]
    pub fn at_most(version: (u32, u32)) -> Option<&'static Release> {
        RELEASES.iter().rev().find(|release| release.version <= version)
    }

    /// What a version has of the row after its own already.
    pub fn earlies(version: (u32, u32)) -> impl Iterator<Item = &'static Early> {
        EARLY.iter().filter(move |early| (early.from..=early.to).contains(&version))
    }

    /// Those with CPU slabs: an option that takes one has its number here.
    #[must_use]
    pub fn with_cpu_slabs() -> &'static [Release] {
        &RELEASES[..NR_WITH_CPU_SLABS]
    }

    /// The number, among those with CPU slabs, of the one that a version such as "6.12" follows;
    /// `None` if the version has no CPU slabs, or is older than all.
    #[must_use]
    pub fn number_with_cpu_slabs(text: &str) -> Option<u64> {
        let version = version_of(text).filter(|version| Front::at(*version) != Front::Sheaves)?;
        let number = Release::with_cpu_slabs().iter().rposition(|row| row.version <= version)?;
        Some(number as u64)
    }
}

words! { OrderFormula:
    "fewer_objects" => FewerObjects,
    "half_wasted" => HalfWasted,
}

words! { CountedCpus:
    "possible" => Possible,
    "present" => Present,
}

words! { Front:
    "cpu_slabs" => CpuSlabs,
    "sheaves_on_request" => SheavesOnRequest,
    "sheaves" => Sheaves,
}

impl OrderFormula {
    /// Its word.
    #[must_use]
    pub fn name(self) -> &'static str {
        crate::words::name(Self::WORDS, &self)
    }
}

impl Front {
    /// That of a version, of whatever age: before the first row CPUs had slabs, too.
    #[must_use]
    pub fn at(version: (u32, u32)) -> Front {
        Release::at_most(version).map_or(Front::CpuSlabs, |release| release.front)
    }

    /// Its word.
    #[must_use]
    pub fn name(self) -> &'static str {
        crate::words::name(Self::WORDS, &self)
    }
}

/// Major and minor number at a text's begin, before which `linux-` may stand.
#[must_use]
pub fn version_of(text: &str) -> Option<(u32, u32)> {
    let text = text.trim();
    let (major, rest) = text.strip_prefix("linux-").unwrap_or(text).split_once('.')?;
    let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    Some((major.parse().ok()?, rest[..digits].parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_typed_with_linux_before_it_or_without() {
        for text in ["6.12", "linux-6.12", " linux-6.12.107+deb13\n"] {
            assert_eq!(version_of(text), Some((6, 12)), "{text}");
        }
        for text in ["linux", "linux-", "linux-6", "linux 6.12", "-6.12"] {
            assert_eq!(version_of(text), None, "{text}");
        }
    }

    #[test]
    fn a_version_has_the_cpu_slabs_of_the_row_below_it() {
        let followed = |text| {
            let number = Release::number_with_cpu_slabs(text)?;
            Some(CPU_SLAB_RELEASES[number as usize])
        };
        for (text, row) in
            [("5.9", "5.9"), ("5.15", "5.9"), ("linux-6.12", "6.8"), ("6.19", "6.18")]
        {
            assert_eq!(followed(text), Some(row), "{text}");
        }
        for text in ["7.0", "7.1", "5.8", "six"] {
            assert_eq!(followed(text), None, "{text}");
        }
        let fronts = [
            ((4, 4), Front::CpuSlabs),
            ((6, 19), Front::SheavesOnRequest),
            ((7, 0), Front::Sheaves),
        ];
        assert!(fronts.iter().all(|(version, front)| Front::at(*version) == *front));
    }

    #[test]
    fn presets_are_in_order_and_named_by_their_version() {
        assert!(RELEASES.is_sorted_by_key(|release| release.version));
        assert!(RELEASES.iter().all(|release| version_of(release.name) == Some(release.version)));
        let after = &RELEASES[NR_WITH_CPU_SLABS..];
        assert!(after.iter().all(|release| release.cpu_partial.is_none()));
    }
}
