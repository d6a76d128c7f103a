//! Free pages ([`crate::slab::debug`]): a check of all objects also checks that the clean ones are
//! still zero.
//!
//! A write to a dirty page is not detected; such pages come from caches without debugging.
//!
//! Neighbour: [`super::debugging`] checks objects. Invariant: no lock is held, and pages that other
//! threads allocate meanwhile are not reported.

use crate::engine::Engine;
use crate::pages::GranuleKind;
use crate::pages::finding::By;
use crate::platform::{GRANULE, Platform};
use crate::slab::debug::unused;
use crate::yard::Yard;

/// Looks at the clean free pages; reports what is written there, and restores it. Returns how
/// many pages were wrong.
pub(super) fn look_at_unused<P: Platform, E: Engine>(yard: &Yard<P, E>) -> u64 {
    let region = &yard.heap.region;
    let (mut at, mut wrong) = (yard.platform().page_bytes() / GRANULE, 0);
    while at < region.top() {
        let Some(granules) = free_block_at(yard, at) else {
            at += 1;
            continue;
        };
        for granule in at..at + granules {
            wrong += u64::from(is_wrong(yard, at, granules, granule));
        }
        at += granules;
    }
    wrong
}

/// Granules of the free block that begins at one.
fn free_block_at<P: Platform, E: Engine>(yard: &Yard<P, E>, at: usize) -> Option<usize> {
    let descriptor = yard.heap.region.descriptor(at as u32);
    (descriptor.kind() == GranuleKind::Free).then(|| 1 << descriptor.order())
}

/// True, and reported, if a clean granule of a free block holds anything.
fn is_wrong<P: Platform, E: Engine>(
    yard: &Yard<P, E>,
    block: usize,
    granules: usize,
    granule: usize,
) -> bool {
    let is_clean = || {
        free_block_at(yard, block) == Some(granules) && yard.heap.region.dirty_in(granule, 1) == 0
    };
    let written = || unused::first_written(&yard.heap, granule as u32);
    // It may have been taken, used and given back meanwhile: then it reads as zeros again.
    if !is_clean() || written().is_none() || !is_clean() {
        return false;
    }
    let Some(byte) = written().filter(|_| is_clean()) else { return false };
    unused::report_written(&yard.heap, By::Look, granule as u32, byte);
    true
}
