//! The engine of sheaves over CPU slabs, for caches of 6.18 that request sheaves.
//!
//! Neighbours: [`crate::engine::sheaves`] is the policy of the sheaves, with the kernel's rules;
//! [`super::below`] has the CPU slabs.
//!
//! Invariant: objects move from a sheaf to [below](Below) one by one, never in the groups of a
//! flush, which ignores frozen slabs.

use super::below::Below;
use super::{CpuSlab, Front, OnCpus, Rules, lists};
use crate::engine::nodes::AtNode;
use crate::engine::sheaves::NodeSheaves;
use crate::engine::{
    Changed, EngineFacts, EngineKind, Header, Inspect, Moving, PageSlabs, PassState, Repair,
    SlowPaths, orphans, partial,
};
use crate::pages::Sheaf;
use crate::platform::{Platform, Slot};
use crate::sync::Ordering;
use slabyard_abi::engines::EngineName;
use slabyard_abi::region::front;

/// Objects in a sheaf: what the two caches of 6.18 that have sheaves ask for.
const SHEAF_CAPACITY: u32 = 32;
/// Most full, and most empty, sheaves of a barn in 6.18.
const BARN_LIMIT: u32 = 10;

/// What a cache has beside its header.
pub struct Mixed {
    sheaves: NodeSheaves,
    slabs: OnCpus,
}

impl Mixed {
    /// As [`OnCpus::follow`].
    pub fn follow(&self, rules: &Rules) {
        self.slabs.follow(rules);
    }

    /// The rules of its CPU slabs, with the limits as they are now.
    #[must_use]
    pub fn rules(&self, cache: &Header) -> Rules {
        let front = Front::SheavesOverCpuSlabs;
        Rules { front, sheaf_capacity: cache.sheaf_capacity(), ..self.slabs.rules(cache) }
    }

    fn on<'a, P>(&self, on: PageSlabs<'a, P>) -> PageSlabs<'a, P, Below> {
        on.by(Below(self.rules(on.cache)))
    }

    /// As [`Mixed::on`], with banks for the CPU slabs.
    fn on_banks<'a, P: Platform>(&self, on: PageSlabs<'a, P>) -> PageSlabs<'a, P, Below> {
        let on = self.on(on);
        on.make_banks();
        on
    }
}

impl EngineKind for Mixed {
    const NEW: Self = Mixed { sheaves: NodeSheaves::NEW, slabs: OnCpus::NEW };
    const TAGGED: bool = true;

    fn like(other: &Self) -> Self {
        Mixed { slabs: OnCpus::like(&other.slabs), ..Self::NEW }
    }

    #[inline]
    fn facts(&self) -> EngineFacts {
        EngineFacts::of(EngineName::Slub)
    }
}

impl SlowPaths for Mixed {
    fn begin<P: Platform>(&self, on: PageSlabs<'_, P>) {
        let front = self.slabs.front() & !front::CPU_SLABS | front::BELOW_SHEAVES;
        self.slabs.publish(on.cache, front);
        on.cache.set_sheaf_capacity(SHEAF_CAPACITY);
        on.cache.set_barn_limits(BARN_LIMIT, BARN_LIMIT);
    }

    fn alloc<P: Platform>(&self, on: PageSlabs<'_, P>) -> Option<usize> {
        self.sheaves.alloc_slow(self.on_banks(on))
    }

    fn free<P: Platform>(&self, on: PageSlabs<'_, P>, address: usize) {
        self.sheaves.free_slow(self.on_banks(on), address);
    }

    fn flush_stopped<P: Platform>(&self, on: PageSlabs<'_, P>, _: Slot, mut stack: Sheaf) -> Sheaf {
        let _moving = Moving::aside(on);
        self.sheaves.flush(self.on(on), &mut stack, u32::MAX);
        stack
    }

    fn flush_own<P: Platform>(&self, on: PageSlabs<'_, P>, slot: Slot) {
        self.sheaves.flush_stack(self.on(on), slot);
    }

    fn drain_empties<P: Platform>(
        &self,
        on: PageSlabs<'_, P>,
        spare: Option<Sheaf>,
    ) -> Option<Sheaf> {
        // A spare stack has objects.
        if spare.is_none() {
            let _moving = Moving::aside(on);
            let on = self.on(on);
            on.each_bank(&mut |_| {}, &mut |list| _ = lists::drain_empties(on, list));
        }
        spare
    }

    fn reclaim<P: Platform>(&self, on: PageSlabs<'_, P>, found: &mut PassState, most: u32) -> bool {
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
        self.sheaves.shrink_node(on);
        let _moving = Moving::aside(on);
        on.drain_banks();
        partial::discard_all_empty(on);
    }

    fn set<P: Platform>(&self, on: PageSlabs<'_, P>, name: &str, value: u32) -> Option<Changed> {
        if name != "cpu_partial" {
            return self.sheaves.tune(self.on(on), name, value);
        }
        let changed = self.slabs.set(on, name, value);
        let _moving = Moving::aside(on);
        self.on(on).drain_banks();
        changed
    }

    fn end<P: Platform>(&self, on: PageSlabs<'_, P>) {
        self.on(on).end_banks();
    }
}

impl Inspect for Mixed {
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

    fn each_slab_below<P: Platform>(&self, on: PageSlabs<'_, P>, f: &mut dyn FnMut(u32)) {
        let on = self.on(on);
        on.each_bank(&mut |slab| f(slab.slab), &mut |_| {});
        on.each_bank(&mut |_| {}, &mut |list| on.each_on_list(list, f));
    }

    fn is_published<P: Platform>(&self, on: PageSlabs<'_, P>) -> bool {
        on.cache.is_barn_published(None, self.sheaves.barn_words(on, |_| {}))
    }
}

impl Repair for Mixed {
    fn begin_child<P: Platform>(&self, on: PageSlabs<'_, P>) -> u64 {
        orphans::empty_list(on);
        self.sheaves.count_barn_anew(on)
    }
}
