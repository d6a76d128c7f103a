//! Checks free pages: a program that wrote to one used a stale pointer or overran an object.
//!
//! ```text
//! never used ----------------------------------------+
//!                                                    v
//! slab or run --ended or freed, given back--> clean: zeros --taken--> looked at --> slab or run
//! ```
//!
//! A free page that is clean reads as zeros, which saves `calloc` the zeroing. With debugging, the
//! pages of a discarded slab or a freed large block are given back to the kernel at once, so that
//! they become clean too ([`PageHeap::free_clean`]). Clean pages are checked when they are used
//! again, and by a check of all objects (`crate::verify`). A write to a dirty page is not detected;
//! such pages come from caches without debugging.
//!
//! Invariant: no lock is held while a finding is reported; pages allocated meanwhile are not
//! reported.

use crate::pages::finding::{By, Bytes, Finding, FindingKind};
use crate::pages::{GranuleKind, PageHeap};
use crate::platform::{GRANULE, Platform};

/// The first byte of a free granule, or of one just taken, that is not zero.
fn first_written<P: Platform>(heap: &PageHeap<P>, granule: u32) -> Option<(usize, u8)> {
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

/// Looks at the clean free pages; reports what is written there, and restores it. Returns how
/// many pages were wrong.
pub fn look_at_unused<P: Platform>(heap: &PageHeap<P>) -> u64 {
    let region = &heap.region;
    let (mut at, mut wrong) = (heap.platform.page_bytes() / GRANULE, 0);
    while at < region.top() {
        let Some(granules) = free_block_at(heap, at) else {
            at += 1;
            continue;
        };
        for granule in at..at + granules {
            wrong += u64::from(is_wrong(heap, at, granules, granule));
        }
        at += granules;
    }
    wrong
}

/// Granules of the free block that begins at one.
fn free_block_at<P: Platform>(heap: &PageHeap<P>, at: usize) -> Option<usize> {
    let descriptor = heap.region.descriptor(at as u32);
    (descriptor.kind() == GranuleKind::Free).then(|| 1 << descriptor.order())
}

/// True, and reported, if a clean granule of a free block holds anything.
fn is_wrong<P: Platform>(
    heap: &PageHeap<P>,
    block: usize,
    granules: usize,
    granule: usize,
) -> bool {
    let is_clean =
        || free_block_at(heap, block) == Some(granules) && heap.region.dirty_in(granule, 1) == 0;
    let written = || first_written(heap, granule as u32);
    // It may have been taken, used and given back meanwhile: then it reads as zeros again.
    if !is_clean() || written().is_none() || !is_clean() {
        return false;
    }
    let Some(byte) = written().filter(|_| is_clean()) else { return false };
    report_written(heap, By::Look, granule as u32, byte);
    true
}

/// Reports a byte of a free granule, and makes it zeros again.
#[cold]
fn report_written<P: Platform>(
    heap: &PageHeap<P>,
    by: By,
    granule: u32,
    (first, found): (usize, u8),
) {
    let address = heap.region.address(granule);
    heap.reports.finding(|| Finding {
        what: FindingKind::Unused,
        by,
        slot: Finding::NO_SLOT,
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
    // SAFETY: as in `first_written`; whoever takes it finds zeros.
    unsafe { heap.platform.fill(address, GRANULE, 0) };
}
