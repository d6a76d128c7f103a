//! What a kernel's release says about the meaning of its numbers: whether the kernel has CPU slabs,
//! and whether it has sheaves.
//!
//! Neighbours: [`crate::hidden`] asks which objects may be free although they count as active,
//! [`crate::kernel`] asks which sysfs files are meaningful, [`crate::layout`] what an object takes.

use slabyard_kernels::{Front, version_of};
use std::fmt;

/// The first two numbers of a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Release {
    major: u32,
    minor: u32,
}

impl Release {
    /// From what `uname -r` prints, such as "6.12.107+deb13-amd64".
    pub(crate) fn parse(text: &str) -> Option<Release> {
        version_of(text).map(|(major, minor)| Release { major, minor })
    }

    pub(crate) fn is_at_least(self, major: u32, minor: u32) -> bool {
        self >= Release { major, minor }
    }

    /// CPU slabs and CPU partial lists.
    pub(crate) fn has_cpu_slabs(&self) -> bool {
        Front::at((self.major, self.minor)) != Front::Sheaves
    }

    /// Sheaves, in some caches or in all.
    pub(crate) fn has_sheaves(&self) -> bool {
        Front::at((self.major, self.minor)) != Front::CpuSlabs
    }
}

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_read_and_ordered() {
        let read = |text| Release::parse(text).map(|r| (r.to_string(), r.has_cpu_slabs()));
        assert_eq!(read("5.10.0-32-cloud-amd64"), Some(("5.10".into(), true)));
        assert_eq!(read("7.1-rc3\n"), Some(("7.1".into(), false)));
        assert_eq!(read("linux"), None);
        let sheaves = |text| Release::parse(text).unwrap().has_sheaves();
        assert!(!sheaves("6.9.1") && !sheaves("5.19") && sheaves("6.18.0") && sheaves("7.0"));
    }
}
