//! The engine of sheaves: SLUB with sheaves on the page heap, for one memory node, or several as in
//! a NUMA kernel.
//!
//! Each node has a partial list and a barn. A CPU's sheaves hold only objects of its node; a free
//! of another node's object bypasses them and returns the object to its slab, as in SLUB 6.18. If a
//! cache's node has neither a slab with free objects nor a full sheaf in its barn, the cache may
//! take one object of another node before it allocates a new slab ([`crate::engine::nodes`]). SLUB
//! then takes a whole slab, so that further allocations are fast. Here each such allocation takes
//! the slow path: our sheaves cannot hold other nodes' objects.
//!
//! Neighbours: the policy is in [`super::alloc`], [`super::free`], [`super::barn`] and
//! [`super::reclaim`]; it works on one node's slabs.

use super::NodeSheaves;
use crate::engine::node_set::{self, NodeSet};
use crate::engine::nodes::{AtNode, NodeSettings, Nodes, OnNode, One};
use crate::engine::slabs::NodeList;
use crate::engine::{
    Changed, Counter, EngineFacts, EngineKind, Inspect, Moving, PageSlabs, PassState, Repair,
    SlowPaths, flush, orphans, partial,
};
use crate::pages::Sheaf;
use crate::pages::sheaf::NO_SHEAF;
use crate::platform::{Platform, Slot};
use slabyard_abi::engines::EngineName;

/// What a cache has at its memory nodes.
pub struct Sheaves<N = One<NodeSheaves>>(#[doc(hidden)] pub N);

/// That of a machine that may have several.
pub type SheavesOnNodes = Sheaves<Nodes<NodeSheaves>>;

impl AtNode for NodeSheaves {
    const NEW: Self = NodeSheaves::new(NO_SHEAF, NO_SHEAF);
    const SETTINGS: NodeSettings = NodeSettings::SLUB;

    fn keep<P: Platform>(on: OnNode<'_, P, Self>, sheaf: Sheaf) {
        on.rules.state().barn_keep(on, sheaf);
    }
}

impl SheavesOnNodes {
    /// From now on it follows these settings. Call it before the first object.
    pub fn follow(&self, settings: NodeSettings) {
        self.0.follow(settings);
    }
}

impl<N: NodeSet<State = NodeSheaves>> EngineKind for Sheaves<N> {
    const NEW: Self = Sheaves(N::NEW);
    const TAGGED: bool = N::MOST > 1;

    fn like(other: &Self) -> Self {
        Sheaves(N::like(&other.0))
    }

    #[inline]
    fn facts(&self) -> EngineFacts {
        EngineFacts { parks_in_sheaves: true, ..EngineFacts::of(EngineName::Slub) }
    }
}

impl<N: NodeSet<State = NodeSheaves>> SlowPaths for Sheaves<N> {
    fn begin<P: Platform>(&self, on: PageSlabs<'_, P>) {
        NodeSheaves::<u32>::publish_limits(on.cache);
        self.0.begin(on, 0);
    }

    fn alloc<P: Platform>(&self, on: PageSlabs<'_, P>) -> Option<usize> {
        let (sheaves, here) = self.0.here(on);
        let object = sheaves.alloc_slow(here);
        if N::MOST == 1 || object.is_some() {
            return object;
        }
        // An object of another node is better than none.
        self.0.others(here).find_map(partial::alloc_direct)
    }

    fn alloc_at<P: Platform>(&self, on: PageSlabs<'_, P>, node: usize) -> Option<usize> {
        if N::count(on) == 1 {
            return self.alloc(on);
        }
        let moving = Moving::new(on);
        let object = partial::alloc_direct(self.0.at(on, node).1);
        drop(moving);
        object.or_else(|| self.alloc(on))
    }

    fn free<P: Platform>(&self, on: PageSlabs<'_, P>, address: usize) {
        let (sheaves, here) = self.0.here(on);
        let Some(home) = self.0.home_of(here, address) else {
            return sheaves.free_slow(here, address);
        };
        let _moving = Moving::new(on);
        here.count(Counter::NodeFrees, 1);
        home.free_direct(address);
    }

    fn flush_stopped<P: Platform>(&self, on: PageSlabs<'_, P>, _: Slot, mut stack: Sheaf) -> Sheaf {
        let _moving = Moving::aside(on);
        let objects = Sheaf::len(&stack);
        let home = self.0.home_of_stack(on, &stack);
        flush::return_to_slabs(home, on.heap.sheaves.objects(&stack), u32::MAX);
        on.heap.sheaves.shorten(&mut stack, objects);
        stack
    }

    fn flush_own<P: Platform>(&self, on: PageSlabs<'_, P>, slot: Slot) {
        let (sheaves, here) = self.0.here(on);
        sheaves.flush_stack(here, slot);
    }

    fn reclaim<P: Platform>(&self, on: PageSlabs<'_, P>, found: &mut PassState, most: u32) -> bool {
        self.0.reclaim(on, found, |(sheaves, here), found, idle| {
            if let Some(idle) = idle {
                found.get_or_insert_with(|| sheaves.find(here, idle));
            }
            sheaves.reclaim_piece(here, found, most)
        })
    }

    fn flush_node<P: Platform>(&self, on: PageSlabs<'_, P>, most: u32) -> bool {
        let mut each = self.0.each(on);
        each.any(|(sheaves, here)| sheaves.flush_piece(here, most) > 0 || sheaves.end_empties(here))
    }

    fn shrink<P: Platform>(&self, on: PageSlabs<'_, P>) {
        self.0.each(on).for_each(|(sheaves, here)| sheaves.shrink_node(here));
    }

    fn discard_empty<P: Platform>(&self, on: PageSlabs<'_, P>) {
        self.0.each(on).for_each(|(_, here)| partial::discard_all_empty(here));
    }

    fn set<P: Platform>(&self, on: PageSlabs<'_, P>, name: &str, value: u32) -> Option<Changed> {
        // Each node's barn has the limit; the first tells what the cache had before.
        let set = |(sheaves, here): (&NodeSheaves, _)| sheaves.tune(here, name, value);
        self.0.each(on).map(set).fold(None, Option::or)
    }
}

impl<N: NodeSet<State = NodeSheaves>> Inspect for Sheaves<N> {
    fn node_words<P: Platform>(&self, on: PageSlabs<'_, P>) -> Option<(usize, usize)> {
        self.0.words_at(on)
    }

    fn each_parked<P: Platform>(&self, on: PageSlabs<'_, P>, mut f: impl FnMut(usize)) {
        self.0.each(on).for_each(|(sheaves, here)| sheaves.each_in_barn(here, &mut f));
    }

    fn each_partial<P: Platform>(&self, on: PageSlabs<'_, P>, mut f: impl FnMut(u32, u32)) {
        self.0.each(on).for_each(|(_, here)| partial::each_partial(here, &mut f));
    }

    fn nr_partial<P: Platform>(&self, on: PageSlabs<'_, P>) -> u32 {
        self.0.each(on).map(|(_, here)| partial::nr_partial(here)).sum()
    }

    fn is_list_published<P: Platform>(&self, on: PageSlabs<'_, P>) -> bool {
        node_set::is_list_published(&self.0, on)
    }

    fn is_published<P: Platform>(&self, on: PageSlabs<'_, P>) -> bool {
        let mut each = self.0.each(on);
        each.all(|(sheaves, here)| {
            let mut is_near = true;
            let words = sheaves.barn_words(here, |address| {
                is_near &= self.0.home_of(here, address).is_none();
            });
            is_near && on.cache.is_barn_published(here.shown_node(), words)
        }) && node_set::is_summed(&self.0, on)
    }
}

impl<N: NodeSet<State = NodeSheaves>> Repair for Sheaves<N> {
    fn begin_child<P: Platform>(&self, on: PageSlabs<'_, P>) -> u64 {
        self.0.begin_child(on);
        let begin = |(sheaves, here): (&NodeSheaves, _)| {
            orphans::empty_list(here);
            sheaves.count_barn_anew(here)
        };
        self.0.each(on).map(begin).sum()
    }

    fn adopt<P: Platform>(&self, on: PageSlabs<'_, P>, slab: u32, of_cpu: bool) -> u32 {
        orphans::adopt(self.0.home(on, slab), slab, of_cpu)
    }
}
