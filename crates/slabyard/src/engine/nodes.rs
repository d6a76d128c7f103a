//! The memory nodes of a machine: a cache's state at each of several nodes.
//!
//! Each node has a partial list, and the objects that its engine parks there: a shared array and
//! alien arrays ([`super::array_cache`]), or a barn ([`super::sheaves`]). A CPU's stacks hold only
//! objects of the CPU's node. Their tag is that of the node's part of the region
//! ([`crate::pages::nodes`]), so the restartable sequence of every free sends another node's object
//! to the slow path. New slabs come from the CPU's own node, and from another only if that node has
//! no memory left.
//!
//! A node without free objects may allocate one from another node that has slabs to spare, as often
//! as `remote_node_defrag_ratio` says (0: never).
//!
//! The state is in the cache, because the kernel may refuse memory for a separate table when a
//! cache is created.
//!
//! Neighbour: engines reach these nodes, or the only one, through [`super::node_set`].
//! Invariants (for `verify`): the slabs of a node's list, and the objects that wait for the node,
//! are in its part of the region; the cache's words are the sums of its nodes'. For CPUs' stacks
//! this holds as long as threads do not migrate during slow paths.

use super::node_set::NodeSet;
use super::page_slabs::Ruled;
use super::slabs::{NodeList, Rules};
use super::{Counter, PageSlabs, Shape, partial};
use crate::engine::node_words::{NodeWords, PublishedNodeWords};
use crate::engine::partial_list::Partial;
use crate::pages::Sheaf;
use crate::platform::Platform;
use crate::platform::stack::Tag;
use crate::slab::Put;
use crate::sync::{AtomicU32, Lock, Ordering, Rank};

/// Nodes that a cache may have lists for.
pub const MOST_NODES: usize = 4;
/// Of this many draws, the ratio says how many look at other nodes.
const DRAWS: u32 = 1024;

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

/// What an engine has of a cache at one node.
pub trait AtNode: Sized + Send + Sync + 'static {
    /// That of a cache that is not in use.
    const NEW: Self;
    /// The kernel's settings.
    const SETTINGS: NodeSettings;

    /// Keeps what a CPU of another node had of this node's objects.
    fn keep<P: Platform>(on: OnNode<'_, P, Self>, sheaf: Sheaf);

    /// Objects were put into a slab of the node.
    fn freed<P: Platform>(on: OnNode<'_, P, Self>, shape: &Shape, slab: u32, put: &Put) {
        partial::freed(on, shape, slab, put);
    }

    /// What a yard's [`super::slabs::FlushTarget::alloc_below`] does.
    fn alloc_below<P: Platform>(on: OnNode<'_, P, Self>) -> Option<usize> {
        partial::alloc_direct(on)
    }

    /// What a yard's [`super::slabs::FlushTarget::free_below`] does.
    fn free_below<P: Platform>(on: OnNode<'_, P, Self>, address: usize) {
        on.free_direct(address);
    }

    /// Takes an object of a slab on the node's list.
    fn take_listed<P: Platform>(on: OnNode<'_, P, Self>) -> Option<usize> {
        partial::take_one_listed(on)
    }
}

/// One node, whatever the machine has.
pub struct One<S>(S);

impl<S: AtNode> NodeSet for One<S> {
    type State = S;
    type At<'a> = ();
    const NEW: Self = One(S::NEW);
    const MOST: usize = 1;

    fn like(_: &Self) -> Self {
        Self::NEW
    }

    #[inline]
    fn at<'a, P>(&'a self, on: PageSlabs<'a, P>, _: usize) -> (&'a S, PageSlabs<'a, P>) {
        (&self.0, on)
    }

    #[inline]
    fn shown(&self) -> &[PublishedNodeWords] {
        &[]
    }
}

/// The nodes of the machine: of the array those that it has.
pub struct Nodes<S> {
    states: [S; MOST_NODES],
    /// The partial lists but the first node's, which is the cache's.
    lists: [Lock<Partial>; MOST_NODES - 1],
    shown: [PublishedNodeWords; MOST_NODES],
    /// In [`DRAWS`].
    remote_ratio: AtomicU32,
    /// 1: no alien arrays.
    no_aliens: AtomicU32,
    draws: AtomicU32,
}

impl<S: AtNode> NodeSet for Nodes<S> {
    type State = S;
    type At<'a> = OfNode<'a, S>;
    const NEW: Self = Nodes {
        states: [const { S::NEW }; MOST_NODES],
        lists: [const { Lock::new(Rank::List, Partial::new()) }; MOST_NODES - 1],
        shown: [const { PublishedNodeWords::new() }; MOST_NODES],
        remote_ratio: AtomicU32::new(S::SETTINGS.remote_percent * 10),
        no_aliens: AtomicU32::new(!S::SETTINGS.has_aliens as u32),
        draws: AtomicU32::new(0),
    };
    const MOST: usize = MOST_NODES;

    fn like(other: &Self) -> Self {
        let new = Self::NEW;
        new.follow(other.settings());
        new
    }

    fn at<'a, P>(&'a self, on: PageSlabs<'a, P>, node: usize) -> (&'a S, OnNode<'a, P, S>) {
        (&self.states[node], on.by(OfNode { nodes: self, node }))
    }

    fn shown(&self) -> &[PublishedNodeWords] {
        &self.shown
    }
}

impl<S: AtNode> Nodes<S> {
    /// From now on it follows these settings. Called before the first object.
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

    /// What the engine has at each node, of the machine or not.
    pub(super) fn states(&self) -> &[S; MOST_NODES] {
        &self.states
    }

    /// Draws whether a node without free objects looks at others. (The kernel takes the low bits
    /// of the clock; multiples of the golden ratio are spread as evenly.)
    fn looks_elsewhere(&self) -> bool {
        let ratio = self.remote_ratio.load(Ordering::Relaxed);
        let nth = self.draws.fetch_add(1, Ordering::Relaxed);
        let draw = nth.wrapping_mul(0x9E37_79B9) >> (u32::BITS - DRAWS.ilog2());
        ratio > 0 && draw <= ratio
    }
}

/// A cache at one of [`Nodes`], as the rules of its slabs.
pub struct OfNode<'a, S> {
    nodes: &'a Nodes<S>,
    pub(super) node: usize,
}

impl<S> Clone for OfNode<'_, S> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<S> Copy for OfNode<'_, S> {}

/// The slabs of a cache at one of [`Nodes`].
pub type OnNode<'a, P, S> = PageSlabs<'a, P, OfNode<'a, S>>;

impl<'a, S: AtNode> OfNode<'a, S> {
    /// What the engine has there.
    pub(super) fn state(&self) -> &'a S {
        &self.nodes.states[self.node]
    }

    /// Frees of other nodes' objects wait.
    pub(super) fn has_aliens(&self) -> bool {
        self.nodes.no_aliens.load(Ordering::Relaxed) == 0
    }
}

impl<S: AtNode> Ruled for OfNode<'_, S> {
    const RULES: Rules = Rules::SLABYARD;

    #[inline]
    fn node(self) -> usize {
        self.node
    }

    fn node_of_slabs<P: Platform>(on: &PageSlabs<'_, P, Self>) -> Option<usize> {
        (on.heap.region.nodes() > 1).then_some(on.rules.node)
    }

    fn list<'s, P: Platform>(on: &'s PageSlabs<'_, P, Self>) -> &'s Lock<Partial> {
        match on.rules.node {
            0 => &on.cache.partial,
            node => &on.rules.nodes.lists[node - 1],
        }
    }

    fn shown_node<'s, P: Platform>(on: &'s PageSlabs<'_, P, Self>) -> Option<NodeWords<'s>> {
        let node = Self::node_of_slabs(on)?;
        Some(NodeWords { all: &on.rules.nodes.shown[..on.heap.region.nodes()], node })
    }

    fn alloc_below<P: Platform>(on: PageSlabs<'_, P, Self>) -> Option<usize> {
        S::alloc_below(on)
    }

    fn freed<P: Platform>(on: PageSlabs<'_, P, Self>, shape: &Shape, slab: u32, put: &Put) {
        let node = on.heap.region.node_of(slab);
        S::freed(on.by(OfNode { node, ..on.rules }), shape, slab, put);
    }

    fn free_below<P: Platform>(on: PageSlabs<'_, P, Self>, address: usize) {
        S::free_below(on, address);
    }

    fn tag<P: Platform>(on: PageSlabs<'_, P, Self>) -> Option<Tag> {
        Some(on.heap.region.tag_of(on.rules.node))
    }

    fn near<P: Platform>(on: PageSlabs<'_, P, Self>, sheaf: Sheaf) -> Option<Sheaf> {
        let home = on.rules.nodes.home_of_stack(on.by(()), &sheaf);
        if sheaf.is_empty() || home.rules.node == on.rules.node {
            return Some(sheaf);
        }
        S::keep(home, sheaf);
        None
    }

    fn alloc_elsewhere<P: Platform>(on: PageSlabs<'_, P, Self>) -> Option<usize> {
        let nodes = on.rules.nodes;
        if on.heap.region.nodes() == 1 || partial::nr_partial(on) > 0 || !nodes.looks_elsewhere() {
            return None;
        }
        let least = on.cache.min_partial();
        let spares = |other: &OnNode<'_, P, S>| partial::nr_partial(*other) > least;
        let object = nodes.others(on).filter(spares).find_map(S::take_listed);
        on.count(Counter::NodeAllocs, object.is_some().into());
        object
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::sheaves::NodeSheaves;

    #[test]
    fn draws_are_spread() {
        let settings = NodeSettings { remote_percent: 30, has_aliens: true };
        let nodes = Nodes::<NodeSheaves>::NEW;
        nodes.follow(settings);
        assert_eq!(nodes.settings(), settings);
        let found = (0..10_000).filter(|_| nodes.looks_elsewhere()).count();
        // 301 of 1024.
        assert!((2900..2980).contains(&found), "{found}");
    }
}
