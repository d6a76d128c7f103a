//! The kernel's rules: which release decides what, on which machine, with which
//! settings.
//!
//! [`RELEASES`] is the one table of what changed between kernel releases;
//! [`Settings`] is a release, a [`Machine`] and what was changed by hand.
//! Neighbours: [`crate::geometry`] computes a cache's numbers from these,
//! [`crate::snapshot`] says which of these a real kernel had.
//! Invariant: `Settings::validate` is the only judge of what is possible; what it
//! lets pass, `geometry` computes without overflow.

mod here;
mod keys;
mod settings;

pub use here::running_kernel;
pub use keys::{Key, keys};
pub use settings::{SettingError, Settings, SizeRule, Slab};
pub use slabyard::engine::cpu_slabs::{Accounting, Bands, Freezing};
pub use slabyard::pages::lists::PageLists;

use slabyard::engine::cpu_slabs::Preset;
use thiserror::Error;

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
    /// 6.18 and 6.19: the same, behind sheaves in caches that ask for them.
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
    /// CPUs that count for it.
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
    /// Objects in a sheaf before its memory is rounded up to a size class; `None`:
    /// what the cache asks for.
    pub sheaf_objects: Option<Bands>,
}

/// `mm/slub.c` as of 5.9. The rows below say what they change.
const V5_9: Release = Release {
    name: "5.9",
    version: (5, 9),
    formula: OrderFormula::FewerObjects,
    counted: CountedCpus::Possible,
    max_order: 3,
    order_limit: 10,
    cpu_partial: Some(Preset::V5_9.cpu_partial),
    accounting: Preset::V5_9.accounting,
    freezing: Preset::V5_9.freezing,
    front: Front::CpuSlabs,
    min_partial: (5, 10),
    sheaf_objects: None,
};
/// Present CPUs (3286222fc609, 5.11), larger targets (23e98ad1ce89), slabs
/// counted (b47291ef02b0).
const V5_16: Release = Release {
    name: "5.16",
    version: (5, 16),
    counted: CountedCpus::Present,
    cpu_partial: Some(Preset::V5_16.cpu_partial),
    accounting: Preset::V5_16.accounting,
    ..V5_9
};
/// Nothing that is computed here; debug caches take one object at a time.
const V6_1: Release = Release { name: "6.1", version: (6, 1), ..V5_16 };
/// The order is chosen anew (6.7), slabs are frozen late (6.8).
const V6_8: Release = Release {
    name: "6.8",
    version: (6, 8),
    formula: OrderFormula::HalfWasted,
    freezing: Preset::V6_8.freezing,
    ..V6_1
};
/// Sheaves in caches that ask.
const V6_18: Release =
    Release { name: "6.18", version: (6, 18), front: Front::SheavesOnRequest, ..V6_8 };
/// Sheaves in all caches (7.0), barns on all nodes online (7.1).
const V7_1: Release = Release {
    name: "7.1",
    version: (7, 1),
    front: Front::Sheaves,
    cpu_partial: None,
    sheaf_objects: Some([60, 26, 12, 4]),
    ..V6_18
};

/// The presets, oldest first.
pub static RELEASES: [Release; 6] = [V5_9, V5_16, V6_1, V6_8, V6_18, V7_1];

/// What a release between two presets has of the younger one already.
struct Early {
    from: (u32, u32),
    to: (u32, u32),
    setting: &'static str,
    why: &'static str,
}

const EARLY: [Early; 4] = [
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
    Early {
        from: (7, 0),
        to: (7, 0),
        setting: "front=sheaves",
        why: "all caches have sheaves from 7.0 on",
    },
    Early {
        from: (7, 0),
        to: (7, 0),
        setting: "sheaf_capacity=0:60,256:28,1024:12,page:4",
        why: "sheaves have the sizes of 7.1 from 7.0 on",
    },
];

/// A kernel version that has no preset.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum VersionError {
    /// No two numbers with a dot.
    #[error("`{}` is no kernel version; give one such as 6.12 (presets: {})", .0, preset_names())]
    NotAVersion(String),
    /// Older than all presets.
    #[error("kernel {} is older than the oldest preset (presets: {})", .0, preset_names())]
    TooOld(String),
}

impl Release {
    /// The newest preset that is not above a version such as "6.12.107+deb13", and
    /// the words that tell people so where it is not that very version.
    ///
    /// # Errors
    /// What is no version, or an older one than all presets.
    pub fn find(text: &str) -> Result<(&'static Release, Option<String>), VersionError> {
        let version = version_of(text).ok_or_else(|| VersionError::NotAVersion(text.into()))?;
        let below = RELEASES.iter().rev().find(|r| r.version <= version);
        let release = below.ok_or_else(|| VersionError::TooOld(text.into()))?;
        let mut note = (release.version != version)
            .then(|| format!("kernel {text} follows the preset {}", release.name));
        if let Some(note) = &mut note {
            for early in earlies(version) {
                note.push_str(&format!("; {}", early.why));
            }
        }
        Ok((release, note))
    }
}

fn earlies(version: (u32, u32)) -> impl Iterator<Item = &'static Early> {
    EARLY.iter().filter(move |e| (e.from..=e.to).contains(&version))
}

fn preset_names() -> String {
    RELEASES.iter().map(|r| r.name).collect::<Vec<_>>().join(", ")
}

/// Major and minor number at a text's begin.
pub fn version_of(text: &str) -> Option<(u32, u32)> {
    let (major, rest) = text.trim().split_once('.')?;
    let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    Some((major.parse().ok()?, rest[..digits].parse().ok()?))
}

/// What the rules know of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Machine {
    /// Bytes of a page.
    pub page_size: u32,
    /// CPUs that may ever be there (`nr_cpu_ids`).
    pub possible_cpus: u32,
    /// CPUs that are plugged in.
    pub present_cpus: u32,
    /// CPUs that run.
    pub online_cpus: u32,
    /// Memory nodes.
    pub nodes: u32,
    /// Bytes of memory; 0 if not told.
    pub memory_bytes: u64,
}

impl Machine {
    /// One node, and all CPUs there and running.
    #[must_use]
    pub const fn new(page_size: u32, cpus: u32) -> Machine {
        Machine {
            page_size,
            possible_cpus: cpus,
            present_cpus: cpus,
            online_cpus: cpus,
            nodes: 1,
            memory_bytes: 0,
        }
    }
}

/// Reads the kernel's lists of CPUs and nodes: "0-3,8" is 5 of them, the last of
/// which is number 8.
#[must_use]
pub fn count_and_last(list: &str) -> Option<(u32, u32)> {
    let (mut count, mut last) = (0u32, 0u32);
    for range in list.trim().split(',') {
        let (low, high) = range.split_once('-').unwrap_or((range, range));
        let (low, high): (u32, u32) = (low.parse().ok()?, high.parse().ok()?);
        if low > high || high >= 1 << 20 {
            return None;
        }
        count = count.checked_add(high - low + 1)?;
        last = last.max(high);
    }
    Some((count, last))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A yard's CPU slabs and the lab's are those of the same kernels.
    #[test]
    fn each_release_with_cpu_slabs_is_a_preset_of_them() {
        let with_cpu_slabs = RELEASES.iter().filter(|release| release.cpu_partial.is_some());
        let of_lab: Vec<Preset> = with_cpu_slabs
            .map(|release| Preset {
                name: release.name,
                freezing: release.freezing,
                accounting: release.accounting,
                cpu_partial: release.cpu_partial.expect("seen"),
            })
            .collect();
        assert_eq!(of_lab, Preset::ALL);
    }

    #[test]
    fn a_version_finds_the_newest_preset_not_above_it() {
        for (version, preset) in [
            ("5.9", "5.9"),
            ("5.15.16", "5.9"),
            ("6.0.1", "5.16"),
            ("6.12.107+deb13-powerpc64le-64k", "6.8"),
            ("6.18.44-fc-v669", "6.18"),
            ("7.0-rc1", "6.18"),
            ("12.4", "7.1"),
        ] {
            assert_eq!(Release::find(version).unwrap().0.name, preset, "{version}");
        }
        assert_eq!(Release::find("6.18").unwrap().1, None);
        let note = Release::find("5.15.3").unwrap().1.unwrap();
        assert!(note.contains("preset 5.9; present CPUs count"), "{note}");
    }

    #[test]
    fn what_is_no_version_says_what_would_be() {
        for text in ["", "6", "six.one", "6.", "-6.1", "x6.1"] {
            let error = Release::find(text).unwrap_err().to_string();
            assert!(error.contains("5.9, 5.16, 6.1, 6.8, 6.18, 7.1"), "{error}");
        }
        assert_eq!(Release::find("4.19.3"), Err(VersionError::TooOld("4.19.3".into())));
    }

    #[test]
    fn presets_are_in_order_and_named_by_their_version() {
        assert!(RELEASES.is_sorted_by_key(|r| r.version));
        assert!(RELEASES.iter().all(|r| version_of(r.name) == Some(r.version)));
    }

    #[test]
    fn lists_of_cpus_are_counted() {
        for (list, want) in [
            ("0", Some((1, 0))),
            ("0-3\n", Some((4, 3))),
            ("0-1,8,10-11", Some((5, 11))),
            ("", None),
            ("3-1", None),
            ("0-4294967295", None),
        ] {
            assert_eq!(count_and_last(list), want, "{list}");
        }
    }
}
