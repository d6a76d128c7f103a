//! Free pages: a program that writes there used a stale pointer, or wrote far past an object.
//!
//! ```text
//! never used ----------------------------------------+
//!                                                    v
//! slab or run --ended or freed, given back--> clean: zeros --taken--> looked at --> slab or run
//! ```
//!
//! A free page that is clean reads as zeros, which saves `calloc` the zeroing. With debugging the
//! pages of a discarded slab or a freed large block are given back to the kernel at once, so that
//! they become clean too ([`PageHeap::free_clean`]). Clean pages are checked when they are used
//! again, and by a check of all objects (`crate::verify`).
//!
//! Invariant: no lock is held while a finding is reported.

use crate::pages::PageHeap;
use crate::pages::finding::{By, Bytes, Finding, FindingKind};
use crate::platform::{GRANULE, Platform};
use crate::sync::Ordering;

/// The slot in findings of no cache.
const SLOT: u16 = 0;

/// The first byte of a free granule, or of one just taken, that is not zero.
pub fn first_written<P: Platform>(heap: &PageHeap<P>, granule: u32) -> Option<(usize, u8)> {
    // SAFETY: it is committed, and stays so.
    unsafe { heap.platform.first_other(heap.region.address(granule), GRANULE, 0) }
}

/// Looks at the clean granules of a run that was just taken; reports what is written there, and
/// restores it.
pub fn look_at_taken<P: Platform>(heap: &PageHeap<P>, first: u32, granules: usize) {
    for granule in first..first + granules as u32 {
        if heap.region.dirty_in(granule as usize, 1) == 0
            && let Some(byte) = first_written(heap, granule)
        {
            report_written(heap, By::Call, granule, byte);
        }
    }
}

/// Reports a byte of a free granule, and makes it zeros again.
#[cold]
pub fn report_written<P: Platform>(
    heap: &PageHeap<P>,
    by: By,
    granule: u32,
    (first, found): (usize, u8),
) {
    let address = heap.region.address(granule);
    heap.reports.findings.fetch_add(1, Ordering::Relaxed);
    if let Some(hooks) = heap.reports.hooks.try_get() {
        (hooks.report)(&Finding {
            what: FindingKind::Unused,
            by,
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
    // SAFETY: as in `first_written`; whoever takes it finds zeros.
    unsafe { heap.platform.fill(address, GRANULE, 0) };
}
