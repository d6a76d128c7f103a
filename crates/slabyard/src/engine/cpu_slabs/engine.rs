//! The engine of CPU slabs: SLUB with the per-CPU slabs of kernels up to 6.19, also below sheaves,
//! as in those caches of 6.18 that request sheaves.
//!
//! Neighbours: the policy is in [`super::alloc`], [`super::free`] and [`super::lists`]; it works on
//! the structures of [`super::on_pages`]. [`crate::engine::sheaves`] is the sheaves' policy, with
//! the kernel's rules; [`super::below`] stores the CPU slabs below sheaves.
//!
//! Invariant: objects leave a sheaf for their slabs one by one, never grouped by a flush, which
//! ignores frozen slabs.
//!
//! # Equation (asserted by `verify`)
//!
//! For each slab: free + in its CPU's stack + in transit + live = objects. A slab with free objects
//! that is not on its node's list is a CPU's slab, or on a CPU's partial list.

use super::{
    Accounting, CpuPartialLists, CpuSlab, CpuSlabs, Freezing, Front, Planted, Rules, alloc, free,
    lists,
};
use crate::engine::nodes::AtNode;
use crate::engine::sheaves::NodeSheaves;
use crate::engine::slabs::{Group, NodeList};
use crate::engine::{
    Changed, EngineFacts, EngineKind, Header, Inspect, Moving, PageSlabs, PassState, Repair, Shape,
    SlowPaths, Tiny, orphans, partial,
};
use crate::pages::{Cause, PageHeap, Sheaf};
use crate::platform::{Event, GRANULE, Platform, Slot};
use crate::slab;
use crate::slab::{Geometry, Object, Word};
use crate::sync::{AtomicU32, Ordering};
use slabyard_abi::engines::EngineName;
use slabyard_abi::region::front;
use slabyard_kernels::{Release, of_band};

/// Objects in a sheaf: what the two caches of 6.18 that have sheaves ask for.
const SHEAF_CAPACITY: u32 = 32;
/// Most full, and most empty, sheaves of a barn in 6.18.
const BARN_LIMIT: u32 = 10;

/// What a cache has beside its header: the kind of its rules, whose limits are in the header, and
/// its barn, if CPU slabs are below sheaves.
pub struct OnCpus {
    /// Bits of `abi::region::front`.
    front: AtomicU32,
    sheaves: NodeSheaves,
}

impl OnCpus {
    /// Takes the kind of these rules, before the cache begins; the limits follow from the size of
    /// the cache's objects.
    pub fn follow(&self, rules: &Rules) {
        let bits = [
            (rules.front == Front::SheavesOverCpuSlabs, front::BELOW_SHEAVES),
            (rules.front != Front::SheavesOverCpuSlabs, front::CPU_SLABS),
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
        u64::from(self.front.load(Ordering::Relaxed)) & bit != 0
    }

    /// True if CPU slabs are below sheaves.
    fn is_below(&self) -> bool {
        self.has(front::BELOW_SHEAVES)
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
            front: if self.is_below() { Front::SheavesOverCpuSlabs } else { Front::CpuSlabs },
            sheaf_capacity: cache.sheaf_capacity(),
            ..Rules::of_kind(freezing, accounting, self.has(front::LISTS))
        }
    }

    #[doc(hidden)]
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
    const NEW: Self = OnCpus {
        front: AtomicU32::new((front::CPU_SLABS | front::LISTS | front::SLABS) as u32),
        sheaves: NodeSheaves::NEW,
    };
    const TAGGED: bool = true;

    fn like(other: &Self) -> Self {
        let front = AtomicU32::new(other.front.load(Ordering::Relaxed));
        OnCpus { front, ..Self::NEW }
    }

    #[inline]
    fn facts(&self) -> EngineFacts {
        EngineFacts { has_objects_in_spare: self.is_below(), ..EngineFacts::of(EngineName::Slub) }
    }
}

impl SlowPaths for OnCpus {
    fn begin<P: Platform>(&self, on: PageSlabs<'_, P>) {
        on.cache.set_cpu_partial(self.default_limit(&on.cache.shape().geometry));
        on.cache.set_front(self.front.load(Ordering::Relaxed));
        if self.is_below() {
            on.cache.set_sheaf_capacity(SHEAF_CAPACITY);
            on.cache.set_barn_limits(BARN_LIMIT, BARN_LIMIT);
        }
    }

    fn alloc<P: Platform>(&self, on: PageSlabs<'_, P>) -> Option<usize> {
        let on = self.on(on);
        if self.is_below() {
            on.make_banks();
            return self.sheaves.alloc_slow(on);
        }
        let _moving = Moving::new(on);
        alloc::alloc_slow(on)
    }

    fn free<P: Platform>(&self, on: PageSlabs<'_, P>, address: usize) {
        let on = self.on(on);
        if self.is_below() {
            on.make_banks();
            return self.sheaves.free_slow(on, address);
        }
        let _moving = Moving::new(on);
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

    fn flush_stopped<P: Platform>(
        &self,
        on: PageSlabs<'_, P>,
        slot: Slot,
        mut stack: Sheaf,
    ) -> Sheaf {
        let _moving = Moving::aside(on);
        let on = self.on(on);
        if self.is_below() {
            self.sheaves.flush(on, &mut stack, u32::MAX);
        } else if slot == on.cache.shape().main() {
            return alloc::deactivate(on, CpuSlab { slab: on.slab_of(&stack), own: stack });
        } else {
            lists::drain(on, &mut stack);
        }
        stack
    }

    fn flush_own<P: Platform>(&self, on: PageSlabs<'_, P>, slot: Slot) {
        let on = self.on(on);
        if self.is_below() {
            return self.sheaves.flush_stack(on, slot);
        }
        let _moving = Moving::aside(on);
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
        let on = self.on(on);
        match &mut spare {
            // Its elements are objects.
            Some(_) if self.is_below() => {}
            Some(list) => _ = lists::drain_empties(on, list),
            None if self.is_below() => {
                on.each_bank(&mut |_| {}, &mut |list| _ = lists::drain_empties(on, list));
            }
            None => _ = lists::drain_own_empties(on),
        }
        spare
    }

    fn reclaim<P: Platform>(&self, on: PageSlabs<'_, P>, found: &mut PassState, most: u32) -> bool {
        if !self.is_below() {
            return Tiny.reclaim(on, found, most);
        }
        let on = self.on(on);
        let idle = found.get_or_insert_with(|| self.sheaves.look(on)).idle;
        if self.sheaves.reclaim_piece(on, found, most) {
            return true;
        }
        if !idle {
            return false;
        }
        let _moving = Moving::aside(on);
        let slabs = on.cache.nr_slabs();
        on.drain_banks();
        on.cache.nr_slabs() < slabs
    }

    fn shrink<P: Platform>(&self, on: PageSlabs<'_, P>) {
        let on = self.on(on);
        if self.is_below() {
            self.sheaves.shrink_node(on);
            let _moving = Moving::aside(on);
            on.drain_banks();
        }
        partial::discard_all_empty(on);
    }

    fn set<P: Platform>(&self, on: PageSlabs<'_, P>, name: &str, value: u32) -> Option<Changed> {
        if name == "cpu_partial" {
            let old = on.cache.set_cpu_partial(value.min(Shape::STACK_OBJECTS));
            let _moving = Moving::aside(on);
            self.on(on).drain_banks();
            return Some(Changed { old, drains: true });
        }
        if self.is_below() {
            return self.sheaves.tune(self.on(on), name, value);
        }
        Tiny.set(on, name, value)
    }

    fn end<P: Platform>(&self, on: PageSlabs<'_, P>) {
        self.on(on).end_banks();
    }
}

/// Without sheaves there is no bank, and the barn is empty.
impl Inspect for OnCpus {
    const HAS_SLABS_BELOW: bool = true;

    fn each_parked<P: Platform>(&self, on: PageSlabs<'_, P>, mut f: impl FnMut(usize)) {
        self.sheaves.each_in_barn(on, &mut f);
        let sheaves = &on.heap.sheaves;
        let each_own = &mut |slab: &CpuSlab<Sheaf>| {
            sheaves.objects(&slab.own).iter().for_each(|it| f(it.load(Ordering::Relaxed)));
        };
        self.on(on).each_bank(each_own, &mut |_| {});
    }

    fn nr_parked_below<P: Platform>(&self, on: PageSlabs<'_, P>) -> u64 {
        let mut sum = 0;
        self.on(on).each_bank(&mut |slab| sum += u64::from(slab.own.len()), &mut |_| {});
        sum
    }

    fn each_slab<P: Platform>(
        &self,
        on: PageSlabs<'_, P>,
        slot: Slot,
        stack: &Sheaf,
        f: &mut dyn FnMut(u32),
    ) {
        let on = self.on(on);
        if self.is_below() {
            return;
        }
        if slot == on.cache.shape().main() {
            return f(on.slab_of(stack));
        }
        on.each_on_list(stack, f);
    }

    fn each_slab_below<P: Platform>(&self, on: PageSlabs<'_, P>, f: &mut dyn FnMut(u32)) {
        let on = self.on(on);
        on.each_bank(&mut |slab| f(slab.slab), &mut |_| {});
        on.each_bank(&mut |_| {}, &mut |list| on.each_on_list(list, f));
    }

    fn is_published<P: Platform>(&self, on: PageSlabs<'_, P>) -> bool {
        (self.is_below() || on.cache.has_no_sheaves())
            && on.cache.is_barn_published(None, self.sheaves.barn_words(on, |_| {}))
    }
}

impl Repair for OnCpus {
    fn begin_child<P: Platform>(&self, on: PageSlabs<'_, P>) -> u64 {
        orphans::empty_list(on);
        self.sheaves.count_barn_anew(on)
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
