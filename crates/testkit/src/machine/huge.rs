//! Transparent huge pages of the modelled machine, for all memory that is not advised against them
//! (transhuge.rst of the kernel).
//!
//! Invariants: an extent of 2 MiB of which nothing is resident becomes resident as a whole at its
//! first touch; one of which something is resident, page by page. A collapse makes all of an extent
//! resident of which any page is.
//!
//! Neighbours: [`super::memory`] gives back and knows what is committed. Who uses the machine says
//! what is touched, because objects have no memory.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Bytes of a huge page, and pages of 4 KiB in it.
pub(super) const EXTENT: usize = 2 << 20;
const PAGE: usize = 4096;
const PAGES: usize = EXTENT / PAGE;

#[derive(Default)]
pub(super) struct HugePages {
    /// Which pages are resident, by the number of the extent: none has no row.
    resident: BTreeMap<usize, [bool; PAGES]>,
    /// Extents that are advised against huge pages.
    small: BTreeSet<usize>,
}

/// The pages of a range, by extents.
fn parts(address: usize, bytes: usize) -> impl Iterator<Item = (usize, Range<usize>)> {
    let end = address + bytes;
    (address / EXTENT..end.div_ceil(EXTENT)).map(move |extent| {
        let page =
            |at: usize| (at.clamp(extent * EXTENT, (extent + 1) * EXTENT) - extent * EXTENT) / PAGE;
        (extent, page(address)..page(end + PAGE - 1))
    })
}

impl HugePages {
    /// `is_whole` says of an extent's address whether all of it can be resident.
    pub fn touch(&mut self, address: usize, bytes: usize, is_whole: impl Fn(usize) -> bool) {
        for (extent, pages) in parts(address, bytes) {
            let may_be_huge = !self.small.contains(&extent) && is_whole(extent * EXTENT);
            let is_new = !self.resident.contains_key(&extent);
            let row = self.resident.entry(extent).or_insert([false; PAGES]);
            if is_new && may_be_huge { row.fill(true) } else { row[pages].fill(true) }
        }
    }

    pub fn give_back(&mut self, address: usize, bytes: usize) {
        for (extent, pages) in parts(address, bytes) {
            if let Some(row) = self.resident.get_mut(&extent) {
                row[pages].fill(false);
                if !row.contains(&true) {
                    self.resident.remove(&extent);
                }
            }
        }
    }

    /// Advises for or against huge pages in whole extents.
    pub fn advise(&mut self, address: usize, bytes: usize, huge: bool) {
        for (extent, pages) in parts(address, bytes) {
            assert_eq!(pages.len(), PAGES, "advice for a part of an extent");
            if huge {
                self.small.remove(&extent)
            } else {
                self.small.insert(extent)
            };
        }
    }

    /// What `khugepaged` does in the course of time.
    pub fn collapse(&mut self, is_whole: impl Fn(usize) -> bool) {
        for (extent, row) in &mut self.resident {
            if !self.small.contains(extent) && is_whole(extent * EXTENT) {
                row.fill(true);
            }
        }
    }

    pub fn resident_in(&self, address: usize, bytes: usize) -> usize {
        let count = |(extent, pages): (usize, Range<usize>)| {
            let row = self.resident.get(&extent)?;
            Some(row[pages].iter().filter(|page| **page).count() * PAGE)
        };
        parts(address, bytes).filter_map(count).sum()
    }
}
