//! Growth of a run: in place, if the granules after it are free, or by moving its pages to a
//! mapping of its own, which grows without copying.
//!
//! Neighbours: [`super::buddy`] places runs that may grow in front of free granules;
//! [`super::mappings`] records the mapping.

use super::blocks::free_from;
use super::descriptor::GranuleKind;
use super::heap::PageHeap;
use super::region::Ahead;
use crate::pages::{coalesce, nodes};
use crate::platform::{GRANULE, Platform};
use crate::sync::Ordering;

impl<P: Platform> PageHeap<P> {
    /// Grows the live run at an address in place, to this many bytes. Returns how many of its
    /// new granules are clean; `None` if what follows is in use.
    pub fn grow_run(&self, address: usize, bytes: usize) -> Option<usize> {
        let (old, new) = (self.run_bytes(address)? / GRANULE, self.granules_for(bytes));
        let index = self.region.granule_of(address)?;
        let (start, end) = (index as usize + old, index as usize + new);
        if end <= start || P::MOST_NODES > 1 && new > self.region.stripe_left(index as usize) {
            return None;
        }
        let clean = self.take_at(start, end).or_else(|| {
            self.extend(start, end)?;
            self.take_at(start, end)
        })?;
        let descriptor = self.region.descriptor(index);
        // Its granules will not all be dirty (`super::bank`). First: the child of a fork in between
        // finds one of both, and checks.
        descriptor.set(GranuleKind::Run, 0, 0);
        descriptor.granules.store(new as u32, Ordering::Release);
        self.buddy.run_granules.fetch_add(new - old, Ordering::Relaxed);
        Some(clean)
    }

    /// Takes a range behind a run, if it is free; returns how many of its granules are clean.
    fn take_at(&self, start: usize, end: usize) -> Option<usize> {
        let mut lists = coalesce::all_lists(self);
        if free_from(&self.region, start, end - start, usize::MAX) < end - start {
            return None;
        }
        let dirty = self.region.dirty_in(start, end - start);
        lists.cut(&self.region, start, start, end);
        Some(end - start - dirty)
    }

    /// Grows the region beyond `end`, if all granules behind `start` are free.
    fn extend(&self, start: usize, end: usize) -> Option<()> {
        let region = &self.region;
        let growing = region.growing(&self.platform);
        let lists = coalesce::all_lists(self);
        let top = region.top();
        let is_last = start + free_from(region, start, top - start, usize::MAX) == top;
        drop(lists);
        if !is_last || end <= top {
            return None;
        }
        let unit = self.platform.page_bytes() / GRANULE;
        let (old, _, new) =
            region.grow(&self.platform, &growing, end - top, unit, Ahead::All, None)?;
        nodes::bind_new(self, old, new);
        let now = self.platform.now_ms() as u32;
        nodes::free_new(self, &mut self.buddy.lock(&self.platform), old, new, now);
        Some(())
    }

    /// Moves the pages of the live run at an address to a mapping of its own, of this many
    /// bytes; returns its address. The run is then free, and reads as zero. On `None` the run
    /// is unchanged.
    pub fn move_run_out(&self, address: usize, bytes: usize) -> Option<usize> {
        let have = self.run_bytes(address)?;
        let index = self.region.granule_of(address)?;
        let moved = self.mappings.map_with(&self.platform, bytes, |bytes| {
            self.platform.move_out(address, have, bytes)
        })?;
        let granules = have / GRANULE;
        self.region.descriptor(index).set(GranuleKind::None, 0, 0);
        self.buddy.nr_runs.fetch_sub(1, Ordering::Relaxed);
        self.buddy.run_granules.fetch_sub(granules, Ordering::Relaxed);
        let start = index as usize;
        self.region.set_dirty(start, granules, false);
        let now = self.platform.now_ms() as u32;
        let mut lists = self.buddy.lock(&self.platform);
        lists.free_range(&self.region, start, start + granules, false, now);
        Some(moved)
    }
}
