//! Sheaves on a machine with several memory nodes: SLUB as in a NUMA kernel.
//!
//! Each node has a partial list and a barn. A CPU's sheaves hold only objects of its node; a free
//! of another node's object bypasses them and returns the object to its slab, as in SLUB 6.18. If a
//! cache's node has neither a slab with free objects nor a full sheaf in its barn, the cache may
//! take one object of another node before it allocates a new slab ([`crate::engine::nodes`]). SLUB
//! takes a whole slab then, so that further allocations are fast. Here each takes the slow path:
//! our sheaves cannot hold other nodes' objects.
//!
//! Neighbours: the policy is the same as for one node ([`super::alloc`], [`super::free`],
//! [`super::barn`]); it works on [`OnNode`].

use super::{Sheaves, barn};
use crate::engine::nodes::{
    self, AtNode, NodeSettings, Nodes, at, inspect_nodes, node_of, node_of_sheaf, others,
};
use crate::engine::slabs::NodeList;
use crate::engine::{
    Changed, Counter, EngineFacts, EngineKind, Header, Inspect, Moving, PageSlabs, PassState,
    Repair, Shape, SlowPaths, flush, orphans, partial,
};
use crate::pages::Sheaf;
use crate::pages::sheaf::NO_SHEAF;
use crate::platform::{Platform, Slot};
use crate::slab::{Put, freeset};
use crate::sync::{AtomicU32, Ordering};
use slabyard_abi::engines::EngineName;
use slabyard_abi::region::front;

/// What a cache has at one node.
pub struct AtOne {
    sheaves: Sheaves<u32, true>,
    /// 1: the pass that is under way found the cache idle.
    is_idle: AtomicU32,
}

type OnNode<'a, P> = nodes::OnNode<'a, P, AtOne>;

/// The sheaves of a cache at a node.
pub fn sheaves<'a, P>(on: OnNode<'a, P>) -> &'a Sheaves<u32, true> {
    &on.rules.state().sheaves
}

impl AtNode for AtOne {
    const NEW: Self =
        AtOne { sheaves: Sheaves::new(NO_SHEAF, NO_SHEAF), is_idle: AtomicU32::new(0) };

    fn freed<P: Platform>(on: OnNode<'_, P>, shape: &Shape, slab: u32, put: &Put) {
        partial::freed(on, shape, slab, put);
    }

    fn alloc_below<P: Platform>(on: OnNode<'_, P>) -> Option<usize> {
        partial::alloc_direct(on)
    }

    fn keep<P: Platform>(on: OnNode<'_, P>, sheaf: Sheaf) {
        sheaves(on).barn_keep(on, sheaf);
    }

    fn take_listed<P: Platform>(on: OnNode<'_, P>) -> Option<usize> {
        partial::take_one_listed(on)
    }

    fn reclaim<P: Platform>(on: OnNode<'_, P>, found: &mut PassState, most: u32) -> bool {
        let is_idle = &on.rules.state().is_idle;
        let idle = is_idle.load(Ordering::Relaxed) != 0;
        let sheaves = sheaves(on);
        found.get_or_insert_with(|| sheaves.find(on, idle));
        sheaves.reclaim_piece(on, found, most)
    }
}

/// What a cache has at all nodes.
pub struct OnNodes(#[doc(hidden)] pub Nodes<AtOne>);

impl OnNodes {
    /// From now on it follows these settings. Call it before the first object.
    pub fn follow(&self, settings: NodeSettings) {
        self.0.follow(settings);
    }
}

impl EngineKind for OnNodes {
    const NEW: Self = OnNodes(Nodes::new(NodeSettings::SLUB));
    const TAGGED: bool = true;

    fn like(other: &Self) -> Self {
        let new = Self::NEW;
        new.follow(other.0.settings());
        new
    }

    #[inline]
    fn facts(&self) -> EngineFacts {
        EngineFacts::of(EngineName::Slub)
    }
}

impl SlowPaths for OnNodes {
    fn begin(&self, cache: &Header) {
        Sheaves::<u32, true>::publish_limits(cache);
        self.0.set_barn_full_limits(barn::most_full(cache.shape().geometry.size));
        cache.set_front(front::NODES as u32);
    }

    fn alloc<P: Platform>(&self, on: PageSlabs<'_, P>) -> Option<usize> {
        let here = self.0.here(on);
        // An object of another node is better than none.
        sheaves(here).alloc_slow(here).or_else(|| others(here).find_map(partial::alloc_direct))
    }

    fn alloc_at<P: Platform>(&self, on: PageSlabs<'_, P>, node: usize) -> Option<usize> {
        let moving = Moving::new(on);
        let object = partial::alloc_direct(self.0.at(on, node));
        drop(moving);
        object.or_else(|| self.alloc(on))
    }

    fn free<P: Platform>(&self, on: PageSlabs<'_, P>, address: usize) {
        let here = self.0.here(on);
        let Some(home) = node_of(&on, address).filter(|node| *node != here.rules.node) else {
            return sheaves(here).free_slow(here, address);
        };
        let _moving = Moving::new(on);
        here.count(Counter::NodeFrees, 1);
        at(here, home).free_direct(address);
    }

    fn flush_stopped<P: Platform>(&self, on: PageSlabs<'_, P>, _: Slot, mut stack: Sheaf) -> Sheaf {
        let _moving = Moving::aside(on);
        let objects = Sheaf::len(&stack);
        let home = self.0.at(on, node_of_sheaf(&on, &stack).unwrap_or(0));
        flush::return_to_slabs(home, on.heap.sheaves.objects(&stack), u32::MAX);
        on.heap.sheaves.shorten(&mut stack, objects);
        stack
    }

    fn flush_own<P: Platform>(&self, on: PageSlabs<'_, P>, slot: Slot) {
        let here = self.0.here(on);
        sheaves(here).flush_stack(here, slot);
    }

    fn reclaim<P: Platform>(&self, on: PageSlabs<'_, P>, found: &mut PassState, most: u32) -> bool {
        if found.is_none() {
            // Once a pass, whatever the nodes.
            let is_idle = u32::from(on.cache.is_idle());
            self.0.each(on).for_each(|here| {
                here.rules.state().is_idle.store(is_idle, Ordering::Relaxed);
            });
        }
        self.0.reclaim(on, found, most)
    }

    fn shrink<P: Platform>(&self, on: PageSlabs<'_, P>) {
        self.0.each(on).for_each(|here| sheaves(here).shrink_node(here));
    }

    fn discard_empty<P: Platform>(&self, on: PageSlabs<'_, P>) {
        self.0.each(on).for_each(partial::discard_all_empty);
    }

    fn set<P: Platform>(&self, on: PageSlabs<'_, P>, name: &str, value: u32) -> Option<Changed> {
        // Each node's barn has the limit; the first tells what the cache had before.
        let set = |here| sheaves(here).tune(here, name, value);
        self.0.each(on).map(set).fold(None, Option::or)
    }
}

impl Inspect for OnNodes {
    inspect_nodes!(0);

    fn each_parked<P: Platform>(&self, on: PageSlabs<'_, P>, mut f: impl FnMut(usize)) {
        self.0.each(on).for_each(|here| sheaves(here).each_in_barn(here, &mut f));
    }

    fn is_published<P: Platform>(&self, on: PageSlabs<'_, P>) -> bool {
        let is_sound = |here: OnNode<'_, P>| {
            let mut is_near = true;
            sheaves(here).each_in_barn(here, |address| {
                is_near &= node_of(&on, address) == Some(here.rules.node);
            });
            is_near && Nodes::is_barn_published(here, sheaves(here).barn_words(here))
        };
        self.0.each(on).all(is_sound) && self.0.is_summed(on.cache)
    }
}

impl Repair for OnNodes {
    fn begin_child<P: Platform>(&self, on: PageSlabs<'_, P>) -> u64 {
        self.0.begin_child(on, |here| sheaves(here).count_barn_anew(here))
    }

    fn adopt<P: Platform>(&self, on: PageSlabs<'_, P>, slab: u32, of_cpu: bool) -> u32 {
        let free = freeset::recount(on.heap, slab, &on.cache.shape().geometry, of_cpu);
        orphans::list(self.0.at(on, on.heap.region.node_of(slab)), slab, free);
        free
    }
}
