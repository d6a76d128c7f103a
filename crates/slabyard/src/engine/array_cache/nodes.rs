//! The engine of array caches on a machine with several memory nodes: SLAB as in a NUMA kernel.
//!
//! Each node has slabs, a shared array, and one [alien array](super::alien) for the objects of each
//! other node. [`crate::engine::nodes`] has the code that engines share on such machines. SLAB
//! itself has no rule by which a node allocates another node's objects: the ratio is 0 by default.
//!
//! Neighbours: the policy is the same as for one node ([`super::array`], [`super::shared`],
//! [`super::lists`], [`super::reap`]); it works on [`OnNode`].

use super::on_pages::OfArrays;
use super::shared::Shared;
use super::{ArrayCaches, Choice, alien, array, lists};
use crate::engine::header::BarnWords;
use crate::engine::nodes::{
    self, AtNode, MOST_NODES, NodeSettings, Nodes, OfNode, at, inspect_nodes, node_of,
    node_of_sheaf, others,
};
use crate::engine::slabs::{SheafAccess, Stacks};
use crate::engine::{
    Changed, EngineFacts, EngineKind, Header, Inspect, Moving, PageSlabs, PassState, Repair, Shape,
    SlowPaths, partial,
};
use crate::pages::Sheaf;
use crate::pages::sheaf::NO_SHEAF;
use crate::platform::{Platform, Slot};
use crate::slab::{Put, freeset};
use crate::sync::{AtomicU32, Lock, Ordering, Rank};
use slabyard_abi::engines::EngineName;
use slabyard_abi::region::front;

/// What a cache has at one node.
pub struct Arrays {
    own: ArrayCaches,
    aliens: [Lock<Shared<u32>>; MOST_NODES],
}

type OnNode<'a, P> = nodes::OnNode<'a, P, Arrays>;

impl AtNode for Arrays {
    const NEW: Self = Arrays {
        own: ArrayCaches::aside(NO_SHEAF),
        aliens: [const { Lock::new(Rank::Barn, Shared::aside(NO_SHEAF)) }; MOST_NODES],
    };

    fn freed<P: Platform>(on: OnNode<'_, P>, _shape: &Shape, slab: u32, put: &Put) {
        lists::freed(on, slab, put);
    }

    fn alloc_below<P: Platform>(on: OnNode<'_, P>) -> Option<usize> {
        array::alloc_direct(on)
    }

    fn free_below<P: Platform>(on: OnNode<'_, P>, address: usize) {
        on.free_direct(address);
        lists::trim(on);
    }

    fn keep<P: Platform>(on: OnNode<'_, P>, sheaf: Sheaf) {
        array::keep(on, sheaf);
    }

    fn take_listed<P: Platform>(on: OnNode<'_, P>) -> Option<usize> {
        lists::take_one_listed(on)
    }

    fn reclaim<P: Platform>(on: OnNode<'_, P>, found: &mut PassState, most: u32) -> bool {
        on.rules.state().own.reclaim_piece(on, found, most)
    }
}

impl OfArrays for OfNode<'_, Arrays> {
    fn arrays(&self) -> &ArrayCaches {
        &self.state().own
    }

    fn share<P: Platform>(on: PageSlabs<'_, P, Self>, rows: usize) -> usize {
        (0..rows).filter(|row| on.heap.node_of_row(Some(*row)) == on.rules.node).count()
    }

    fn alien(&self, home: &Self) -> Option<&Lock<Shared<u32>>> {
        self.has_aliens().then(|| &self.state().aliens[home.node])
    }
}

/// What a cache has at all nodes.
pub struct OnNodes {
    pub nodes: Nodes<Arrays>,
    /// Passes so far: which alien array is next.
    passes: AtomicU32,
}

impl OnNodes {
    /// From now on it follows these settings. Call it before the first object.
    pub fn follow(&self, settings: NodeSettings) {
        self.nodes.follow(settings);
    }

    /// Hands over one alien array, the next one at each pass.
    fn drain_next_alien<P: Platform>(&self, on: PageSlabs<'_, P>) -> bool {
        let nodes = on.heap.region.nodes();
        let turn = self.passes.fetch_add(1, Ordering::Relaxed) as usize;
        let (from, home) = (turn % nodes, turn / nodes % nodes);
        from != home && alien::drain(self.nodes.at(on, from), self.nodes.at(on, home)) > 0
    }
}

impl EngineKind for OnNodes {
    const NEW: Self = OnNodes { nodes: Nodes::new(NodeSettings::SLAB), passes: AtomicU32::new(0) };
    const TAGGED: bool = true;

    fn like(other: &Self) -> Self {
        let new = Self::NEW;
        new.follow(other.nodes.settings());
        new
    }

    #[inline]
    fn facts(&self) -> EngineFacts {
        EngineFacts { parks_few_on_node: true, ..EngineFacts::of(EngineName::Slab) }
    }
}

impl SlowPaths for OnNodes {
    fn begin(&self, cache: &Header) {
        ArrayCaches::show_limits(cache, Choice::default());
        cache.set_front((front::ARRAYS | front::NODES) as u32);
    }

    fn alloc<P: Platform>(&self, on: PageSlabs<'_, P>) -> Option<usize> {
        let here = self.nodes.here(on);
        // An object of another node is better than none.
        array::alloc_slow(here).or_else(|| others(here).find_map(array::alloc_direct))
    }

    fn alloc_at<P: Platform>(&self, on: PageSlabs<'_, P>, node: usize) -> Option<usize> {
        let moving = Moving::new(on);
        let object = array::alloc_direct(self.nodes.at(on, node));
        drop(moving);
        object.or_else(|| self.alloc(on))
    }

    fn free<P: Platform>(&self, on: PageSlabs<'_, P>, address: usize) {
        let here = self.nodes.here(on);
        match node_of(&on, address).filter(|node| *node != here.rules.node) {
            Some(home) => alien::free(here, at(here, home), address),
            None => array::free_slow(here, address),
        }
    }

    fn flush_stopped<P: Platform>(&self, on: PageSlabs<'_, P>, _: Slot, mut stack: Sheaf) -> Sheaf {
        let _moving = Moving::aside(on);
        let node = node_of_sheaf(&on, &stack).unwrap_or(0);
        array::return_all(self.nodes.at(on, node), &mut stack);
        stack
    }

    fn flush_own<P: Platform>(&self, on: PageSlabs<'_, P>, slot: Slot) {
        let here = self.nodes.here(on);
        if let Ok(Some(stack)) = here.check_out(slot) {
            here.give_sheaf(self.flush_stopped(on, slot, stack));
        }
    }

    fn reclaim<P: Platform>(&self, on: PageSlabs<'_, P>, found: &mut PassState, most: u32) -> bool {
        let drained = found.is_none() && self.drain_next_alien(on);
        self.nodes.reclaim(on, found, most) || drained
    }

    fn shrink<P: Platform>(&self, on: PageSlabs<'_, P>) {
        let _moving = Moving::aside(on);
        for here in self.nodes.each(on) {
            others(here).for_each(|home| alien::flush(here, home));
        }
        self.nodes.each(on).for_each(|here| here.rules.arrays().drain(here));
    }

    fn discard_empty<P: Platform>(&self, on: PageSlabs<'_, P>) {
        self.nodes.each(on).for_each(|here| _ = lists::end_free(here, u32::MAX));
    }

    fn set<P: Platform>(&self, on: PageSlabs<'_, P>, name: &str, value: u32) -> Option<Changed> {
        let old = ArrayCaches::tune(on.cache, name, value)?;
        self.shrink(on);
        Some(Changed { old, drains: true })
    }
}

impl Inspect for OnNodes {
    inspect_nodes!(nodes);

    fn each_parked<P: Platform>(&self, on: PageSlabs<'_, P>, mut f: impl FnMut(usize)) {
        for here in self.nodes.each(on) {
            here.rules.arrays().each_shared(here, &mut f);
            here.rules.state().aliens.iter().for_each(|array| alien::each(here, array, &mut f));
        }
    }

    fn is_published<P: Platform>(&self, on: PageSlabs<'_, P>) -> bool {
        let region = &on.heap.region;
        let (mut parked, mut is_sound) = ([0; MOST_NODES], true);
        for here in self.nodes.each(on) {
            let node = here.rules.node;
            let mut waits_for = |home: usize, address| {
                parked[home] += 1;
                is_sound &= node_of(&on, address) == Some(home);
            };
            here.rules.arrays().each_shared(here, |address| waits_for(node, address));
            for (home, array) in here.rules.state().aliens.iter().enumerate() {
                alien::each(here, array, |address| waits_for(home, address));
            }
            is_sound &= lists::are_apart(here, |slab| region.node_of(slab) == node);
            is_sound &= lists::are_counted(here);
        }
        let words = |objects| BarnWords { objects, ..BarnWords::NONE };
        let mut each = self.nodes.each(on).zip(parked);
        is_sound
            && each.all(|(here, parked)| Nodes::is_barn_published(here, words(parked)))
            && self.nodes.is_summed(on.cache)
    }
}

impl Repair for OnNodes {
    fn begin_child<P: Platform>(&self, on: PageSlabs<'_, P>) -> u64 {
        self.nodes.begin_child(on, |here| {
            let arrays = here.rules.arrays();
            lists::begin_child(here);
            arrays.begin_child();
            let mut objects = arrays.count_shared_anew(here);
            for (home, alien) in here.rules.state().aliens.iter().enumerate() {
                alien.abandon();
                if home < on.heap.region.nodes() {
                    let home = at(here, home);
                    objects += alien.lock(&on.heap.platform).count_anew(home);
                }
            }
            objects
        })
    }

    fn adopt<P: Platform>(&self, on: PageSlabs<'_, P>, slab: u32, of_cpu: bool) -> u32 {
        let free = freeset::recount(on.heap, slab, &on.cache.shape().geometry, of_cpu);
        lists::adopt(self.nodes.at(on, on.heap.region.node_of(slab)), slab, free);
        free
    }

    fn end_begin_child<P: Platform>(&self, on: PageSlabs<'_, P>) {
        self.nodes.each(on).for_each(lists::end_begin_child);
    }
}
