//! The kernel's rules by release, machine and settings.
//!
//! [`RELEASES`] of `slabyard-kernels` is the one table of what changed between kernel releases;
//! [`Settings`] combines a release, a [`Machine`] and a user's changes. [`crate::geometry`]
//! computes a cache's numbers from these rules, [`crate::snapshot`] reports which rules a real
//! kernel had. Invariant: `Settings::validate` alone decides which settings are possible; for
//! these, `geometry` computes without overflow.

mod here;
mod keys;
mod nodes;
mod settings;

pub use here::running_kernel;
pub use nodes::{NodeSet, count_and_last, ranges};
pub use settings::{SLAB_REMOVED, SettingError, Settings, SizeRule, Slab};
pub use slabyard_kernels::{
    Accounting, Bands, CountedCpus, Freezing, Front, OrderFormula, PageLists, RELEASES, Release,
    version_of,
};

use thiserror::Error;

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

/// The newest preset that is not above a version such as "6.12.107+deb13", and
/// the words that tell people so where it is not that very version.
///
/// # Errors
/// What is no version, or an older one than all presets.
pub fn find_release(text: &str) -> Result<(&'static Release, Option<String>), VersionError> {
    let version = version_of(text).ok_or_else(|| VersionError::NotAVersion(text.into()))?;
    let release = Release::at_most(version).ok_or_else(|| VersionError::TooOld(text.into()))?;
    let mut note = (release.version != version)
        .then(|| format!("kernel {text} follows the preset {}", release.name));
    if let Some(note) = &mut note {
        for early in Release::earlies(version) {
            note.push_str(&format!("; {}", early.why));
        }
    }
    Ok((release, note))
}

fn preset_names() -> String {
    RELEASES.iter().map(|r| r.name).collect::<Vec<_>>().join(", ")
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
    /// Those of them that have no memory, but CPUs alone.
    pub memoryless: NodeSet,
    /// Bytes of memory; 0 if unknown.
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
            memoryless: NodeSet::NONE,
            memory_bytes: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_finds_the_newest_preset_not_above_it() {
        for (version, preset) in [
            ("5.9", "5.9"),
            ("5.15.16", "5.9"),
            ("6.0.1", "5.16"),
            ("6.12.107+deb13-powerpc64le-64k", "6.8"),
            ("6.18.44-fc-v669", "6.18"),
            ("7.0-rc1", "7.0"),
            ("12.4", RELEASES[RELEASES.len() - 1].name),
        ] {
            assert_eq!(find_release(version).unwrap().0.name, preset, "{version}");
        }
        assert_eq!(find_release("6.18").unwrap().1, None);
        let note = find_release("5.15.3").unwrap().1.unwrap();
        assert!(note.contains("preset 5.9; present CPUs count"), "{note}");
    }

    #[test]
    fn what_is_no_version_says_what_would_be() {
        for text in ["", "6", "six.one", "6.", "-6.1", "x6.1"] {
            let error = find_release(text).unwrap_err().to_string();
            assert!(error.contains("5.9, 5.16, 6.1, 6.8, 6.18, 7.0, 7.1, 7.2, 7.3"), "{error}");
        }
        assert_eq!(find_release("4.19.3"), Err(VersionError::TooOld("4.19.3".into())));
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
