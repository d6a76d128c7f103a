//! Page lists of a selectable kind, in front of a yard's buddy.
//!
//! Neighbours: [`super::lists`] has the kinds and the policy of a call; [`super::on_cpus`] has the
//! lists of real runs; [`super::percpu`] serves a yard for which no kind was selected.

use super::heap::PageHeap;
use super::lists::policy;
use super::lists::table::{PageLists, Rules, Warmth, Zone};
use super::on_cpus::{COLD_SLOT, CpuPageLists, MOST_RUNS, page_order};
use crate::platform::Platform;
use slabyard_abi::stats::Counter;

impl<P: Platform> PageHeap<P> {
    /// As [`PageHeap::take_block`], from the lists that were chosen; `count` keeps what they count.
    #[inline]
    pub fn take_listed(
        &self,
        order: u32,
        warmth: Warmth,
        count: impl Fn(Counter, u32),
    ) -> Option<u32> {
        match self.page_lists() {
            None => self.take_block(order),
            Some(rules) => {
                let on = CpuPageLists { heap: self, rules, count: &count };
                policy::alloc(on, order - page_order(&self.platform), warmth)
            }
        }
    }

    /// As [`PageHeap::free_block`], to the lists that were chosen.
    #[inline]
    pub fn free_listed(
        &self,
        index: u32,
        order: u32,
        warmth: Warmth,
        count: impl Fn(Counter, u32),
    ) {
        match self.page_lists() {
            None => self.free_block(index, order),
            Some(rules) => {
                let on = CpuPageLists { heap: self, rules, count: &count };
                policy::free(on, order - page_order(&self.platform), index, warmth);
            }
        }
    }
}

/// Chooses the page lists, in front of a yard that is as much memory as a zone of this many
/// bytes. Call it once the platform is ready, before the first page is asked for; false if
/// they are chosen already, or the platform has no choice.
pub fn choose<P: Platform>(heap: &PageHeap<P>, kind: PageLists, zone_bytes: u64) -> bool {
    let (page, cpus) = (heap.platform.page_bytes() as u64, heap.platform.rows().len() as u64);
    let zone = Zone::of(zone_bytes, page, cpus);
    P::HAS_PAGE_LISTS && heap.lists.set(Rules::new(kind, &zone, MOST_RUNS))
}

/// The slot of lists of cold pages, if there are any.
#[inline(always)]
pub(super) fn cold_slot<P: Platform>(heap: &PageHeap<P>) -> Option<u16> {
    let has_cold = heap.page_lists().is_some_and(Rules::has_cold_lists);
    has_cold.then_some(COLD_SLOT)
}
