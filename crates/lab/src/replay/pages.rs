//! Allocates and frees slabs' pages through per-CPU page lists, in front of one buddy allocator per
//! node.
//!
//! `slabyard_page_lists` implements the policy of the lists; [`super::replay`] reports which slabs
//! are allocated and freed, and on which CPU. Operations on the page lists are counted for the
//! cache that causes them.
//!
//! Invariant: an initial slab's pages never passed through a list; they are taken out of the buddy
//! allocator when the slab is freed.

use super::Plan;
use slabyard_kernels::page_lists::{Rules, Warmth};
use slabyard_model::cache::{KernelCache, Page};
use slabyard_model::page_lists::CountedLists;
use std::collections::HashMap;

/// The lists, and the pages of slabs that began since the start.
pub struct Pages {
    lists: CountedLists,
    nodes: usize,
    /// Node and first page, by cache and number of the slab.
    of_slabs: HashMap<(u16, u32), (usize, u32)>,
}

impl Pages {
    pub(super) fn new(rules: Rules, plan: &Plan<'_>) -> Self {
        let nodes = plan.node_of.iter().max().map_or(1, |node| usize::from(*node) + 1);
        Pages {
            lists: CountedLists::new(rules, plan.node_of.len(), nodes),
            nodes,
            of_slabs: HashMap::new(),
        }
    }

    /// A CPU that goes offline returns what its lists hold.
    pub(super) fn unplug(&self, cpu: usize) {
        for node in 0..self.nodes {
            self.lists.drain(cpu, node);
        }
    }

    /// Follows what a call on a CPU did to a cache's slabs, before somebody else takes that.
    pub(super) fn follow(&mut self, cache: &KernelCache, number: u16, order: u8, cpu: usize) {
        let count = |counter, n| cache.counters().add(counter, n);
        cache.each_page(|page, node| {
            let (node, order) = (usize::from(node), u32::from(order));
            match page {
                Page::New(slab) => {
                    let run = self.lists.alloc_for(cpu, node, order, Warmth::Hot, &count);
                    self.of_slabs.insert((number, slab), (node, run));
                }
                Page::Freed(slab) => {
                    let known = self.of_slabs.remove(&(number, slab));
                    let (node, run) =
                        known.unwrap_or_else(|| (node, self.lists.before(node, order)));
                    self.lists.free_for(cpu, node, order, run, &count);
                }
            }
        });
    }
}
