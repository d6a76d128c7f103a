//! Pages that nobody had: what a program writes far behind an object may lie there.
//!
//! A free page that is clean reads as zeros, by which `calloc` saves work. With debugging a look
//! through all objects looks at these pages as well; what is written to a free page that was used
//! before is not seen.
//!
//! Neighbour: [`super::debugging`] looks at objects. Invariant: no lock is held, and what others
//! take meanwhile is no finding.

use crate::engine::Engine;
use crate::guarded::SLOT;
use crate::pages::Kind;
use crate::pages::finding::{By, Bytes, Finding, What};
use crate::platform::{GRANULE, Platform};
use crate::sync::Ordering;
use crate::yard::Yard;

impl<P: Platform, E: Engine> Yard<P, E> {
    /// Looks at the clean free pages; reports what is written there, and restores it. Returns how
    /// many pages were wrong.
    pub(super) fn look_at_unused(&self) -> u64 {
        let region = &self.heap.region;
        let (mut at, mut wrong) = (self.platform().page_bytes() / GRANULE, 0);
        while at < region.top() {
            let Some(granules) = self.free_block_at(at) else {
                at += 1;
                continue;
            };
            for granule in at..at + granules {
                wrong += u64::from(self.is_wrong(at, granules, granule));
            }
            at += granules;
        }
        wrong
    }

    /// Granules of the free block that begins at one.
    fn free_block_at(&self, at: usize) -> Option<usize> {
        let descriptor = self.heap.region.descriptor(at as u32);
        (descriptor.kind() == Kind::Free).then(|| 1 << descriptor.order())
    }

    /// True, and reported, if a clean granule of a free block holds anything.
    fn is_wrong(&self, block: usize, granules: usize, granule: usize) -> bool {
        let address = self.heap.region.address(granule as u32);
        let is_clean = || {
            self.free_block_at(block) == Some(granules)
                && self.heap.region.dirty_in(granule, 1) == 0
        };
        // SAFETY: a free block is committed, and stays so.
        let other = || unsafe { self.platform().first_other(address, GRANULE, 0) };
        // It may have been taken, used and given back meanwhile: then it reads as zeros again.
        if !is_clean() || other().is_none() || !is_clean() {
            return false;
        }
        let Some((first, found)) = other().filter(|_| is_clean()) else { return false };
        self.heap.findings.fetch_add(1, Ordering::Relaxed);
        if let Some(hooks) = self.heap.hooks.try_get() {
            (hooks.report)(&Finding {
                what: What::Unused,
                by: By::Look,
                slot: SLOT,
                slab: address,
                slab_bytes: GRANULE,
                objects: [0, 0],
                object: address,
                object_bytes: GRANULE as u32,
                requested: 0,
                pointer: address,
                bytes: Some(Bytes { first, last: first, found, expected: 0 }),
                allocated: None,
                freed: None,
            });
        }
        // SAFETY: as above; whoever takes it finds zeros.
        unsafe { self.platform().fill(address, GRANULE, 0) };
        true
    }
}
