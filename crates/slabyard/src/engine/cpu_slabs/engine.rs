//! The engine of CPU slabs: SLUB with the per-CPU slabs of kernels up to 6.19.
//!
//! Neighbours: the policy is in [`super::alloc`], [`super::free`] and [`super::lists`]; it works on
//! the structures of [`super::on_pages`].
//!
//! # Equation (asserted by `verify`)
//!
//! For each slab: free + in its CPU's stack + in transit + live = objects. A slab with free objects
//! that is not on its node's list is a CPU's slab, or on a CPU's partial list.

use super::{
    Accounting, CpuPartialLists, CpuSlab, CpuSlabs, Freezing, Planted, Rules, alloc, free, lists,
};
use crate::engine::slabs::{Group, NodeList};
use crate::engine::{
    Changed, EngineFacts, EngineKind, Header, Inspect, Moving, PageSlabs, Repair, Shape, SlowPaths,
    Tiny,
};
use crate::pages::{Cause, PageHeap, Sheaf};
use crate::platform::{Event, GRANULE, Platform, Slot};
use crate::slab;
use crate::slab::{Geometry, Object, Word};
use crate::sync::{AtomicU32, Ordering};
use slabyard_abi::engines::EngineName;
use slabyard_abi::region::front;
use slabyard_kernels::{Release, of_band};

/// What a cache has beside its header: the kind of its rules. Their limits are in the header.
pub struct OnCpus {
    /// Bits of `abi::region::front`.
    front: AtomicU32,
}

impl OnCpus {
    /// Takes the kind of these rules, before the cache begins; the limits follow from the size of
    /// the cache's objects.
    pub fn follow(&self, rules: &Rules) {
        let bits = [
            (true, front::CPU_SLABS),
            (rules.cpu_partial_lists, front::LISTS),
            (rules.accounting == Accounting::Slabs, front::SLABS),
            (rules.accounting == Accounting::Exact, front::EXACT),
            (rules.freezing.freezes_parked(), front::FREEZES_PARKED),
            (rules.freezing.freezes_used_under_lock(), front::FREEZES_USED_UNDER_LOCK),
            (rules.freezing.thaws_under_lock(), front::THAWS_UNDER_LOCK),
            (rules.planted == Planted::LoseExtraSlabs, front::LOSES_SLABS),
        ];
        let front = bits.into_iter().filter(|(set, _)| *set).fold(0, |all, (_, bit)| all | bit);
        self.front.store(front as u32, Ordering::Relaxed);
    }

    fn has(&self, bit: u64) -> bool {
        self.front() & bit != 0
    }

    /// The rules, with the limits as they are now.
    #[must_use]
    pub fn rules(&self, cache: &Header) -> Rules {
        let freezing = match (self.has(front::FREEZES_PARKED), self.has(front::THAWS_UNDER_LOCK)) {
            (true, true) => Freezing::Eager,
            (true, false) => Freezing::ThawedEarly,
            _ if self.has(front::FREEZES_USED_UNDER_LOCK) => Freezing::UsedUnderLock,
            _ => Freezing::Delayed,
        };
        let accounting = match (self.has(front::SLABS), self.has(front::EXACT)) {
            (true, _) => Accounting::Slabs,
            (_, true) => Accounting::Exact,
            _ => Accounting::Objects,
        };
        let (cpu_partial, cpu_partial_slabs) = cache.cpu_partial();
        let loses = self.has(front::LOSES_SLABS);
        Rules {
            objects: cache.shape().geometry.objects,
            cpu_partial,
            cpu_partial_slabs,
            planted: if loses { Planted::LoseExtraSlabs } else { Planted::None },
            ..Rules::of_kind(freezing, accounting, self.has(front::LISTS))
        }
    }

    /// The limit of a cache that begins, and what readers see of its kind.
    pub(super) fn publish(&self, cache: &Header, front: u64) {
        cache.set_cpu_partial(self.default_limit(&cache.shape().geometry));
        cache.set_front(front as u32);
    }

    /// Bits of `abi::region::front`.
    pub(super) fn front(&self) -> u64 {
        self.front.load(Ordering::Relaxed).into()
    }

    pub fn on<'a, P>(&self, on: PageSlabs<'a, P>) -> PageSlabs<'a, P, Rules> {
        on.by(self.rules(on.cache))
    }

    /// The limit of a cache that begins: lists that count objects have few, as kernels to 5.15.
    fn default_limit(&self, geometry: &Geometry) -> u32 {
        let slabs = self.has(front::SLABS);
        let release = if slabs { Release::V5_16 } else { Release::V5_9 };
        let bands = release.cpu_partial.unwrap_or_default();
        of_band(&bands, geometry.size as usize, GRANULE)
    }
}

impl EngineKind for OnCpus {
    const NEW: Self =
        OnCpus { front: AtomicU32::new((front::CPU_SLABS | front::LISTS | front::SLABS) as u32) };
    const TAGGED: bool = true;

    fn like(other: &Self) -> Self {
        let engine = Self::NEW;
        engine.front.store(other.front.load(Ordering::Relaxed), Ordering::Relaxed);
        engine
    }

    #[inline]
    fn facts(&self) -> EngineFacts {
        EngineFacts { has_objects_in_spare: false, ..EngineFacts::of(EngineName::Slub) }
    }
}

impl SlowPaths for OnCpus {
    fn begin<P: Platform>(&self, on: PageSlabs<'_, P>) {
        self.publish(on.cache, self.front());
    }

    fn alloc<P: Platform>(&self, on: PageSlabs<'_, P>) -> Option<usize> {
        let _moving = Moving::new(on);
        alloc::alloc_slow(self.on(on))
    }

    fn free<P: Platform>(&self, on: PageSlabs<'_, P>, address: usize) {
        let _moving = Moving::new(on);
        let on = self.on(on);
        let shape = on.cache.shape();
        match slab::resolve(&on.heap.region, &shape.geometry, shape.slot, address) {
            Err(cause) => on.heap.misuse(cause, address, shape.slot),
            Ok(object) if !free_to_own(on, shape, object, address) => {
                let (word, mask) = Word::of(object.index);
                let begun = on.clock();
                let slabs = free::free_to_slab(on, shape, &Group { slab: object.slab, word, mask });
                if let (Some(begun), Some(ended)) = (begun, on.clock()) {
                    let event = Event::Drained { slabs, ns: ended - begun };
                    on.heap.platform.count(shape.main(), event);
                }
            }
            Ok(_) => {}
        }
    }

    fn flush_stopped<P: Platform>(&self, on: PageSlabs<'_, P>, slot: Slot, stack: Sheaf) -> Sheaf {
        let _moving = Moving::aside(on);
        self.flush(on, slot, stack)
    }

    fn flush_own<P: Platform>(&self, on: PageSlabs<'_, P>, slot: Slot) {
        let _moving = Moving::aside(on);
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

    fn drain_empties<P: Platform>(
        &self,
        on: PageSlabs<'_, P>,
        mut spare: Option<Sheaf>,
    ) -> Option<Sheaf> {
        let _moving = Moving::aside(on);
        let _slabs = match &mut spare {
            Some(list) => lists::drain_empties(self.on(on), list),
            None => lists::drain_own_empties(self.on(on)),
        };
        spare
    }

    fn set<P: Platform>(&self, on: PageSlabs<'_, P>, name: &str, value: u32) -> Option<Changed> {
        if name != "cpu_partial" {
            return Tiny.set(on, name, value);
        }
        let old = on.cache.set_cpu_partial(value.min(Shape::STACK_OBJECTS));
        Some(Changed { old, drains: true })
    }
}

impl Inspect for OnCpus {
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
        on.each_on_list(stack, f);
    }
}

impl Repair for OnCpus {}

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
