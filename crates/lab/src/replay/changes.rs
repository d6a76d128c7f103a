//! The slabs that a run allocated and freed, in order of time.
//!
//! Invariant: a slab whose pages wait for RCU readers counts as freed when its pages are freed.

use super::pages::Pages;
use super::plan::Plan;
use crate::prepare::truth::Change;
use slabyard_model::cache::{KernelCache, Page};

/// Changes of the number of slabs.
#[derive(Default)]
pub(super) struct SlabChanges {
    changes: Vec<Change>,
    /// Those that come true after a grace period.
    late: Vec<Change>,
    /// Slabs of all caches, more than at the start.
    slabs: i64,
    most_slabs: i64,
    /// Steps after which they were that many first.
    peak: usize,
}

/// A call to a cache.
#[derive(Clone, Copy)]
pub(super) struct Call {
    pub(super) cache: u16,
    pub(super) cpu: usize,
    pub(super) time_ns: u64,
}

impl SlabChanges {
    /// Notes the slabs that a call began and ended.
    pub(super) fn note(
        &mut self,
        plan: &Plan<'_>,
        cache: &mut KernelCache,
        call: Call,
        pages: &mut Option<Pages>,
    ) {
        let number = usize::from(call.cache);
        let delay = plan.prepared.caches[number].return_delay_ns;
        if let Some(pages) = pages {
            pages.follow(cache, call.cache, plan.orders[number], call.cpu);
        }
        for page in cache.take_pages() {
            let (time_ns, by) = match page {
                Page::New(_) => (call.time_ns, 1),
                Page::Freed(_) => (plan.prepared.grace.end(call.time_ns, delay), -1),
            };
            let change = Change { time_ns, cache: call.cache, by };
            self.slabs += i64::from(by);
            if delay == 0 || by > 0 { &mut self.changes } else { &mut self.late }.push(change);
        }
    }

    /// Notes those that an event of the machine ended.
    pub(super) fn note_all(
        &mut self,
        plan: &Plan<'_>,
        caches: &mut [KernelCache],
        time_ns: u64,
        pages: &mut Option<Pages>,
    ) {
        // Work of its kind runs on any CPU that is there.
        let cpu = plan.there_at_start().iter().position(|there| *there).unwrap_or(0);
        for (number, cache) in (0u16..).zip(caches) {
            self.note(plan, cache, Call { cache: number, cpu, time_ns }, pages);
        }
    }

    /// This many steps are done: notes whether there are more slabs than ever before.
    pub(super) fn note_peak(&mut self, done: usize) {
        if self.slabs > self.most_slabs {
            (self.most_slabs, self.peak) = (self.slabs, done);
        }
    }

    /// All changes, and the steps after which there were the most slabs first.
    pub(super) fn sorted(mut self) -> (Vec<Change>, usize) {
        self.changes.append(&mut self.late);
        self.changes.sort_by_key(|change| change.time_ns);
        (self.changes, self.peak)
    }
}
