//! Sparse places: huge pages' places of which a part went back to the system while the rest
//! is in use.
//!
//! Where the system makes huge pages everywhere it would fill such a place again within
//! minutes (`khugepaged`, whatever part of them is there), and what went back
//! would be resident again. So a sparse place is advised against, and the advice is taken
//! back once all of it is free.
//!
//! Places with different advice are different mappings, of which a process may have 65 530
//! (`vm.max_map_count`): the number of borders between them is bounded.
//!
//! Neighbours: [`super::purge`] tells what went back; [`super::huge`] decides what the
//! region's begin has before it is touched.

use super::PageHeap;
use super::blocks::is_free;
use super::huge::{ALWAYS_SMALL, HUGE, HUGE_ORDER, is_sparse};
use super::table::Table;
use crate::platform::{GRANULE, Platform};
use crate::sync::{AtomicBool, AtomicU16, Lock, Ordering, Rank};

/// Most borders between places that were advised differently.
const MOST_BORDERS: usize = 8192;

/// Not advised, advised against huge pages, and advised for them.
const NONE: u16 = 0;
const SMALL: u16 = 1;
const LARGE: u16 = 2;

/// What the system was told.
pub(super) struct Advice {
    told: Lock<Told>,
    /// Some place was advised against.
    any: AtomicBool,
}

struct Told {
    /// Of each place; reserved when it is needed.
    places: Table<AtomicU16>,
    nr_borders: usize,
}

impl Advice {
    pub(super) const fn new() -> Self {
        let told = Told { places: Table::new(), nr_borders: 0 };
        Advice { told: Lock::new(Rank::Advice, told), any: AtomicBool::new(false) }
    }

    /// Gives up room that is not used yet.
    pub(super) fn unreserve<P: Platform>(&self, p: &P) {
        self.told.lock(p).places.unreserve(p);
    }
}

impl Told {
    /// Makes room for what is told of `nr` places of `capacity`.
    fn ensure<P: Platform>(&self, p: &P, nr: usize, capacity: usize) -> bool {
        (self.places.base() != 0 || self.places.reserve(p, capacity)) && self.places.ensure(p, nr)
    }

    fn get(&self, nth: usize) -> u16 {
        if nth < self.places.len() { self.places.get(nth).load(Ordering::Relaxed) } else { NONE }
    }

    /// Notes what a place is told, for which there is room; false if there would be too many
    /// borders.
    fn set(&mut self, nth: usize, what: u16) -> bool {
        let sides = [self.get(nth.wrapping_sub(1)), self.get(nth + 1)];
        let borders = |what| sides.iter().filter(|side| **side != what).count();
        let nr_borders = self.nr_borders + borders(what) - borders(self.get(nth));
        let fits = nr_borders <= MOST_BORDERS;
        if fits {
            self.places.get(nth).store(what, Ordering::Relaxed);
            self.nr_borders = nr_borders;
        }
        fits
    }
}

impl<P: Platform> PageHeap<P> {
    /// A part of the place in which this granule lies went back; the rest of the place is not
    /// free.
    pub(super) fn keep_sparse(&self, granule: usize) {
        let (p, region) = (&self.platform, &self.region);
        let nth = granule / HUGE;
        // A heap that may have no huge page has nothing to ask.
        if region.top() <= ALWAYS_SMALL || region.has_small_pages(nth) || !p.has_huge_pages() {
            return;
        }
        let address = region.address((nth * HUGE) as u32);
        let mut told = self.advice.told.lock(p);
        if told.get(nth) != SMALL
            && is_sparse(p, address)
            && told.ensure(p, nth + 1, region.granules() / HUGE)
            && told.set(nth, SMALL)
        {
            p.keep_small_pages(address, HUGE * GRANULE);
            self.advice.any.store(true, Ordering::Relaxed);
        }
    }

    /// What lies between these granules is clean and free: places that are free as a whole
    /// may have huge pages again.
    pub(super) fn allow_whole(&self, first: usize, end: usize) {
        if !self.advice.any.load(Ordering::Relaxed) {
            return;
        }
        let (p, region) = (&self.platform, &self.region);
        for start in (first / HUGE * HUGE..end).step_by(HUGE) {
            let mut told = self.advice.told.lock(p);
            // Advice alone: it does no harm if somebody takes a part of the place now.
            let is_wanted = told.get(start / HUGE) == SMALL && {
                let _lists = self.buddy.lists.lock(p);
                is_free(region, start, HUGE_ORDER)
            };
            if is_wanted && told.set(start / HUGE, LARGE) {
                p.allow_huge_pages(region.address(start as u32), HUGE * GRANULE);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::platform::machine::{Config, Machine};

    #[test]
    fn borders_are_counted_and_bounded() {
        let machine = Machine::new(Config::default());
        let mut told = Told { places: Table::new(), nr_borders: 0 };
        let nr = 4 * MOST_BORDERS;
        assert!(told.ensure(&machine, nr, nr));
        let mut set = |nth, what| {
            let done = told.set(nth, what);
            (done, told.nr_borders)
        };
        assert_eq!(set(10, SMALL), (true, 2));
        assert_eq!(set(12, SMALL), (true, 4));
        assert_eq!(set(11, SMALL), (true, 2), "one mapping of three places");
        assert_eq!(set(11, LARGE), (true, 4));
        for nth in [10, 11, 12] {
            set(nth, NONE);
        }
        assert_eq!(set(0, SMALL), (true, 2), "the place before the first is none of ours");
        let last = (2..nr).step_by(2).find(|nth| !set(*nth, SMALL).0);
        assert_eq!(last, Some(MOST_BORDERS));
        assert_eq!(set(MOST_BORDERS - 1, SMALL), (true, MOST_BORDERS), "no more than there are");
    }
}
