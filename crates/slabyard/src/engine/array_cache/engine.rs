//! The engine of array caches: SLAB on the page heap.
//!
//! Neighbours: the policy is in [`super::array`], [`super::shared`], [`super::lists`] and
//! [`super::reap`]; it works on the structures of [`super::on_pages`].

use super::on_pages::Of;
use super::{ArrayCaches, Choice, Limits, array, lists};
use crate::engine::slabs::{SheafAccess, Stacks};
use crate::engine::{
    Changed, EngineFacts, EngineKind, Header, Inspect, Moving, PageSlabs, PassState, Repair, Shape,
    SlowPaths,
};
use crate::pages::Sheaf;
use crate::pages::sheaf::NO_SHEAF;
use crate::platform::{GRANULE, Platform, Slot};
use crate::slab::freeset;
use crate::sync::Ordering;
use slabyard_abi::engines::EngineName;
use slabyard_abi::region::front;

/// A yard is for more than one CPU.
const POSSIBLE_CPUS: u32 = 2;

impl ArrayCaches {
    fn on<'a, P>(&'a self, on: PageSlabs<'a, P>) -> PageSlabs<'a, P, Of<'a>> {
        PageSlabs { heap: on.heap, cache: on.cache, rules: Of(self) }
    }

    /// Gives a cache that begins the limits of its size.
    pub(super) fn show_limits(cache: &Header, choice: Choice) {
        let size = cache.shape().geometry.size;
        choice.limits(size, GRANULE as u32, POSSIBLE_CPUS).publish(cache);
        // Another rule says how many free slabs stay.
        cache.set_min_partial(0);
        cache.set_front(front::ARRAYS as u32);
    }

    /// Discards up to this many free slabs; returns how many.
    pub(crate) fn end_free<P: Platform>(&self, on: PageSlabs<'_, P>, most: u32) -> u32 {
        lists::end_free(self.on(on), most)
    }

    /// Changes a limit; `None` if it is none, or a kernel would refuse it.
    pub(super) fn tune(cache: &Header, name: &str, value: u32) -> Option<u32> {
        let limits = Limits::of_cache(cache);
        let (new, old) = match name {
            "limit" => (Limits { limit: value, ..limits }, limits.limit),
            "batchcount" => (Limits { batchcount: value, ..limits }, limits.batchcount),
            "sharedfactor" => (Limits { sharedfactor: value, ..limits }, limits.sharedfactor),
            _ => return None,
        };
        let fits = new.are_sound() && new.limit <= Shape::STACK_OBJECTS;
        fits.then(|| new.publish(cache))?;
        Some(old)
    }
}

impl EngineKind for ArrayCaches {
    const NEW: Self = ArrayCaches::new(NO_SHEAF);
    const TAGGED: bool = true;

    fn like(other: &Self) -> Self {
        let engine = Self::NEW;
        engine.follow(other.choice());
        engine
    }

    fn order(&self, size: u32, order: u32, page_order: u32) -> u32 {
        self.choice().order(size, order, page_order)
    }

    #[inline]
    fn facts(&self) -> EngineFacts {
        EngineFacts { parks_few_on_node: true, ..EngineFacts::of(EngineName::Slab) }
    }
}

impl SlowPaths for ArrayCaches {
    fn begin(&self, cache: &Header) {
        Self::show_limits(cache, self.choice());
    }

    fn alloc<P: Platform>(&self, on: PageSlabs<'_, P>) -> Option<usize> {
        array::alloc_slow(self.on(on))
    }

    fn free<P: Platform>(&self, on: PageSlabs<'_, P>, address: usize) {
        array::free_slow(self.on(on), address);
    }

    fn flush_stopped<P: Platform>(&self, on: PageSlabs<'_, P>, _: Slot, mut stack: Sheaf) -> Sheaf {
        let _moving = Moving::aside(on);
        array::return_all(self.on(on), &mut stack);
        stack
    }

    fn flush_own<P: Platform>(&self, on: PageSlabs<'_, P>, slot: Slot) {
        let _moving = Moving::aside(on);
        let on = self.on(on);
        if let Ok(Some(mut array)) = on.check_out(slot) {
            array::return_all(on, &mut array);
            on.give_sheaf(array);
        }
    }

    fn reclaim<P: Platform>(&self, on: PageSlabs<'_, P>, found: &mut PassState, most: u32) -> bool {
        self.reclaim_piece(self.on(on), found, most)
    }

    fn shrink<P: Platform>(&self, on: PageSlabs<'_, P>) {
        self.drain(self.on(on));
    }

    fn discard_empty<P: Platform>(&self, on: PageSlabs<'_, P>) {
        lists::end_free(self.on(on), u32::MAX);
    }

    fn set<P: Platform>(&self, on: PageSlabs<'_, P>, name: &str, value: u32) -> Option<Changed> {
        let old = Self::tune(on.cache, name, value)?;
        // As a kernel replaces the arrays: what is parked goes back to the slabs.
        self.drain(self.on(on));
        Some(Changed { old, drains: true })
    }
}

impl Inspect for ArrayCaches {
    fn each_parked<P: Platform>(&self, on: PageSlabs<'_, P>, f: impl FnMut(usize)) {
        self.each_shared(self.on(on), f);
    }

    fn is_published<P: Platform>(&self, on: PageSlabs<'_, P>) -> bool {
        let on = self.on(on);
        self.is_shared_published(on) && lists::are_apart(on, |_| true)
    }
}

impl Repair for ArrayCaches {
    fn begin_child<P: Platform>(&self, on: PageSlabs<'_, P>) -> u64 {
        let on = self.on(on);
        // The count of what is parked is this array's alone.
        on.cache.shown.barn_objects.store(0, Ordering::Relaxed);
        lists::begin_child(on);
        ArrayCaches::begin_child(self);
        self.count_shared_anew(on)
    }

    fn adopt<P: Platform>(&self, on: PageSlabs<'_, P>, slab: u32, of_cpu: bool) -> u32 {
        let free = freeset::recount(on.heap, slab, &on.cache.shape().geometry, of_cpu);
        lists::adopt(self.on(on), slab, free);
        free
    }

    fn end_begin_child<P: Platform>(&self, on: PageSlabs<'_, P>) {
        lists::end_begin_child(self.on(on));
    }
}
