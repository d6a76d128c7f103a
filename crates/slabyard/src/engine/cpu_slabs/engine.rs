//! The engine of CPU slabs: SLUB with the front that kernels to 6.19 have.
//!
//! Neighbours: the policy is [`super::alloc`], [`super::free`] and [`super::lists`]; what it works
//! on is [`super::on_pages`].
//!
//! # Equation (asserted by `verify`)
//!
//! For each slab: free + in its CPU's stack + in transit + live = objects. A slab with free
//! objects that is not on its node's list is a CPU's, or on a CPU's list.

use super::on_pages::Parked;
use super::{
    Accounting, CpuSlab, CpuSlabs, Freezing, Front, Planted, Preset, Rules, alloc, free, lists,
    presets,
};
use crate::engine::slabs::Group;
use crate::engine::{Changed, Engine, Found, Header, PageSlabs, Shape, partial};
use crate::pages::Sheaf;
use crate::pages::{Cause, PageHeap};
use crate::platform::{GRANULE, Platform, Slot};
use crate::slab::{Geometry, Object, Word};
use crate::sync::{AtomicU32, Ordering};
use slabyard_abi::engines::EngineName;

/// What a cache has beside its header: the rules, whose limits can change.
pub struct OnCpus {
    kind: AtomicU32,
    cpu_partial: AtomicU32,
    cpu_partial_slabs: AtomicU32,
}

/// Bits of [`OnCpus::kind`].
mod kind {
    pub(super) const DELAYED: u32 = 1;
    pub(super) const LISTS: u32 = 2;
    pub(super) const SLABS: u32 = 4;
    pub(super) const EXACT: u32 = 8;
    pub(super) const LOSES_SLABS: u32 = 16;
}

impl OnCpus {
    /// Takes the kinds of these rules, before the cache begins; the limits follow from the size of
    /// the cache's objects.
    pub fn follow(&self, rules: &Rules) {
        let bits = [
            (rules.freezing == Freezing::Delayed, kind::DELAYED),
            (rules.cpu_partial_lists, kind::LISTS),
            (rules.accounting == Accounting::Slabs, kind::SLABS),
            (rules.accounting == Accounting::Exact, kind::EXACT),
            (rules.planted == Planted::LoseExtraSlabs, kind::LOSES_SLABS),
        ];
        let kind = bits.into_iter().filter(|(set, _)| *set).fold(0, |all, (_, bit)| all | bit);
        self.kind.store(kind, Ordering::Relaxed);
    }

    /// The rules, with the limits as they are now.
    #[must_use]
    pub fn rules(&self, geometry: &Geometry) -> Rules {
        let kind = self.kind.load(Ordering::Relaxed);
        let has = |bit| kind & bit != 0;
        Rules {
            objects: geometry.objects,
            min_partial: 0,
            cpu_partial: self.cpu_partial.load(Ordering::Relaxed),
            cpu_partial_slabs: self.cpu_partial_slabs.load(Ordering::Relaxed),
            cpu_partial_lists: has(kind::LISTS),
            freezing: if has(kind::DELAYED) { Freezing::Delayed } else { Freezing::Eager },
            accounting: match (has(kind::SLABS), has(kind::EXACT)) {
                (true, _) => Accounting::Slabs,
                (_, true) => Accounting::Exact,
                _ => Accounting::Objects,
            },
            front: Front::CpuSlabs,
            sheaf_capacity: 0,
            remote_ratio: 0,
            planted: if has(kind::LOSES_SLABS) { Planted::LoseExtraSlabs } else { Planted::None },
        }
    }

    fn on<'a, P>(&self, on: PageSlabs<'a, P>) -> PageSlabs<'a, P, Rules> {
        let rules = self.rules(&on.cache.shape().geometry);
        PageSlabs { heap: on.heap, cache: on.cache, rules }
    }

    /// Free objects that a CPU partial list may hold, and the slabs that follow from it.
    fn set_limit(&self, geometry: &Geometry, objects: u32) {
        self.cpu_partial.store(objects, Ordering::Relaxed);
        // Slabs are taken to be half full.
        self.cpu_partial_slabs.store((2 * objects).div_ceil(geometry.objects), Ordering::Relaxed);
    }

    /// The limit of a cache that begins: lists that count objects have few, as kernels to 5.15.
    fn default_limit(&self, geometry: &Geometry) -> u32 {
        let by_slabs = self.kind.load(Ordering::Relaxed) & kind::SLABS != 0;
        let preset = if by_slabs { Preset::V5_16 } else { Preset::V5_9 };
        presets::of_band(&preset.cpu_partial, geometry.size as usize, GRANULE)
    }
}

impl Engine for OnCpus {
    const NEW: Self = OnCpus {
        kind: AtomicU32::new(kind::DELAYED | kind::LISTS | kind::SLABS),
        cpu_partial: AtomicU32::new(0),
        cpu_partial_slabs: AtomicU32::new(0),
    };
    const TAGGED: bool = true;

    fn like(other: &Self) -> Self {
        let engine = Self::NEW;
        engine.kind.store(other.kind.load(Ordering::Relaxed), Ordering::Relaxed);
        engine
    }

    fn name(&self) -> EngineName {
        EngineName::Slub
    }

    fn begin(&self, cache: &Header) {
        let geometry = &cache.shape().geometry;
        self.set_limit(geometry, self.default_limit(geometry));
    }

    fn alloc<P: Platform>(&self, on: PageSlabs<'_, P>) -> Option<usize> {
        let _moving = on.cache.moving();
        alloc::alloc_slow(self.on(on))
    }

    fn free<P: Platform>(&self, on: PageSlabs<'_, P>, address: usize) {
        let _moving = on.cache.moving();
        let on = self.on(on);
        let shape = on.cache.shape();
        match on.heap.resolve(&shape.geometry, shape.slot, address) {
            Err(cause) => on.heap.misuse(cause, address, shape.slot),
            Ok(object) if !free_to_own(on, shape, object, address) => {
                let (word, mask) = Word::of(object.index);
                free::free_to_slab(on, shape, &Group { slab: object.slab, word, mask });
            }
            Ok(_) => {}
        }
    }

    fn flush_stopped<P: Platform>(&self, on: PageSlabs<'_, P>, slot: Slot, stack: Sheaf) -> Sheaf {
        let _moving = on.cache.moving_aside();
        self.flush(on, slot, stack)
    }

    fn flush_own<P: Platform>(&self, on: PageSlabs<'_, P>, slot: Slot) {
        let _moving = on.cache.moving_aside();
        let on = self.on(on);
        if slot == on.cache.shape().main() {
            if let Ok(Some(slab)) = on.check_out_slab() {
                on.give_own(alloc::deactivate(on, slab));
            }
        } else if let Some(mut list) = on.check_out_list() {
            lists::drain(on, &mut list);
            on.give_list(list);
        }
    }

    fn reclaim<P: Platform>(
        &self,
        on: PageSlabs<'_, P>,
        _found: &mut Option<Found>,
        _most: u32,
    ) -> bool {
        on.cache.is_idle() && partial::discard_some_empty(on) > 0
    }

    fn shrink<P: Platform>(&self, on: PageSlabs<'_, P>) {
        partial::discard_all_empty(on);
    }

    fn set<P: Platform>(&self, on: PageSlabs<'_, P>, name: &str, value: u32) -> Option<Changed> {
        let geometry = &on.cache.shape().geometry;
        match name {
            "min_partial" => Some(Changed { old: on.cache.set_min_partial(value), drains: false }),
            "cpu_partial" => {
                let old = self.cpu_partial.load(Ordering::Relaxed);
                self.set_limit(geometry, value.min(Shape::STACK_OBJECTS));
                Some(Changed { old, drains: true })
            }
            _ => None,
        }
    }

    fn each_parked<P: Platform>(&self, _on: PageSlabs<'_, P>, _f: impl FnMut(usize)) {}

    fn has_objects_in_spare(&self) -> bool {
        false
    }

    fn each_slab<P: Platform>(
        &self,
        on: PageSlabs<'_, P>,
        slot: Slot,
        stack: &Sheaf,
        f: &mut dyn FnMut(u32),
    ) {
        let on = self.on(on);
        if slot == on.cache.shape().main() {
            return f(on.slab_of(stack));
        }
        for element in on.heap.sheaves.objects(stack) {
            let parked = Parked::of(element.load(Ordering::Relaxed));
            if on.is_on_list(parked) {
                f(parked.slab);
            }
        }
    }

    fn is_published<P: Platform>(&self, on: PageSlabs<'_, P>) -> bool {
        on.cache.has_no_sheaves()
    }
}

impl OnCpus {
    /// Flushes a stack that is out of its entry; returns the array.
    fn flush<P: Platform>(&self, on: PageSlabs<'_, P>, slot: Slot, mut stack: Sheaf) -> Sheaf {
        let on = self.on(on);
        if slot == on.cache.shape().main() {
            let slab = on.slab_of(&stack);
            return alloc::deactivate(on, CpuSlab { slab, own: stack });
        }
        lists::drain(on, &mut stack);
        stack
    }
}

/// Frees an object of this CPU's slab whose stack took no push, because it was asked; true if
/// nothing is left to do.
fn free_to_own<P: Platform>(
    on: PageSlabs<'_, P, Rules>,
    shape: &Shape,
    object: Object,
    address: usize,
) -> bool {
    let heap: &PageHeap<P> = on.heap;
    let Some(row) = heap.platform.row_hint() else { return false };
    let entry = heap.platform.rows().entry(row, shape.main());
    if heap.sheaves.top_object(entry) == Some(address) {
        heap.misuse(Cause::DoubleFree, address, shape.slot);
        return true;
    }
    // The end of a stack that was asked is 0.
    if entry.is_none() || entry.end() != 0 {
        return false;
    }
    let Ok(Some(mut slab)) = on.check_out_slab() else { return false };
    let mine = slab.slab == object.slab && slab.own.len() < heap.sheaves.room(&slab.own);
    if mine {
        heap.sheaves.push(&mut slab.own, address);
    }
    alloc::check_in(on, slab);
    mine
}
