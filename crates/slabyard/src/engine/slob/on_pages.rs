//! SLOB's pages in a yard: slabs of one cache, whose memory contains the blocks.
//!
//! ```text
//! | free block          | header | object              | header | object |
//! | size, next          | bytes  |                     | bytes  |        |
//! bits 1  1  1  1  1  1   1        0  1  1  1  1  1  1   1        0  1
//! ```
//!
//! A unit is 16 bytes, because every object is aligned to 16: smaller fragments could serve no
//! request. The header is one unit. The free set's bits mark where objects start, so that a free of
//! any other address is detected. Since blocks tile the page, the bits also show where each object
//! ends, so that an overwritten header is detected, too.

use super::{Lists, Overwritten, Pages, Request, page};
use crate::engine::{PageSlabs, partial};
use crate::pages::Descriptor;
use crate::platform::Platform;
use crate::slab::units::UNIT;
use crate::slab::{freeset, units};
use crate::sync::{AtomicU32, Ordering};

/// The pages of a yard.
pub(super) struct Units<'a, P> {
    pub on: PageSlabs<'a, P>,
    pub slob: &'a Slob,
}

impl<P> Clone for Units<'_, P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P> Copy for Units<'_, P> {}

impl<P: Platform> Pages for Units<'_, P> {
    type Links = Descriptor;

    #[inline]
    fn page_units(self) -> u32 {
        self.on.cache.shape().geometry.objects
    }

    #[inline]
    fn unit_bytes(self) -> u32 {
        UNIT
    }

    #[inline]
    fn get(self, page: u32, unit: u32) -> i32 {
        units::unit(self.on.heap, page, unit)
    }

    #[inline]
    fn set(self, page: u32, unit: u32, value: i32) {
        units::set_unit(self.on.heap, page, unit, value);
    }

    #[inline]
    fn free(self, page: u32) -> (u32, u32) {
        units::free_units(&self.on.heap.region, page)
    }

    #[inline]
    fn set_free(self, page: u32, units: u32, first: u32) {
        let before = units::set_free_units(&self.on.heap.region, page, units, first);
        self.count_out(before, units);
    }

    #[inline]
    fn links(&self, page: u32) -> &Descriptor {
        self.on.heap.region.descriptor(page)
    }

    fn is_clear(self, page: u32, unit: u32, units: u32) -> bool {
        units::next_begin(self.on.heap, page, unit, unit + units).is_none()
    }

    fn taken(self, page: u32, unit: u32, request: &Request) {
        self.set(page, unit, (request.bytes - request.header) as i32);
        freeset::mark(self.on.heap, page, unit + request.header / UNIT, false);
    }

    fn set_aside(self, page: u32) {
        let lost = units::set_aside_units(&self.on.heap.region, page);
        self.count_out(lost, 0);
    }

    fn begin_page(self) -> Option<u32> {
        let page = partial::begin(self.on, self.on.cache.shape())?;
        self.set_free(page, 0, 0);
        Some(page)
    }

    fn end_page(self, page: u32) {
        partial::end(self.on, self.on.cache.shape(), page);
    }

    fn with_lists<R>(self, f: impl FnOnce(&mut Lists) -> R) -> R {
        let mut chain = partial::lock(&self.on);
        let mut lists =
            Lists::of_words(self.slob.words().each_ref().map(|word| word.load(Ordering::Relaxed)));
        let result = f(&mut lists);
        let kept = self.slob.words().iter().zip(lists.words());
        kept.for_each(|(word, value)| word.store(value, Ordering::Relaxed));
        chain.set(lists.ends(), lists.len());
        chain.publish(self.on.cache);
        result
    }
}

impl<P: Platform> Units<'_, P> {
    /// Counts the units that are out of the free blocks.
    fn count_out(self, free_before: u32, free: u32) {
        let out = &self.on.cache.shown.out;
        out.fetch_add(u64::from(free_before).wrapping_sub(free.into()), Ordering::Relaxed);
    }

    /// Where a live object's block ends that begins at a unit: where the next one begins, free or
    /// not, or the page ends.
    pub fn end_of(self, page: u32, unit: u32) -> Result<u32, Overwritten> {
        let end = match page::around(self, page, unit)?.1 {
            Some(next) => next.at,
            None => self.page_units(),
        };
        // Behind its own begin; a header lies in front of the next.
        let next = units::next_begin(self.on.heap, page, unit + 2, self.page_units());
        Ok(next.map_or(end, |next| end.min(next - 1)))
    }

    /// Checks that blocks tile a page (for `verify`). Returns the units that are neither free nor
    /// the start of an object.
    pub fn check(self, page: u32) -> Result<u32, &'static str> {
        let (free, units) = (self.free(page).0, self.page_units());
        let bits = freeset::bits_of(self.on.heap, page, &self.on.cache.shape().geometry);
        let within = bits.saturating_sub(free);
        if units::is_set_aside(&self.on.heap.region, page) {
            return Ok(within);
        }
        let (mut at, mut sound) = (0, true);
        let walked = page::each(self, page, |block| {
            sound &= self.are_live(page, at, block.at);
            at = block.end();
        });
        sound &= self.are_live(page, at, units);
        match walked {
            Err(_) => Err("free block overwritten"),
            Ok(()) if !sound => Err("blocks tile page"),
            Ok(()) => Ok(within),
        }
    }

    /// In the child of a fork: lists a page that is on no list. If a thread was about to change its
    /// free blocks, they are made anew from the live ones, whose begins are in the bitmap and whose
    /// sizes are in front of them. Returns the free units.
    pub fn adopt(self, page: u32) -> u32 {
        if units::is_set_aside(&self.on.heap.region, page) {
            return 0;
        }
        if self.check(page).is_err() {
            self.write_blocks_anew(page);
        }
        let free = self.free(page).0;
        if free > 0 {
            // The list is that of the objects for which the page began; those of its first will do.
            let begin = units::next_begin(self.on.heap, page, 0, self.page_units());
            let bytes = begin.map_or(1, |begin| self.get(page, begin - 1).max(1) as u32);
            self.with_lists(|lists| lists.add(self, page, bytes));
        }
        free
    }

    fn write_blocks_anew(self, page: u32) {
        let end = self.page_units();
        // No block counts, so that a walk meets none.
        units::set_free_units(&self.on.heap.region, page, 0, 0);
        let mut at = 0;
        while at < end {
            let begin = units::next_begin(self.on.heap, page, at, end);
            let live = begin.map_or(end, |begin| begin.saturating_sub(1));
            if live > at {
                // Never beside another free block: a live one lies between.
                let given = page::give(self, page, at, live - at);
                debug_assert!(given.is_ok(), "just written");
            }
            at = match begin.map(|_| block_units(self.get(page, live))) {
                Some(Some(units)) => live.saturating_add(units),
                _ => end,
            };
        }
    }

    /// True if live blocks tile these units.
    fn are_live(self, page: u32, mut at: u32, end: u32) -> bool {
        while at < end {
            if units::next_begin(self.on.heap, page, at, end) != Some(at + 1) {
                return false;
            }
            let Some(units) = block_units(self.get(page, at)) else { return false };
            at = at.saturating_add(units);
        }
        at == end
    }
}

/// Units of the block of an object with such a header; `None` if there is none like it.
pub(super) fn block_units(header: i32) -> Option<u32> {
    let bytes = u32::try_from(header).ok().filter(|bytes| *bytes > 0)?;
    Some(1 + bytes.div_ceil(UNIT))
}

/// SLOB: the three lists, under the lock of the cache's header.
pub struct Slob {
    pub(crate) words: [AtomicU32; 7],
    /// 1: it serves malloc, not a created cache.
    pub(crate) of_malloc: AtomicU32,
}
