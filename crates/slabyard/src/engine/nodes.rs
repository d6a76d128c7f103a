//! The state of a cache at each of several memory nodes, whatever its engine.
//!
//! Each node has a partial list, and the objects that its engine parks there: [`AtNode`] is a
//! shared array and alien arrays ([`super::array_cache::nodes`]), or a barn
//! ([`super::sheaves::nodes`]). A CPU's stacks hold only objects of the CPU's node: their tag is
//! that of the node's part of the region ([`crate::pages::nodes`]), so that the restartable
//! sequence of every free sends another node's object to the slow path. New slabs come from the
//! CPU's own node, and from another only if that node has no memory left.
//!
//! A node without free objects may take one of another node that has slabs to spare, in
//! `remote_node_defrag_ratio` of 1024 cases; at 0, never.
//!
//! The state is in the cache, because the kernel may refuse memory for a separate table when a
//! cache is created.
//!
//! Invariants (for `verify`): the slabs of a node's list, and the objects that wait for the node,
//! are in its part of the region; the cache's words are the sums of its nodes'. For CPUs' stacks
//! this holds as long as threads do not migrate during slow paths.

use super::page_slabs::Ruled;
use super::slabs::{NodeList, Rules, SheafAccess};
use super::{Counter, Found, Header, PageSlabs, PassState, Shape, partial};
use crate::engine::header::BarnWords;
use crate::engine::node_words::{NodeWords, PublishedNodeWords};
use crate::engine::partial_list::Partial;
use crate::pages::Sheaf;
use crate::platform::Platform;
use crate::platform::stack::Tag;
use crate::slab::Put;
use crate::sync::{AtomicU32, AtomicU64, AtomicUsize, Lock, Ordering, Rank};

/// Nodes that a cache may have lists for.
pub const MOST_NODES: usize = 4;
/// Of this many draws, the ratio says how many look at other nodes.
const DRAWS: u32 = 1024;
/// What a pass has found of a node before it looked there.
const NEXT: Found = Found { unused: u32::MAX, idle: false };

/// What people choose of an engine with nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeSettings {
    /// How often in 100 times a node without free objects looks at others
    /// (`remote_node_defrag_ratio`).
    pub remote_percent: u32,
    /// False: each free of another node's object goes to its slab at once (`noaliencache`), as
    /// SLUB does it in any case.
    pub has_aliens: bool,
}

impl NodeSettings {
    /// SLAB's, which has no ratio.
    pub const SLAB: Self = NodeSettings { remote_percent: 0, has_aliens: true };
    /// Looks at other nodes each time, and has no alien arrays.
    pub const SLUB: Self = NodeSettings { remote_percent: 100, has_aliens: false };
}

/// What a cache has at one node: `N` is what its engine parks there.
struct Node<N> {
    list: Lock<Partial>,
    state: N,
}

impl<N: AtNode> Node<N> {
    const fn new() -> Self {
        Node { list: Lock::new(Rank::List, Partial::new()), state: N::NEW }
    }
}

/// What a cache has at all nodes.
pub struct Nodes<N> {
    shown: [PublishedNodeWords; MOST_NODES],
    nodes: [Node<N>; MOST_NODES],
    /// In [`DRAWS`].
    remote_ratio: AtomicU32,
    /// 1: no alien arrays.
    no_aliens: AtomicU32,
    draws: AtomicU32,
    /// The node that a pass is at.
    at: AtomicU32,
}

/// A cache at one node, as the rules of its slabs.
pub struct OfNode<'a, N> {
    nodes: &'a Nodes<N>,
    pub(super) node: usize,
}

impl<N> Clone for OfNode<'_, N> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<N> Copy for OfNode<'_, N> {}

/// The slabs of a cache at one node.
pub type OnNode<'a, P, N> = PageSlabs<'a, P, OfNode<'a, N>>;

/// What an engine has of a cache at one node.
pub trait AtNode: Sized + Send + Sync + 'static {
    /// That of a cache that is not in use.
    const NEW: Self;

    /// Objects were put into a slab of the node.
    fn freed<P: Platform>(on: OnNode<'_, P, Self>, shape: &Shape, slab: u32, put: &Put);
    /// What a yard's [`super::slabs::FlushTarget::alloc_below`] does.
    fn alloc_below<P: Platform>(on: OnNode<'_, P, Self>) -> Option<usize>;
    /// What a yard's [`super::slabs::FlushTarget::free_below`] does.
    fn free_below<P: Platform>(on: OnNode<'_, P, Self>, address: usize) {
        on.free_direct(address);
    }
    /// Keeps what a CPU of another node had of this node's objects.
    fn keep<P: Platform>(on: OnNode<'_, P, Self>, sheaf: Sheaf);
    /// Takes an object of a slab on the node's list.
    fn take_listed<P: Platform>(on: OnNode<'_, P, Self>) -> Option<usize>;
    /// Does a piece of a pass at the node; `found` is as in [`super::SlowPaths::reclaim`].
    fn reclaim<P: Platform>(on: OnNode<'_, P, Self>, found: &mut PassState, most: u32) -> bool;
}

/// A cache at another node.
pub(super) fn at<P, N>(on: OnNode<'_, P, N>, node: usize) -> OnNode<'_, P, N> {
    PageSlabs { rules: OfNode { node, ..on.rules }, ..on }
}

/// The node of an object of the region.
pub(super) fn node_of<P: Platform, R>(on: &PageSlabs<'_, P, R>, address: usize) -> Option<usize> {
    on.heap.region.granule_of(address).map(|granule| on.heap.region.node_of(granule))
}

/// The node whose objects a sheaf has, which are all of one; `None` if it has none.
pub(super) fn node_of_sheaf<P: Platform, R: Ruled>(
    on: &PageSlabs<'_, P, R>,
    sheaf: &Sheaf,
) -> Option<usize> {
    let last = on.elements(sheaf).last();
    last.and_then(|element: &AtomicUsize| node_of(on, element.load(Ordering::Relaxed)))
}

/// The other nodes of a machine, from the one behind this on.
pub(super) fn others<P: Platform, N>(
    on: OnNode<'_, P, N>,
) -> impl Iterator<Item = OnNode<'_, P, N>> {
    let nodes = on.heap.region.nodes();
    (1..nodes).map(move |step| at(on, (on.rules.node + step) % nodes))
}

impl<N: AtNode> Ruled for OfNode<'_, N> {
    const RULES: Rules = Rules::SLABYARD;

    fn node_of_slabs(self) -> Option<usize> {
        Some(self.node)
    }

    fn list<'s, P: Platform>(on: &'s PageSlabs<'_, P, Self>) -> &'s Lock<Partial> {
        &on.rules.at_node().list
    }

    fn shown_node<'s, P: Platform>(on: &'s PageSlabs<'_, P, Self>) -> Option<NodeWords<'s>> {
        Some(on.rules.shown(on.heap.region.nodes()))
    }

    fn alloc_below<P: Platform>(on: PageSlabs<'_, P, Self>) -> Option<usize> {
        N::alloc_below(on)
    }

    fn freed<P: Platform>(on: PageSlabs<'_, P, Self>, shape: &Shape, slab: u32, put: &Put) {
        N::freed(at(on, on.heap.region.node_of(slab)), shape, slab, put);
    }

    fn free_below<P: Platform>(on: PageSlabs<'_, P, Self>, address: usize) {
        N::free_below(on, address);
    }

    fn tag<P: Platform>(on: PageSlabs<'_, P, Self>) -> Tag {
        on.heap.region.tag_of(on.rules.node)
    }

    fn near<P: Platform>(on: PageSlabs<'_, P, Self>, sheaf: Sheaf) -> Option<Sheaf> {
        match node_of_sheaf(&on, &sheaf).filter(|node| *node != on.rules.node) {
            None => Some(sheaf),
            Some(home) => {
                N::keep(at(on, home), sheaf);
                None
            }
        }
    }

    fn alloc_elsewhere<P: Platform>(on: PageSlabs<'_, P, Self>) -> Option<usize> {
        if partial::nr_partial(on) > 0 || !on.rules.nodes.looks_elsewhere() {
            return None;
        }
        let least = on.cache.min_partial();
        let spares = |other: &OnNode<'_, P, N>| partial::nr_partial(*other) > least;
        let object = others(on).filter(spares).find_map(N::take_listed);
        on.count(Counter::NodeAllocs, object.is_some().into());
        object
    }
}

impl<'a, N> OfNode<'a, N> {
    /// The words of the node, on a machine of so many.
    fn shown(&self, nodes: usize) -> NodeWords<'a> {
        NodeWords { all: &self.nodes.shown[..nodes], node: self.node }
    }

    fn at_node(&self) -> &'a Node<N> {
        &self.nodes.nodes[self.node]
    }

    /// What the engine has there.
    pub(super) fn state(&self) -> &'a N {
        &self.at_node().state
    }

    /// Frees of other nodes' objects wait.
    pub(super) fn has_aliens(&self) -> bool {
        self.nodes.no_aliens.load(Ordering::Relaxed) == 0
    }
}

impl<N: AtNode> Nodes<N> {
    pub(super) const fn new(settings: NodeSettings) -> Self {
        Nodes {
            shown: [const { PublishedNodeWords::new() }; MOST_NODES],
            nodes: [const { Node::new() }; MOST_NODES],
            remote_ratio: AtomicU32::new(settings.remote_percent * 10),
            no_aliens: AtomicU32::new(!settings.has_aliens as u32),
            draws: AtomicU32::new(0),
            at: AtomicU32::new(0),
        }
    }

    /// From now on it follows these settings. Called before the first object.
    pub(super) fn follow(&self, settings: NodeSettings) {
        let ratio = settings.remote_percent.min(100) * 10;
        self.remote_ratio.store(ratio, Ordering::Relaxed);
        self.no_aliens.store((!settings.has_aliens).into(), Ordering::Relaxed);
    }

    pub(super) fn settings(&self) -> NodeSettings {
        NodeSettings {
            remote_percent: self.remote_ratio.load(Ordering::Relaxed) / 10,
            has_aliens: self.no_aliens.load(Ordering::Relaxed) == 0,
        }
    }

    pub fn at<'a, P>(&'a self, on: PageSlabs<'a, P>, node: usize) -> OnNode<'a, P, N> {
        PageSlabs { heap: on.heap, cache: on.cache, rules: OfNode { nodes: self, node } }
    }

    /// The cache at the node of this CPU.
    pub(super) fn here<'a, P: Platform>(&'a self, on: PageSlabs<'a, P>) -> OnNode<'a, P, N> {
        self.at(on, on.heap.node_of_row(on.heap.platform.row_hint()))
    }

    pub(super) fn each<'a, P: Platform>(
        &'a self,
        on: PageSlabs<'a, P>,
    ) -> impl Iterator<Item = OnNode<'a, P, N>> {
        (0..on.heap.region.nodes()).map(move |node| self.at(on, node))
    }

    /// In the child of a fork: the lists of all nodes are empty; `parked` counts the objects that a
    /// node parks. Returns how many those are.
    pub(super) fn begin_child<'a, P: Platform>(
        &'a self,
        on: PageSlabs<'a, P>,
        mut parked: impl FnMut(OnNode<'a, P, N>) -> u64,
    ) -> u64 {
        // The cache's words are sums, which a thread may have been about to change.
        let all = &on.cache.shown;
        let zero = |words: [&AtomicU64; 4]| {
            words.iter().for_each(|word| word.store(0, Ordering::Relaxed));
        };
        zero([&all.nr_partial, &all.barn_objects, &all.barn_full, &all.barn_empty]);
        for shown in &self.shown {
            let PublishedNodeWords { nr_partial, barn_objects, barn_full, barn_empty, .. } = shown;
            zero([nr_partial, barn_objects, barn_full, barn_empty]);
        }
        let mut objects = 0;
        for here in self.each(on) {
            super::orphans::empty_list(here);
            objects += parked(here);
        }
        objects
    }

    /// Makes a piece of a reclaim pass, node after node.
    pub(super) fn reclaim<P: Platform>(
        &self,
        on: PageSlabs<'_, P>,
        found: &mut PassState,
        most: u32,
    ) -> bool {
        match found {
            None => self.at.store(0, Ordering::Relaxed),
            Some(next) if next.unused == NEXT.unused => *found = None,
            Some(_) => {}
        }
        let node = self.at.load(Ordering::Relaxed);
        let reclaimed = N::reclaim(self.at(on, node as usize), found, most);
        if found.is_none() && (node as usize + 1) < on.heap.region.nodes() {
            self.at.store(node + 1, Ordering::Relaxed);
            *found = Some(NEXT);
        }
        reclaimed
    }

    /// Sets the limit of full sheaves of each node's barn, as a cache begins.
    pub(super) fn set_barn_full_limits(&self, sheaves: u32) {
        for shown in &self.shown {
            shown.barn_full_limit.store(sheaves.into(), Ordering::Relaxed);
        }
    }

    /// Draws whether a node without free objects looks at others. (The kernel takes the low bits
    /// of the clock; multiples of the golden ratio are spread as evenly.)
    fn looks_elsewhere(&self) -> bool {
        let ratio = self.remote_ratio.load(Ordering::Relaxed);
        let nth = self.draws.fetch_add(1, Ordering::Relaxed);
        let draw = nth.wrapping_mul(0x9E37_79B9) >> (u32::BITS - DRAWS.ilog2());
        ratio > 0 && draw <= ratio
    }

    /// Address of the words of the first node, and the bytes from one node's to the next one's.
    pub(super) fn shown_at(&self) -> (usize, usize) {
        (core::ptr::from_ref(&self.shown[0]) as usize, size_of::<PublishedNodeWords>())
    }

    /// True if the words of each node are those of its list, all of whose slabs are the node's, and
    /// the cache's are their sums (for `verify`).
    pub(super) fn is_list_published<P: Platform>(&self, on: PageSlabs<'_, P>) -> bool {
        let listed = |here: OnNode<'_, P, N>| {
            let mut is_near = true;
            partial::each_partial(here, |slab, _| {
                is_near &= on.heap.region.node_of(slab) == here.rules.node;
            });
            let shown = self.shown[here.rules.node].nr_partial.load(Ordering::Relaxed);
            is_near && shown == u64::from(partial::nr_partial(here))
        };
        self.each(on).all(listed)
            && on.cache.listed().1 == self.each(on).map(partial::nr_partial).sum::<u32>()
    }

    /// True if a node's words are these of what is parked there (for `verify`).
    pub(super) fn is_barn_published<P>(on: OnNode<'_, P, N>, barn: BarnWords) -> bool {
        let shown = &on.rules.nodes.shown[on.rules.node];
        let PublishedNodeWords { barn_objects, barn_full, barn_empty, .. } = shown;
        [barn_objects, barn_full, barn_empty].map(|word| word.load(Ordering::Relaxed))
            == [barn.objects, barn.full, barn.empty]
    }

    /// True if the cache's words of what is parked are the sums of its nodes' (for `verify`).
    pub(super) fn is_summed(&self, cache: &Header) -> bool {
        let load = |word: &AtomicU64| word.load(Ordering::Relaxed);
        let sum = |of: fn(&PublishedNodeWords) -> &AtomicU64| -> u64 {
            self.shown.iter().map(|shown| load(of(shown))).sum()
        };
        let all = &cache.shown;
        [load(&all.barn_objects), load(&all.barn_full), load(&all.barn_empty)]
            == [sum(|of| &of.barn_objects), sum(|of| &of.barn_full), sum(|of| &of.barn_empty)]
    }
}

/// What engines of several nodes show alike: functions of [`super::Inspect`].
macro_rules! inspect_nodes {
    ($nodes:tt) => {
        fn node_words(&self) -> Option<(usize, usize)> {
            Some(self.$nodes.shown_at())
        }

        fn each_partial<P: Platform>(&self, on: PageSlabs<'_, P>, mut f: impl FnMut(u32, u32)) {
            self.$nodes.each(on).for_each(|here| partial::each_partial(here, &mut f));
        }

        fn nr_partial<P: Platform>(&self, on: PageSlabs<'_, P>) -> u32 {
            self.$nodes.each(on).map(partial::nr_partial).sum()
        }

        fn is_list_published<P: Platform>(&self, on: PageSlabs<'_, P>) -> bool {
            self.$nodes.is_list_published(on)
        }
    };
}
pub(super) use inspect_nodes;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::sheaves::nodes::AtOne;

    #[test]
    fn draws_are_spread() {
        let settings = NodeSettings { remote_percent: 30, has_aliens: true };
        let nodes = Nodes::<AtOne>::new(settings);
        assert_eq!(nodes.settings(), settings);
        let found = (0..10_000).filter(|_| nodes.looks_elsewhere()).count();
        // 301 of 1024.
        assert!((2900..2980).contains(&found), "{found}");
    }
}
