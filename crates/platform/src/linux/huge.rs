//! Transparent huge pages: whether the kernel uses them for mappings that did not request them, and
//! advice for parts of a reservation (madvise(2)).

use super::calls::advise;
use crate::sync::{AtomicU32, Ordering};
use crate::sys;
use core::ffi::CStr;

/// Bytes of a huge page on x86-64; no machine has smaller ones.
pub(super) const HUGE_PAGE: usize = 2 << 20;

const MADV_HUGEPAGE: usize = 14;
const MADV_NOHUGEPAGE: usize = 15;

/// The kernel's setting: the word in brackets is in force (transhuge.rst of the kernel).
const FILE: &CStr = c"/sys/kernel/mm/transparent_hugepage/enabled";

const UNKNOWN: u32 = 0;
const EVERYWHERE: u32 = 1;
const ON_REQUEST: u32 = 2;

/// The setting, read at its first use.
pub(super) struct Setting(AtomicU32);

impl Setting {
    pub(super) const fn new() -> Self {
        Setting(AtomicU32::new(UNKNOWN))
    }

    pub(super) fn assume(&self) {
        self.0.store(EVERYWHERE, Ordering::Relaxed);
    }

    /// True if mappings that did not ask for huge pages get them too; false where the setting
    /// cannot be read.
    pub(super) fn is_everywhere(&self) -> bool {
        if self.0.load(Ordering::Relaxed) == UNKNOWN {
            let mut buffer = [0u8; 64];
            let text = sys::read_file(FILE, &mut buffer);
            let found = if text.is_some_and(says_everywhere) { EVERYWHERE } else { ON_REQUEST };
            self.0.store(found, Ordering::Relaxed);
        }
        self.0.load(Ordering::Relaxed) == EVERYWHERE
    }
}

fn says_everywhere(text: &[u8]) -> bool {
    text.starts_with(b"[always]")
}

/// Advises against huge pages from now on; those that are there stay.
pub(super) fn keep_small_pages(address: usize, bytes: usize) {
    advise(address, bytes, MADV_NOHUGEPAGE);
}

/// Takes that advice back. No advice restores a mapping to its original state; a new mapping in
/// its place would, but the memory may be lost if the kernel refuses it.
pub(super) fn allow_huge_pages(address: usize, bytes: usize) {
    advise(address, bytes, MADV_HUGEPAGE);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_word_in_brackets_is_in_force() {
        assert!(says_everywhere(b"[always] madvise never\n"));
        assert!(!says_everywhere(b"always [madvise] never\n"));
        assert!(!says_everywhere(b"always madvise [never]\n"));
        assert!(!says_everywhere(b""));
    }
}
