//! Per-CPU page lists in front of the buddy allocator, of a selectable kind: a kernel's, or the
//! yard's own.
//!
//! `slabyard_kernels::page_lists` defines the kinds and their limits; [`policy`] allocates and
//! frees by them, on a yard's lists (`on_cpus`) or a modelled kernel's (in the crate
//! `slabyard-model`).
//!
//! A yard uses these lists only if a kind was [chosen](choose), on a platform that [has
//! them](slabyard::platform::Platform::HAS_PAGE_LISTS). Otherwise it uses
//! [`slabyard::pages::percpu`].
#![no_std]
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod on_cpus;
pub mod policy;

use on_cpus::{CpuPageLists, MOST_RUNS, page_order};
use slabyard::pages::PageHeap;
use slabyard::pages::heap::{ChosenLists, CountFn};
use slabyard::platform::Platform;
use slabyard_kernels::PageLists;
use slabyard_kernels::page_lists::{Rules, Warmth, Zone};

/// Chooses the page lists, in front of a yard that is as much memory as a zone of this many
/// bytes. Call it once the platform is ready, before the first page is asked for; false if
/// they are chosen already, or the platform has no choice.
pub fn choose<P: Platform>(heap: &PageHeap<P>, kind: PageLists, zone_bytes: u64) -> bool {
    let (page, cpus) = (heap.platform.page_bytes() as u64, heap.platform.rows().len() as u64);
    let rules = Rules::new(kind, &Zone::of(zone_bytes, page, cpus), MOST_RUNS);
    heap.choose_lists(ChosenLists { rules, take, free })
}

/// As [`PageHeap::take_block`], from the lists that were chosen; `count` keeps what they count.
pub fn take<P: Platform>(
    heap: &PageHeap<P>,
    order: u32,
    warmth: Warmth,
    count: CountFn<'_>,
) -> Option<u32> {
    let Some(ChosenLists { rules, .. }) = heap.page_lists() else { return heap.take_block(order) };
    let on = CpuPageLists { heap, rules, count };
    policy::alloc(on, order - page_order(&heap.platform), warmth)
}

/// As [`PageHeap::free_block`], to the lists that were chosen.
pub fn free<P: Platform>(
    heap: &PageHeap<P>,
    index: u32,
    order: u32,
    warmth: Warmth,
    count: CountFn<'_>,
) {
    let Some(ChosenLists { rules, .. }) = heap.page_lists() else {
        return heap.free_block(index, order);
    };
    let on = CpuPageLists { heap, rules, count };
    policy::free(on, order - page_order(&heap.platform), index, warmth);
}
