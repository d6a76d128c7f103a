//! The words of a cache at each memory node that other processes read (`abi::region::NodeWord`),
//! besides those of the whole cache ([`super::shown`]).
//!
//! Neighbours: [`super::nodes`] stores the words. Code that changes a barn, a shared array or a
//! partial list publishes its counts here, under its lock. A cache without per-node lists publishes
//! only the words of the whole cache, with the heads of its barn and its list.
//! Invariant: each count of the cache is the sum over its nodes; its limit is their highest limit.

use super::Header;
use super::header::BarnWords;
use super::partial_list::Partial;
use crate::sync::{AtomicU64, Ordering};
use core::mem::offset_of;
use slabyard_abi::region::NodeWord;

/// Those of one node, in the order by which readers find them.
#[repr(C)]
pub struct PublishedNodeWords {
    pub(super) nr_partial: AtomicU64,
    pub(super) barn_objects: AtomicU64,
    pub(super) barn_full: AtomicU64,
    pub(super) barn_empty: AtomicU64,
    pub(super) barn_full_limit: AtomicU64,
}

const _: () = {
    assert!(offset_of!(PublishedNodeWords, nr_partial) == 8 * NodeWord::NrPartial.index());
    assert!(offset_of!(PublishedNodeWords, barn_objects) == 8 * NodeWord::BarnObjects.index());
    assert!(offset_of!(PublishedNodeWords, barn_full) == 8 * NodeWord::BarnFull.index());
    assert!(offset_of!(PublishedNodeWords, barn_empty) == 8 * NodeWord::BarnEmpty.index());
    assert!(offset_of!(PublishedNodeWords, barn_full_limit) == 8 * NodeWord::BarnFullLimit.index());
};

impl PublishedNodeWords {
    pub(super) const fn new() -> Self {
        PublishedNodeWords {
            nr_partial: AtomicU64::new(0),
            barn_objects: AtomicU64::new(0),
            barn_full: AtomicU64::new(0),
            barn_empty: AtomicU64::new(0),
            barn_full_limit: AtomicU64::new(0),
        }
    }
}

/// The words of the nodes of a machine, and the node whose turn it is.
#[derive(Clone, Copy)]
pub struct NodeWords<'a> {
    pub(super) all: &'a [PublishedNodeWords],
    pub(super) node: usize,
}

impl<'a> NodeWords<'a> {
    pub(super) fn own(self) -> &'a PublishedNodeWords {
        &self.all[self.node]
    }

    /// Publishes a node's list, under its lock.
    pub(super) fn publish_list(self, cache: &Header, list: &Partial) {
        publish(&self.own().nr_partial, &cache.shown.nr_partial, list.nr_partial.into());
    }
}

/// Publishes a node's word, and how its cache's changes by that.
fn publish(of_node: &AtomicU64, of_cache: &AtomicU64, value: u64) {
    let old = of_node.swap(value, Ordering::Relaxed);
    of_cache.fetch_add(value.wrapping_sub(old), Ordering::Relaxed);
}

/// Counts of a barn: of the cache's only one where `node` is `None`.
impl Header {
    /// Objects came to what the node parks outside of barns, or left it: then `more` wraps.
    #[inline]
    pub(super) fn count_parked(&self, node: Option<NodeWords<'_>>, more: u64) {
        if let Some(node) = node {
            node.own().barn_objects.fetch_add(more, Ordering::Relaxed);
        }
        self.shown.barn_objects.fetch_add(more, Ordering::Relaxed);
    }

    /// Publishes the counts of the node's barn, under its lock.
    #[inline]
    pub(super) fn publish_barn(&self, node: Option<NodeWords<'_>>, barn: BarnWords) {
        let all = &self.shown;
        if let Some(node) = node {
            let own = node.own();
            publish(&own.barn_objects, &all.barn_objects, barn.objects);
            publish(&own.barn_full, &all.barn_full, barn.full);
            publish(&own.barn_empty, &all.barn_empty, barn.empty);
            return;
        }
        all.barn_objects.store(barn.objects, Ordering::Relaxed);
        all.barn_full.store(barn.full, Ordering::Relaxed);
        all.barn_empty.store(barn.empty, Ordering::Relaxed);
        all.barn_head.store(barn.head.into(), Ordering::Relaxed);
    }

    /// True if these counts of the node's barn are published (for `verify`).
    pub(super) fn is_barn_published(&self, node: Option<NodeWords<'_>>, barn: BarnWords) -> bool {
        let load = |word: &AtomicU64| word.load(Ordering::Relaxed);
        let BarnWords { objects, full, empty, head } = barn;
        if let Some(node) = node {
            let own = node.own();
            return [&own.barn_objects, &own.barn_full, &own.barn_empty].map(load)
                == [objects, full, empty];
        }
        let all = &self.shown;
        [&all.barn_objects, &all.barn_full, &all.barn_empty, &all.barn_head].map(load)
            == [objects, full, empty, head.into()]
    }

    /// Full sheaves of the node's barn, as published.
    #[inline]
    pub(super) fn barn_full(&self, node: Option<NodeWords<'_>>) -> u32 {
        let word = node.map_or(&self.shown.barn_full, |node| &node.own().barn_full);
        word.load(Ordering::Relaxed) as u32
    }

    /// Most full sheaves of the node's barn.
    #[inline]
    pub(super) fn barn_full_limit(&self, node: Option<NodeWords<'_>>) -> u32 {
        let word = node.map_or(&self.shown.barn_full_limit, |node| &node.own().barn_full_limit);
        word.load(Ordering::Relaxed) as u32
    }

    /// Changes it, under the barn's lock.
    #[inline]
    pub(super) fn set_barn_full_limit(&self, node: Option<NodeWords<'_>>, sheaves: u32) {
        let mut most = u64::from(sheaves);
        if let Some(node) = node {
            node.own().barn_full_limit.store(most, Ordering::Relaxed);
            let limits = node.all.iter().map(|of| of.barn_full_limit.load(Ordering::Relaxed));
            most = limits.max().unwrap_or(most);
        }
        self.shown.barn_full_limit.store(most, Ordering::Relaxed);
    }
}
