//! SLOB as the engine of a yard: all of malloc's sizes share the three lists, and each call is
//! served by its exact size.
//!
//! The pages are slabs of the first class's cache, which is shown as `slob`; each of its objects is
//! one unit. A request of about a page or more is served by a run of pages. A created cache has its
//! own slabs, as with the engine `tiny`: a free finds the cache by the page map.
//!
//! Misuse: a free of an address where no object starts is reported and has no effect. A page whose
//! free memory or header was overwritten is reported and set aside: no block is allocated from it.

use super::on_pages::{Units, block_units};
use super::{BlockRef, Lists, Overwritten, Pages, Request, alloc, drop_page, free_locked, page};
use crate::engine::slabs::NodeList;
use crate::engine::slob::on_pages::Slob;
use crate::engine::{
    Changed, Counter, EngineFacts, EngineKind, Header, Inspect, Moving, PageSlabs, PassState,
    Repair, SlowPaths, Tiny, orphans,
};
use crate::pages::Cause;
use crate::platform::Platform;
use crate::slab;
use crate::slab::units::UNIT;
use crate::slab::{Geometry, Object, freeset, units};
use crate::sync::{AtomicU32, Ordering};
use slabyard_abi::engines::EngineName;

/// The blocks of `begin..end` of a page are wrong, or the address is none of an object.
enum Refused {
    Misuse(Cause),
    Overwritten(Overwritten),
}

impl From<Overwritten> for Refused {
    fn from(overwritten: Overwritten) -> Self {
        Refused::Overwritten(overwritten)
    }
}

impl Slob {
    pub(super) fn words(&self) -> &[AtomicU32; 7] {
        &self.words
    }

    fn serves_malloc(&self) -> bool {
        self.of_malloc.load(Ordering::Relaxed) != 0
    }

    fn free_in_page<P: Platform>(
        &self,
        on: PageSlabs<'_, P>,
        Object { slab: page, index }: Object,
    ) -> Result<(), Refused> {
        let units = Units { on, slob: self };
        let ends = units.with_lists(|lists| {
            let freed = (|| {
                if freeset::is_free(on.heap, page, index) {
                    return Err(Refused::Misuse(self.cause_at(units, page, index)?));
                }
                if units::is_set_aside(&on.heap.region, page) {
                    freeset::mark(on.heap, page, index, true);
                    return Ok(false);
                }
                let unit = index.checked_sub(1).ok_or(Refused::Misuse(Cause::Interior))?;
                let header = units.get(page, unit);
                if block_units(header).map(|units| unit + units) != Some(units.end_of(page, unit)?)
                {
                    return Err(Overwritten { page, unit }.into());
                }
                freeset::mark(on.heap, page, index, true);
                let place = BlockRef { page, unit };
                Ok(free_locked(units, lists, place, header as u32 + UNIT)?)
            })();
            if let Err(Refused::Overwritten(_)) = &freed
                && !units::is_set_aside(&on.heap.region, page)
            {
                drop_page(units, lists, page);
            }
            freed
        })?;
        if ends {
            units.end_page(page);
        }
        Ok(())
    }

    /// Why no object begins at a unit.
    fn cause_at<P: Platform>(
        &self,
        units: Units<'_, P>,
        page: u32,
        unit: u32,
    ) -> Result<Cause, Overwritten> {
        if units::is_set_aside(&units.on.heap.region, page) {
            return Ok(Cause::DoubleFree);
        }
        let (before, behind) = page::around(units, page, unit)?;
        let is_free = before.is_some_and(|block| unit < block.end())
            || behind.is_some_and(|block| block.at == unit);
        Ok(if is_free { Cause::DoubleFree } else { Cause::Interior })
    }

    #[cold]
    fn report<P: Platform>(on: PageSlabs<'_, P>, at: Overwritten) {
        let address = on.heap.region.address(at.page) + at.unit as usize * UNIT as usize;
        on.heap.misuse(Cause::Overwritten, address, on.cache.shape().slot);
    }
}

impl EngineKind for Slob {
    const NEW: Self =
        Slob { words: [const { AtomicU32::new(0) }; 7], of_malloc: AtomicU32::new(0) };
    const SIZED: bool = true;

    fn geometry(&self, object: u32, order: u32, page_order: u32) -> Geometry {
        self.of_malloc.store(1, Ordering::Relaxed);
        let order = if object == UNIT { page_order } else { order.max(page_order) };
        Geometry::new(object, order)
    }

    fn serves(&self, cache: &Header, bytes: usize, align: usize) -> Option<bool> {
        let page = cache.shape().geometry.slab_bytes();
        Some(bytes < page && align < page && bytes < page - align.max(UNIT as usize))
    }

    #[inline]
    fn facts(&self) -> EngineFacts {
        EngineFacts::of(EngineName::Slob)
    }
}

impl SlowPaths for Slob {
    fn begin<P: Platform>(&self, on: PageSlabs<'_, P>) {
        if self.serves_malloc() {
            on.cache.set_min_partial(0);
            if on.cache.shape().geometry.object == UNIT {
                on.cache.rename("slob");
            }
        }
    }

    fn alloc<P: Platform>(&self, on: PageSlabs<'_, P>) -> Option<usize> {
        let geometry = &on.cache.shape().geometry;
        self.alloc_sized(on, geometry.object as usize, UNIT as usize)
    }

    fn alloc_sized<P: Platform>(
        &self,
        on: PageSlabs<'_, P>,
        bytes: usize,
        align: usize,
    ) -> Option<usize> {
        if !self.serves_malloc() {
            return Tiny.alloc(on);
        }
        let _moving = Moving::new(on);
        on.count(Counter::AllocSlowpath, 1);
        let bytes = bytes.max(1) as u32 + UNIT;
        let request = Request { bytes, header: UNIT, align: (align as u32).max(UNIT) };
        loop {
            match alloc(Units { on, slob: self }, &request) {
                Ok(place) => {
                    let BlockRef { page, unit } = place?;
                    return Some(on.heap.region.address(page) + (unit * UNIT + UNIT) as usize);
                }
                // The page is off the lists: the next search does not meet it.
                Err(overwritten) => Self::report(on, overwritten),
            }
        }
    }

    fn free<P: Platform>(&self, on: PageSlabs<'_, P>, address: usize) {
        if !self.serves_malloc() {
            return Tiny.free(on, address);
        }
        let _moving = Moving::new(on);
        let shape = on.cache.shape();
        let freed = slab::resolve(&on.heap.region, &shape.geometry, shape.slot, address);
        let freed = freed.map_err(Refused::Misuse);
        on.count(Counter::FreeSlowpath, 1);
        match freed.and_then(|object| self.free_in_page(on, object)) {
            Ok(()) => {}
            Err(Refused::Misuse(cause)) => on.heap.misuse(cause, address, shape.slot),
            Err(Refused::Overwritten(at)) => Self::report(on, at),
        }
    }

    fn reclaim<P: Platform>(&self, on: PageSlabs<'_, P>, found: &mut PassState, most: u32) -> bool {
        !self.serves_malloc() && Tiny.reclaim(on, found, most)
    }

    fn shrink<P: Platform>(&self, on: PageSlabs<'_, P>) {
        if !self.serves_malloc() {
            Tiny.shrink(on);
        }
    }

    fn set<P: Platform>(&self, on: PageSlabs<'_, P>, name: &str, value: u32) -> Option<Changed> {
        if self.serves_malloc() { None } else { Tiny.set(on, name, value) }
    }
}

impl Inspect for Slob {
    fn size_at<P: Platform>(&self, on: PageSlabs<'_, P>, address: usize) -> Option<usize> {
        let shape = on.cache.shape();
        let Object { slab, index } =
            slab::resolve(&on.heap.region, &shape.geometry, shape.slot, address).ok()?;
        if !self.serves_malloc() {
            return Some(shape.geometry.object as usize);
        }
        let unit = index.checked_sub(1)?;
        if freeset::is_free(on.heap, slab, index) {
            return None;
        }
        let units = block_units(units::unit(on.heap, slab, unit))?;
        let end = unit.checked_add(units).filter(|end| *end <= shape.geometry.objects)?;
        let is_whole = units::next_begin(on.heap, slab, index + 1, end).is_none();
        is_whole.then_some(((units - 1) * UNIT) as usize)
    }

    fn check_slab<P: Platform>(
        &self,
        on: PageSlabs<'_, P>,
        slab: u32,
    ) -> Result<u32, &'static str> {
        if self.serves_malloc() { Units { on, slob: self }.check(slab) } else { Ok(0) }
    }
}

impl Repair for Slob {
    fn begin_child<P: Platform>(&self, on: PageSlabs<'_, P>) -> u64 {
        orphans::empty_list(on);
        if self.serves_malloc() {
            Units { on, slob: self }.with_lists(|lists| *lists = Lists::NEW);
        }
        0
    }

    fn adopt<P: Platform>(&self, on: PageSlabs<'_, P>, slab: u32, of_cpu: bool) -> u32 {
        if self.serves_malloc() {
            Units { on, slob: self }.adopt(slab)
        } else {
            orphans::adopt(on, slab, of_cpu)
        }
    }
}
