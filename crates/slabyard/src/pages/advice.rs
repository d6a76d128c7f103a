//! Advises the kernel against huge pages for sparse extents. An extent is the 2 MiB of one huge
//! page; it is sparse if some of its pages were given back to the kernel while others are in use.
//!
//! If transparent huge pages are enabled everywhere, `khugepaged` would fill such an extent again
//! within minutes, and the pages that were given back would be resident again. So the page heap
//! advises the kernel against huge pages for a sparse extent, and withdraws the advice once all of
//! it is free.
//!
//! Neighbouring extents with different advice are separate mappings, of which a process may have 65
//! 530 (`vm.max_map_count`): so the number of such borders is bounded.
//!
//! After all but each 2000th object of a 300 MB heap were freed, a trim left 10 MiB resident; some
//! seconds later 282 MiB were (glibc: 4 and 289). With the advice 10 MiB remain (cdfef7f,
//! `ci/collapse-by-hand`).
//!
//! Neighbours: [`super::purge`] reports which pages it gave back; [`super::huge`] decides whether
//! the region's first pages may be huge, before the program touches them.

use crate::platform::Platform;
use crate::sync::{AtomicBool, AtomicU16, Lock, Ordering, Rank};
use crate::table::Table;

/// Most borders between extents with different advice.
pub const MOST_BORDERS: usize = 8192;

/// Not advised, advised against huge pages, and advised for them.
pub const NONE: u16 = 0;
pub const SMALL: u16 = 1;
pub const LARGE: u16 = 2;

/// The advice that the kernel has.
pub(crate) struct Advice {
    pub(super) given: Lock<Given>,
    /// Some extent was advised against.
    pub(crate) any: AtomicBool,
}

pub struct Given {
    /// The advice for each extent; reserved when it is needed.
    extents: Table<AtomicU16>,
    nr_borders: usize,
}

impl Advice {
    pub(super) const fn new() -> Self {
        Advice { given: Lock::new(Rank::Advice, Given::new()), any: AtomicBool::new(false) }
    }

    /// In the child of a fork: nobody gives advice.
    pub(super) fn abandon(&self) {
        self.given.abandon();
    }
}

impl Given {
    /// No advice.
    #[allow(clippy::new_without_default, reason = "it is for a constant")]
    pub const fn new() -> Self {
        Given { extents: Table::new(), nr_borders: 0 }
    }

    /// Borders between extents with different advice.
    pub fn nr_borders(&self) -> usize {
        self.nr_borders
    }

    /// Makes room for the advice for `nr` extents of `capacity`.
    pub fn ensure<P: Platform>(&self, p: &P, nr: usize, capacity: usize) -> bool {
        (self.extents.base() != 0 || self.extents.reserve(p, capacity))
            && self.extents.ensure(p, nr)
    }

    pub(crate) fn get(&self, nth: usize) -> u16 {
        if nth < self.extents.len() { self.extents.get(nth).load(Ordering::Relaxed) } else { NONE }
    }

    /// Records the advice for an extent, for which there is room; false if there would be too
    /// many borders.
    pub fn set(&mut self, nth: usize, what: u16) -> bool {
        let sides = [self.get(nth.wrapping_sub(1)), self.get(nth + 1)];
        let borders = |what| sides.iter().filter(|side| **side != what).count();
        let nr_borders = self.nr_borders + borders(what) - borders(self.get(nth));
        let fits = nr_borders <= MOST_BORDERS;
        if fits {
            self.extents.get(nth).store(what, Ordering::Relaxed);
            self.nr_borders = nr_borders;
        }
        fits
    }
}
