//! A cache's state at its memory nodes, whether one or several.
//!
//! A policy keeps state per node. An engine stores it in a [`NodeSet`]: in `One`, which is one
//! node's state and costs no extra instruction, or in `Nodes`, an array of states. The number of
//! nodes in use is known when the yard starts; with one node, `Nodes` does what `One` does.
//!
//! Neighbours: [`super::nodes`] defines `One` and `Nodes`.

use super::page_slabs::Ruled;
use super::{Found, PageSlabs, PassState, partial};
use crate::engine::node_words::PublishedNodeWords;
use crate::pages::Sheaf;
use crate::platform::Platform;
use crate::sync::{AtomicU64, Ordering};
use slabyard_abi::region::front;

/// In place of the parked objects that a pass has found, of a node where it has not looked yet.
const NEXT: u32 = u32::MAX;

/// What an engine has of a cache at all of its memory nodes.
pub trait NodeSet: Send + Sync + 'static {
    /// The policy's state of one node.
    type State: 'static;
    /// A node, as the rules of its slabs.
    type At<'a>: Ruled;
    /// That of a cache that is not in use.
    const NEW: Self;
    /// Most nodes; with 1, all that asks for a node compiles to nothing.
    const MOST: usize;

    /// That of a cache that is not in use, with the settings of another one.
    fn like(other: &Self) -> Self;

    /// What it has at a node, and the cache there.
    fn at<'a, P>(
        &'a self,
        on: PageSlabs<'a, P>,
        node: usize,
    ) -> (&'a Self::State, PageSlabs<'a, P, Self::At<'a>>);

    /// The nodes' words, of a set of more than one.
    fn shown(&self) -> &[PublishedNodeWords];

    /// How many nodes the machine has.
    #[inline(always)]
    fn count<P>(on: PageSlabs<'_, P>) -> usize {
        if Self::MOST == 1 { 1 } else { on.heap.region.nodes() }
    }

    /// The cache at the node of a slab, or of another granule.
    #[inline(always)]
    fn home<'a, P>(&'a self, on: PageSlabs<'a, P>, granule: u32) -> PageSlabs<'a, P, Self::At<'a>> {
        let node = if Self::MOST == 1 { 0 } else { on.heap.region.node_of(granule) };
        self.at(on, node).1
    }

    /// The cache at the node of this CPU.
    #[inline(always)]
    fn here<'a, P: Platform>(
        &'a self,
        on: PageSlabs<'a, P>,
    ) -> (&'a Self::State, PageSlabs<'a, P, Self::At<'a>>) {
        let node =
            if Self::MOST == 1 { 0 } else { on.heap.node_of_row(on.heap.platform.row_hint()) };
        self.at(on, node)
    }

    /// The cache at each node.
    #[inline(always)]
    fn each<'a, P: Platform>(
        &'a self,
        on: PageSlabs<'a, P>,
    ) -> impl Iterator<Item = (&'a Self::State, PageSlabs<'a, P, Self::At<'a>>)> {
        (0..Self::count(on)).map(move |node| self.at(on, node))
    }

    /// The cache at the other nodes, from the one behind this on.
    #[inline(always)]
    fn others<'a, P: Platform>(
        &'a self,
        here: PageSlabs<'a, P, Self::At<'a>>,
    ) -> impl Iterator<Item = PageSlabs<'a, P, Self::At<'a>>> {
        let (on, nodes) = (here.by(()), Self::count(here.by(())));
        (1..nodes).map(move |step| self.at(on, (here.rules.node() + step) % nodes).1)
    }

    /// The cache at an object's node, if that is another one.
    #[inline(always)]
    fn home_of<'a, P: Platform>(
        &'a self,
        here: PageSlabs<'a, P, Self::At<'a>>,
        address: usize,
    ) -> Option<PageSlabs<'a, P, Self::At<'a>>> {
        if Self::MOST == 1 {
            return None;
        }
        let home = self.home(here.by(()), here.heap.region.granule_of(address)?);
        (home.rules.node() != here.rules.node()).then_some(home)
    }

    /// The cache at the node of a stack's objects, which are all of one.
    #[inline(always)]
    fn home_of_stack<'a, P: Platform>(
        &'a self,
        on: PageSlabs<'a, P>,
        stack: &Sheaf,
    ) -> PageSlabs<'a, P, Self::At<'a>> {
        let top = if Self::MOST == 1 { None } else { on.heap.sheaves.top(stack) };
        self.home(on, top.and_then(|object| on.heap.region.granule_of(object)).unwrap_or(0))
    }

    /// Says what the cache has, as it begins, and the limit of full sheaves of each node's barn.
    fn begin<P>(&self, on: PageSlabs<'_, P>, front: u64) {
        let nodes = if Self::count(on) > 1 { front::NODES } else { 0 };
        on.cache.set_front((front | nodes) as u32);
        let limit = on.cache.barn_limits().0.into();
        self.shown().iter().for_each(|of| of.barn_full_limit.store(limit, Ordering::Relaxed));
    }

    /// Makes a piece of a reclaim pass, node after node. Of several nodes `piece` is told whether the
    /// cache is idle, because that is asked once a pass.
    #[inline(always)]
    fn reclaim<'a, P: Platform>(
        &'a self,
        on: PageSlabs<'a, P>,
        found: &mut PassState,
        piece: impl FnOnce(
            (&Self::State, PageSlabs<'a, P, Self::At<'a>>),
            &mut PassState,
            Option<bool>,
        ) -> bool,
    ) -> bool {
        if Self::MOST == 1 {
            return piece(self.at(on, 0), found, None);
        }
        let first = || Found { unused: NEXT, idle: on.cache.is_idle(), node: 0 };
        let begun = found.take_if(|left| left.unused == NEXT).or(*found).unwrap_or_else(first);
        let reclaimed = piece(self.at(on, begun.node.into()), found, Some(begun.idle));
        match found {
            Some(left) => left.node = begun.node,
            None if usize::from(begun.node) + 1 < Self::count(on) => {
                *found = Some(Found { unused: NEXT, node: begun.node + 1, ..begun });
            }
            None => {}
        }
        reclaimed
    }

    /// In the child of a fork: the words of several nodes are 0, and those of the cache, which are
    /// sums that a thread may have been about to change.
    fn begin_child<P>(&self, on: PageSlabs<'_, P>) {
        if Self::MOST == 1 {
            return;
        }
        let zero = |word: &AtomicU64| word.store(0, Ordering::Relaxed);
        let all = &on.cache.shown;
        [&all.nr_partial, &all.barn_objects, &all.barn_full, &all.barn_empty]
            .into_iter()
            .for_each(zero);
        for of in self.shown() {
            [&of.nr_partial, &of.barn_objects, &of.barn_full, &of.barn_empty]
                .into_iter()
                .for_each(zero);
        }
    }

    /// Address of the words of the first node, and the bytes from one node's to the next one's.
    fn words_at<P>(&self, on: PageSlabs<'_, P>) -> Option<(usize, usize)> {
        let first = self.shown().first().filter(|_| Self::count(on) > 1)?;
        Some((core::ptr::from_ref(first) as usize, size_of::<PublishedNodeWords>()))
    }
}

/// True if what is published of each list is so, if all of its slabs are the node's, and if the
/// cache's words are their sums (for `verify`).
pub(super) fn is_list_published<N: NodeSet, P: Platform>(nodes: &N, on: PageSlabs<'_, P>) -> bool {
    if N::MOST == 1 {
        return partial::is_list_published(on);
    }
    let listed = |(_, here): (&N::State, PageSlabs<'_, P, N::At<'_>>)| {
        let mut is_near = true;
        partial::each_partial(here, |slab, _| {
            is_near &= on.heap.region.node_of(slab) == here.rules.node();
        });
        is_near && partial::is_list_published(here)
    };
    let nr_partial = || nodes.each(on).map(|(_, here)| partial::nr_partial(here)).sum::<u32>();
    nodes.each(on).all(listed) && on.cache.listed().1 == nr_partial()
}

/// True if the cache's words of what is parked are the sums of its nodes' (for `verify`).
pub(super) fn is_summed<N: NodeSet, P>(nodes: &N, on: PageSlabs<'_, P>) -> bool {
    let load = |word: &AtomicU64| word.load(Ordering::Relaxed);
    let sum = |of: fn(&PublishedNodeWords) -> &AtomicU64| -> u64 {
        nodes.shown().iter().map(|shown| load(of(shown))).sum()
    };
    let all = &on.cache.shown;
    N::count(on) == 1
        || [load(&all.barn_objects), load(&all.barn_full), load(&all.barn_empty)]
            == [sum(|of| &of.barn_objects), sum(|of| &of.barn_full), sum(|of| &of.barn_empty)]
}
