//! SLUB with its CPU-slabs front, as kernels to 6.19 have it, and their sheaves
//! (6.18 before CPU slabs, 7.x in their place), on a machine of any shape.
//!
//! Containers of a [`KernelCache`], from the fast path down: each CPU's sheaves
//! ([`sheaves`]), its CPU slab ([`alloc`]), its CPU partial list, each node's
//! partial list ([`lists`]), the pages below. What is returned goes by [`free`].
//! [`super::counters`] tells what was done, under the kernel's names; [`walk`] shows what is
//! where, [`audit`] checks the equations below.
//!
//! Slabs are counted, not filled: they are [`numbers`]. Sheaves, barns and nodes' lists are
//! those of a yard ([`super::sheaves`], [`super::partial`]), by the kernel's rules. One call
//! is under way at a time; what a kernel does under a lock or by a
//! compare-exchange is counted where it would do it.
//!
//! # States of a slab
//!
//! | state | eager freezing (to 6.7) | delayed (from 6.8) | free objects |
//! |---|---|---|---|
//! | full | - | - | 0 |
//! | node partial | - | on node list | 1 to all |
//! | CPU partial | frozen | - | 1 to all |
//! | CPU slab | frozen | frozen | any, and the CPU's own |
//!
//! Sources: C. Lameter's design (2007) and its changes as told by the kernel's
//! commit messages: 49e2258586b4 (CPU partial lists), b47291ef02b0 (slabs counted,
//! not objects), the series "slub: Delay freezing of CPU partial slabs" (2023), the
//! series "SLUB percpu sheaves" (2025).
//!
//! # Equations
//!
//! For each slab: free + on its CPU + live + in sheaves = objects. For each cache:
//! slabs in each state add up to `nr_slabs`; without CPU slabs in the rules no CPU has
//! one, and without CPU partial lists all of these are empty.

pub mod alloc;
pub mod audit;
pub mod counted;
pub mod follow;
pub mod free;
pub mod install;
pub mod lists;
mod numbers;
pub mod sheaves;
#[cfg(test)]
mod tests;
pub mod walk;

use super::counters::Counters;
use super::slabs::{self, Refill};
use super::{Header, Shape, Sheaves};
use crate::pages::descriptor::NIL;
use crate::slab::{Geometry, Word};
use crate::sync::AtomicUsize;
use ::alloc::vec;
use ::alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use counted::{Alone, CountedSheaf, CpuStacks};
use numbers::Numbers;

/// No slab.
pub const NONE: u32 = NIL;

/// When a slab that is taken off the node's list is frozen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Freezing {
    /// As it leaves the node's list, under the list lock (to 6.7).
    Eager,
    /// When it is picked for use (from 6.8).
    Delayed,
}

/// How much a CPU partial list may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accounting {
    /// Free objects, counted as a slab joins the list (to 5.15).
    Objects,
    /// Slabs (from 5.16).
    Slabs,
    /// Free objects, counted at every free; a slab that becomes empty leaves the
    /// list at once. No kernel does it.
    Exact,
}

/// What a CPU looks into first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Front {
    /// Its CPU slab.
    CpuSlabs,
    /// Its sheaves, refilled by the way of its CPU slab (6.18, caches that ask).
    SheavesOverCpuSlabs,
    /// Its sheaves, refilled from the node's list (7.x).
    Sheaves,
}

/// A bug or a wrong rule, which a checker must find.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Planted {
    /// No bug.
    #[default]
    None,
    /// Slabs taken off the node's list in one go are forgotten where CPU partial
    /// lists are off: the first version of delayed freezing (October 2023).
    LoseExtraSlabs,
    /// Drained slabs join the node's list at its head.
    DrainToHead,
    /// Only the slab to use is taken off the node's list.
    NoBatchMove,
}

/// What is fixed for a cache.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// Objects in a slab.
    pub objects: u32,
    /// Slabs kept on a node's list although they are empty.
    pub min_partial: u32,
    /// Free objects that a CPU partial list may hold ([`Accounting::Objects`],
    /// [`Accounting::Exact`]).
    pub cpu_partial: u32,
    /// Slabs that it may hold ([`Accounting::Slabs`]).
    pub cpu_partial_slabs: u32,
    /// False: there are no CPU partial lists.
    pub cpu_partial_lists: bool,
    /// When slabs are frozen.
    pub freezing: Freezing,
    /// What is counted.
    pub accounting: Accounting,
    /// Where a CPU looks first.
    pub front: Front,
    /// Objects in a sheaf; 0: no sheaves, whatever the front.
    pub sheaf_capacity: u32,
    /// Part, in 1024ths, of the slow paths that look at other nodes' lists.
    pub remote_ratio: u32,
    /// A planted bug.
    pub planted: Planted,
}

impl Rules {
    /// False from 7.0 on and in SLUB_TINY: objects come from nodes' lists alone, or
    /// from sheaves.
    #[must_use]
    pub fn has_cpu_slabs(&self) -> bool {
        self.front != Front::Sheaves
    }
}

/// Where a slab is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum State {
    /// Of nobody: its number is free for the next slab.
    #[default]
    Gone,
    /// In no list: it has no free object.
    Full,
    /// On its node's list.
    NodePartial,
    /// On a CPU partial list.
    CpuPartial,
    /// A CPU's slab.
    CpuSlab,
}

/// What a CPU has of a cache, sheaves apart.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cpu {
    pub(crate) slab: Cell<u32>,
    /// Free objects of the slab that only this CPU may take.
    pub(crate) free: Cell<u32>,
    pub(crate) partial: Cell<lists::CpuPartial>,
}

/// What a node has of a cache: its words, partial list and barn.
pub(crate) struct Node {
    pub(crate) header: Header,
    pub(crate) sheaves: Sheaves<Vec<CountedSheaf>>,
}

/// One cache of a modelled kernel.
pub struct KernelCache {
    rules: Rules,
    sheaf_rules: slabs::Rules,
    numbers: Numbers,
    /// True: no kernel's, but a yard's.
    is_of_yard: bool,
    pub(crate) cpus: Vec<Cpu>,
    pub(crate) nodes: Vec<Node>,
    /// Stacks of each CPU: none without sheaves.
    pub(crate) stacks: Vec<CpuStacks>,
    /// Node of each CPU.
    node_of: Vec<u16>,
    nr_slabs: Cell<u32>,
    /// Bytes in barns.
    node_bytes: AtomicUsize,
    alone: Alone,
    counters: Counters,
    /// Slabs begun and ended, in order, until somebody takes them.
    pages: RefCell<Vec<Page>>,
    slow_paths: Cell<u32>,
}

/// A slab that begins or ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Page {
    /// It was made.
    New(u32),
    /// It was given back.
    Freed(u32),
}

/// Most full sheaves of a kernel's barn, and most empty ones.
const MOST_SHEAVES: u32 = 10;

impl KernelCache {
    /// A cache without slabs. `node_of` gives the node of each CPU.
    ///
    /// # Panics
    /// Without a CPU, or if a slab has no object.
    #[must_use]
    pub fn new(mut rules: Rules, node_of: &[u16]) -> Self {
        // Kernels without CPU slabs have no lists of them.
        rules.cpu_partial_lists &= rules.has_cpu_slabs();
        let refill = if rules.has_cpu_slabs() { Refill::Below } else { Refill::Whole };
        let sheaf_rules = slabs::Rules { refill, ..slabs::Rules::KERNEL };
        let geometry = Geometry::counted(rules.objects);
        let stack_objects = match rules.front {
            Front::CpuSlabs => 0,
            Front::SheavesOverCpuSlabs | Front::Sheaves => rules.sheaf_capacity,
        };
        let shape = Shape { stack_objects, ..Shape::new(geometry, 0) };
        let cache = Self::with(rules, sheaf_rules, shape, node_of);
        for node in &cache.nodes {
            node.header.set_min_partial(rules.min_partial);
            node.header.set_barn_limits(MOST_SHEAVES, MOST_SHEAVES);
        }
        cache
    }

    /// A cache of a yard: no kernel's. Below its sheaves are its slabs alone.
    #[must_use]
    pub fn of_yard(shape: Shape, sheaf_rules: slabs::Rules, cpus: usize) -> Self {
        let rules = Rules {
            objects: shape.geometry.objects,
            min_partial: 0,
            cpu_partial: 0,
            cpu_partial_slabs: 0,
            cpu_partial_lists: false,
            freezing: Freezing::Delayed,
            accounting: Accounting::Slabs,
            front: Front::Sheaves,
            sheaf_capacity: shape.stack_objects,
            remote_ratio: 0,
            planted: Planted::None,
        };
        KernelCache {
            numbers: Numbers::of_words(rules.objects.div_ceil(Word::OBJECTS)),
            is_of_yard: true,
            ..Self::with(rules, sheaf_rules, shape, &vec![0; cpus])
        }
    }

    fn with(rules: Rules, sheaf_rules: slabs::Rules, shape: Shape, node_of: &[u16]) -> Self {
        assert!(!node_of.is_empty() && rules.objects > 0);
        let nr_nodes = node_of.iter().copied().max().map_or(1, |node| node as usize + 1);
        let nr_stacks = if shape.stack_objects > 0 { node_of.len() } else { 0 };
        KernelCache {
            rules,
            sheaf_rules,
            numbers: Numbers::of_words(1),
            is_of_yard: false,
            cpus: vec![Cpu::default(); node_of.len()],
            nodes: (0..nr_nodes).map(|_| Node::new(shape)).collect(),
            stacks: (0..nr_stacks).map(|_| CpuStacks::default()).collect(),
            node_of: node_of.to_vec(),
            nr_slabs: Cell::new(0),
            node_bytes: AtomicUsize::new(0),
            alone: Alone::default(),
            counters: Counters::default(),
            pages: RefCell::default(),
            slow_paths: Cell::new(0),
        }
    }

    /// Its rules.
    #[must_use]
    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// Slabs that it has.
    #[must_use]
    pub fn nr_slabs(&self) -> u32 {
        self.nr_slabs.get()
    }

    /// What it did.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Where a slab is.
    #[must_use]
    pub fn state(&self, slab: u32) -> State {
        self.slab(slab).state.get()
    }

    /// Slabs begun and ended since the last call, in order.
    pub fn take_pages(&mut self) -> ::alloc::vec::Drain<'_, Page> {
        self.pages.get_mut().drain(..)
    }

    /// True if there are any for [`KernelCache::take_pages`].
    #[inline]
    #[must_use]
    pub fn has_pages(&mut self) -> bool {
        !self.pages.get_mut().is_empty()
    }
}

impl Node {
    fn new(shape: Shape) -> Self {
        let (header, sheaves) = (Header::new(), Sheaves::new(Vec::new(), Vec::new()));
        header.begin("", shape, 0);
        Sheaves::<Vec<CountedSheaf>>::publish_limits(&header);
        Node { header, sheaves }
    }
}
