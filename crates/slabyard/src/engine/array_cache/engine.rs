//! The engine of array caches: SLAB on the page heap, for one memory node, or several as in a NUMA
//! kernel.
//!
//! Each node has slabs, a shared array, and one [alien array](super::alien) for the objects of each
//! other node. SLAB itself has no rule by which a node allocates another node's objects:
//! `remote_node_defrag_ratio` is 0 by default.
//!
//! Neighbours: the policy is in [`super::array`], [`super::share`], [`super::lists`] and
//! [`super::reap`]; it works on the structures of [`super::on_pages`] at one of
//! [`crate::engine::nodes`].

use super::on_pages::ArraysAndAliens;
use super::{Choice, Limits, NodeArrays, alien, array, lists};
use crate::engine::header::BarnWords;
use crate::engine::node_set::{self, NodeSet};
use crate::engine::nodes::{MOST_NODES, NodeSettings, Nodes};
use crate::engine::slabs::{NodeList, SheafAccess, Stacks};
use crate::engine::{
    Changed, EngineFacts, EngineKind, Header, Inspect, Moving, PageSlabs, PassState, Repair, Shape,
    SlowPaths, partial,
};
use crate::pages::Sheaf;
use crate::platform::{GRANULE, Platform, Slot};
use crate::slab::freeset;
use crate::sync::{AtomicU32, Ordering};
use slabyard_abi::engines::EngineName;
use slabyard_abi::region::front;

/// A yard is for more than one CPU.
const POSSIBLE_CPUS: u32 = 2;

/// What a cache has at its memory nodes.
pub struct ArrayCaches {
    #[doc(hidden)]
    pub nodes: Nodes<ArraysAndAliens>,
    /// Passes so far: which alien array is next.
    passes: AtomicU32,
}

impl ArrayCaches {
    /// Follows a policy, before the cache begins.
    pub fn follow(&self, choice: Choice) {
        self.nodes.states().iter().for_each(|node| node.own.follow(choice));
    }

    /// From now on it follows these settings of its nodes. Call it before the first object.
    pub fn follow_nodes(&self, settings: NodeSettings) {
        self.nodes.follow(settings);
    }

    /// What the cache has at the first node: at the one that it has, where the clock reaps.
    pub fn first(&self) -> &NodeArrays {
        &self.nodes.states()[0].own
    }

    /// Discards up to this many free slabs of the first node; returns how many.
    pub(crate) fn end_free<P: Platform>(&self, on: PageSlabs<'_, P>, most: u32) -> u32 {
        lists::end_free(self.nodes.at(on, 0).1, most)
    }

    /// Hands over one alien array, the next one at each pass.
    fn drain_next_alien<P: Platform>(&self, on: PageSlabs<'_, P>) -> bool {
        let nodes = on.heap.region.nodes();
        let turn = self.passes.fetch_add(1, Ordering::Relaxed) as usize;
        let (from, home) = (turn % nodes, turn / nodes % nodes);
        from != home && alien::drain(self.nodes.at(on, from).1, self.nodes.at(on, home).1) > 0
    }

    /// Changes a limit; `None` if it is none, or a kernel would refuse it.
    fn tune(cache: &Header, name: &str, value: u32) -> Option<u32> {
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
    const NEW: Self = ArrayCaches { nodes: Nodes::NEW, passes: AtomicU32::new(0) };
    const TAGGED: bool = true;

    fn like(other: &Self) -> Self {
        let engine = ArrayCaches { nodes: Nodes::like(&other.nodes), ..Self::NEW };
        engine.follow(other.first().choice());
        engine
    }

    fn order(&self, size: u32, order: u32, page_order: u32) -> u32 {
        self.first().choice().order(size, order, page_order)
    }

    #[inline]
    fn facts(&self) -> EngineFacts {
        EngineFacts { parks_few_on_node: true, ..EngineFacts::of(EngineName::Slab) }
    }
}

impl SlowPaths for ArrayCaches {
    fn begin<P: Platform>(&self, on: PageSlabs<'_, P>) {
        let (cache, choice) = (on.cache, self.first().choice());
        let size = cache.shape().geometry.size;
        choice.limits(size, GRANULE as u32, POSSIBLE_CPUS).publish(cache);
        // Another rule says how many free slabs stay.
        cache.set_min_partial(0);
        self.nodes.begin(on, front::ARRAYS);
    }

    fn alloc<P: Platform>(&self, on: PageSlabs<'_, P>) -> Option<usize> {
        let (_, here) = self.nodes.here(on);
        // An object of another node is better than none.
        array::alloc_slow(here).or_else(|| self.nodes.others(here).find_map(array::alloc_direct))
    }

    fn alloc_at<P: Platform>(&self, on: PageSlabs<'_, P>, node: usize) -> Option<usize> {
        if on.heap.region.nodes() == 1 {
            return self.alloc(on);
        }
        let moving = Moving::new(on);
        let object = array::alloc_direct(self.nodes.at(on, node).1);
        drop(moving);
        object.or_else(|| self.alloc(on))
    }

    fn free<P: Platform>(&self, on: PageSlabs<'_, P>, address: usize) {
        let (_, here) = self.nodes.here(on);
        match self.nodes.home_of(here, address) {
            Some(home) => alien::free(here, home, address),
            None => array::free_slow(here, address),
        }
    }

    fn flush_stopped<P: Platform>(&self, on: PageSlabs<'_, P>, _: Slot, mut stack: Sheaf) -> Sheaf {
        let _moving = Moving::aside(on);
        array::return_all(self.nodes.home_of_stack(on, &stack), &mut stack);
        stack
    }

    fn flush_own<P: Platform>(&self, on: PageSlabs<'_, P>, slot: Slot) {
        let (_, here) = self.nodes.here(on);
        if let Ok(Some(stack)) = here.check_out(slot) {
            here.give_sheaf(self.flush_stopped(on, slot, stack));
        }
    }

    fn reclaim<P: Platform>(&self, on: PageSlabs<'_, P>, found: &mut PassState, most: u32) -> bool {
        let drained = found.is_none() && self.drain_next_alien(on);
        let reclaimed = self
            .nodes
            .reclaim(on, found, |(node, here), found, _| node.own.reclaim_piece(here, found, most));
        reclaimed || drained
    }

    fn shrink<P: Platform>(&self, on: PageSlabs<'_, P>) {
        let _moving = Moving::aside(on);
        for (_, here) in self.nodes.each(on) {
            self.nodes.others(here).for_each(|home| alien::flush(here, home));
        }
        self.nodes.each(on).for_each(|(node, here)| node.own.drain(here));
    }

    fn discard_empty<P: Platform>(&self, on: PageSlabs<'_, P>) {
        self.nodes.each(on).for_each(|(_, here)| _ = lists::end_free(here, u32::MAX));
    }

    fn set<P: Platform>(&self, on: PageSlabs<'_, P>, name: &str, value: u32) -> Option<Changed> {
        let old = Self::tune(on.cache, name, value)?;
        // As a kernel replaces the arrays: what is parked goes back to the slabs.
        self.shrink(on);
        Some(Changed { old, drains: true })
    }
}

impl Inspect for ArrayCaches {
    fn node_words<P: Platform>(&self, on: PageSlabs<'_, P>) -> Option<(usize, usize)> {
        self.nodes.words_at(on)
    }

    fn each_parked<P: Platform>(&self, on: PageSlabs<'_, P>, mut f: impl FnMut(usize)) {
        for (node, here) in self.nodes.each(on) {
            node.own.each_shared(here, &mut f);
            node.aliens.iter().for_each(|array| alien::each(here, array, &mut f));
        }
    }

    fn each_partial<P: Platform>(&self, on: PageSlabs<'_, P>, mut f: impl FnMut(u32, u32)) {
        self.nodes.each(on).for_each(|(_, here)| partial::each_partial(here, &mut f));
    }

    fn nr_partial<P: Platform>(&self, on: PageSlabs<'_, P>) -> u32 {
        self.nodes.each(on).map(|(_, here)| partial::nr_partial(here)).sum()
    }

    fn is_list_published<P: Platform>(&self, on: PageSlabs<'_, P>) -> bool {
        node_set::is_list_published(&self.nodes, on)
    }

    fn is_published<P: Platform>(&self, on: PageSlabs<'_, P>) -> bool {
        let region = &on.heap.region;
        let (mut parked, mut is_sound) = ([0; MOST_NODES], true);
        let node_of = |address| region.granule_of(address).map(|granule| region.node_of(granule));
        for (at, (node, here)) in self.nodes.each(on).enumerate() {
            let mut waits_for = |home: usize, address| {
                parked[home] += 1;
                is_sound &= node_of(address) == Some(home);
            };
            node.own.each_shared(here, |address| waits_for(at, address));
            for (home, array) in node.aliens.iter().enumerate() {
                alien::each(here, array, |address| waits_for(home, address));
            }
            is_sound &= lists::are_apart(here, |slab| region.node_of(slab) == at);
            // Of one node, the check of its slabs says which is wrong.
            is_sound &= here.shown_node().is_none() || lists::are_counted(here);
        }
        let mut each = self.nodes.each(on).zip(parked);
        is_sound
            && each.all(|((node, here), objects)| {
                let head = node.own.shared_head(here);
                let words = BarnWords { objects, head, ..BarnWords::NONE };
                on.cache.is_barn_published(here.shown_node(), words)
            })
            && node_set::is_summed(&self.nodes, on)
    }
}

impl Repair for ArrayCaches {
    fn begin_child<P: Platform>(&self, on: PageSlabs<'_, P>) -> u64 {
        self.nodes.begin_child(on);
        let begin = |(node, here): (&ArraysAndAliens, _)| {
            lists::begin_child(here);
            node.own.begin_child();
            let mut objects = node.own.count_shared_anew(here);
            for (home, alien) in node.aliens.iter().enumerate() {
                alien.abandon();
                if home < on.heap.region.nodes() {
                    let (_, home) = self.nodes.at(on, home);
                    objects += alien.lock(&on.heap.platform).count_anew(home);
                }
            }
            objects
        };
        self.nodes.each(on).map(begin).sum()
    }

    fn adopt<P: Platform>(&self, on: PageSlabs<'_, P>, slab: u32, of_cpu: bool) -> u32 {
        let free = freeset::recount(on.heap, slab, &on.cache.shape().geometry, of_cpu);
        lists::adopt(self.nodes.home(on, slab), slab, free);
        free
    }

    fn end_begin_child<P: Platform>(&self, on: PageSlabs<'_, P>) {
        self.nodes.each(on).for_each(|(_, here)| lists::end_begin_child(here));
    }
}
