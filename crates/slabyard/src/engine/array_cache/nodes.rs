//! The engine of array caches on a machine with several memory nodes: SLAB of a NUMA kernel.
//!
//! Each node has slabs, a shared array, and [alien arrays](super::alien) for the objects of each
//! other one. A CPU's array has objects of the CPU's node alone: its stack has the tag of the
//! node's part of the region ([`crate::pages::nodes`]), so that a free of another node's object
//! takes the slow path by the sequence that every free runs. New slabs are of the CPU's own node,
//! and of another only without memory.
//!
//! A node without free objects may take one of another that has slabs to spare, by SLUB's rule
//! (`remote_node_defrag_ratio`): so often in 1024 times, and never by 0. SLAB itself has no such
//! rule: 0 is the default.
//!
//! Neighbours: the policy is that of one node ([`super::array`], [`super::shared`],
//! [`super::lists`], [`super::reap`]), which works on [`OfNode`].
//! Invariant (for `verify`): the slabs of a node's list, and the objects that wait at it, are of
//! its part of the region. Of arrays of CPUs this holds as long as threads do not move during slow
//! paths.

use super::on_pages::OfArrays;
use super::shared::Shared;
use super::{ArrayCaches, Choice, alien, array, lists};
use crate::engine::page_slabs::Ruled;
use crate::engine::partial::Partial;
use crate::engine::slabs::{Rules, Slabs, Stacks};
use crate::engine::{Changed, Counter, Engine, Found, Header, PageSlabs, Shape, partial};
use crate::pages::Sheaf;
use crate::pages::sheaf::NO_SHEAF;
use crate::platform::stack::Tag;
use crate::platform::{Platform, Slot};
use crate::slab::Put;
use crate::sync::{AtomicU32, Lock, Ordering, Rank};
use slabyard_abi::engines::EngineName;

/// Nodes that a cache may have lists for.
pub const MOST_NODES: usize = 4;
/// Of so many draws, the ratio says how many look at other nodes.
const DRAWS: u32 = 1024;
/// What a pass has found of a node before it looked there.
const NEXT: Found = Found { unused: u32::MAX, idle: false };

/// What people choose of an engine with nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeSettings {
    /// How often in 100 times a node without free objects looks at others
    /// (`remote_node_defrag_ratio`).
    pub remote_percent: u32,
    /// False: each free of another node's object goes to its slab at once (`noaliencache`).
    pub has_aliens: bool,
}

impl Default for NodeSettings {
    fn default() -> Self {
        NodeSettings { remote_percent: 0, has_aliens: true }
    }
}

/// What a cache has at one node.
struct AtNode {
    list: Lock<Partial>,
    /// Slabs on the list, as published.
    listed: AtomicU32,
    arrays: ArrayCaches,
    aliens: [Lock<Shared<u32>>; MOST_NODES],
}

/// What a cache has at all nodes.
pub struct OnNodes {
    nodes: [AtNode; MOST_NODES],
    /// In [`DRAWS`].
    remote_ratio: AtomicU32,
    /// 1: no alien arrays.
    no_aliens: AtomicU32,
    draws: AtomicU32,
    /// Passes so far: which alien array is next.
    passes: AtomicU32,
    /// The node that the pass is at.
    at: AtomicU32,
}

/// A cache at one node, as the rules of its slabs.
#[derive(Clone, Copy)]
pub struct OfNode<'a> {
    engine: &'a OnNodes,
    node: usize,
}

type OnNode<'a, P> = PageSlabs<'a, P, OfNode<'a>>;

fn at<'a, P>(on: OnNode<'a, P>, node: usize) -> OnNode<'a, P> {
    PageSlabs { rules: OfNode { node, ..on.rules }, ..on }
}

/// The node of an object of the region.
fn node_of<P: Platform, R>(on: &PageSlabs<'_, P, R>, address: usize) -> Option<usize> {
    on.heap.region.granule_of(address).map(|granule| on.heap.region.node_of(granule))
}

/// The nodes of a machine, from the one behind this on.
fn others<P: Platform>(on: OnNode<'_, P>) -> impl Iterator<Item = OnNode<'_, P>> {
    let nodes = on.heap.region.nodes();
    (1..nodes).map(move |step| at(on, (on.rules.node + step) % nodes))
}

impl Ruled for OfNode<'_> {
    const RULES: Rules = Rules::SLABYARD;

    fn node_of_slabs(self) -> Option<usize> {
        Some(self.node)
    }

    fn list<'s, P: Platform>(on: &'s PageSlabs<'_, P, Self>) -> &'s Lock<Partial> {
        &on.rules.at_node().list
    }

    fn publish<P: Platform>(on: &PageSlabs<'_, P, Self>, list: &Partial) {
        let shown = &on.cache.shown;
        let old = on.rules.at_node().listed.swap(list.len(), Ordering::Relaxed);
        let more = u64::from(list.len()).wrapping_sub(old.into());
        shown.nr_partial.fetch_add(more, Ordering::Relaxed);
        if on.rules.node == 0 {
            shown.partial_head.store(list.first().unwrap_or_default().into(), Ordering::Relaxed);
        }
    }

    fn alloc_below<P: Platform>(on: PageSlabs<'_, P, Self>) -> Option<usize> {
        array::alloc_direct(on)
    }

    fn freed<P: Platform>(on: PageSlabs<'_, P, Self>, _shape: &Shape, slab: u32, put: &Put) {
        let engine = on.rules.engine;
        let node = on.heap.region.node_of(slab);
        lists::freed(PageSlabs { rules: OfNode { engine, node }, ..on }, slab, put);
    }

    fn free_below<P: Platform>(on: PageSlabs<'_, P, Self>, address: usize) {
        on.free_direct(address);
        lists::trim(on);
    }
}

impl<'a> OfNode<'a> {
    fn at_node(&self) -> &'a AtNode {
        &self.engine.nodes[self.node]
    }
}

impl OfArrays for OfNode<'_> {
    fn arrays(&self) -> &ArrayCaches {
        &self.at_node().arrays
    }

    fn share<P: Platform>(on: PageSlabs<'_, P, Self>, rows: usize) -> usize {
        (0..rows).filter(|row| on.heap.node_of_row(Some(*row)) == on.rules.node).count()
    }

    fn alien(&self, home: &Self) -> Option<&Lock<Shared<u32>>> {
        let has_aliens = self.engine.no_aliens.load(Ordering::Relaxed) == 0;
        has_aliens.then(|| &self.at_node().aliens[home.node])
    }

    fn tag<P: Platform>(on: PageSlabs<'_, P, Self>) -> Tag {
        on.heap.region.tag_of(on.rules.node)
    }

    fn is_near<P: Platform>(on: PageSlabs<'_, P, Self>, array: &Sheaf) -> bool {
        // All of its objects are of one node.
        let last = on.elements(array).last().map(Self::load_of);
        last.is_none_or(|address| node_of(&on, address) == Some(on.rules.node))
    }

    fn alloc_elsewhere<P: Platform>(on: PageSlabs<'_, P, Self>) -> Option<usize> {
        let engine = on.rules.engine;
        if lists::nr_listed(on) > 0 || !engine.looks_elsewhere() {
            return None;
        }
        let least = on.cache.min_partial();
        let nodes = on.heap.region.nodes();
        (1..nodes).find_map(|step| {
            let node = (on.rules.node + step) % nodes;
            let other = PageSlabs { rules: OfNode { engine, node }, ..on };
            let object =
                (lists::nr_listed(other) > least).then(|| lists::take_one_listed(other))?;
            on.count(Counter::NodeAllocs, object.is_some().into());
            object
        })
    }
}

impl OfNode<'_> {
    fn load_of(element: &crate::sync::AtomicUsize) -> usize {
        element.load(Ordering::Relaxed)
    }
}

impl AtNode {
    const fn new(arrays: ArrayCaches) -> Self {
        AtNode {
            list: Lock::new(Rank::List, Partial::new()),
            listed: AtomicU32::new(0),
            arrays,
            aliens: [const { Lock::new(Rank::Barn, Shared::aside(NO_SHEAF)) }; MOST_NODES],
        }
    }
}

impl OnNodes {
    /// From now on it follows these settings. Call it before the first object.
    pub fn follow(&self, settings: NodeSettings) {
        let ratio = settings.remote_percent.min(100) * 10;
        self.remote_ratio.store(ratio, Ordering::Relaxed);
        self.no_aliens.store((!settings.has_aliens).into(), Ordering::Relaxed);
    }

    fn settings(&self) -> NodeSettings {
        NodeSettings {
            remote_percent: self.remote_ratio.load(Ordering::Relaxed) / 10,
            has_aliens: self.no_aliens.load(Ordering::Relaxed) == 0,
        }
    }

    fn at<'a, P>(&'a self, on: PageSlabs<'a, P>, node: usize) -> OnNode<'a, P> {
        let rules = OfNode { engine: self, node };
        PageSlabs { heap: on.heap, cache: on.cache, rules }
    }

    fn here<'a, P: Platform>(&'a self, on: PageSlabs<'a, P>) -> OnNode<'a, P> {
        self.at(on, on.heap.node_of_row(on.heap.platform.row_hint()))
    }

    fn each<'a, P: Platform>(
        &'a self,
        on: PageSlabs<'a, P>,
    ) -> impl Iterator<Item = OnNode<'a, P>> {
        (0..on.heap.region.nodes()).map(move |node| self.at(on, node))
    }

    /// Draws whether a node without free objects looks at others. (The kernel takes the low bits
    /// of the clock; multiples of the golden ratio are spread as evenly.)
    fn looks_elsewhere(&self) -> bool {
        let ratio = self.remote_ratio.load(Ordering::Relaxed);
        let nth = self.draws.fetch_add(1, Ordering::Relaxed);
        let draw = nth.wrapping_mul(0x9E37_79B9) >> (u32::BITS - DRAWS.ilog2());
        ratio > 0 && draw <= ratio
    }

    /// Hands over one alien array, the next one at each pass.
    fn drain_next_alien<P: Platform>(&self, on: PageSlabs<'_, P>) -> bool {
        let nodes = on.heap.region.nodes();
        let turn = self.passes.fetch_add(1, Ordering::Relaxed) as usize;
        let (from, home) = (turn % nodes, turn / nodes % nodes);
        from != home && alien::drain(self.at(on, from), self.at(on, home)) > 0
    }
}

impl Engine for OnNodes {
    const NEW: Self = OnNodes {
        nodes: [
            AtNode::new(ArrayCaches::new(NO_SHEAF)),
            AtNode::new(ArrayCaches::aside(NO_SHEAF)),
            AtNode::new(ArrayCaches::aside(NO_SHEAF)),
            AtNode::new(ArrayCaches::aside(NO_SHEAF)),
        ],
        remote_ratio: AtomicU32::new(0),
        no_aliens: AtomicU32::new(0),
        draws: AtomicU32::new(0),
        passes: AtomicU32::new(0),
        at: AtomicU32::new(0),
    };
    const TAGGED: bool = true;

    fn like(other: &Self) -> Self {
        let new = Self::NEW;
        new.follow(other.settings());
        new
    }

    fn name(&self) -> EngineName {
        EngineName::Slab
    }

    fn begin(&self, cache: &Header) {
        ArrayCaches::show_limits(cache, Choice::default());
    }

    fn alloc<P: Platform>(&self, on: PageSlabs<'_, P>) -> Option<usize> {
        let here = self.here(on);
        // An object of another node is better than none.
        array::alloc_slow(here).or_else(|| others(here).find_map(array::alloc_direct))
    }

    fn free<P: Platform>(&self, on: PageSlabs<'_, P>, address: usize) {
        let here = self.here(on);
        match node_of(&on, address).filter(|node| *node != here.rules.node) {
            Some(home) => alien::free(here, at(here, home), address),
            None => array::free_slow(here, address),
        }
    }

    fn flush_stopped<P: Platform>(&self, on: PageSlabs<'_, P>, _: Slot, mut stack: Sheaf) -> Sheaf {
        let _moving = on.cache.moving_aside();
        let last = on.elements(&stack).last().map(OfNode::load_of);
        let node = last.and_then(|address| node_of(&on, address)).unwrap_or(0);
        array::return_all(self.at(on, node), &mut stack);
        stack
    }

    fn flush_own<P: Platform>(&self, on: PageSlabs<'_, P>, slot: Slot) {
        let here = self.here(on);
        if let Ok(Some(stack)) = here.check_out(slot) {
            here.give_sheaf(self.flush_stopped(on, slot, stack));
        }
    }

    fn reclaim<P: Platform>(
        &self,
        on: PageSlabs<'_, P>,
        found: &mut Option<Found>,
        most: u32,
    ) -> bool {
        let is_next = found.is_some_and(|found| found.unused == NEXT.unused);
        let mut reclaimed = false;
        if found.is_none() {
            self.at.store(0, Ordering::Relaxed);
            reclaimed = self.drain_next_alien(on);
        } else if is_next {
            *found = None;
        }
        let node = self.at.load(Ordering::Relaxed);
        let here = self.at(on, node as usize);
        reclaimed |= here.rules.arrays().reclaim_piece(here, found, most);
        if found.is_none() && (node as usize + 1) < on.heap.region.nodes() {
            self.at.store(node + 1, Ordering::Relaxed);
            *found = Some(NEXT);
        }
        reclaimed
    }

    fn shrink<P: Platform>(&self, on: PageSlabs<'_, P>) {
        let _moving = on.cache.moving_aside();
        for here in self.each(on) {
            others(here).for_each(|home| alien::flush(here, home));
        }
        self.each(on).for_each(|here| here.rules.arrays().drain(here));
    }

    fn discard_empty<P: Platform>(&self, on: PageSlabs<'_, P>) {
        self.each(on).for_each(|here| _ = lists::end_free(here, u32::MAX));
    }

    fn set<P: Platform>(&self, on: PageSlabs<'_, P>, name: &str, value: u32) -> Option<Changed> {
        let old = ArrayCaches::tune(on.cache, name, value)?;
        self.shrink(on);
        Some(Changed { old, drains: true })
    }

    fn each_parked<P: Platform>(&self, on: PageSlabs<'_, P>, mut f: impl FnMut(usize)) {
        for here in self.each(on) {
            here.rules.arrays().each_shared(here, &mut f);
            here.rules.at_node().aliens.iter().for_each(|array| alien::each(here, array, &mut f));
        }
    }

    fn parks_few_on_node(&self) -> bool {
        true
    }

    fn each_partial<P: Platform>(&self, on: PageSlabs<'_, P>, mut f: impl FnMut(u32, u32)) {
        self.each(on).for_each(|here| partial::each_partial(here, &mut f));
    }

    fn nr_partial<P: Platform>(&self, on: PageSlabs<'_, P>) -> u32 {
        self.each(on).map(partial::nr_partial).sum()
    }

    fn is_list_published<P: Platform>(&self, on: PageSlabs<'_, P>) -> bool {
        on.cache.listed().1 == self.nr_partial(on)
    }

    fn is_published<P: Platform>(&self, on: PageSlabs<'_, P>) -> bool {
        let region = &on.heap.region;
        let (mut parked, mut is_sound) = (0, true);
        for here in self.each(on) {
            let node = here.rules.node;
            let mut waits_for = |home: usize, address| {
                parked += 1;
                is_sound &= node_of(&on, address) == Some(home);
            };
            here.rules.arrays().each_shared(here, |address| waits_for(node, address));
            for (home, array) in here.rules.at_node().aliens.iter().enumerate() {
                alien::each(here, array, |address| waits_for(home, address));
            }
            is_sound &= lists::are_apart(here, |slab| region.node_of(slab) == node);
            is_sound &= lists::are_counted(here);
        }
        is_sound && on.cache.shown.barn_objects.load(Ordering::Relaxed) == parked
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::platform::machine::{Config, Machine};
    use crate::yard::{Settings, Yard};

    const CLASS: usize = 3;

    /// A yard of two nodes with objects of node 0, after `f` had one of them and their cache.
    fn after(f: impl Fn(&OnNodes, PageSlabs<'_, Machine>, usize)) -> Result<(), &'static str> {
        let yard = Yard::<_, OnNodes>::new(Machine::new(Config { nodes: 2, ..Config::default() }));
        assert!(yard.init(Settings { reserve_bytes: 256 << 20, decay_ms: 250 }));
        let take = |_| yard.alloc_fast(64, 16).expect("memory");
        let objects: std::vec::Vec<usize> = (0..100).map(take).collect();
        let cache = yard.cache(CLASS);
        f(&cache.engine, cache.on(&yard.heap), objects[50]);
        yard.verify().expect("outside of a slow path").map(|_| ()).map_err(|fault| fault.what)
    }

    #[test]
    fn what_waits_where_it_belongs_is_sound() {
        let found = after(|engine, on, object| {
            alien::free(engine.at(on, 1), engine.at(on, 0), object);
        });
        assert_eq!(found, Ok(()));
    }

    #[test]
    fn an_object_that_waits_for_another_node_is_found() {
        let found = after(|engine, on, object| {
            alien::free(engine.at(on, 0), engine.at(on, 1), object);
        });
        assert_eq!(found, Err("cache published as it is"));
    }

    #[test]
    fn a_slab_on_another_node_s_list_is_found() {
        let found = after(|engine, on, object| {
            let region = &on.heap.region;
            let granule = region.granule_of(object).expect("a granule");
            let [here, other] = [0, 1].map(|node| engine.at(on, node));
            let slab = here.list().lock(here.park()).first().expect("a slab with free objects");
            assert_eq!(region.node_of(granule), 0);
            let mut list = here.list().lock(here.park());
            list.unlink(here, slab);
            here.publish(&list);
            drop(list);
            let mut list = other.list().lock(other.park());
            list.add(other, slab, partial::End::Head);
            other.publish(&list);
        });
        assert_eq!(found, Err("cache published as it is"));
    }

    #[test]
    fn draws_are_spread() {
        let engine = OnNodes::NEW;
        engine.follow(NodeSettings { remote_percent: 30, has_aliens: true });
        let found = (0..10_000).filter(|_| engine.looks_elsewhere()).count();
        // 301 of 1024.
        assert!((2900..2980).contains(&found), "{found}");
    }
}
