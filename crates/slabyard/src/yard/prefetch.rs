//! What a slow path will ask and write, asked for at its entry: it comes rarely, and finds
//! little of that in the cache. Each locked instruction on its way waits for the misses
//! before it, so that they would come one after the other.

use super::Yard;
use crate::engine::slub::Cache;
use crate::platform::Platform;
use crate::sync::{fetch_to_read, fetch_to_write};

impl<P: Platform> Yard<P> {
    /// For an allocation: the words of the yard and of its cache.
    #[inline]
    pub(super) fn fetch_for_alloc(&self, class: Option<usize>) {
        let buddy = &self.heap.buddy;
        let words = [
            self.interval.as_ptr() as usize,
            self.open.as_ptr() as usize,
            self.backlog.as_ptr() as usize,
            self.last_tick.as_ptr() as usize,
            core::ptr::from_ref(&self.rate) as usize,
            core::ptr::from_ref(&self.gate) as usize,
            core::ptr::from_ref(buddy) as usize,
            buddy.freed_at(),
        ];
        words.into_iter().for_each(fetch_to_read);
        if let Some(class) = class {
            let cache = core::ptr::from_ref(&self.caches[class]) as usize;
            // Steps whose number is known are written out.
            const LINES: usize = size_of::<Cache>().div_ceil(64);
            (0..LINES).for_each(|line| fetch_to_write(cache + 64 * line));
        }
    }

    /// For a free: these, and what it will write if its object goes straight home, the
    /// descriptor where its slab or run begins.
    #[inline]
    pub(super) fn fetch_for_free(&self, class: Option<usize>, address: usize) {
        self.fetch_for_alloc(class);
        let heap = &self.heap;
        let descriptor = match class.map(|class| self.caches[class].shape()) {
            None => heap.region.granule_of(address),
            Some(shape) => shape.may_bypass().then(|| heap.slab_at(&shape.geometry, address)),
        };
        if let Some(descriptor) = descriptor {
            heap.region.fetch_descriptor_ahead(descriptor);
        }
    }
}
