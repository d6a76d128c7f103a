//! Computes a cache's numbers per memory node, from the nodes' words or from the walk over the page
//! descriptors.
//!
//! Neighbours: [`super::words`] holds the words, [`super::walk`] does the walk;
//! [`super::to_snapshot`] puts the result into a snapshot.

use super::front::Front;
use super::judge::CacheContents;
use super::span::Span;
use super::walk::NodeSlabs;
use crate::value::Reading;
use slabyard_abi::region::NodeWord;
use std::collections::BTreeMap;

/// A cache at its nodes.
pub(super) struct AtNodes<'a> {
    /// How many there are.
    nodes: usize,
    ends: [&'a CacheContents; 2],
    /// What the walk found, if the cache stood still.
    walked: Option<&'a BTreeMap<u32, NodeSlabs>>,
}

impl<'a> AtNodes<'a> {
    pub(super) fn new(
        front: &Front,
        ends: [&'a CacheContents; 2],
        walked: Option<&'a BTreeMap<u32, NodeSlabs>>,
    ) -> Self {
        AtNodes { nodes: front.nodes.map_or(1, |table| table.nodes), ends, walked }
    }

    /// A number of all nodes, and of each by its word, if it has one.
    pub(super) fn by_word(&self, sum: Span, word: NodeWord) -> Reading {
        let span = |node: usize| {
            let [begin, end] = self.ends.map(|judged| judged.word_at_node(node, word));
            begin.hull(end)
        };
        let has_words = self.ends.iter().all(|judged| judged.words.has_nodes());
        self.reading(sum, |node| has_words.then(|| span(node)))
    }

    /// A number of all nodes, and of each as the walk found it; of several nodes none if the cache
    /// moved.
    pub(super) fn by_walk(&self, sum: Span, of: fn(&NodeSlabs) -> u64) -> Reading {
        let found = |node: usize| {
            let node = self.walked?.get(&(node as u32));
            Some(Span::exact(node.map_or(0, of)))
        };
        self.reading(sum, found)
    }

    fn reading(&self, sum: Span, of: impl Fn(usize) -> Option<Span>) -> Reading {
        let of = |node| if self.nodes == 1 { Some(sum) } else { of(node) };
        let parts = (0..self.nodes).filter_map(|node| Some((node as u32, of(node)?.into())));
        Reading { nodes: parts.collect(), ..Reading::from(sum) }
    }
}
